"""Validation across entities: unique values, functional dependencies, links to the right class, links back.

`Schema.check` validates an entity by itself. Memory grows with the entities, but only for the classes that have such
properties or constraints.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kbdisk.entity import Entity, Path, show
from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.composites import EACH, show_pattern
from kbdisk.schemas.constraints import Constraint, problem_of, shown, violations
from kbdisk.schemas.kinds import Link, Set
from kbdisk.schemas.schema import Class, Misfit, Schema
from kbdisk.schemas.text.names import last_word

Leaves = Mapping[Path, Any]

MAX_IDS_SHOWN = 3  # in an error


class CrossEntityValidator:
    """Takes entity after entity, and compares each with those before; links to other classes are checked at the end."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.first_ids: dict[tuple[str, Path, int], str] = {}  # a unique value -> the first entity that has it
        self.results: dict[
            tuple[str, Path, int], tuple[int, str]
        ] = {}  # the values that it depends on -> the value, its text
        self.links: dict[tuple[str, Path, str], dict[str, list[str]]] = {}  # target -> the ids that link to it
        self.classes: dict[str, tuple[str, ...]] = {}  # by id
        self.interned: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.link_classes = {name: dict(_link_classes(class_)) for name, class_ in schema.classes.items()}
        self.linked_constraints = {
            name: [
                constraint
                for constraint in class_.constraints
                if constraint.needs_classes or constraint.kind in ("unique", "inverse")
            ]
            for name, class_ in schema.classes.items()
        }
        self.needs_classes = any(self.link_classes.values()) or any(self.linked_constraints.values())
        self.owners: dict[tuple[str, Path, Hashable], str] = {}  # a value that is unique -> the entity that has it
        self.waiting: list[tuple[Class, Constraint, Entity]] = []  # for the classes of linked entities
        self.links_back: dict[Path, dict[str, set[str]]] = {  # path of links back -> id -> the ids that it links to
            constraint.other: {}
            for constraints in self.linked_constraints.values()
            for constraint in constraints
            if constraint.kind == "inverse"
        }
        self.checked = {
            name: [
                (path, property_)
                for path, property_ in class_.properties.items()
                if property_.unique or property_.depends
            ]
            for name, class_ in schema.classes.items()
        }

    def take(self, entity: Entity, class_: Class | None) -> Iterator[Misfit]:
        """The misfits of an entity with those before it. An entity of no class may still be a target of links."""
        if self.needs_classes:
            names = (*entity.classes, class_.name) if class_ else entity.classes
            self.classes[entity.id] = self.interned.setdefault(names, names)
        if class_ is None:
            return iter(())
        misfits = list(self._not_unique(class_, entity))
        if self.checked[class_.name] or self.link_classes[class_.name]:
            leaves = self.schema.leaves(entity, ignored=True)  # an id is ignored, and unique all the same
            self._note_links(class_.name, entity.id, leaves)
            misfits += self._not_functional(class_.name, entity.id, leaves)
        return iter(misfits)

    def at_the_end(self, hierarchy: Mapping[str, set[str]]) -> Iterator[tuple[str, Misfit, str]]:
        """The misfits of links: the class that links, the misfit, the id of the entity that links.

        `hierarchy` has the superclasses of each class.
        """
        for (class_name, path, to), sources in self.links.items():
            for target, ids in sources.items():
                classes = self.classes.get(target)
                if classes and any(classes) and not self._is(classes, to, hierarchy):
                    got = ", ".join(dict.fromkeys(map(last_word, classes)))
                    problem = f"expected a link to {to}, got {target!r}, which is {got}"
                    yield from ((class_name, Misfit(path, problem), id) for id in ids)

        def is_of(id: str, name: str) -> bool | None:
            classes = self.classes.get(id)
            return self._is(classes, name, hierarchy) if classes and any(classes) else None

        for class_, constraint, entity in self.waiting:
            if constraint.kind == "inverse":
                problems = self._without_link_back(class_, constraint, entity)
            else:
                violated = violations(constraint, self.schema.view(class_, entity), is_of)
                problems = (violation.got for violation in violated)
            for got in problems:
                yield class_.name, Misfit(constraint.path, problem_of(constraint, got)), entity.id

    def _not_unique(self, class_: Class, entity: Entity) -> Iterator[Misfit]:
        """Values of constraints `unique` that an earlier entity has. Constraints that need later entities wait."""
        view = self.schema.view(class_, entity)
        for path, links in self.links_back.items():
            if ids := {id for typed in view.values(path) if (id := _id_of(typed.value))}:
                links[entity.id] = ids
        for constraint in self.linked_constraints[class_.name]:
            if constraint.kind == "unique":
                for typed in view.values(constraint.path):
                    owner = self.owners.setdefault((class_.name, constraint.path, typed.identity), entity.id)
                    if owner != entity.id:
                        got = f"{shown(typed.value)}, which {owner!r} has"
                        yield Misfit(constraint.path, problem_of(constraint, got))
            else:
                constrained = {key: entity.tree[key] for key in (constraint.path[0],) if key in entity.tree}
                if constrained or constraint.least:
                    self.waiting.append((class_, constraint, replace(entity, tree=constrained, source=None)))

    def _without_link_back(self, class_: Class, constraint: Constraint, entity: Entity) -> Iterator[str]:
        """Linked entities that have links at the other path, but none back."""
        for typed in self.schema.view(class_, entity).values(constraint.path):
            target = _id_of(typed.value)
            back = self.links_back[constraint.other].get(target) if target else None
            if back and entity.id not in back:
                yield f"{shown(typed.value)}, which has {_listed(sorted(back))} there"

    def _not_functional(self, class_name: str, id: str, leaves: Leaves) -> Iterator[Misfit]:
        """Values of unique properties that an earlier entity has, and values that differ although those they depend on are equal."""
        for path, property_ in self.checked[class_name]:
            value = _text_under(leaves, path)
            if not value:
                continue
            if property_.unique:
                first = self.first_ids.setdefault((class_name, path, hash(value)), id)
                if first != id:
                    yield Misfit(path, f"expected a value of its own, got that of {first!r}")
            needed_texts = [_text_under(leaves, needed) for needed in property_.depends]
            if property_.depends and all(needed_texts):
                known, text = self.results.setdefault(
                    (class_name, path, hash(tuple(needed_texts))), (hash(value), value)
                )
                if known != hash(value):
                    names = " and ".join(map(show, property_.depends))
                    yield Misfit(
                        path, f"expected the value that others with the same {names} have, got {value} for {text}"
                    )

    def _note_links(self, class_name: str, id: str, leaves: Leaves) -> None:
        link_classes = self.link_classes[class_name]
        for path, value in leaves.items() if link_classes else ():
            to = link_classes.get(tuple(EACH if isinstance(key, int) else key for key in path))
            for link in value if isinstance(value, list) else [value]:
                if to is not None and isinstance(link, LinkValue | str):
                    target = link.id if isinstance(link, LinkValue) else link
                    names = tuple(key for key in path if isinstance(key, str))
                    self.links.setdefault((class_name, names, to), {}).setdefault(target, []).append(id)

    def _is(self, classes: tuple[str, ...], to: str, hierarchy: Mapping[str, set[str]]) -> bool:
        """Whether one of the classes, or of their superclasses, is the class `to` of the schema."""
        names_of_class = {to, self.schema.classes[to].iri if to in self.schema.classes else to}
        visited, ahead = set[str](), list(classes)
        while ahead:
            name = ahead.pop()
            if name in names_of_class or last_word(name) == to:
                return True
            if name not in visited:
                visited.add(name)
                ahead.extend(hierarchy.get(name, ()))
        return False


def _id_of(value: Any) -> str | None:
    """The id of a link; None of other values."""
    return value.id if isinstance(value, LinkValue) else value.get("@id") if isinstance(value, dict) else None


def _listed(ids: list[str]) -> str:
    hidden_count = len(ids) - MAX_IDS_SHOWN
    return ", ".join(ids[:MAX_IDS_SHOWN]) + (f" and {hidden_count} more" if hidden_count > 0 else "")


def _link_classes(class_: Class) -> Iterator[tuple[Path, str]]:
    """The paths of links to a certain class, and that class."""
    for path, leaf in class_.leaves().items():
        link = leaf.of if isinstance(leaf, Set) else leaf
        if isinstance(link, Link) and link.to is not None:
            yield path, link.to


def _text_under(leaves: Leaves, path: Path) -> str:
    """All known leaves under a path as text. Equal texts stand for equal values."""
    known = {leaf[len(path) :]: value for leaf, value in leaves.items() if leaf[: len(path)] == path}
    return ", ".join(f"{show_pattern(leaf)} {value}".strip() for leaf, value in known.items())
