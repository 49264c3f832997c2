"""What a schema refuses in a source that is learnt from, or completed, by it: a line for each property, before it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbdisk.entity import Entity, Path
    from kbdisk.schemas.schema import Misfit, Schema

SHOWN = 5  # properties that are told
ONE, SEVERAL = ("value", "does not fit", "it is"), ("values", "do not fit", "they are")


class Misfits:
    """The values of some entities that do not fit, counted as entities go by. What is ignored anyway is none of them."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.found: dict[tuple[str, Path], Counter[str]] = {}  # by class and path: what was expected

    def take(self, entity: Entity) -> None:
        """Another entity."""
        of = self.schema.class_of(entity)
        misfits: list[Misfit] = []
        for _ in self.schema.applied(of, entity, misfits) if of else ():
            pass
        for one in misfits:
            if of is not None and of.properties[one.path].role != "ignore":
                problems = self.found.setdefault((of.name, one.path), Counter())
                problems[one.problem.partition(", got ")[0]] += 1

    def keep(self, expected: str) -> None:
        """Forget all but the values of which this was expected."""
        found = {place: Counter({expected: problems[expected]}) for place, problems in self.found.items()}
        self.found = {place: problems for place, problems in found.items() if problems[expected]}

    def lines(self, source: str) -> Iterator[str]:
        """What to tell of a source: the worst first."""
        from kbdisk.entity import show

        told = sorted(self.found.items(), key=lambda one: -one[1].total())
        for (of, path), problems in told[:SHOWN]:
            count, [(expected, _)] = problems.total(), problems.most_common(1)
            name = show((of, *path)) if of and len(self.schema.classes) > 1 else show(path)
            value, fit, are = ONE if count == 1 else SEVERAL
            yield f"{source}: {count:,} {value} of {name} {fit} the schema ({expected}): {are} left out"
        if told[SHOWN:]:
            yield f"{source}: and values of {len(told) - SHOWN:,} more properties"
        if told:
            yield "kbdisk schema check tells all that does not fit"


def misfits(schema: Schema, entities: Iterable[Entity], source: str) -> Iterator[str]:
    """What to tell of entities that are all there."""
    found = Misfits(schema)
    for entity in entities:
        found.take(entity)
    return found.lines(source)


def too_large(schema: Schema, entities: Iterable[Entity], source: str) -> Iterator[str]:
    """What to tell where the schema was inferred, which fits all but a few values: numbers too large to compute with."""
    from kbdisk.schemas.leaf import TOO_LARGE

    found = Misfits(schema)
    for entity in entities:
        found.take(entity)
    found.keep(TOO_LARGE)
    return found.lines(source)
