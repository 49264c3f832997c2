"""A disk that fails, or stops the program, at a chosen call; and that knows what a loss of power would leave of it.

`with Disk(folder) as disk` counts the calls that change the folder: `disk.calls`. `fail_at` is the number of the call
that fails with `error`; a write then writes half first. `stop_at` is the number of the call at which the process ends.
What the program under test calls otherwise (such as a copy in the place of a rename) the disk does not see, and so does
not keep.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from pathlib import Path
from typing import Any

CHANGES = ("open", "fsync", "replace", "rename", "link", "unlink", "chmod", "chown", "setxattr", "mkdir", "close")
STOPPED = 137


class Disk(contextlib.AbstractContextManager):
    """The calls of this process that change a folder, until it ends."""

    def __init__(self, folder: Path, *, fail_at: int | None = None, error: int = 0, stop_at: int | None = None) -> None:
        self.folder, self.fail_at, self.error, self.stop_at = folder.resolve(), fail_at, error, stop_at
        self.calls: list[str] = []
        self.real = {name: getattr(os, name) for name in (*CHANGES, "fdopen")}
        self.open: dict[int, Path] = {}  # descriptors of files and folders
        found = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        self.synced: dict[int, bytes] = {path.stat().st_ino: data for path, data in found.items()}  # by file
        self.now = {path: path.stat().st_ino for path in found}  # which file a name leads to,
        self.kept = dict(self.now)  # and where it leads to after a loss of power at the latest
        self.losses: list[list[dict[Path, bytes | None]]] = []  # after each call: what a loss of power may leave

    def __enter__(self) -> Disk:
        for name in CHANGES:
            setattr(os, name, self._wrapped(name))
        os.fdopen = self._fdopen
        return self

    def __exit__(self, *fault: object) -> None:
        for name, call in self.real.items():
            setattr(os, name, call)

    def call(self, name: str) -> bool:
        """Count a call; whether it is to fail. At the chosen one the process ends."""
        self.calls.append(name)
        if len(self.calls) - 1 == self.stop_at:
            os._exit(STOPPED)
        return len(self.calls) - 1 == self.fail_at

    def fault(self, name: str) -> OSError:
        """The error of a call that fails."""
        return OSError(self.error, os.strerror(self.error), name)

    # ------------------------------------------------------------ calls

    def _wrapped(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            place = self._place(arguments[0], named)
            reads = name == "open" and not arguments[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
            nameless = name == "open" and arguments[1] & os.O_TMPFILE == os.O_TMPFILE
            if place is None or nameless or (reads and not place.is_dir()):
                return self.real[name](*arguments, **named)
            fails = not reads and self.call(name)
            if fails and name != "close":
                raise self.fault(str(place))
            result = self.real[name](*arguments, **named)
            self._note(name, place, arguments, result)
            if fails:
                raise self.fault(str(place))
            return result

        return call

    def _place(self, first: Any, named: dict[str, Any]) -> Path | None:
        """The file or the folder that a call is about; None where it is not here."""
        if isinstance(first, int):
            return self.open.get(first)
        if named.get("dir_fd") is not None:
            return None  # removing trees, which is done once all is safe
        path = Path(os.fsdecode(first)).absolute()
        return path if path == self.folder or self.folder in path.parents else None

    def _note(self, name: str, place: Path, arguments: tuple[Any, ...], result: Any) -> None:
        if name == "open":
            self.open[result] = place
            if arguments[1] & os.O_CREAT:
                self.now[place] = os.fstat(result).st_ino
        elif name == "close":
            del self.open[arguments[0]]
        elif name == "fsync":
            self._sync(arguments[0], place)
        elif name in ("replace", "rename"):
            to = Path(arguments[1]).absolute()
            moved = {path: inode for path, inode in self.now.items() if path == place or place in path.parents}
            for path, inode in moved.items():
                del self.now[path]
                self.now[to / path.relative_to(place)] = inode
        elif name == "unlink":
            self.now.pop(place, None)
        self.losses.append([self._after(self.now), self._after(self.kept)])

    def _sync(self, descriptor: int, place: Path) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.kept = {path: inode for path, inode in self.kept.items() if path.parent != place}
            self.kept |= {path: inode for path, inode in self.now.items() if path.parent == place}
        else:
            self.synced[os.fstat(descriptor).st_ino] = place.read_bytes()

    def _after(self, names: dict[Path, int]) -> dict[Path, bytes | None]:
        """What stands under each name after a loss of power; None of what was not synced."""
        return {path: self.synced.get(inode) for path, inode in names.items()}

    def _fdopen(self, descriptor: int, *arguments: Any, **named: Any) -> Any:
        if descriptor not in self.open:
            return self.real["fdopen"](descriptor, *arguments, **named)
        return io.BufferedWriter(_Raw(self, descriptor, named.get("closefd", True)), 1 << 12)


class _Raw(io.RawIOBase):
    """A file of the disk, unbuffered."""

    def __init__(self, disk: Disk, descriptor: int, closes: bool) -> None:
        self.disk, self.descriptor, self.closes = disk, descriptor, closes

    def fileno(self) -> int:
        return self.descriptor

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return os.lseek(self.descriptor, offset, whence)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self.descriptor, size)
        return size

    def write(self, data: Any) -> int:
        if self.disk.call("write"):
            os.write(self.descriptor, bytes(data)[: len(data) // 2])
            raise self.disk.fault("write")
        return os.write(self.descriptor, data)

    def close(self) -> None:
        if not self.closed and self.closes:
            os.close(self.descriptor)
        super().close()
