"""Where shards and targets are: files of this machine, or of a store that fsspec opens, such as s3://bucket/name.jsonl.

Files of a store are fetched into a temporary folder, and what is written there is sent. `kbdisk.loaders` and the writers see
files of this machine alone, and messages name the files of the store.

In a store as in a folder several processes can share a job, and a killed job goes on. But a store has no locks.

fsspec comes with `pip install 'kbdisk[remote]'`, and the package of a store beside it: s3fs, gcsfs, adlfs, ...
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Protocol, Self

from kbdisk.atomic import write_bytes
from kbdisk.completion.answers import REVIEWED
from kbdisk.errors import ConfigError, KBDiskError, KBDiskWarning, LoadError, WriteError
from kbdisk.loaders.files import SIDECAR
from kbdisk.locks import locked
from kbdisk.printable import plain_line, printable

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


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
        """The stamp of a file that was sent; `local` is the file of this machine with its content."""

    def fetched(self, name: str) -> contextlib.AbstractContextManager[tuple[str, FileStamp]]:
        """A file of this machine with the content of a file, beside what kbdisk has written beside it; and its stamp."""

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
    def fetched(self, name: str) -> Iterator[tuple[str, FileStamp]]:
        """The file itself, and its stamp."""
        try:
            stamp = FileStamp.read(name)
        except FileNotFoundError:
            raise LoadError(name, "no such file.") from None
        except OSError as error:
            raise LoadError(name, f"cannot be read: {(error.strerror or str(error)).lower()}.") from error
        yield name, stamp

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

# Their objects appear once an upload is complete; elsewhere a file is written under another name first.
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci", "memory"})
PART = ".kbdisk-part"  # ends the name of a file that is being written


@dataclass(frozen=True)
class RemoteFiles:
    """The files of a store that fsspec opens."""

    files: Any  # fsspec.AbstractFileSystem
    protocol: str

    @classmethod
    def of(cls, name: str) -> RemoteFiles:
        """The store of a URL; ConfigError where it cannot be opened, or a package that is needed is not installed."""
        protocol = name.partition("://")[0]
        try:
            import fsspec
        except ImportError:
            problem = "fsspec, which opens such stores, is not installed. Run: pip install 'kbdisk[remote]'"
            raise ConfigError(name, problem) from None
        try:
            files, _ = fsspec.core.url_to_fs(name)
        except ImportError as error:
            problem = (
                f"the package of {protocol}:// is not installed: {_reason(error)}. Install it, such as s3fs for s3://."
            )
            raise ConfigError(name, problem) from None
        except Exception as error:  # some stores connect at once, and each has exceptions of its own
            raise ConfigError(name, f"cannot be opened: {_reason(error)}.") from None
        return cls(files, protocol)

    def named_by(self, pattern: str) -> list[str]:
        """The files that a name or a pattern names. Of a pattern, without folders."""
        with self._faults(pattern, LoadError):
            self.files.invalidate_cache()  # listings are kept, and other processes write
            if self.files.isdir(pattern):
                problem = f"expected a file, got a directory. Name the files in it: {pattern.rstrip('/')}/*"
                raise LoadError(pattern, problem)
            if self.exists(pattern):
                return [pattern]
            if not glob.has_magic(pattern):
                raise LoadError(pattern, "no such file.")
            found = self.files.glob(pattern, detail=True)
            names = sorted(self._url(path, pattern) for path, of in found.items() if of["type"] == "file")
        if not names:
            raise LoadError(pattern, NO_MATCH)
        return names

    def _url(self, path: str, pattern: str) -> str:
        """The name of a file with the host, and whatever else a pattern has before the path."""
        path_of_pattern = self._path(pattern)
        if pattern.endswith(path_of_pattern):
            return pattern.removesuffix(path_of_pattern) + path
        return str(self.files.unstrip_protocol(path))

    def _path(self, name: str) -> str:
        """Its path in the store."""
        return str(self.files._strip_protocol(name))

    def identity(self, name: str) -> str:
        """Its path in its store, as fsspec spells it."""
        return f"{hash(self.files)}:{self._path(name)}"

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names are of the same path in the same store."""
        return RemoteFiles.of(name).identity(name) == self.identity(other)

    def exists(self, name: str) -> bool:
        """Whether there is such a file. What hinders the answer is no answer."""
        try:
            with self._faults(name, LoadError, may_lack=True):
                self.files.info(name)
        except FileNotFoundError:
            return False
        return True

    def make_folder(self, name: str) -> None:
        """Make a folder, where the store has folders; no bucket and no folder around it, as its name may be mistyped."""
        with self._faults(name, WriteError, "cannot be made"), contextlib.suppress(FileExistsError):
            self.files.mkdir(name, create_parents=False)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._faults(name, LoadError, may_lack=True):
            return bytes(self.files.cat_file(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or not at all."""
        with self._place_for(name) as place:
            self.files.pipe_file(place, content)

    def send(self, local: str, name: str) -> None:
        """Send a file, all or not at all."""
        with self._place_for(name) as place:
            self.files.put_file(local, place)

    @contextlib.contextmanager
    def _place_for(self, name: str) -> Iterator[str]:
        """The name under which a file is written before it gets its own: its own in a store of objects."""
        with self._faults(name, WriteError, "cannot be written"):
            if self.protocol in OBJECT_STORES:
                yield name
                return
            folder, _, base = name.rpartition("/")
            place = f"{folder}/.{base}{PART}"
            try:
                yield place
                self.files.mv(place, name)
            except BaseException:
                with contextlib.suppress(Exception):
                    self.files.rm_file(place)
                raise

    def has_state(self, name: str, stamp: FileStamp) -> bool:
        """Whether a file is as it was: its content is read only where the store says that it may not be."""
        try:
            with self._faults(name, LoadError, may_lack=True):
                if int(self.files.size(name)) != stamp.size:
                    return False
                if stamp.key and self._key(name) == stamp.key:
                    return True
                with self.files.open(name, "rb") as stream:
                    return _hash_of(stream) == stamp.sha256
        except FileNotFoundError:
            return False

    def stamp(self, name: str, local: str) -> FileStamp:
        """The stamp of a file that was sent."""
        with self._faults(name, LoadError):
            return replace(FileStamp.read(local), mtime_ns=0, key=self._key(name))

    def _key(self, name: str) -> str:
        return str(self.files.ukey(name))

    @contextlib.contextmanager
    def fetched(self, name: str) -> Iterator[tuple[str, FileStamp]]:
        """A copy in a temporary folder, beside copies of the files that kbdisk has written beside it, and its stamp."""
        with self.staged(name) as local:
            with self._faults(name, LoadError):
                key = self._key(name)  # before its content: a change in between makes another key
                self.files.get_file(name, local)
            for suffix in (SIDECAR, REVIEWED):
                if self.exists(name + suffix):
                    with self._faults(name + suffix, LoadError):
                        self.files.get_file(name + suffix, local + suffix)
            yield local, replace(FileStamp.read(local), mtime_ns=0, key=key)

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[str]:
        """A name in a temporary folder. Messages have that of the store in its place."""
        with contextlib.ExitStack() as stack:
            try:
                folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbdisk-")))
            except OSError as error:
                problem = f"expected a folder for temporary files that can be written, got: {_reason(error)}."
                raise WriteError("TMPDIR", problem) from error
            local = os.path.join(folder, os.path.basename(name))  # noqa: PTH118, PTH119
            with _renaming(local, name):
                yield local

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Stores have no locks."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _faults(
        self, name: str, kind: type[KBDiskError], problem: str = "cannot be read", *, may_lack: bool = False
    ) -> Iterator[None]:
        """What a store raises as one line. Each has exceptions of its own, for what is wrong with an account or a network.

        A FileNotFoundError stays one where the file `may_lack`.
        """
        try:
            yield
        except KBDiskError:
            raise
        except FileNotFoundError:
            if may_lack:
                raise
            raise kind(name, f"{problem}: no such file, folder or bucket.") from None
        except Exception as error:
            raise kind(name, f"{problem}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """What an exception says, as the end of a sentence."""
    return plain_line(str(error)).rstrip(".") or type(error).__name__


@contextlib.contextmanager
def _renaming(local: str, name: str) -> Iterator[None]:
    """Errors and warnings within it name the file of the store in the place of its copy."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KBDiskWarning)
            yield
    except KBDiskError as error:
        error.args = tuple(_renamed(str(part), local, name) for part in error.args)
        for attribute in ("where", "problem", "source"):
            if isinstance(part := getattr(error, attribute, None), str):
                setattr(error, attribute, _renamed(part, local, name))
        raise
    finally:
        for warning in caught:
            warnings.warn(_renamed(str(warning.message), local, name), warning.category, stacklevel=4)


def _renamed(text: str, local: str, name: str) -> str:
    return text.replace(local, name).replace(printable(local), printable(name))
