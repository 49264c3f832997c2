"""Where bytes go: a temporary file beside the target that takes its name only once it is whole.

Nothing half-written ever stands under the target's name. Files that belong together take their names
once all of them are whole. `-` is standard output, streamed; so is a target that is a pipe or a device.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import filecmp
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, cast

from kbdisk.atomic import replacing, sync_folder
from kbdisk.errors import WriteError
from kbdisk.printable import printable

BEFORE = ".before"  # ends the name of a file as it was before it was changed
COMPRESSED = (".gz", ".bz2", ".zst")
SIDECAR = ".provenance.jsonl"
MODEL = ".kbdisk"  # ends the name of the folder with the model of a source


@contextlib.contextmanager
def writing(
    target: str | os.PathLike[str],
    *,
    replace: bool = True,
    several: contextlib.ExitStack | None = None,
    like: str | None = None,
) -> Iterator[BinaryIO]:
    """A stream whose bytes become `target`, all of them or none: at once, or with all of `several`, the last one first.

    What is new has owner, mode and attributes of the file that it is `like`; what is replaced keeps its own.
    """
    if str(target) == "-":
        with standard_output() as stream:
            yield stream
        return
    name = str(target)
    mode = _mode(Path(target), name)
    if mode is not None and stat.S_ISDIR(mode):
        raise WriteError(name, "expected a file to write, got a directory.")
    if mode is not None and stat.S_ISREG(mode) and not replace:
        raise WriteError(name, "exists already. Say force=True to replace it.")
    with _faults(name), contextlib.ExitStack() as names:
        if mode is not None and not stat.S_ISREG(mode):
            with Path(target).open("wb") as file:
                yield file
            return
        place = Path(target).resolve()  # a symbolic link stays one: what it points to is replaced
        model = Path(like) if mode is None and like is not None else None if mode is None else place
        if several is not None:
            names = contextlib.ExitStack()
            several.push(partial(_end, name, names))
        with replacing(place, names, model) as file:
            yield file


def _end(name: str, names: contextlib.ExitStack, *fault: Any) -> bool | None:
    """Let a file take its name, or remove its part after a fault; a fault of that is the file's."""
    with _faults(name):
        return names.__exit__(*fault)


def keep_before(target: str, several: contextlib.ExitStack) -> str:
    """Keep a file that `several` are about to change as it is, beside it; returns the name. What was kept earlier stays."""
    numbers = chain([""], map("-{}".format, count(2)))
    beside = f"{_real(target)}{BEFORE}"
    names = (f"{beside}{number}" for number in numbers)
    with _faults(beside):
        name = next(one for one in names if not os.path.lexists(one) or _alike(one, target))
        if not os.path.lexists(name):
            with Path(target).open("rb") as old, writing(name, replace=False, several=several, like=target) as new:
                shutil.copyfileobj(old, new, 1 << 20)
        return name


def _alike(name: str, target: str) -> bool:
    return Path(name).is_file() and filecmp.cmp(name, target, shallow=False)


@contextlib.contextmanager
def standard_output(*, styled: bool = False) -> Iterator[BinaryIO]:
    """Standard output, flushed at the end. A reader who has had enough is no fault: BrokenPipeError passes.

    A terminal is shown data with what would steer it escaped; what is `styled` steers it on purpose. A file or a pipe
    gets every byte as it is.
    """
    if sys.stdout is None:
        raise WriteError("<stdout>", "standard output is closed.")
    with _faults("<stdout>"):
        if styled or not sys.stdout.isatty():
            yield sys.stdout.buffer
        else:
            with _Terminal(sys.stdout.buffer) as terminal:
                yield cast(BinaryIO, terminal)
        sys.stdout.flush()


class _Terminal(io.RawIOBase):
    """Bytes of UTF-8 as a terminal may show them."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.raw.write(printable(self.decoder.decode(bytes(data))).encode())
        return len(data)

    def flush(self) -> None:
        self.raw.flush()


@contextlib.contextmanager
def _faults(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(name, f"cannot be written: {(error.strerror or str(error)).lower()}.") from error


def _mode(path: Path, name: str) -> int | None:
    """What stands at the path: its mode; None where nothing does."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WriteError(name, f"cannot be written: {(error.strerror or str(error)).lower()}.") from error
    except ValueError as error:  # a NUL in the name
        raise WriteError(repr(name), f"is no name of a file: {error}.") from None


@contextlib.contextmanager
def temporary() -> Iterator[BinaryIO]:
    """A file without a name, for what is read again before it is closed. That it cannot be closed well is no fault."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    try:
        yield cast(BinaryIO, file)
    finally:
        with contextlib.suppress(OSError):
            file.close()


def spooled(owner: object, max_bytes_in_memory: int) -> BinaryIO:
    """A file without a name that is closed with its owner; in memory up to a size."""
    file = tempfile.SpooledTemporaryFile(max_bytes_in_memory)  # noqa: SIM115 - closed with its owner
    weakref.finalize(owner, file.close)
    return cast(BinaryIO, file)


def sidecar_of(target: str | os.PathLike[str]) -> Path:
    """The file that tells where a target's new values come from: whatever link names it, it has one alone."""
    return Path(f"{_real(target)}{SIDECAR}")


def sidecars_of(source: str | os.PathLike[str]) -> list[Path]:
    """The files that tell of a source: one beside a link that it is named by, and its own."""
    names = dict.fromkeys((Path(f"{source}{SIDECAR}"), sidecar_of(source)))
    return [name for name in names if os.path.isfile(name)]  # noqa: PTH113 - Path.is_file raises for long names


def folder_beside(sources: Iterable[str]) -> Path | None:
    """Where the model of a source is kept; None where there is no place: standard input, an endpoint."""
    first = next(iter(sources))
    if first == "-" or first.startswith(("http://", "https://")):
        return None
    return Path(f"{first.rstrip('/')}{MODEL}")


def _real(target: str | os.PathLike[str]) -> str:
    """The name of the file that a symbolic link points to, which is what is read and replaced; of no link its own."""
    path = Path(target)
    points = path.is_symlink() and (path.is_file() or not path.exists())  # not at standard output
    return os.path.realpath(path) if points else str(target)


def refuse_odd(sidecar: Path) -> None:
    """Refuse what stands in a sidecar's place and is no file, before anything is written."""
    mode = _mode(sidecar, str(sidecar))
    if mode is not None and not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise WriteError(str(sidecar), f"expected a file, got {what}. Move it away: what is filled in is told there.")


def refuse_in_place(target: str) -> None:
    """Refuse to change a file that has several names: the new one would have this name alone."""
    links = Path(target).stat().st_nlink
    if links > 1:
        problem = f"has {links} names (hard links), of which only this one would get what is new."
        raise WriteError(target, f"{problem} Choose another target, or make it a file of its own: cp it, mv the copy.")


def refuse_long_names(target: str) -> None:
    """Refuse a name that leaves no room for those of the files beside it, before anything is written."""
    if target == "-" or os.name != "posix":
        return
    real = _real(target)
    folder = Path(real).absolute().parent
    try:
        longest_name, longest_path = os.pathconf(folder, "PC_NAME_MAX"), os.pathconf(folder, "PC_PATH_MAX")
    except (OSError, ValueError):
        return  # there is no such folder, which is said when it is written
    for suffix in (SIDECAR, f"{BEFORE}-99"):
        name, path = len(os.fsencode(Path(real).name + suffix)), len(os.fsencode(real + suffix))
        if name > longest_name or path >= longest_path:
            most = longest_name - len(suffix) if name > longest_name else longest_path - 1 - len(suffix)
            what = "name" if name > longest_name else "path"
            got = (name if what == "name" else path) - len(suffix)
            problem = f"expected a {what} of at most {most} bytes, got {got}: a file beside it ends in {SIDECAR}."
            raise WriteError(target, f"{problem} Choose a shorter one.")


def refuse_unwritable(target: str) -> None:
    """Refuse a folder in which no file can be made, before there is anything to write."""
    with _faults(target), tempfile.TemporaryFile(dir=Path(target).resolve().parent):
        pass


def set_aside(file: Path) -> Path:
    """Give a file that is no longer right another name beside its own, which nothing has yet."""
    names = (f"{file}.old{number or ''}" for number in count())
    place = next(place for name in names if not os.path.lexists(place := Path(name)))
    with _faults(str(file)):
        file.rename(place)
        sync_folder(place.parent)
    return place


def compression_of(name: str) -> str | None:
    """gz, bz2 or zst, as the suffix says."""
    return next((suffix[1:] for suffix in COMPRESSED if name.lower().endswith(suffix)), None)


def without_compression(name: str) -> str:
    """A file's name without the suffix of its compression."""
    return next((name[: -len(suffix)] for suffix in COMPRESSED if name.lower().endswith(suffix)), name)


@contextlib.contextmanager
def compressing(file: BinaryIO, kind: str | None, *, lazily: bool = False) -> Iterator[BinaryIO]:
    """What is written comes out compressed; `lazily` writes nothing at all where nothing is written."""
    if kind is None:
        yield file
        return
    if lazily:
        kept = io.BytesIO()
        yield kept
        if kept.tell():
            with compressing(file, kind) as stream:
                stream.write(kept.getbuffer())
        return
    with _compressor(file, kind) as stream:
        yield cast(BinaryIO, stream)


def _compressor(file: BinaryIO, kind: str) -> Any:
    match kind:
        case "gz":
            return gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)  # the same bytes every time
        case "bz2":
            return bz2.BZ2File(file, "wb")
    try:
        import zstandard
    except ImportError:
        raise WriteError("zstd", "is not installed. Run: pip install 'kbdisk[zstd]'") from None
    return zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False)
