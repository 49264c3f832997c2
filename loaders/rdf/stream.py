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
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.aside import Aside, Row
from kbdisk.loaders.rdf.blank_nodes import blank_nodes
from kbdisk.loaders.rdf.terms import TYPE, WIKIBASE
from kbdisk.loaders.rdf.trees import without_collection
from kbdisk.loaders.rdf.value_nodes import BY_CLASS

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders.files import Source
    from kbdisk.loaders.rdf.file import RdfFile

LARGE = 24 << 20  # bytes of text; a smaller file is grouped in memory
BLOCK = 2 << 20
LOOK = 2 << 20  # bytes that show what kind of file it is

IRI, BLANK_NODE = b"<_"
MANY = 200_000  # names; more are looked at in so many portions
PORTIONS = 16
ESCAPE = re.compile(rb"\\u([0-9A-Fa-f]{4})|\\U(00[01][0-9A-Fa-f]{5})")
SUBJECT = re.compile(rb"\s*(<[^>]*>|_:[^\s<]+)")
BLANK = re.compile(rb'[ \t]*(?:<[^>]*>|_:[^\s<]+)[ \t]*(<[^>]*>)[ \t]*(_:[^\s<>"#]+?)\.?(?=[\s<#]|\Z)')
RUN = re.compile(rb"((<[^>\\\n]*+>).*+(?:\n\2.*+)*+\n*+|.++\n*+|\n++)")  # lines of one subject, if it is a plain IRI
NAME = re.compile(rb'_:[^\s<>"#()]++')  # of a blank node; in a literal, too: that does no harm here
QUOTING = b"<<("  # begins a triple term; in a literal, too: that does no harm here
CLASS = re.compile(rb"<%s>[ \t]*<([^>\n]*)>" % TYPE.encode())
ALONE = re.compile(rb"[ \t]*<[^>\n]*>[ \t]*")
STATED = re.compile(rb"^[ \t]*<[^>\n]*>[ \t]*<[^>\n]*/prop/statement/", re.MULTILINE)
TOLD = (WIKIBASE.encode(), b"/prop/direct/P")  # by these, a Wikibase
RETURN = re.compile(rb"\r(?!\n)")  # ends a line, too; a file with such lines is taken whole


@dataclass
class Plan:
    """Where the file may be cut (sizes of the stretches, in bytes), which subjects are scattered and where, what it is."""

    stretches: list[int] = field(default_factory=list)
    scattered: set[int] = field(default_factory=set)  # hashes
    mixed: set[int] = field(default_factory=set)  # the stretches that have some of them
    wikibase: bool = False


def wanted(kb: RdfFile) -> bool:
    """Whether a file is better streamed than grouped in memory."""
    large = kb.format in syntax.LINES and is_large(kb.source) and not kb.has_blocks
    return large and not _has_value_nodes(kb.source)


def is_large(source: Source) -> bool:
    """Whether there is more text than memory should hold."""
    return source.size * (8 if source.compression else 1) > LARGE


def _has_value_nodes(source: Source) -> bool:
    """Whether statements or value nodes have IRIs, as those of a Wikibase in full, and so may stand anywhere."""
    with source.open() as stream:
        text = stream.read(LOOK)
    told = (found.start() for found in CLASS.finditer(text) if found[1].decode(errors="replace") in BY_CLASS)
    return (b"/prop/statement/" in text and STATED.search(text) is not None) or any(
        _has_iri(text, place) for place in told
    )


def _has_iri(text: bytes, place: int) -> bool:
    """Whether what stands before a place in its line is the IRI of a subject."""
    return ALONE.fullmatch(text, text.rfind(b"\n", 0, place) + 1, place) is not None


def entities(kb: RdfFile) -> Iterator[Entity]:
    """The entities of the file: first those that stand together, in order, then the scattered ones."""
    plan = kb.plan = kb.plan or scan(kb)
    kb.wikibase = plan.wikibase
    kb.streamed = True
    line = 0
    with kb.open() as bytes_in, Aside(kb) as aside:
        for number, size in enumerate(plan.stretches):
            text = bytes_in.read(size)
            lines = text.count(b"\n")
            if kb.options.skip_errors:
                text = kb.without_faults(text, line)
            if number in plan.mixed:
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
    digests, met = array("q"), array("I")
    text = b""
    ends: list[int] = []  # the last unit of each stretch
    returns = False
    with kb.open() as bytes_in:
        while more := bytes_in.read(BLOCK):
            text += more + bytes_in.readline()
            plan.wikibase = plan.wikibase or any(word in text for word in TOLD)
            returns = returns or (b"\r" in text and RETURN.search(text) is not None)
            cut = _note(text, digests, met, whole=False)
            if cut:
                plan.stretches.append(cut)
                ends.append(met[-1])
                text = text[cut:]
    _note(text, digests, met, whole=True)
    plan.stretches.append(len(text))
    if returns:
        return Plan([sum(plan.stretches)], wikibase=plan.wikibase)
    plan.scattered, units_of_them = _in_two(digests, met)
    plan.mixed = {bisect_left(ends, unit) for unit in units_of_them}
    return plan


def _note(text: bytes, digests: array[int], met: array[int], whole: bool) -> int:
    """Note the units of some lines; returns where they end. Unless the text is `whole`, its last unit may go on."""
    unit = met[-1] if met else 0
    runs = RUN.findall(text)
    names = [subject for _, subject in runs]
    if all(names) and (b"_" not in text or b"_:" not in text):  # each unit is the lines of one plain IRI
        cut = len(text)
        if not whole:
            names.pop()
            cut -= len(runs[-1][0])
        digests.extend(map(hash, names))
        met.extend(range(unit + 1, unit + 1 + len(names)))
        return cut
    found = list(units(text, runs))
    if not whole:
        found.pop()
    for _, _, within in found:
        unit += 1
        digests.extend(map(hash, within))
        met.extend([unit] * len(within))
    return found[-1][1] if found else 0


def units(text: bytes, runs: list[tuple[bytes, bytes]] | None = None) -> Iterator[tuple[int, int, list[bytes]]]:
    """Where each unit of some whole lines begins and ends, and the subjects and blank nodes in it.

    Blank nodes that were not mentioned yet when they come belong to the IRI after them.
    """
    start = place = 0
    owner = b""
    names: list[bytes] = []
    early: list[bytes] = []  # names of the blank nodes that may belong to what follows
    begin = -1  # and where they do
    for run, subject in runs or RUN.findall(text):
        subject = subject or subject_of(run) or b"#"
        if subject[0] == IRI:
            if subject != owner:
                if owner:
                    cut = begin if begin >= 0 else place
                    yield start, cut, names
                    start, names = cut, early
                else:
                    names += early
                names.append(subject)
                owner, early, begin = subject, [], -1
            elif early:
                names += early
                early, begin = [], -1
        elif subject[0] == BLANK_NODE:
            if begin < 0 and subject not in names:
                begin = place
            (names if begin < 0 else early).append(subject)
        at = run.find(b"_:", 1)
        while at >= 0:
            name = NAME.match(run, at)
            if name is not None:
                (names if begin < 0 else early).append(name[0].rstrip(b"."))
            at = run.find(b"_:", at + 2)
        place += len(run)
    yield start, place, names + early


def _in_two(digests: array[int], met: array[int]) -> tuple[set[int], set[int]]:
    """The digests that were met in two units, and those units."""
    if len(digests) > MANY:
        return _in_two_of_many(digests, met)
    first: dict[int, int] = {}
    scattered = {name for name, unit in zip(digests, met, strict=True) if first.setdefault(name, unit) != unit}
    touched = {unit for name, unit in zip(digests, met, strict=True) if name in scattered} if scattered else set()
    return scattered, touched


def _in_two_of_many(digests: array[int], met: array[int]) -> tuple[set[int], set[int]]:
    """The same in portions, in little memory."""
    import numpy as np

    every, unit = np.frombuffer(digests, np.int64), np.frombuffer(met, np.uint32)
    scattered: set[int] = set()
    touched: set[int] = set()
    portion = every & (PORTIONS - 1)
    for number in range(PORTIONS):
        chosen = np.flatnonzero(portion == number)
        order = chosen[np.argsort(every[chosen], kind="stable")]
        names, where = every[order], unit[order]
        same = (names[1:] == names[:-1]) & (where[1:] != where[:-1])
        scattered.update(names[1:][same].tolist())
        touched.update(where[np.isin(names, names[1:][same])].tolist())
    return scattered, touched


def subject_of(line: bytes) -> bytes | None:
    """The subject that a line begins with; None for a blank line or a comment."""
    if line.startswith(b"<"):
        subject = line[: line.find(b">") + 1]
    else:
        found = SUBJECT.match(line)
        if found is None:
            return None
        subject = found[1]
    return unescaped(subject)


def unescaped(name: bytes) -> bytes:
    """An IRI without escapes, which are another spelling of the same."""
    return ESCAPE.sub(_character, name) if b"\\" in name else name


def _character(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1] or found[2], 16)).encode("utf-8", "surrogatepass")


def _kept(text: bytes, scattered: set[int], aside: Aside) -> bytes:
    """The text with its scattered units set aside; their lines stay, empty, so that line numbers hold."""
    kept: list[bytes] = []
    for start, end, names in units(text):
        if scattered.isdisjoint(map(hash, names)):
            kept.append(text[start:end])
        else:
            lines = text[start:end].split(b"\n")
            rows = [_row(line) for line in lines]
            aside.add([row for row in rows if row is not None])
            kept.append(b"\n".join(line if row is None else b"" for line, row in zip(lines, rows, strict=True)))
    return b"".join(kept)


def _row(line: bytes) -> Row | None:
    subject = subject_of(line)
    if subject is None:
        return None
    if b"_:" not in line:
        return Row(subject, None, None, line)
    found = BLANK.match(line)
    if found:
        return Row(subject, unescaped(found[1]), found[2], line)
    return Row(subject, None, None, line, _quoted(line) if QUOTING in line else ())


def _quoted(line: bytes) -> tuple[bytes, ...]:
    """The blank nodes in the triple term of a line; none where it is no statement, which is told when it is read."""
    try:
        nodes = [node for quad in syntax.parser(line, "nquads", None) for node in blank_nodes(quad.object)]
    except SyntaxError:
        return ()
    return tuple(f"_:{node.value}".encode() for node in nodes)
