"""A lock for each file that is changed: readers take none, writers take turns.

The lock is a file beside the target, held by flock, so the system releases it with its process, however that ends. The
holder removes the file; whoever opened it before then finds that its name leads elsewhere, and opens it again. What a
killed process leaves is taken, and removed, by the next one. Where a system or a file system knows no flock nothing is
locked: a source that changed since it was read is refused all the same (see `loaders.files`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kbdisk.errors import KBDiskWarning, WriteError

SUFFIX = ".kbdisk-lock"
MAX_STEM = 40  # bytes of a name that the files beside it repeat
PATIENCE, PAUSE = 1.0, 0.02  # seconds until a wait is reported, and between two attempts


@dataclass
class _Lock:
    """A lock of this process; its threads take turns, and one thread may take it again."""

    turn: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0  # threads that hold it or wait for it
    depth: int = 0
    descriptor: int | None = None


_locks: dict[str, _Lock] = {}
_registry = threading.Lock()


@contextlib.contextmanager
def locked(target: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file, by whatever link it is named. Waits for the holder, and warns which process it is.

    Targets that are not files (`-`, a pipe, a device) have no lock.
    """
    file = _lock_file(target)
    if file is None:
        yield
        return
    with _registry:
        lock = _locks.setdefault(str(file), _Lock())
        lock.users += 1
    try:
        with lock.turn:
            lock.depth += 1
            try:
                if lock.depth == 1:
                    lock.descriptor = _wait(file, str(target))
                yield
            finally:
                lock.depth -= 1
                if lock.depth == 0 and lock.descriptor is not None:
                    release(file, lock.descriptor)
                    lock.descriptor = None
    finally:
        with _registry:
            lock.users -= 1
            if not lock.users and _locks.get(str(file)) is lock:
                del _locks[str(file)]


def take(file: Path) -> int | None:
    """The descriptor of a lock file that is now held; None where another process holds it."""
    while True:
        descriptor = _open(file)
        if is_locked(descriptor) is False:
            os.close(descriptor)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)  # its last holder has just removed it


def release(file: Path, descriptor: int) -> None:
    """Remove a lock file, then let it go: in this order nobody can take a file that is being removed."""
    with contextlib.suppress(OSError):
        file.unlink()
    with contextlib.suppress(OSError):
        os.close(descriptor)


def is_locked(descriptor: int) -> bool | None:
    """Lock an open file: True where that was done, False where another process has it, None where there are no locks."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def stem(name: str) -> str:
    """A file's name as the names of files beside it begin: a long one is cut, and told apart by a digest."""
    if len(os.fsencode(name)) <= MAX_STEM:
        return name
    digest = hashlib.sha256(os.fsencode(name.casefold())).hexdigest()[:8]
    return f"{os.fsencode(name)[:MAX_STEM].decode(errors='ignore')}~{digest}"


def _lock_file(target: str | os.PathLike[str]) -> Path | None:
    """The path of a target's lock, beside the file that links lead to; None for targets that are not files."""
    if str(target) == "-" or os.name != "posix":
        return None
    try:
        real = Path(os.path.realpath(target))
        if real.name and stat.S_ISREG(real.stat().st_mode):
            return real.with_name(f".{stem(real.name)}{SUFFIX}")
        return None
    except FileNotFoundError:
        return real.with_name(f".{stem(real.name)}{SUFFIX}")
    except (OSError, ValueError):
        return None  # the writer says what is wrong with it


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except PermissionError:
        if not os.path.lexists(file):
            raise
        return os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))  # another user's, whose process was killed


def _wait(file: Path, target: str) -> int:
    """The lock, as soon as nobody else has it."""
    try:
        begun, is_reported = time.monotonic(), False
        while (descriptor := take(file)) is None:
            if not is_reported and time.monotonic() - begun >= PATIENCE:
                is_reported = True
                warnings.warn(
                    f"{target}: waiting for {_holder(file)}, which is changing it", KBDiskWarning, stacklevel=4
                )
            time.sleep(PAUSE)
        with contextlib.suppress(OSError):  # who it is helps whoever waits, and is not needed
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return descriptor
    except OSError as error:
        raise WriteError(target, f"cannot be written: {(error.strerror or str(error)).lower()}.") from error


def _holder(file: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return f"process {int(file.read_bytes())}"
    return "another process"


def _forget() -> None:
    """A forked child holds none of its parent's locks."""
    global _registry
    for lock in _locks.values():
        if lock.descriptor is not None:
            os.close(lock.descriptor)  # the parent's own stays locked
            lock.descriptor = None
    _locks.clear()
    _registry = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
