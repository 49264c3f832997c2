"""Large N-Triples and N-Quads files, entity by entity in little memory.

    scan    one quick look at the subjects: where the file may be cut, and which subjects come back later
    parse   stretch by stretch, each whole in itself; lines of what comes back later are set aside
    aside   what was set aside, grouped on disk (aside.py)

A unit is the lines of one IRI subject with the blank nodes around them. A subject or blank node that is met
in two units is scattered, and every unit it touches is set aside; so what is left is whole.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.aside import Aside
from kbdisk.loaders.rdf.trees import without_collection

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders.rdf.file import RdfFile
    from kbdisk.loaders.source import Source

LARGE = 12 << 20  # bytes of text; a smaller file is grouped in memory
BLOCK = 2 << 20
SLOTS = 1 << 18  # of the scan's table, at first

IRI = ord("<")
ESCAPE = re.compile(rb"\\u([0-9A-Fa-f]{4})|\\U(00[01][0-9A-Fa-f]{5})")
SUBJECT = re.compile(rb"\s*(<[^>]*>|_:[^\s<]+)")
BLANK = re.compile(rb'[ \t]*(?:<[^>]*>|_:[^\s<]+)[ \t]*<[^>]*>[ \t]*(_:[^\s<>"]+?)\.?(?=[\s<]|\Z)')
RUN = re.compile(rb"((<[^>\\\n]*>|_:[^\s<]+)(?:(?<=>)|[ \t]).*(?:\n\2(?:(?<=>)|[ \t]).*)*\n*|.+\n*|\n+)")  # of one subject
OBJECT = re.compile(rb'>[ \t]*(_:[^\s<>"]+?)\.?(?=[\s<])')  # in a literal, too: that does no harm here


@dataclass
class Plan:
    """Where the file may be cut (sizes of the stretches, in bytes), and which subjects are scattered."""

    stretches: list[int] = field(default_factory=list)
    scattered: set[int] = field(default_factory=set)


def wanted(kb: RdfFile) -> bool:
    """Whether a file is better streamed than grouped in memory."""
    large = kb.format in syntax.LINES and is_large(kb.source) and not kb.has_blocks
    return large and not _has_statements(kb.source)


def is_large(source: Source) -> bool:
    """Whether there is more text than memory should hold."""
    return source.size * (8 if source.compression else 1) > LARGE


def _has_statements(source: Source) -> bool:
    """Whether it is a Wikibase in full: its statements and value nodes have IRIs, and stand anywhere."""
    with source.open() as stream:
        return b"/prop/statement/" in stream.read(BLOCK)


def entities(kb: RdfFile) -> Iterator[Entity]:
    """The entities of the file: first those that stand together, in order, then the scattered ones."""
    plan = kb.plan = kb.plan or scan(kb)
    line = 0
    with kb.open() as bytes_in, Aside(kb) as aside:
        for size in plan.stretches:
            text = bytes_in.read(size)
            lines = text.count(b"\n")
            if plan.scattered:
                text = _kept(text, plan.scattered, aside)
            with without_collection():
                trees = kb.new_trees()
                kb.parse_text(text, trees.add, line)
                found = list(kb.fold(trees))
            line += lines
            yield from found
        yield from aside.entities()


def scan(kb: RdfFile) -> Plan:
    """The first look."""
    plan = Plan()
    look = _Look(SLOTS)
    with kb.open() as bytes_in:
        carried = 0
        while text := bytes_in.read(BLOCK):
            text += bytes_in.readline()
            look.grow()
            cut = look.over(text)
            if cut is None:
                carried += len(text)
                continue
            plan.stretches.append(carried + cut)
            carried = len(text) - cut
    plan.stretches.append(carried)
    plan.scattered = look.scattered
    return plan


class _Look:
    """What the scan remembers: the hash of every subject and blank node, and the unit it was met in."""

    def __init__(self, slots: int) -> None:
        self.unit = 1
        self.owner = b""
        self.mask = slots - 1
        self.hashes = array("q", bytes(8 * slots))
        self.units = array("I", bytes(4 * slots))
        self.count = 0
        self.scattered: set[int] = set()

    def over(self, text: bytes) -> int | None:
        """Look over whole lines; returns where the last unit begins, if one does."""
        tail, begun = 0, False
        owner, note = self.owner, self._note
        for run, subject in RUN.findall(text):
            subject = subject or subject_of(run)
            if subject is None:
                tail += len(run)
                continue
            if subject[0] == IRI and subject != owner:
                owner = subject
                self.unit += 1
                tail, begun = 0, True
            tail += len(run)
            note(subject)
            if b"_:" in run:
                for blank in OBJECT.findall(run):
                    note(blank)
        self.owner = owner
        return len(text) - tail if begun else None

    def _note(self, name: bytes) -> None:
        """Note the unit that a name was met in."""
        digest = hash(name) or 1
        hashes, mask = self.hashes, self.mask
        slot = digest & mask
        while (known := hashes[slot]) != digest:
            if known == 0:
                hashes[slot] = digest
                self.units[slot] = self.unit
                self.count += 1
                return
            slot = (slot + 1) & mask
        if self.units[slot] != self.unit:
            self.scattered.add(digest)

    def grow(self) -> None:
        """Make room before the table is full."""
        if self.count * 3 > self.mask * 2:
            known = [(digest, unit) for digest, unit in zip(self.hashes, self.units, strict=True) if digest]
            larger = _Look(2 * (self.mask + 1))
            for digest, unit in known:
                slot = digest & larger.mask
                while larger.hashes[slot]:
                    slot = (slot + 1) & larger.mask
                larger.hashes[slot], larger.units[slot] = digest, unit
            self.mask, self.hashes, self.units = larger.mask, larger.hashes, larger.units


def subject_of(line: bytes) -> bytes | None:
    """The subject that a line begins with; None for a blank line or a comment."""
    if line.startswith(b"<"):
        subject = line[: line.find(b">") + 1]
    else:
        found = SUBJECT.match(line)
        if found is None:
            return None
        subject = found[1]
    return ESCAPE.sub(_unescaped, subject) if b"\\" in subject else subject


def _unescaped(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1] or found[2], 16)).encode("utf-8", "surrogatepass")


def _kept(text: bytes, scattered: set[int], aside: Aside) -> bytes:
    """The text with its scattered units set aside; their lines stay, empty, so that line numbers hold."""
    kept: list[bytes] = []
    unit: list[bytes] = []
    rows: list[tuple[bytes, bytes | None, bytes]] = []
    owner = b""
    away = False
    for line in text.split(b"\n"):
        subject = subject_of(line)
        if subject is not None and subject[:1] == b"<" and subject != owner:
            _settle(kept, unit, rows, away, aside)
            unit, rows, away, owner = [], [], False, subject
        unit.append(line)
        if subject is not None:
            found = BLANK.match(line) if b"_:" in line else None
            object = found[1] if found else None
            rows.append((subject, object, line))
            away = away or _among(subject, scattered) or (object is not None and _among(object, scattered))
    _settle(kept, unit, rows, away, aside)
    return b"\n".join(kept)


def _among(name: bytes, scattered: set[int]) -> bool:
    return (hash(name) or 1) in scattered


def _settle(
    kept: list[bytes], unit: list[bytes], rows: list[tuple[bytes, bytes | None, bytes]], away: bool, aside: Aside
) -> None:
    if away:
        aside.add(rows)
        kept.extend([b""] * len(unit))
    else:
        kept.extend(unit)
