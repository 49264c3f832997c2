"""What drawn entities begin as: a class, what is given, and the patterns that they may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.data import Codec
from kbdisk.data.slots import counts_of
from kbdisk.entity import Entity, Path, Tree, read_path, show, with_values
from kbdisk.errors import ConfigError, SchemaError
from kbdisk.schemas.schema import Class, Misfit, unknown_to
from kbdisk.schemas.text.names import no_class
from kbdisk.training.trained import Trained

RARE = 1e-9  # of a class's entities: where none in training had what is given


@dataclass(frozen=True)
class Start:
    """What entities of one class begin as: what is given, and which properties they may have."""

    classes: tuple[str, ...]
    tree: Tree  # of what is given
    entities: float  # that training had of it, with what is given
    patterns: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]


def starts_of(trained: Trained, given: Mapping[Any, Any], of: str | None, text: bool) -> list[Start]:
    """What may be drawn: entities of the classes that can have what is given."""
    values = {path_of(path): value for path, value in given.items()}
    classes = _classes(trained, of)
    starts, problems = [], []
    for found in classes:
        try:
            starts.append(_start(trained, found, values, text))
        except SchemaError as error:
            known = sum(any(one[: len(path)] == path[: len(one)] for one in found.properties) for path in values)
            problems.append((known, error))
    if not starts:
        raise max(problems, key=lambda pair: pair[0])[1]
    return starts


def _classes(trained: Trained, of: str | None) -> list[Class]:
    schema, met = trained.schema, trained.codec.patterns
    if of is None:
        return [schema.classes[name] for name in met]
    named = schema.class_of(Entity("", {}, (of,))) if of else schema.classes.get("")
    if named is None or (named.name != of and of not in (named.iri, named.name)):
        raise no_class(of, schema.classes)
    if named.name not in met:
        raise ConfigError("--class", f"no entity that the model was trained on is of the class {of!r}.")
    return [named]


def _start(trained: Trained, found: Class, values: Mapping[Path, Any], text: bool) -> Start:
    """What an entity of a class begins as; SchemaError where it cannot have what is given."""
    codec, name = trained.codec, found.iri or found.name
    leaves = _leaves(trained, found, values)
    slots = {codec.slot(found.name, leaf) for leaf in leaves if not counts_of(leaf)}
    wanted = {number for number in slots if number is not None and codec.slots[number].role == "value"}
    own = codec.patterns[found.name]
    fitting = {one: count for one, count in own.items() if wanted <= set(one)}
    share = sum(fitting.values()) / sum(own.values())
    drawn: Counter[tuple[int, ...]] = Counter()
    for one, count in (fitting or own).items():
        drawn[tuple(number for number in one if text or codec.slots[number].kind != "text")] += count
    if trained.only_draws:
        given = {number for leaf in leaves if (number := codec.slot(found.name, leaf)) is not None}
        _warn_of_order(trained, given, {number for one in drawn for number in one})
    entities = _size(codec, found.name) * max(share, RARE)
    tree = trained.schema.tree(leaves, found.name)
    return Start((name,) if name else (), tree, entities, tuple(drawn), tuple(drawn.values()))


def _warn_of_order(trained: Trained, given: set[int], drawn: set[int]) -> None:
    """Say so where what is given comes after something that is to be drawn."""
    codec = trained.codec
    place = codec.index.layout.order.tolist()
    first = min((place[number] for number in drawn - given), default=len(place))
    late = [show(codec.slots[number].path) for number in sorted(given) if place[number] > first]
    if late:
        advice = "Put it first in the schema, or train with --preset default."
        trained.warn_of_order(f", and {late[0]} comes after what is to be drawn. {advice}", stacklevel=6)


def _leaves(trained: Trained, found: Class, values: Mapping[Path, Any]) -> dict[Path, Any]:
    """What is given, leaf by leaf."""
    schema, codec = trained.schema, trained.codec
    name = found.iri or found.name
    for path in values:
        if not any(_meets(path, one) for one, told in found.properties.items() if told.role != "ignore"):
            raise SchemaError(f"--given {show(path)}", unknown_to(found, path))
    entity = Entity("", with_values({}, values), (name,) if name else ())
    misfits: list[Misfit] = []
    list(schema.applied(found, entity, misfits))
    for misfit in misfits:
        told = ", ".join(show(path) for path in values if _meets(path, misfit.path))
        raise SchemaError(f"--given {told}", f"{misfit.problem}.")
    leaves = schema.leaves(entity)
    for path, value in values.items():
        if path in found.properties and not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", f"expected a value, got {value!r}, which stands for none.")
        if not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", unknown_to(found, path))
    for path in values:
        own = [leaf for leaf in leaves if leaf[: len(path)] == path]
        if all(codec.slot(found.name, leaf) is None for leaf in own):
            why = codec.left_out.get((found.name, own[0]), "it is no part of what the model learnt")
            raise SchemaError(f"--given {show(path)}", f"nothing is known of it: {why}.")
    return leaves


def _meets(path: Path, other: Path) -> bool:
    """Whether one of two paths leads to the other, or further into it."""
    least = min(len(path), len(other))
    return path[:least] == other[:least]


def _size(codec: Codec, of: str) -> float:
    """How many entities of a class training had."""
    return float(codec.entities[of])


def path_of(path: Path | str) -> Path:
    """A path, or a path as text."""
    if not isinstance(path, str):
        return path
    try:
        return read_path(path)
    except ValueError as error:
        raise ConfigError("--given", f"{error}.") from None
