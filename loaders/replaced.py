"""The texts that filled values replaced, for the rows of a sidecar: in memory, and in a temporary SQLite table where they are many."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from kbdisk.entity import Path, show
from kbdisk.errors import WriteError

if TYPE_CHECKING:
    import sqlite3

Was: TypeAlias = dict[str, Any]  # a path as text -> the text that a filled value replaced there, None for nothing

MAX_IN_MEMORY = 50_000  # values whose texts are in memory


class ReplacedTexts:
    """The texts that values replaced, by the id of the entity and the path of the value."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str], Was] = {}
        self._table: sqlite3.Connection | None = None  # of the others, in a file without a name

    def add(self, id: str, path: Path, was: Was) -> None:
        """Add the texts that a value replaced; of one value the latest stand."""
        self._recent[id, show(path)] = was
        if len(self._recent) > MAX_IN_MEMORY:
            self._write_recent()

    def get(self, id: str, path: str) -> Was | None:
        """The texts that the value at a path, as text, replaced; None where nothing is known of it."""
        was = self._recent.get((id, path))
        if was is not None or self._table is None:
            return was
        with _disk_errors():
            row = self._table.execute("SELECT texts FROM replaced WHERE value = ?", (_key(id, path),)).fetchone()
        texts: Was | None = None if row is None else pickle.loads(row[0])
        return texts

    def _write_recent(self) -> None:
        import sqlite3

        with _disk_errors():
            if self._table is None:
                self._table = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._table.close)
                self._table.execute("PRAGMA journal_mode = OFF")
                self._table.execute("CREATE TABLE replaced (value BLOB PRIMARY KEY, texts BLOB) WITHOUT ROWID")
            rows = sorted((_key(id, path), pickle.dumps(was)) for (id, path), was in self._recent.items())
            self._table.execute("BEGIN")
            self._table.executemany("INSERT OR REPLACE INTO replaced VALUES (?, ?)", rows)
            self._table.execute("COMMIT")
        self._recent.clear()


def _key(id: str, path: str) -> bytes:
    return f"{len(id)} {id}{path}".encode(errors="surrogatepass")


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turns an error of the table, such as a full disk, into a WriteError."""
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        raise WriteError.without_room(tempfile.gettempdir(), str(error)) from None
