"""What must hold of all entities together: no value twice, links to the right class, one thing a function of others.

Memory grows with the entities, but only for the classes that ask for such a thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbdisk.entity import Entity, Path, show
from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.composites import EACH, show_pattern
from kbdisk.schemas.iris import last_word
from kbdisk.schemas.leaf import Link, Set
from kbdisk.schemas.schema import Class, Misfit, Schema

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
        self.linking = any(self.targets.values())
        self.asking = {
            name: [(path, each) for path, each in one.properties.items() if each.unique or each.depends]
            for name, one in schema.classes.items()
        }

    def take(self, entity: Entity, of: Class | None) -> Iterator[Misfit]:
        """One entity, and what of it does not fit with those before; of no class, it may still be linked to."""
        if self.linking:
            names = (*entity.classes, of.name) if of else entity.classes
            self.classes[entity.id] = self.same.setdefault(names, names)
        if of is None or not (self.asking[of.name] or self.targets[of.name]):
            return iter(())
        leaves = self.schema.leaves(entity, ignored=True)  # an id is ignored, and must be unique all the same
        self._linked(of.name, entity.id, leaves)
        return self._not_alone(of.name, entity.id, leaves)

    def at_the_end(self, hierarchy: Mapping[str, set[str]]) -> Iterator[tuple[str, Misfit, str]]:
        """Links to entities of another class: the class that links, the misfit, the id of the entity that links."""
        for (of, path, to), linked in self.links.items():
            for target, origins in linked.items():
                classes = self.classes.get(target)
                if classes and any(classes) and not self._is(classes, to, hierarchy):
                    got = ", ".join(dict.fromkeys(map(last_word, classes)))
                    problem = f"expected a link to {to}, got {target!r}, which is {got}"
                    yield from ((of, Misfit(path, problem), origin) for origin in origins)

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
