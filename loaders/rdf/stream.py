"""Large N-Triples and N-Quads files, entity by entity in little memory.

    scan    one quick look at the subjects: where the file may be cut, and which subjects come back later
    parse   stretch by stretch, each whole in itself; lines of what comes back later are set aside
    aside   what was set aside, grouped on disk (aside.py)

A unit is the lines of one IRI subject with the blank nodes around them. A subject or blank node that is met
in two units is scattered, and every unit it touches is set aside; so what is left is whole. Which are
scattered is kept as a table of hashes: two that collide are set aside together, which costs a little time
and changes nothing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.aside import Aside

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders.rdf.file import RdfFile

LARGE = 12 << 20  # bytes of text; a smaller file is grouped in memory
BLOCK = 2 << 20
SLOTS = 1 << 23

ESCAPE = re.compile(rb"\\u([0-9A-Fa-f]{4})|\\U(00[01][0-9A-Fa-f]{5})")
SUBJECT = re.compile(rb"\s*(<[^>]*>|_:[^\s<]+)")
BLANK = re.compile(rb'^\s*(?:<[^>]*>|_:[^\s<]+)\s*<[^>]*>\s*_:([^\s<>"]+?)\.?(?=[\s<]|$)')


@dataclass
class Plan:
    """Where the file may be cut (sizes of the stretches, in bytes), and which subjects are scattered."""

    stretches: list[int] = field(default_factory=list)
    scattered: bytearray | None = None


def wanted(kb: RdfFile) -> bool:
    """Whether a file is better streamed than grouped in memory."""
    grows = 8 if kb.source.compression else 1
    return kb.format in syntax.LINES and kb.source.size * grows > LARGE and not kb.has_blocks


def entities(kb: RdfFile) -> Iterator[Entity]:
    """The entities of the file: first those that stand together, in order, then the scattered ones."""
    plan = kb.plan = kb.plan or scan(kb)
    line = 0
    with kb.source.open() as bytes_in, Aside(kb) as aside:
        for size in plan.stretches:
            text = bytes_in.read(size)
            lines = text.count(b"\n")
            if plan.scattered is not None:
                text = _kept(text, plan.scattered, aside)
            nodes = kb.new_nodes()
            kb.parse_text(text, nodes.add, line)
            line += lines
            yield from kb.fold(nodes)
        yield from aside.entities()


def scan(kb: RdfFile) -> Plan:
    """The first look."""
    plan = Plan()
    look = _Look()
    with kb.source.open() as bytes_in:
        carried = 0
        while text := bytes_in.read(BLOCK):
            text += bytes_in.readline()
            cut = look.over(text)
            if cut is None:
                carried += len(text)
                continue
            plan.stretches.append(carried + cut)
            carried = len(text) - cut
    plan.stretches.append(carried)
    plan.scattered = look.scattered if look.found else None
    return plan


class _Look:
    """What the scan remembers: for each hash of a subject or blank node the unit it was met in."""

    def __init__(self) -> None:
        self.unit = 1
        self.owner = b""
        self.slots = array("I", bytes(4 * SLOTS))
        self.scattered = bytearray(SLOTS)
        self.found = False

    def over(self, text: bytes) -> int | None:
        """Look over whole lines; returns where the last unit begins, if one does."""
        last: bytes = b"\0"
        begin: int | None = None
        place = 0
        for line in text.split(b"\n"):
            if not line.startswith(last):
                subject = subject_of(line)
                if subject is not None:
                    last = subject if subject[:1] == b"<" else b"\0"  # _:b1 begins _:b10 too
                    if subject != self.owner and subject[:1] == b"<":
                        self.owner = subject
                        self.unit += 1
                        begin = place
                    self._met(subject)
            if b"_:" in line and (found := BLANK.match(line)):
                self._met(b"_:" + found[1])
            place += len(line) + 1
        return begin

    def _met(self, name: bytes) -> None:
        slot = hash(name) & (SLOTS - 1)
        unit = self.slots[slot]
        if unit == 0:
            self.slots[slot] = self.unit
        elif unit != self.unit:
            self.scattered[slot] = 1
            self.found = True


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


def _kept(text: bytes, scattered: bytearray, aside: Aside) -> bytes:
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
            object = b"_:" + found[1] if found else None
            rows.append((subject, object, line))
            away = away or _among(subject, scattered) or (object is not None and _among(object, scattered))
    _settle(kept, unit, rows, away, aside)
    return b"\n".join(kept)


def _among(name: bytes, scattered: bytearray) -> bool:
    return scattered[hash(name) & (SLOTS - 1)] == 1


def _settle(
    kept: list[bytes], unit: list[bytes], rows: list[tuple[bytes, bytes | None, bytes]], away: bool, aside: Aside
) -> None:
    if away:
        aside.add(rows)
        kept.extend([b""] * len(unit))
    else:
        kept.extend(unit)
