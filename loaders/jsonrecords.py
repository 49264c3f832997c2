"""What JSON and JSON Lines share: a source is pieces of bytes, most of them with an entity in it.

All pieces joined are the source. Reading takes the entities out of them; splicing writes the same pieces
with values set in, in lockstep with the completions, so that neither is ever gathered in memory.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson

from kbdisk.entity import Completion, Entity, Filled, Path, Tree, at, show, with_values
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders import jsontext
from kbdisk.loaders.habits import Habits
from kbdisk.loaders.jsonfill import fill
from kbdisk.loaders.jsonrestore import restore
from kbdisk.loaders.jsontext import Fault
from kbdisk.loaders.kb import KB, Placeless, Report, Retraction, Was
from kbdisk.loaders.naming import UNNAMED, Naming, classes_of, label_of
from kbdisk.loaders.values import tagged_json

LEARNT_FROM = 1000  # entities whose habits the new values follow


class Piece(NamedTuple):
    """Some bytes of a source: what stands before an entity's text, and the text (empty at the end)."""

    position: int
    line: int  # on which the text begins
    before: bytes
    text: bytes
    key: str | None = None  # under which it stands, in an object of objects
    number: int = 0  # of the entity among all, from 1: its id where it has none


class Records(KB):
    """Entities that are JSON objects."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """The source, from its first byte to its last."""

    def read(self) -> Iterator[Entity]:
        naming = Naming(self.options.id)
        for piece in self.pieces():
            entity = self.entity(piece, naming) if piece.text else None
            if entity is not None:
                yield entity

    def entity(self, piece: Piece, naming: Naming) -> Entity | None:
        """The entity of a piece; None where it is skipped or not of the wanted classes."""
        try:
            tree, notes = jsontext.read(piece.text)
            naming.settle(tree)
            id = piece.key if piece.key is not None and naming.path is None else naming.id_of(tree)
        except Fault as fault:
            self.skip(self.error(fault, piece))
            return None
        except ValueError as error:
            self.skip(LoadError(self.name, str(error), piece.line))
            return None
        for note in notes:
            self.odd.note(note, f"{self.name}:{piece.line}", at_end=note == jsontext.GAP)
        return self.named(tree, id, piece, named=naming.key is not None)

    def named(self, tree: Tree, id: str | None, piece: Piece, named: bool) -> Entity | None:
        """The entity of a tree, unless others are wanted."""
        if id is None and named:
            self.odd.note(UNNAMED, f"{self.name}:{piece.line}")
        classes = classes_of(tree)
        if self.options.classes and not set(classes) & set(self.options.classes):
            return None
        own, label = str(piece.number) if id is None else id, label_of(tree)
        return Entity(own, tree, classes, label, position=piece.position, source=self, nameless=id is None)

    def error(self, fault: Fault, piece: Piece) -> LoadError:
        """What is wrong with a piece, and on which line."""
        return fault.at(self.name, piece.line, piece.text)

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        report = Report()
        wanted = _by_entity(completions, self, report)
        following = next(wanted, None)
        habits = self.habits() if following else None
        for piece in self.pieces():
            stream.write(piece.before)
            text = piece.text
            if following and habits and text and following[0].position == piece.position:
                text = fill(text, following[0].id, following[1], habits, report)
                following = next(wanted, None)
            stream.write(text)
        if following:
            raise WriteError(self.name, f"has no entity {following[0].id!r} any more. Load it again.")
        return report

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        left: list[Placeless] = []
        due = {one.entity.position: one for one in retractions}
        for piece in self.pieces():
            stream.write(piece.before)
            text = piece.text
            if text and (one := due.pop(piece.position, None)) is not None:
                text, stays = restore(text, {path: was for path, (_, was) in one.values.items()})
                left += [(one.entity.id, path, reason) for path, reason in stays.items()]
            stream.write(text)
        return left

    def habits(self) -> Habits:
        """How values are written in the first entities."""
        habits = Habits()
        for piece in itertools.islice(self.pieces(), LEARNT_FROM):
            try:
                habits.see(jsontext.read(piece.text)[0], piece.text)
            except Fault:
                continue  # what cannot be read has no habits, and reading has told of it
        return habits


def _by_entity(
    completions: Iterable[Completion], kb: KB, report: Report
) -> Iterator[tuple[Entity, dict[Path, Filled]]]:
    """Each entity with all that was filled in it, in the order of the source."""
    last = 0
    for position, group in itertools.groupby(completions, key=lambda one: one.entity.position):
        if position <= last:
            raise WriteError(kb.name, "expected the completions in the order of the source. Pass a list of them.")
        last = position
        filled: dict[Path, Filled] = {}
        for completion in group:
            entity = completion.entity
            if entity.source is not kb and getattr(entity.source, "name", None) != kb.name:
                report.unwritable.extend(
                    (entity.id, path, "was read from another source") for path in completion.filled
                )
            else:
                filled |= completion.filled
        if filled:
            yield entity, filled


# ---------------------------------------------------------------- writing anew


def serialised(items: Iterable[Entity | Completion], only_new: bool, report: Report) -> Iterator[Tree]:
    """Each item as a tree that orjson writes, and that is read back with the same id and classes."""
    naming = Naming()
    for item in items:
        entity = item.entity if isinstance(item, Completion) else item
        filled = item.filled if isinstance(item, Completion) else {}
        if only_new and not filled:
            continue
        if only_new:
            tree = {"@id": entity.id} | with_values({}, {path: one.value for path, one in filled.items()})
        else:
            tree = _with_name(item.tree() if isinstance(item, Completion) else item.tree, entity, naming)
        report.written += len(filled)
        report.was |= {(entity.id, path): _was(entity.tree, path) for path in filled}
        try:
            yield tagged_json.encode(tree)
        except ValueError as error:
            raise WriteError(entity.id, f"{error}. Leave it out, or change it.") from None


def _was(tree: Tree, path: Path) -> Was:
    """Where on the way to a path a tree has nothing, and the text of what stands there."""
    for length in range(1, len(path) + 1):
        try:
            here = at(tree, path[:length])
        except KeyError:
            return {show(path[:length]): None}
        if here is None:
            return {show(path[:length]): "null"}
    return {show(path): orjson.dumps(tagged_json.encode({"": here})[""]).decode()}


def dumped(tree: Tree, option: int) -> bytes:
    """The JSON text of a serialised tree."""
    try:
        return orjson.dumps(tree, option=option)
    except orjson.JSONEncodeError as error:
        raise WriteError(str(tree.get("@id", "JSON")), f"cannot be written as JSON: {error}.") from None


def _with_name(tree: Tree, entity: Entity, naming: Naming) -> Tree:
    """The tree, with id and classes added where reading it would not tell them."""
    added: dict[str, Any] = {}
    trial = naming if naming.settled else Naming()
    trial.settle(tree)
    if trial.id_of(tree) != entity.id:
        added["@id"] = entity.id
    if classes_of(tree) != entity.classes:
        added["@type"] = entity.classes[0] if len(entity.classes) == 1 else list(entity.classes)
    if added:
        tree = added | {key: value for key, value in tree.items() if key not in added}
    naming.settle(tree)
    return tree
