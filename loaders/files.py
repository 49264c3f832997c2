"""Files: sources whose bytes can be read again and again, and targets that are written all or not at all.

A source is a file, standard input, a pipe or bytes in memory, and is decompressed while it is read (gz, bz2, zst, by its
first bytes). Standard input and pipes are kept in a temporary file. A few kilobytes can unpack to terabytes, so
reading stops beyond a limit, with a message that names the option which lifts it, `--max-size` (`max_size=` in Python).

A target is a temporary file beside the target's name until it is complete, and then takes that name; files that
belong together take their names once all of them are complete. `-` is standard output, streamed; so is a target that
is a pipe or a device.

Every fault of the file system or of a compressed stream becomes one LoadError or WriteError here.
"""

from __future__ import annotations

import atexit
import bz2
import codecs
import contextlib
import filecmp
import gzip
import hashlib
import io
import math
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from kbdisk.atomic import replacing, sync_folder
from kbdisk.errors import ConfigError, LoadError, WriteError, setting
from kbdisk.printable import printable

FREE_UNPACKED_SIZE = 1 << 30  # bytes that any file may unpack to
MAX_COMPRESSION_RATIO = 100  # of what it unpacks to, to its compressed size, beyond that

_SIZE_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?([kmgt]?)b?", re.IGNORECASE)


def unpacked_limit(compressed: int, max_size: float | None) -> float:
    """The bytes that a file of some compressed size may unpack to."""
    return max(FREE_UNPACKED_SIZE, MAX_COMPRESSION_RATIO * compressed) if max_size is None else max_size


def refuse_unpacked(name: str, limit: float) -> None:
    """LoadError for a file that unpacks to more."""
    problem = f"expected at most {show_size(limit)} once it is uncompressed, got more."
    raise LoadError(name, f"{problem} If it is sound, say --max-size with a larger size, or none.")


def read_size(text: str) -> float:
    """A size as a user writes it, such as 500MB, 20 GB, 1e9 bytes as 1000000000, or none for no bound at all."""
    if text.strip().lower() == "none":
        return math.inf
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * _SIZE_UNITS[match[2].lower()] if match else 0.0
    if size < 1:
        raise ConfigError("--max-size", f"expected a size such as 500MB or 20GB, or none, got {text!r}.")
    return size


def show_size(size: float) -> str:
    """A size in words: 1.1 GB."""
    for unit in ("TB", "GB", "MB", "kB"):
        if size >= _SIZE_UNITS[unit[0].lower()]:
            return f"{size / _SIZE_UNITS[unit[0].lower()]:.4g} {unit}"
    return f"{size:.0f} bytes"


# ---------------------------------------------------------------- decompression


BUFFER = 1 << 18
_COMPRESSED_CHUNK = 1 << 15  # compressed bytes at a time, so that what comes out stays small

_BZ2 = (b"1AY&SY", b"\x17rE8P\x90")  # what follows BZh and a digit: a block, or the end at once


def compression_of_bytes(start: bytes) -> str | None:
    """gz, bz2, zst or None, by the first ten bytes."""
    if start.startswith(b"\x1f\x8b"):
        return "gz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zst"
    return "bz2" if start[:3] == b"BZh" and start[3:4].isdigit() and start[4:10] in _BZ2 else None


def decompressed(raw: IO[bytes], kind: str | None, name: str, limit: float = math.inf) -> BinaryIO:
    """A buffered stream of the plain bytes, at most `limit` of a compressed file; closing it closes `raw`."""
    match kind:
        case "gz":
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        case "bz2":
            stream = cast(IO[bytes], bz2.BZ2File(raw))
        case "zst":
            stream = cast(IO[bytes], _Zstd(raw, name))
        case _:
            stream = raw
    return cast(
        BinaryIO, io.BufferedReader(_CheckedStream(stream, raw, name, math.inf if kind is None else limit), BUFFER)
    )


class _CheckedStream(io.RawIOBase):
    """A stream that raises LoadError where it ends too early, is damaged, too large or unreadable."""

    def __init__(self, stream: IO[bytes], raw: IO[bytes], name: str, limit: float) -> None:
        self.stream = stream
        self.raw = raw  # which a decompressor leaves open
        self.name = name
        self.limit = limit
        self.given = 0  # bytes so far

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.stream.read(len(buffer))
        except EOFError:
            raise LoadError(self.name, "the compressed file ends in the middle. Get all of it again.") from None
        except (OSError, zlib.error, ValueError) as error:
            raise LoadError(self.name, self._fault(error)) from error
        self.given += len(data)
        if self.given > self.limit:
            refuse_unpacked(self.name, self.limit)
        buffer[: len(data)] = data
        return len(data)

    def _fault(self, error: Exception) -> str:
        if isinstance(error, OSError) and error.strerror:  # a system call's, not a decompressor's
            return f"cannot be read: {error.strerror.lower()}."
        return f"the compressed file is damaged: {error}. Get it again."

    def close(self) -> None:
        self.stream.close()
        self.raw.close()
        super().close()


class _Zstd:
    """Zstandard frames one after the other. zstandard's own reader takes a truncated file for a complete one."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        self.raw = raw
        self.module = _zstandard(name)
        self.frame: Any = None  # None between frames
        self.rest = b""  # compressed, not used yet
        self.out = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self.out:
            chunk = self.rest or self.raw.read(_COMPRESSED_CHUNK)
            if not chunk:
                if self.frame is not None:
                    raise EOFError
                return b""
            self.out = memoryview(self._decompressed(chunk))
        piece, self.out = self.out[:size], self.out[size:]
        return bytes(piece)

    def _decompressed(self, chunk: bytes) -> bytes:
        if self.frame is None:
            self.frame = self.module.ZstdDecompressor().decompressobj()
        try:
            data: bytes = self.frame.decompress(chunk)
        except self.module.ZstdError as error:
            raise ValueError(error) from None
        self.rest = b""
        if self.frame.eof:
            self.rest = self.frame.unused_data
            self.frame = None
        return data

    def close(self) -> None:
        self.out = memoryview(b"")


def _zstandard(name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise LoadError(name, "is zstd-compressed. Run: pip install 'kbdisk[zstd]'") from None
    return zstandard


def stored_length(path: Path, kind: str, text: IO[bytes]) -> int | None:
    """The length of the members at the start of a compressed file that decompress to a text; None where none do."""
    text.seek(0)
    with path.open("rb") as raw:
        member, unused, read = _member(kind, str(path)), b"", 0
        while chunk := unused or raw.read(_COMPRESSED_CHUNK):
            read += 0 if unused else len(chunk)
            unused = b""
            data = member.decompress(chunk)
            if text.read(len(data)) != data:
                return None
            if member.eof:
                unused = member.unused_data
                member = _member(kind, str(path))
                member_start = text.tell()
                if not text.read(1):
                    return read - len(unused)
                text.seek(member_start)
    return None


def _member(kind: str, name: str) -> Any:
    """A decompressor of one member."""
    match kind:
        case "gz":
            return zlib.decompressobj(wbits=31)
        case "bz2":
            return bz2.BZ2Decompressor()
    return _zstandard(name).ZstdDecompressor().decompressobj()


# ---------------------------------------------------------------- sources


MAX_DIGEST_SIZE = 16 << 20  # bytes of a file whose content tells whether it changed
Progress = Callable[[int, int], None]  # bytes read as stored, bytes in all


class Source:
    """Bytes that can be read more than once, uncompressed on the way."""

    def __init__(self, origin: str | os.PathLike[str] | bytes, name: str | None = None) -> None:
        self.progress: Progress | None = None
        self.max_size: float | None = None  # bytes that it may unpack to; None: see `unpacked_limit`
        self._bytes = origin if isinstance(origin, bytes) else None
        self.name = name or ("<memory>" if isinstance(origin, bytes) else "<stdin>" if origin == "-" else str(origin))
        self.path = None if isinstance(origin, bytes) else _file_of(origin, self.name)
        self.check()
        self._stamp = self._stamped()

    def refuse_changed(self) -> None:
        """LoadError where the file has changed since this source was made."""
        if self._stamp is not None and not self._stamp.is_of(self._stamped()):
            raise LoadError(self.name, "changed since it was read; run again.")

    def accept_change(self) -> None:
        """Take the file as it is now, after a change by us."""
        self._stamp = self._stamped()

    def _stamped(self) -> _Stamp | None:
        return None if self.path is None else _Stamp.read(self.path)

    def check(self) -> None:
        """LoadError now, not at the first entity, where the source cannot be read at all."""
        if self.path is not None and os.path.isdir(self.path):  # noqa: PTH112 - Path.is_dir raises for odd names
            raise LoadError(self.name, "expected a file, got a directory. Name the files in it.")
        self._raw().close()

    def refuse_empty(self) -> None:
        """LoadError where the source is empty."""
        with self.open() as stream:
            if not stream.read(1):
                content = f"nothing inside its {self.compression}" if self.compression else "an empty file"
                raise LoadError(self.name, f"expected some data, got {content}.")

    @cached_property
    def compression(self) -> str | None:
        """gz, bz2, zst or None, by the first bytes and not by the name."""
        with decompressed(self._raw(), None, self.name) as stream:
            return compression_of_bytes(stream.read(10))

    @property
    def plain_path(self) -> Path | None:
        """The path, where a library may read the file itself: nothing is to be decompressed or counted."""
        return self.path if self.compression is None and self.progress is None else None

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return len(self._bytes or b"") if self.path is None else self.path.stat().st_size

    def stored(self) -> BinaryIO:
        """The bytes as stored, compressed or not."""
        return decompressed(self._raw(), None, self.name)

    def open(self) -> BinaryIO:
        """The bytes uncompressed, buffered."""
        kind = self.compression
        raw: IO[bytes] = self._raw()
        if self.progress is not None:
            raw = io.BufferedReader(_CountedStream(raw, self.size, self.progress), BUFFER)
        limit = unpacked_limit(self.size, self.max_size) if kind is not None else math.inf
        return decompressed(raw, kind, self.name, limit)

    def read(self) -> bytes:
        """All of it, uncompressed."""
        with self.open() as stream:
            return stream.read()

    def _raw(self) -> BinaryIO:
        if self._bytes is not None:
            return io.BytesIO(self._bytes)
        assert self.path is not None
        return _open(self.path, self.name)


@dataclass(frozen=True)
class _Stamp:
    """The state of a file, to recognise changes."""

    status: tuple[int, ...]
    digest: bytes | None  # of the content, where the file is small enough to be read twice

    @classmethod
    def read(cls, path: Path) -> _Stamp | None:
        """The stamp of a file; None where it is gone."""
        try:
            status = path.stat()
            small = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_DIGEST_SIZE
            digest = None
            if small:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "blake2b").digest()
        except OSError:
            return None
        return cls((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns), digest)

    def is_of(self, now: _Stamp | None) -> bool:
        """Whether the file is unchanged: by its content, or where it is large by its status."""
        if now is None:
            return False
        return self.digest == now.digest if self.digest and now.digest else self.status == now.status


class _CountedStream(io.RawIOBase):
    """A stream that reports how far it has been read."""

    def __init__(self, raw: IO[bytes], total: int, progress: Progress) -> None:
        self.raw, self.total, self.progress = raw, total, progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = cast(BinaryIO, self.raw).readinto(buffer)  # type: ignore[attr-defined]
        self.progress(self.raw.tell(), self.total)
        return count or 0

    def close(self) -> None:
        self.raw.close()
        super().close()


def _open(path: Path, name: str) -> BinaryIO:
    try:
        return path.open("rb", buffering=BUFFER)
    except FileNotFoundError:
        hint = (
            " A file of a store: copy it to this machine, or complete it as one of many files." if "://" in name else ""
        )
        raise LoadError(name, f"no such file.{hint}") from None
    except OSError as error:
        raise LoadError(name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from error
    except ValueError as error:  # a NUL in the name
        raise LoadError(repr(name), f"is no name of a file: {error}.") from None


def _file_of(origin: str | os.PathLike[str], name: str) -> Path:
    """A file that can be read again: the named one, or a temporary one with the bytes of a pipe or a device."""
    if origin == "-":
        if sys.stdin is None:
            raise LoadError(name, "expected some data, got a closed standard input.")
        return _keep_in_temporary_file(sys.stdin.buffer, name)
    path = Path(origin)
    if not _is_stream(path):
        return path
    with _open(path, name) as stream:
        return _keep_in_temporary_file(stream, name)


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # reported when it is opened
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _keep_in_temporary_file(stream: IO[bytes], name: str) -> Path:
    """A stream's bytes as a file that is there until the program ends."""
    try:
        with tempfile.NamedTemporaryFile(prefix="kbdisk-", delete=False) as file:
            path = Path(file.name)
            atexit.register(path.unlink, missing_ok=True)
            shutil.copyfileobj(stream, file, BUFFER)
    except OSError as error:
        raise LoadError(
            name, f"cannot be kept in a temporary file: {(error.strerror or str(error)).lower()}."
        ) from error
    return path


# ---------------------------------------------------------------- targets


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

    A new file takes owner, mode and attributes of the file `like`; a replaced file keeps its own.
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
        raise WriteError(name, f"exists already. Say {setting('force')} to replace it.")
    with _faults(name), contextlib.ExitStack() as names:
        if mode is not None and not stat.S_ISREG(mode):
            with Path(target).open("wb") as file:
                yield file
            return
        place = Path(target).resolve()  # a symbolic link stays: the file that it points to is replaced
        model = Path(like) if mode is None and like is not None else None if mode is None else place
        if several is not None:
            names = contextlib.ExitStack()
            several.push(partial(_finish_one, name, names))
        with replacing(place, names, model) as file:
            yield file


def _finish_one(name: str, names: contextlib.ExitStack, *fault: Any) -> bool | None:
    """Let a file take its name, or remove its temporary part after a fault; faults of that name the file."""
    with _faults(name):
        return names.__exit__(*fault)


def keep_before(target: str, several: contextlib.ExitStack) -> str:
    """Keep a copy of a file beside it before it is changed; returns the name. Earlier copies stay."""
    numbers = chain([""], map("-{}".format, count(2)))
    beside = f"{_resolved_name(target)}{BEFORE}"
    names = (f"{beside}{number}" for number in numbers)
    with _faults(beside):
        name = next(candidate for candidate in names if not os.path.lexists(candidate) or _is_copy(candidate, target))
        if not os.path.lexists(name):
            with Path(target).open("rb") as old, writing(name, replace=False, several=several, like=target) as new:
                shutil.copyfileobj(old, new, 1 << 20)
        return name


def _is_copy(name: str, target: str) -> bool:
    return Path(name).is_file() and filecmp.cmp(name, target, shallow=False)


@contextlib.contextmanager
def standard_output(*, styled: bool = False) -> Iterator[BinaryIO]:
    """Standard output, flushed at the end. A reader that stops early is no fault: BrokenPipeError passes.

    On a terminal control characters in the data are escaped, unless the output is `styled` by kbdisk itself. A file or a
    pipe gets every byte as it is.
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
    """The mode of the file at a path; None where there is none."""
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
    """A file without a name, for data that is read again before it is closed. Errors on closing are ignored."""
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
    """The sidecar with the provenance of a target's new values: one per file, however many links lead to it."""
    return Path(f"{_resolved_name(target)}{SIDECAR}")


def sidecars_of(source: str | os.PathLike[str]) -> list[Path]:
    """The sidecars of a source: beside a link to it, and beside the file itself."""
    names = dict.fromkeys((Path(f"{source}{SIDECAR}"), sidecar_of(source)))
    return [name for name in names if os.path.isfile(name)]  # noqa: PTH113 - Path.is_file raises for long names


def folder_beside(sources: Iterable[str]) -> Path | None:
    """The folder of the model of a source; None for standard input and endpoints."""
    first = next(iter(sources))
    if first == "-" or first.startswith(("http://", "https://")):
        return None
    return Path(f"{first.rstrip('/')}{MODEL}")


def _resolved_name(target: str | os.PathLike[str]) -> str:
    """The name of the file that a symbolic link points to, which is read and replaced; of other files their name."""
    path = Path(target)
    points = path.is_symlink() and (path.is_file() or not path.exists())  # not at standard output
    return os.path.realpath(path) if points else str(target)


def refuse_odd(sidecar: Path) -> None:
    """Refuse a sidecar path that is no regular file, before anything is written."""
    mode = _mode(sidecar, str(sidecar))
    if mode is not None and not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise WriteError(
            str(sidecar), f"expected a file, got {kind}. Move it away: the provenance of new values goes there."
        )


def refuse_in_place(target: str) -> None:
    """Refuse to change a file with hard links: only this name would get the new content."""
    links = Path(target).stat().st_nlink
    if links > 1:
        problem = f"has {links} names (hard links), of which only this one would get what is new."
        raise WriteError(target, f"{problem} Choose another target, or make it a file of its own: cp it, mv the copy.")


def refuse_long_names(target: str) -> None:
    """Refuse a name that leaves no room for those of the files beside it, before anything is written."""
    if target == "-" or os.name != "posix":
        return
    real = _resolved_name(target)
    folder = Path(real).absolute().parent
    try:
        longest_name, longest_path = os.pathconf(folder, "PC_NAME_MAX"), os.pathconf(folder, "PC_PATH_MAX")
    except (OSError, ValueError):
        return  # the folder is missing, which is reported on writing
    for suffix in (SIDECAR, f"{BEFORE}-99"):
        name, path = len(os.fsencode(Path(real).name + suffix)), len(os.fsencode(real + suffix))
        if name > longest_name or path >= longest_path:
            max_bytes = longest_name - len(suffix) if name > longest_name else longest_path - 1 - len(suffix)
            noun = "name" if name > longest_name else "path"
            got = (name if noun == "name" else path) - len(suffix)
            problem = f"expected a {noun} of at most {max_bytes} bytes, got {got}: a file beside it ends in {SIDECAR}."
            raise WriteError(target, f"{problem} Choose a shorter one.")


def refuse_unwritable(target: str) -> None:
    """Refuse a folder in which no file can be made, before there is anything to write."""
    with _faults(target), tempfile.TemporaryFile(dir=Path(target).resolve().parent):
        pass


def set_aside(file: Path) -> Path:
    """Rename an outdated file to an unused name beside it."""
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
    """A stream whose bytes are compressed into the file; `lazily` writes nothing where nothing comes."""
    if kind is None:
        yield file
        return
    if lazily:
        compressed = io.BytesIO()
        yield compressed
        if compressed.tell():
            with compressing(file, kind) as stream:
                stream.write(compressed.getbuffer())
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
