"""Where shards and targets are: files of this machine, or of a store that fsspec opens, such as s3://bucket/name.jsonl.

Files of a store are fetched into a temporary folder, and what is written there is sent. `kbdisk.loaders` and the writers see
files of this machine alone, and messages name the files of the store.

fsspec comes with `pip install 'kbdisk[remote]'`, and the package of a store beside it: s3fs, gcsfs, adlfs, ...
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import IO, Any, Protocol, Self

from kbdisk.atomic import write_bytes
from kbdisk.errors import ConfigError, KBDiskError, KBDiskWarning, LoadError, WriteError
from kbdisk.locks import locked

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def is_url(name: str) -> bool:
    """Whether a name is that of a file of a store."""
    return _URL.match(name) is not None


def store_of(name: str) -> Store:
    """The store of a name."""
    return RemoteFiles.of(name) if is_url(name) else LOCAL_FILES


@dataclass(frozen=True)
class FileStamp:
    """The state of a file, to recognise it: by its size and time, or what a store has in their place; else by its content."""

    size: int
    mtime_ns: int
    sha256: str
    key: str = ""  # of a file of a store: another one for each state of the file

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> Self:
        """The stamp of a file of this machine."""
        status = os.stat(file)  # noqa: PTH116 - a string is enough
        return cls(status.st_size, status.st_mtime_ns, hash_file(file))


class Store(Protocol):
    """Files with names."""

    def named_by(self, pattern: str) -> list[str]:
        """The files that a name or a pattern names. Of a pattern, without folders."""

    def identity(self, name: str) -> str:
        """The same for all names of one file."""

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names of this store are those of one file that exists."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def make_folder(self, name: str) -> None:
        """Make a folder, if there is none."""

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError without one."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or not at all."""

    def has_state(self, name: str, stamp: FileStamp) -> bool:
        """Whether a file is as it was when a stamp was read."""

    def stamp(self, name: str, local: str) -> FileStamp:
        """The stamp of a file; `local` is the file of this machine with its content."""

    def fetched(self, name: str) -> contextlib.AbstractContextManager[str]:
        """A file of this machine with the content of a file."""

    def staged(self, name: str) -> contextlib.AbstractContextManager[str]:
        """The name of a file of this machine that is written and then sent."""

    def send(self, local: str, name: str) -> None:
        """Give a file that was written the name that it is to have, all or not at all."""

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing a file."""


# ---------------------------------------------------------------- this machine


class LocalFiles:
    """The files of this machine."""

    def named_by(self, pattern: str) -> list[str]:
        """The files that a name or a pattern names. Of a pattern, without folders."""
        if os.path.isdir(pattern):  # noqa: PTH112
            problem = f"expected a file, got a directory. Name the files in it: {os.path.join(pattern, '*')}"  # noqa: PTH118
            raise LoadError(pattern, problem)
        if os.path.lexists(pattern):
            return [pattern]
        if not glob.has_magic(pattern):
            raise LoadError(pattern, "no such file.")
        files = sorted(file for file in glob.glob(pattern, recursive=True) if os.path.isfile(file))  # noqa: PTH113, PTH207
        if not files:
            raise LoadError(pattern, NO_MATCH)
        return files

    def identity(self, name: str) -> str:
        """The path without links."""
        return os.path.realpath(name)

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names are those of one file that exists."""
        return os.path.exists(other) and os.path.samefile(name, other)  # noqa: PTH110, PTH121

    def exists(self, name: str) -> bool:
        """Whether there is such a file, or a link to nowhere."""
        return os.path.lexists(name)

    def make_folder(self, name: str) -> None:
        """Make a folder, if there is none."""
        try:
            FilePath(name).mkdir(exist_ok=True)
        except OSError as error:
            raise WriteError(
                str(FilePath(name)), f"cannot be made: {(error.strerror or str(error)).lower()}."
            ) from error

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return FilePath(name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or not at all."""
        write_bytes(FilePath(name), content)

    def has_state(self, name: str, stamp: FileStamp) -> bool:
        """Whether a file is as it was: its content is read only where its time is another."""
        try:
            status = os.stat(name)  # noqa: PTH116
            if status.st_size != stamp.size:
                return False
            return status.st_mtime_ns == stamp.mtime_ns or hash_file(name) == stamp.sha256
        except OSError:
            return False

    def stamp(self, name: str, local: str) -> FileStamp:
        """The stamp of a file."""
        return FileStamp.read(local)

    @contextlib.contextmanager
    def fetched(self, name: str) -> Iterator[str]:
        """The file itself."""
        yield name

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[str]:
        """The name itself: writers write all or nothing."""
        yield name

    def send(self, local: str, name: str) -> None:
        """Nothing: the file is there."""

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing a file."""
        return locked(name)


LOCAL_FILES = LocalFiles()
NO_MATCH = "no file matches this pattern."


def hash_file(file: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content."""
    with open(file, "rb") as stream:  # noqa: PTH123
        return _hash_of(stream)


def _hash_of(stream: Any) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


# ---------------------------------------------------------------- stores of fsspec


@dataclass(frozen=True)
class RemoteFiles:
    """The files of a store that fsspec opens."""

    files: Any  # fsspec.AbstractFileSystem
    protocol: str

    @classmethod
    def of(cls, name: str) -> RemoteFiles:
        """The store of a URL; ConfigError where a package that is needed is not installed."""
        protocol = name.partition("://")[0]
        try:
            import fsspec
        except ImportError:
            problem = "fsspec, which opens such stores, is not installed. Run: pip install 'kbdisk[remote]'"
            raise ConfigError(name, problem) from None
        try:
            files, _ = fsspec.core.url_to_fs(name)
        except ImportError as error:
            problem = f"a package that fsspec needs for {protocol}:// is not installed: {error}. Run pip install."
            raise ConfigError(name, problem) from None
        except ValueError as error:
            raise ConfigError(name, f"expected a store that fsspec knows: {error}.") from None
        return cls(files, protocol)

    def named_by(self, pattern: str) -> list[str]:
        """The files that a name or a pattern names. Of a pattern, without folders."""
        with self._faults(pattern, LoadError):
            self.files.invalidate_cache()  # listings are kept, and other processes write
            if self.files.isdir(pattern):
                problem = f"expected a file, got a directory. Name the files in it: {pattern.rstrip('/')}/*"
                raise LoadError(pattern, problem)
            if self.files.exists(pattern):
                return [pattern]
            if not glob.has_magic(pattern):
                raise LoadError(pattern, "no such file.")
            found = self.files.glob(pattern, detail=True)
            names = sorted(self.files.unstrip_protocol(name) for name, of in found.items() if of["type"] == "file")
        if not names:
            raise LoadError(pattern, NO_MATCH)
        return names

    def identity(self, name: str) -> str:
        """Its path in the store, as fsspec spells it."""
        from fsspec.core import strip_protocol

        return str(strip_protocol(name))

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names are the same, as fsspec spells them."""
        return self.identity(name) == self.identity(other)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        with self._faults(name, LoadError):
            return bool(self.files.exists(name))

    def make_folder(self, name: str) -> None:
        """Make a folder, where the store has folders; no bucket and no folder around it, as its name may be mistyped."""
        try:
            with self._faults(name, WriteError, "cannot be made"), contextlib.suppress(FileExistsError):
                self.files.mkdir(name, create_parents=False)
        except FileNotFoundError:
            raise WriteError(name, "cannot be made: no such folder or bucket.") from None

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._faults(name, LoadError):
            return bytes(self.files.cat_file(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or not at all."""
        with self._written(name) as stream:
            stream.write(content)

    def has_state(self, name: str, stamp: FileStamp) -> bool:
        """Whether a file is as it was: its content is read only where the store says that it may not be."""
        try:
            with self._faults(name, LoadError):
                if int(self.files.size(name)) != stamp.size:
                    return False
                if stamp.key and self._key(name) == stamp.key:
                    return True
                with self.files.open(name, "rb") as stream:
                    return _hash_of(stream) == stamp.sha256
        except FileNotFoundError:
            return False

    def stamp(self, name: str, local: str) -> FileStamp:
        """The stamp of a file."""
        with self._faults(name, LoadError):
            return FileStamp(os.stat(local).st_size, 0, hash_file(local), self._key(name))  # noqa: PTH116

    def _key(self, name: str) -> str:
        return str(self.files.ukey(name))

    @contextlib.contextmanager
    def fetched(self, name: str) -> Iterator[str]:
        """A copy in a temporary folder."""
        with self._copied(name) as local:
            try:
                with self._faults(name, LoadError):
                    self.files.get_file(name, local)
            except FileNotFoundError:
                raise LoadError(name, "no such file.") from None
            yield local

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[str]:
        """A name in a temporary folder."""
        with self._copied(name) as local:
            yield local

    @contextlib.contextmanager
    def _copied(self, name: str) -> Iterator[str]:
        """A name in a temporary folder. Messages have that of the store in its place."""
        with tempfile.TemporaryDirectory(prefix="kbdisk-") as folder:
            local = os.path.join(folder, os.path.basename(name))  # noqa: PTH118, PTH119
            with _renaming(local, name):
                yield local

    def send(self, local: str, name: str) -> None:
        """Send a file, all or not at all."""
        with open(local, "rb") as content, self._written(name) as stream:  # noqa: PTH123
            shutil.copyfileobj(content, stream)

    @contextlib.contextmanager
    def _written(self, name: str) -> Iterator[IO[bytes]]:
        """A stream whose file is there once all of it is written."""
        with (
            self._faults(name, WriteError, "cannot be written"),
            self.files.transaction,
            self.files.open(name, "wb") as stream,
        ):
            yield stream

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Stores have no locks."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _faults(self, name: str, kind: type[KBDiskError], problem: str = "cannot be read") -> Iterator[None]:
        """What a store raises as one line. Each store has exceptions of its own, for what is wrong with an account or a network."""
        try:
            yield
        except (KBDiskError, FileNotFoundError):
            raise
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise kind(name, f"{problem}: {text}.") from error


@contextlib.contextmanager
def _renaming(local: str, name: str) -> Iterator[None]:
    """Errors and warnings within it name the file of the store in the place of its copy."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KBDiskWarning)
            yield
    except KBDiskError as error:
        error.args = tuple(str(part).replace(local, name) for part in error.args)
        error.where = error.where.replace(local, name)
        raise
    finally:
        for warning in caught:
            warnings.warn(str(warning.message).replace(local, name), warning.category, stacklevel=4)
