"""What must hold of all entities together: no value twice, links to the right class and back, one thing a function of others.

Memory grows with the entities, but only for the classes that ask for such a thing.
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


class Across:
    """Takes in entity after entity and tells what does not fit with those before; of links, at the end."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.first: dict[tuple[str, Path, int], str] = {}  # a unique value -> whose it is
        self.result: dict[tuple[str, Path, int], tuple[int, str]] = {}  # what a value depends on -> the value, its text
        self.links: dict[tuple[str, Path, str], dict[str, list[str]]] = {}  # target -> the ids that link to it
        self.classes: dict[str, tuple[str, ...]] = {}
        self.same: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.targets = {name: dict(_targets(one)) for name, one in schema.classes.items()}
        self.linked_constraints = {
            name: [each for each in one.constraints if each.needs_classes or each.kind in ("unique", "inverse")]
            for name, one in schema.classes.items()
        }
        self.linking = any(self.targets.values()) or any(self.linked_constraints.values())
        self.owner: dict[tuple[str, Path, Hashable], str] = {}  # a value that is unique -> the entity that has it
        self.waiting: list[tuple[Class, Constraint, Entity]] = []  # for the classes of linked entities
        self.links_at: dict[Path, dict[str, set[str]]] = {  # what each entity links to, at paths that links go back by
            one.other: {} for several in self.linked_constraints.values() for one in several if one.kind == "inverse"
        }
        self.asking = {
            name: [(path, each) for path, each in one.properties.items() if each.unique or each.depends]
            for name, one in schema.classes.items()
        }

    def take(self, entity: Entity, of: Class | None) -> Iterator[Misfit]:
        """One entity, and what of it does not fit with those before; of no class, it may still be linked to."""
        if self.linking:
            names = (*entity.classes, of.name) if of else entity.classes
            self.classes[entity.id] = self.same.setdefault(names, names)
        if of is None:
            return iter(())
        misfits = list(self._not_own(of, entity))
        if self.asking[of.name] or self.targets[of.name]:
            leaves = self.schema.leaves(entity, ignored=True)  # an id is ignored, and must be unique all the same
            self._linked(of.name, entity.id, leaves)
            misfits += self._not_alone(of.name, entity.id, leaves)
        return iter(misfits)

    def at_the_end(self, hierarchy: Mapping[str, set[str]]) -> Iterator[tuple[str, Misfit, str]]:
        """Links to entities of another class: the class that links, the misfit, the id of the entity that links."""
        for (of, path, to), linked in self.links.items():
            for target, origins in linked.items():
                classes = self.classes.get(target)
                if classes and any(classes) and not self._is(classes, to, hierarchy):
                    got = ", ".join(dict.fromkeys(map(last_word, classes)))
                    problem = f"expected a link to {to}, got {target!r}, which is {got}"
                    yield from ((of, Misfit(path, problem), origin) for origin in origins)

        def is_of(id: str, name: str) -> bool | None:
            classes = self.classes.get(id)
            return self._is(classes, name, hierarchy) if classes and any(classes) else None

        for of_class, constraint, entity in self.waiting:
            if constraint.kind == "inverse":
                gots = self._without_link_back(of_class, constraint, entity)
            else:
                gots = (
                    violation.got for violation in violations(constraint, self.schema.view(of_class, entity), is_of)
                )
            for got in gots:
                yield of_class.name, Misfit(constraint.path, problem_of(constraint, got)), entity.id

    def _not_own(self, of: Class, entity: Entity) -> Iterator[Misfit]:
        """Values of unique properties that an entity before has. What has to wait for other entities is kept."""
        view = self.schema.view(of, entity)
        for path, links in self.links_at.items():
            if ids := {id for typed in view.values(path) if (id := _id_of(typed.value))}:
                links[entity.id] = ids
        for constraint in self.linked_constraints[of.name]:
            if constraint.kind == "unique":
                for typed in view.values(constraint.path):
                    first = self.owner.setdefault((of.name, constraint.path, typed.identity), entity.id)
                    if first != entity.id:
                        got = f"{shown(typed.value)}, which {first!r} has"
                        yield Misfit(constraint.path, problem_of(constraint, got))
            else:
                kept = {key: entity.tree[key] for key in (constraint.path[0],) if key in entity.tree}
                if kept or constraint.least:
                    self.waiting.append((of, constraint, replace(entity, tree=kept, source=None)))

    def _without_link_back(self, of: Class, constraint: Constraint, entity: Entity) -> Iterator[str]:
        """Linked entities that have links at the other path, and none of them back."""
        for typed in self.schema.view(of, entity).values(constraint.path):
            target = _id_of(typed.value)
            back = self.links_at[constraint.other].get(target) if target else None
            if back and entity.id not in back:
                yield f"{shown(typed.value)}, which has {_some(sorted(back))} there"

    def _not_alone(self, of: str, id: str, leaves: Leaves) -> Iterator[Misfit]:
        for path, one in self.asking[of]:
            value = _under(leaves, path)
            if not value:
                continue
            if one.unique and (first := self.first.setdefault((of, path, hash(value)), id)) != id:
                yield Misfit(path, f"expected a value of its own, got that of {first!r}")
            given = [_under(leaves, each) for each in one.depends]
            if one.depends and all(given):
                known, text = self.result.setdefault((of, path, hash(tuple(given))), (hash(value), value))
                if known != hash(value):
                    names = " and ".join(map(show, one.depends))
                    yield Misfit(
                        path, f"expected the value that others with the same {names} have, got {value} for {text}"
                    )

    def _linked(self, of: str, id: str, leaves: Leaves) -> None:
        targets = self.targets[of]
        for path, value in leaves.items() if targets else ():
            to = targets.get(tuple(EACH if isinstance(key, int) else key for key in path))
            for one in value if isinstance(value, list) else [value]:
                if to is not None and isinstance(one, LinkValue | str):
                    target = one.id if isinstance(one, LinkValue) else one
                    names = tuple(key for key in path if isinstance(key, str))
                    self.links.setdefault((of, names, to), {}).setdefault(target, []).append(id)

    def _is(self, classes: tuple[str, ...], to: str, hierarchy: Mapping[str, set[str]]) -> bool:
        wanted = {to, self.schema.classes[to].iri if to in self.schema.classes else to}
        found, ahead = set[str](), list(classes)
        while ahead:
            name = ahead.pop()
            if name in wanted or last_word(name) == to:
                return True
            if name not in found:
                found.add(name)
                ahead.extend(hierarchy.get(name, ()))
        return False


def _id_of(value: Any) -> str | None:
    """The id that a link has; None of other values."""
    return value.id if isinstance(value, LinkValue) else value.get("@id") if isinstance(value, dict) else None


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _targets(one: Class) -> Iterator[tuple[Path, str]]:
    """Where links stand whose class is told."""
    for path, leaf in one.leaves().items():
        link = leaf.of if isinstance(leaf, Set) else leaf
        if isinstance(link, Link) and link.to is not None:
            yield path, link.to


def _under(leaves: Leaves, path: Path) -> str:
    """All that is known under a path, as text: two values with the same text are the same."""
    known = {leaf[len(path) :]: value for leaf, value in leaves.items() if leaf[: len(path)] == path}
    return ", ".join(f"{show_pattern(leaf)} {value}".strip() for leaf, value in known.items())
