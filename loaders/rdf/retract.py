"""Values taken out of the blocks of kbdisk in a document: complete blocks, or some of the statements in them.

A statement belongs to the entity from which its subject is reached, and to the keys on the way. It goes where all values of
this entity at these keys go, or where its object is a value that goes. The other statements are written in one block at the
end; within a bracket they stay where they are.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from pyoxigraph import BlankNode, NamedNode, Quad

from kbdisk.entity import CLASSES, Path, without_places
from kbdisk.errors import LoadError
from kbdisk.loaders.edits import Change, apply_changes, as_bytes
from kbdisk.loaders.kb import Edit, Placeless, Retraction
from kbdisk.loaders.rdf import blocks, syntax, turtle
from kbdisk.loaders.rdf.blank_nodes import key_of, number_blank_nodes
from kbdisk.loaders.rdf.blocks import PieceKind
from kbdisk.loaders.rdf.fold import COORDINATE_KEY
from kbdisk.loaders.rdf.terms import LATITUDE, LONGITUDE, TYPE, id_of_iri, value_of_term
from kbdisk.loaders.rdf.turtle import TermWriter

if TYPE_CHECKING:
    from kbdisk.loaders.rdf.file import RdfFile


NO_END = f'expected the line "{blocks.END.decode()}" at the end of a block of kbdisk, got none. Put it back.'
IN_ONE_STATEMENT = "stands in one statement with a value that stays"


def without_blocks(kb: RdfFile, stream: BinaryIO) -> None:
    """Write the document without any block of kbdisk."""
    with kb.source.open() as text:
        try:
            for piece in blocks.cut_blocks(text, kb.format):
                stream.write(piece)
        except ValueError as error:
            raise LoadError(kb.name, NO_END, error.args[0]) from None


def without_values(kb: RdfFile, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
    """Write the document without some of the values in blocks of kbdisk; returns those that stay all the same, and why.

    `retractions` are of all entities with values in such blocks, with the values that go.
    """
    quads = list(kb.earlier())
    choice = _Choice(kb, retractions, quads)
    data = kb.source.read()
    data, staying = _within_brackets(kb, data, choice)
    given_text = b"".join(blocks.cut_blocks(io.BytesIO(data), kb.format, lambda number: number not in staying))
    stream.write(given_text)
    if kept_quads := _drop_unlinked([quad for quad in quads if not choice.is_gone_quad(quad)], quads):
        with _open_block(kb, given_text, stream) as writer:
            writer.write(kept_quads)
    return choice.left


def undo_edits(kb: RdfFile, completions: Sequence[Sequence[Edit]], stream: BinaryIO) -> bool:
    """Write the document without the changes of some completions, the last one first; False where it is not as they left it."""
    data = kb.source.read()
    for edits in reversed(completions):
        changes: list[Change] = []
        for place, before, now in edits:
            new = as_bytes(now)
            if data[place : place + len(new)] != new:
                return False
            changes.append((place, place + len(new), as_bytes(before)))
        data = apply_changes(data, changes)
    stream.write(data)
    return True


# ---------------------------------------------------------------- which statements go


class _Choice:
    """Which statements go with the values that do."""

    def __init__(self, kb: RdfFile, retractions: Iterable[Retraction], filled: list[Quad]) -> None:
        self.names = kb.names
        self.gone: dict[str, dict[Path, Any]] = {}
        self.kept: dict[str, dict[Path, Any]] = {}
        self.left: list[Placeless] = []
        for entity, values in retractions:
            self.gone[entity.id] = {path: value for path, (value, _) in values.items()}
            self.kept[entity.id] = {path: value for path, value in (entity.made or {}).items() if path not in values}
        self.coordinate_keys = [(known,) for predicate in (LATITUDE, LONGITUDE) if (known := kb.names.known(predicate))]
        self.blanks = kb.blanks()
        self.owners: dict[str, tuple[str, str]] = {}  # a node -> the node that leads to it, and by which predicate
        subjects = {quad.subject for quad in filled}

        def take(quads: Iterable[Any]) -> None:
            for quad in quads:
                number_blank_nodes((quad,), self.blanks)
                if isinstance(quad.object, BlankNode) or quad.object in subjects:
                    self.owners.setdefault(self._id(quad.object), (self._id(quad.subject), quad.predicate.value))

        with kb.again():
            kb.observe_all(take)

    def _id(self, node: Any) -> str:
        return id_of_iri(node.value) if isinstance(node, NamedNode) else key_of(node, self.blanks)

    def is_gone_quad(self, quad: Quad) -> bool:
        """Whether a statement in a block goes."""
        return self.is_gone(self._id(quad.subject), quad.predicate.value, quad.object)

    def is_gone(self, node: str, predicate: str, object: Any) -> bool:
        """Whether a statement about a node goes."""
        names: Path = (self.names.known(predicate) or predicate,)
        if predicate == TYPE:
            names = CLASSES if node in self.gone else ()
        visited = {node}
        while node not in self.gone and node in self.owners:
            node, by = self.owners[node]
            if node in visited:
                return False
            visited.add(node)
            names = (self.names.known(by) or by, *names)
        gone = self._at(self.gone.get(node, {}), names)
        kept_values = self._at(self.kept.get(node, {}), names)
        if not gone or not kept_values:
            return bool(gone)
        value = value_of_term(object)
        if any(_is_same_value(value, candidate) for candidate in kept_values.values()):
            return False
        if any(_is_same_value(value, candidate) for candidate in gone.values()):
            return True
        if not isinstance(object, BlankNode):
            self.left += [candidate for path in gone if (candidate := (node, path, IN_ONE_STATEMENT)) not in self.left]
        return False

    def _at(self, values: Mapping[Path, Any], names: Path) -> dict[Path, Any]:
        """The values that a statement may hold, by the keys that lead to it."""
        return {path: value for path, value in values.items() if self._meets(without_places(path), names)}

    def _meets(self, path: Path, names: Path) -> bool:
        if path[-1:] == (COORDINATE_KEY,) and names[-1:] in self.coordinate_keys:
            return path[:-1] == names[:-1]
        shared = min(len(path), len(names))
        return path[:shared] == names[:shared]


def _is_same_value(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _drop_unlinked(kept_quads: list[Quad], quads: list[Quad]) -> list[Quad]:
    """Statements that stay, without those that lead to new nodes without statements, and without nodes that nothing leads to."""
    new = {quad.subject for quad in quads if isinstance(quad.subject, BlankNode)} & {quad.object for quad in quads}
    while True:
        subjects, objects = {quad.subject for quad in kept_quads}, {quad.object for quad in kept_quads}
        linked = [
            quad
            for quad in kept_quads
            if not (quad.object in new and quad.object not in subjects)
            and not (quad.subject in new and quad.subject not in objects)
        ]
        if len(linked) == len(kept_quads):
            return kept_quads
        kept_quads = linked


# ---------------------------------------------------------------- within brackets


def _within_brackets(kb: RdfFile, data: bytes, choice: _Choice) -> tuple[bytes, set[int]]:
    """The document with fewer properties in the blocks within its brackets, and the numbers of the blocks that stay."""
    spans = list(_spans(data, kb.format))
    stay: set[int] = set()
    changes: list[Change] = []
    places = (
        blocks.locate_brackets(data, kb.format, kb.options.base)
        if any(kind is PieceKind.INSERTED for kind, _, _ in spans)
        else {}
    )
    ends = sorted((place.offset, number) for number, place in places.items())
    for block, (kind, start, end) in enumerate(spans):
        if kind is not PieceKind.INSERTED:
            continue
        number = next((number for offset, number in ends if offset >= end), None)
        lines = data[start:end].split(b"\n")
        pairs = lines[1:-1]
        if number is None:
            stay.add(block)
            continue
        first = pairs[0].lstrip() if pairs else b""
        separator = b"; " if first.startswith(b";") else b""
        rest = [line for line in pairs if not _is_gone_line(line, f"_:[{number}]", places[number].prefixes, kb, choice)]
        if rest:
            stay.add(block)
        if rest and len(rest) < len(pairs):
            indent = rest[0][: len(rest[0]) - len(rest[0].lstrip())]
            rest[0] = indent + separator + rest[0].lstrip().removeprefix(b";").lstrip()
            changes.append((start, end, b"\n".join([lines[0], *rest, lines[-1]])))
    return apply_changes(data, changes), stay


def _is_gone_line(line: bytes, node: str, prefixes: Mapping[str, str], kb: RdfFile, choice: _Choice) -> bool:
    """Whether a line of a block within a bracket is a property that goes; one that is no single property stays."""
    heads = b"".join(f"@prefix {name}: <{iri}> .\n".encode() for name, iri in prefixes.items())
    pair = line.strip().removeprefix(b";").removesuffix(b";")
    try:
        quads = list(syntax.parser(heads + b"[] " + pair + b" .", "turtle", kb.base))
    except (SyntaxError, ValueError):
        return False
    return bool(quads) and choice.is_gone(node, quads[0].predicate.value, quads[0].object)


def _spans(data: bytes, format: str) -> Iterator[tuple[PieceKind, int, int]]:
    """The blocks of kbdisk: kind, start and end."""
    place, block = 0, None
    for kind, text in blocks.pieces(io.BytesIO(data), format):
        is_ours = kind not in (PieceKind.GIVEN, PieceKind.DIRECTIVE)
        if is_ours:
            block = (kind, block[1] if block else place, place + len(text))
        elif text and block:
            yield block
            block = None
        place += len(text)
    if block:
        yield block


def _open_block(kb: RdfFile, given_text: bytes, stream: BinaryIO) -> turtle.QuadWriter:
    """A new block after a document."""
    terms = TermWriter()
    if kb.format not in syntax.LINES:
        base = kb.base if turtle.relative_iris(io.BytesIO(given_text)) else None
        terms = TermWriter(kb.prefixes, base, turtle.shorthand_of(given_text))
    return turtle.write_block(
        stream,
        kb.format,
        terms,
        newline=syntax.newline_of(given_text[: syntax.CHUNK_SIZE]),
        at_line_start=given_text[-1:] in (b"\n", b""),
    )
