"""Learning how a knowledge base writes its values, and writing new ones the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.entity import NOVALUE, Entity, Known, Path, Tree, at, show, with_values
from kbdisk.schemas.property import Property, apply_property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.shapes import plain
from kbdisk.shapes.filling import fill
from kbdisk.shapes.reading import has
from kbdisk.shapes.seeing import Places

ENOUGH = 2000  # values of a property: those that follow look no different


@dataclass(frozen=True)
class Shapes:
    """How the values of each class look. Bounded by the schema, however many entities there are."""

    schema: Schema
    places: dict[str, Places] = field(default_factory=dict)  # by class

    @classmethod
    def learn(cls, schema: Schema, entities: Iterable[Entity]) -> Shapes:
        """Look at the first values of every property, as they were read; each entity once."""
        usual = Places().usual
        places = {name: Places(usual=usual) for name in schema.classes}
        seen: Counter[tuple[str, Path]] = Counter()
        for entity in entities:
            of = schema.class_of(entity)
            for path, one in of.beginning(entity.tree) if of else ():
                if of is not None and seen[of.name, path] < ENOUGH and _fits(schema, one, entity, path):
                    seen[of.name, path] += 1
                    places[of.name].see(path, one.kind, at(entity.tree, path))
        return cls(schema, places)

    def place(self, entity: Entity, path: Path, value: Any) -> dict[Path, Any]:
        """What has to stand where in an entity as it was read, so that a property has a value in the form of its siblings.

        Of a value that is given in part the rest alone; of one that is given nothing. ValueError, with the reason, where
        that cannot be without changing what is given, or where the others are of no form that can say the value. An empty
        string that is no value by the schema gives way to one.
        """
        of, one = self._property(entity, path)
        raw = _standing(entity.tree, path)
        if raw is not None and self._is_blank(one, raw):
            raw = None
        put = fill(self.places[of.name], path, one.kind, raw, value)
        self._check_read_back(one, raw, put, value)
        return {(*path, *within): new for within, new in put.items()}

    def shaped(self, entity: Entity) -> Entity:
        """An entity whose values are in the form that the schema takes, with each as the others are written that can be."""
        of = self.schema.class_of(entity)
        tree = entity.tree
        for path, one in of.beginning(tree) if of else ():
            value = _standing(tree, path)
            if value is None or one.role == "ignore":
                continue
            bare = replace(entity, tree=with_values(tree, {path: None}))
            with suppress(ValueError):
                tree = with_values(tree, self.place(bare, path, value))
        return replace(entity, tree=tree)

    def to_json(self) -> dict[str, Any]:
        """What was learnt as plain data."""
        return plain.to_json(self.places)

    @classmethod
    def from_json(cls, schema: Schema, told: Mapping[str, Any]) -> Shapes:
        """What `to_json` told, of the same schema; some error where it is something else."""
        return cls(schema, {name: Places() for name in schema.classes} | plain.from_json(told))

    def _property(self, entity: Entity, path: Path) -> tuple[Class, Property]:
        of = self.schema.class_of(entity)
        one = of.properties.get(path) if of else None
        if of is None or one is None:
            raise ValueError(f"the schema has no property {show(path)} for it")
        return of, one

    def _is_blank(self, one: Property, raw: Any) -> bool:
        """Whether an empty string stands there for no value. What else is spelt for a gap is refused, and what does not fit."""
        try:
            applied = apply_property(one, raw, self.schema.missing)
        except ValueError as error:
            raise ValueError(f"what stands there does not fit: {error}") from None
        if isinstance(applied, Known):
            known = "there is none" if applied is NOVALUE else "there is one, and not which"
            raise ValueError(f"it is known that {known}")
        if applied is None and raw != "" and not isinstance(raw, dict | list):
            raise ValueError(f"{raw!r} stands there for a gap, and would have to go")
        return applied is None and raw == ""

    def _check_read_back(self, one: Property, raw: Any, put: dict[Path, Any], value: Any) -> None:
        """Refuse what would be read as something else, such as a label that is spelt like a gap."""
        after = with_values({"": raw}, {("", *within): new for within, new in put.items()})[""]
        read = apply_property(one, after, self.schema.missing)
        if read is None or isinstance(read, Known):
            raise ValueError(f"{after!r} would be read as a gap")
        if not has(one.kind, read, value):
            raise ValueError(f"{after!r} would be read as something else")


def _fits(schema: Schema, one: Property, entity: Entity, path: Path) -> bool:
    """Whether there is a value."""
    try:
        value = apply_property(one, at(entity.tree, path), schema.missing)
    except (KeyError, ValueError):
        return False
    return value is not None and not isinstance(value, Known)


def _standing(tree: Tree, path: Path) -> Any:
    """What stands at a path; None where nothing does, and ValueError where nothing can."""
    here: Any = tree
    for length, key in enumerate(path):
        if isinstance(here, list) and isinstance(key, int):
            here = here[key] if key < len(here) else None
        elif isinstance(here, dict) and isinstance(key, str):
            here = here.get(key)
        else:
            raise ValueError(f"{show(path[:length])} is {here!r}, and has no place for {show(path)}")
        if here is None:
            return None
    return here
