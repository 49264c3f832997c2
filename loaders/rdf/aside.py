"""Lines that were set aside, grouped by entity: in memory while they are few, else in a temporary database."""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders.rdf.file import RdfFile

FEW = 8 << 20  # bytes
BATCH = 2000  # entities grouped at a time


class Row(NamedTuple):
    """A line, its subject, its predicate and object where that is a blank node, and the blank nodes in its triple term."""

    subject: bytes
    predicate: bytes | None
    object: bytes | None
    text: bytes
    quoted: tuple[bytes, ...] = ()


class Aside:
    """Lines out of order, and the entities they make."""

    def __init__(self, kb: RdfFile) -> None:
        self.kb = kb
        self.rows: list[Row] = []
        self.size = 0
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.database: sqlite3.Connection | None = None

    def __enter__(self) -> Aside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.database is not None:
            self.database.close()
        if self.folder is not None:
            self.folder.cleanup()

    def add(self, rows: list[Row]) -> None:
        """Set lines aside."""
        self.rows.extend(rows)
        self.size += sum(len(row.text) for row in rows)
        if self.size > FEW:
            self._store()

    def entities(self) -> Iterator[Entity]:
        """What the lines make, once all of them are here."""
        if self.database is None:
            if self.rows:
                yield from self._folded((row.text for row in self.rows), set())
            return
        self._store()
        yield from self._grouped(self.database)

    def _store(self) -> None:
        if self.database is None:
            self.folder = tempfile.TemporaryDirectory(prefix="kbdisk-")
            self.database = sqlite3.connect(Path(self.folder.name) / "aside.db", isolation_level=None)
            self.database.executescript("""
                PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16000; PRAGMA temp_store = FILE;
                CREATE TABLE line (subject BLOB, predicate BLOB, object BLOB, text BLOB);
                CREATE TABLE quoted (blank BLOB PRIMARY KEY) WITHOUT ROWID;
                CREATE TABLE done (blank BLOB PRIMARY KEY) WITHOUT ROWID;
            """)
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", (row[:4] for row in self.rows))
        quoted = ([blank] for row in self.rows for blank in row.quoted)
        self.database.executemany("INSERT OR IGNORE INTO quoted VALUES (?)", quoted)
        self.database.execute("COMMIT")
        self.rows.clear()
        self.size = 0

    def _grouped(self, database: sqlite3.Connection) -> Iterator[Entity]:
        database.executescript("""
            CREATE INDEX by_subject ON line (subject);
            CREATE INDEX by_object ON line (object) WHERE object IS NOT NULL;
            CREATE TABLE mentions AS SELECT object AS blank, count(DISTINCT subject || predicate) AS n FROM line
                WHERE object IS NOT NULL GROUP BY object;
            CREATE UNIQUE INDEX by_blank ON mentions (blank);
            UPDATE mentions SET n = n + 1 WHERE blank IN (SELECT blank FROM quoted);
        """)
        things = "SELECT subject FROM line WHERE substr(subject, 1, 1) = x'3C' GROUP BY subject ORDER BY min(rowid)"
        blanks = (
            "SELECT subject FROM line WHERE substr(subject, 1, 1) <> x'3C' AND {} GROUP BY subject ORDER BY min(rowid)"
        )
        roots = blanks.format("coalesce((SELECT n FROM mentions WHERE blank = subject), 0) <> 1")
        for query in (things, roots):
            with closing(database.cursor()) as cursor:
                subjects = (row[0] for row in cursor.execute(query))
                while batch := list(itertools.islice(subjects, BATCH)):
                    yield from self._batch(database, batch)
        with closing(database.cursor()) as cursor:
            for (blank,) in cursor.execute(blanks.format("subject NOT IN (SELECT blank FROM done)")):
                if not database.execute("SELECT 1 FROM done WHERE blank = ?", [blank]).fetchone():
                    yield from self._batch(database, [_on_circle(database, blank)])

    def _batch(self, database: sqlite3.Connection, subjects: list[bytes]) -> Iterator[Entity]:
        """These subjects with the blank nodes that belong to them alone."""
        lines: list[bytes] = []
        shared: set[str] = set()
        met = set(subjects)
        while subjects:
            following: list[bytes] = []
            for subject in subjects:
                for text, object in database.execute(
                    "SELECT text, object FROM line WHERE subject = ? ORDER BY rowid", [subject]
                ):
                    lines.append(text)
                    if object is None or object.decode() in shared:
                        continue
                    if database.execute("SELECT n FROM mentions WHERE blank = ?", [object]).fetchone()[0] > 1:
                        shared.add(object.decode())
                    elif object not in met:
                        met.add(object)
                        following.append(object)
            subjects = following
        blanks = [[name] for name in met if name[:1] == b"_"]
        database.executemany("INSERT OR IGNORE INTO done VALUES (?)", blanks)
        yield from self._folded(lines, shared)

    def _folded(self, lines: Iterable[bytes], shared: set[str]) -> Iterator[Entity]:
        trees = self.kb.new_trees()
        self.kb.parse_text(b"\n".join(lines), trees.add, None)
        yield from self.kb.fold(trees, shared.__contains__)


def _on_circle(database: sqlite3.Connection, blank: bytes) -> bytes:
    """A node of the circle that a blank node hangs from, going from each to the one that mentions it."""
    met: set[bytes] = set()
    while blank not in met:
        met.add(blank)
        blank = database.execute("SELECT subject FROM line WHERE object = ?", [blank]).fetchone()[0]
    return blank
