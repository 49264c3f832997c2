"""Which predicted values have to be left out so that the constraints of a class hold, together with what is given.

    excluded(of, tree, proposals)     the proposals to leave out, each with the constraint that it would violate
    restriction(of, tree, path)       what a single belief may be: an interval of numbers or dates, labels

Given values may violate constraints already: a proposal must not make such violations worse. The surest
proposal has the first choice. Proposals of one group, such as the parts of an address, are kept or left out together.
Nothing here needs a model: proposals are plain values with probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from kbdisk.entity import Date, Entity, Path, Quantity, Tree, at, is_gap, show, with_values, without_places
from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.comparison import Order, amount_of, identity, number_as, order
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.constraints import (
    ClassTest,
    Constraint,
    View,
    item_kind,
    problem_of,
    violations,
)
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import last_word

Number: TypeAlias = int | float | Decimal
State: TypeAlias = dict[tuple[int, Hashable], tuple[int, bool, str]]  # violations: degree, pending, what was got
OTHER_ENTITIES = ("unique", "inverse")  # kinds of constraints that need an index of them


@dataclass(frozen=True)
class Proposal:
    """A value that could be written at a path. Several values of a property are several proposals, or a list as one.

    A path with a place, such as prizes[0].share, is of a part of a list. Proposals with the same group, other than None,
    belong together.
    """

    path: Path
    value: Any
    probability: float = 1.0
    group: Hashable = None


@dataclass(frozen=True)
class Exclusion:
    """A proposal that is left out: its place among the proposals, and the reason as `expected ..., got ...`."""

    index: int
    problem: str
    constraint: Constraint | None = None  # None: the property itself refuses it


# ---------------------------------------------------------------- other entities


@dataclass
class Others:
    """What constraints need to know of the other entities of a source: classes, unique values, links."""

    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hierarchy: Mapping[str, Collection[str]] = field(default_factory=dict)
    owners: dict[tuple[str, Path, Hashable], str] = field(default_factory=dict)  # of the values of unique properties
    links: dict[Path, dict[str, set[str]]] = field(default_factory=dict)  # at paths that links go back by, by entity
    inverses: tuple[Constraint, ...] = ()  # of all classes
    linked_from: dict[Path, dict[str, set[str]]] = field(default_factory=dict)  # at paths with an inverse, by target

    @classmethod
    def of(
        cls, schema: Schema, entities: Iterable[Entity], hierarchy: Mapping[str, Collection[str]] | None = None
    ) -> Others:
        """The index of some entities, given values alone. One pass."""
        of_all = (constraint for of in schema.classes.values() for constraint in of.constraints)
        inverses = (constraint for constraint in of_all if constraint.kind == "inverse")
        others = cls(hierarchy=hierarchy or {}, inverses=tuple(dict.fromkeys(inverses)))
        for entity in entities:
            of = schema.class_of(entity)
            id = schema.id_of(entity)
            others.classes[id] = (*entity.classes, *([of.name] if of is not None else []))
            if of is not None:
                others.add(schema, of, id, entity.tree)
        return others

    def add(self, schema: Schema, of: Class, id: str, tree: Tree) -> None:
        """What an entity has: given values, or values that were written."""
        view = View(of.properties, tree, schema.missing, id=of.id)
        for constraint in of.constraints:
            if constraint.kind == "unique":
                for typed in view.values(constraint.path):
                    self.owners.setdefault((of.name, constraint.path, typed.identity), id)
            elif constraint.kind == "inverse":
                for target in _ids(view, constraint.path):
                    self.linked_from.setdefault(constraint.path, {}).setdefault(target, set()).add(id)
        for path in {constraint.other for constraint in self.inverses}:
            if ids := _ids(view, path):
                self.links.setdefault(path, {}).setdefault(id, set()).update(ids)

    def is_of(self, id: str, name: str) -> bool | None:
        """Whether an entity is of a class; None where the source does not have the entity, or not its class."""
        ahead = list(self.classes.get(id, ()))
        if not any(ahead):
            return None
        seen: set[str] = set()
        while ahead:
            class_name = ahead.pop()
            if class_name == name or last_word(class_name) == name or last_word(name) == class_name:
                return True
            if class_name not in seen:
                seen.add(class_name)
                ahead.extend(self.hierarchy.get(class_name, ()))
        return False


def _ids(view: View, path: Path) -> set[str]:
    return {typed.value.id for typed in view.values(path) if isinstance(typed.value, LinkValue)}


# ---------------------------------------------------------------- which proposals to leave out


def excluded(
    of: Class,
    tree: Tree,
    proposals: Sequence[Proposal],
    *,
    missing: Collection[str] = (),
    id: str = "",
    others: Others | None = None,
) -> list[Exclusion]:
    """The proposals to leave out, in their order, so that all constraints of the class hold together with the given values.

    `tree` has the given values, `missing` are the schema's spellings of a gap, `id` is the entity's. Without `others`
    nothing is known of other entities: `unique`, `inverse` and the classes of linked entities are not checked.
    """
    return _Search(of, tree, proposals, missing, id, others).excluded()


class _Search:
    """Groups are added one after the other, the surest first; those that leave something open are taken back."""

    def __init__(
        self,
        of: Class,
        tree: Tree,
        proposals: Sequence[Proposal],
        missing: Collection[str],
        id: str,
        others: Others | None,
    ) -> None:
        self.of, self.tree, self.proposals = of, tree, proposals
        self.missing, self.id, self.others = missing, id, others
        groups: dict[Hashable, list[int]] = {}
        for n, proposal in enumerate(proposals):
            groups.setdefault(("alone", n) if proposal.group is None else ("group", proposal.group), []).append(n)
        sure = {key: prod(proposals[n].probability for n in members) for key, members in groups.items()}
        self.groups = [groups[key] for key in sorted(groups, key=lambda key: -sure[key])]
        inverses = others.inverses if others is not None else ()
        own = of.constraints
        self.constraints = [*own, *(back for back in inverses if back not in own and of.has(back.other))]
        self.given = self._state(tree)

    def excluded(self) -> list[Exclusion]:
        """What is left out at last."""
        banned: dict[int, Exclusion] = {}
        while True:
            out, kept = self._add_all(banned)
            unmended = self._still_open(kept)
            if unmended is None:
                for group in self._mended(banned, kept):
                    for n in group:
                        del out[n]
                return [out[n] for n in sorted(out)]
            group, problem, constraint = unmended
            banned |= {n: Exclusion(n, problem, constraint) for n in group}

    def _add_all(self, banned: Mapping[int, Exclusion]) -> tuple[dict[int, Exclusion], list[list[int]]]:
        """Add each group that violates nothing that no further value could mend."""
        out, kept = dict(banned), list[list[int]]()
        tree, state = self.tree, self.given
        for group in self.groups:
            if group[0] in banned:
                continue
            reason, added = self._refused(tree, group)
            if reason is None:
                after = self._state(added, state, {self.proposals[n].path[0] for n in group})
                reason = self._worse(state, after, pending=False)
                if reason is None:
                    tree, state = added, after
                    kept.append(group)
                    continue
            out |= {n: Exclusion(n, *reason) for n in group}
        return out, kept

    def _mended(self, banned: Collection[int], kept: list[list[int]]) -> Iterable[list[int]]:
        """Groups that were taken back, and leave nothing open beside those that are kept at last."""
        for group in self.groups:
            if group[0] in banned:
                tree = self._tree_of(kept)
                reason, added = self._refused(tree, group)
                if reason is None and self._worse(self._state(tree), self._state(added), pending=True) is None:
                    kept.append(group)
                    yield group

    def _refused(self, tree: Tree, group: Sequence[int]) -> tuple[tuple[str, Constraint | None] | None, Tree]:
        """Why the properties themselves refuse a group; the tree with it."""
        for n in group:
            proposal = self.proposals[n]
            head = next((path for path in _heads(proposal.path) if path in self.of.properties), None)
            try:
                tree = _with(tree, proposal, None if head is None else self.of.properties[head].kind)
            except ValueError as error:
                return (str(error), None), tree
            if head is None:
                continue
            property_, kind = self.of.properties[head], self.of.properties[head].kind
            values = View({head: property_}, tree, self.missing).values(head)
            if not isinstance(kind, Set | Listed | Mapped) and len(values) > 1:
                return (f"expected one value at {show(head)}, got {len(values)}", None), tree
            if isinstance(kind, Set) and kind.most is not None and len(values) > kind.most:
                return (f"expected at most {kind.most} values at {show(head)}, got {len(values)}", None), tree
            if head == without_places(proposal.path) and not isinstance(kind, Listed | Mapped):
                try:
                    for value in proposal.value if isinstance(proposal.value, list) else [proposal.value]:
                        values = View({head: property_}, _nested(head, value), self.missing).values(head)
                        for typed in values:
                            _check(item_kind(kind), typed.value)
                except ValueError as error:
                    return (f"{show(head)}: {error}", None), tree
        return None, tree

    def _state(self, tree: Tree, before: State | None = None, changed: Collection[str | int] = ()) -> State:
        """All violations; those of constraints on other properties than the changed ones are as before."""
        view = View(self.of.properties, tree, self.missing, id=self.of.id)
        is_of: ClassTest | None = None if self.others is None else self.others.is_of
        state: State = {}
        for n, constraint in enumerate(self.constraints):
            touched = not constraint.path or any(path[0] in changed for path in constraint.paths)
            if before is not None and not touched:
                state |= {key: violation for key, violation in before.items() if key[0] == n}
                continue
            for violation in violations(constraint, view, is_of):
                state[n, violation.key] = (violation.degree, violation.pending, violation.got)
            if self.others is not None and constraint.kind in OTHER_ENTITIES:
                for key, got in self._with_others(constraint, view, self.others):
                    state[n, key] = (1, False, got)
            for key, missing in self._without_room(constraint, view):
                state[n, ("no room", key)] = (missing, False, "no room for it")
        return state

    def _with_others(self, constraint: Constraint, view: View, others: Others) -> Iterable[tuple[Hashable, str]]:
        """Values of other entities, and links that are not returned."""
        values = view.values(constraint.path)
        if constraint.kind == "unique":
            for typed in values:
                owner = others.owners.get((self.of.name, constraint.path, typed.identity), self.id)
                if owner != self.id:
                    yield typed.identity, f"a value of {owner!r}"
            return
        for id in _ids(view, constraint.path) if constraint in self.of.constraints else ():
            back = others.links.get(constraint.other, {}).get(id)
            if back and self.id not in back:
                yield id, f"{id!r}, which links to others"
        links = _ids(view, constraint.other)  # links of others to this entity
        for id in others.linked_from.get(constraint.path, {}).get(self.id, ()) if links else ():
            if id not in links:
                yield ("from", id), f"others than {id!r}, which links to it"

    def _without_room(self, constraint: Constraint, view: View) -> Iterable[tuple[Hashable, int]]:
        """Values that must be there, of a property that already has as many others as it may have."""
        needs = constraint.kind == "has_value" or (constraint.kind == "count" and constraint.least)
        most = _most(self.of, constraint.path) if needs else None
        if most is None:
            return
        room = most - len(view.values(constraint.path))
        is_of: ClassTest | None = None if self.others is None else self.others.is_of
        lacking = sum(violation.degree for violation in violations(constraint, view, is_of) if violation.pending)
        if lacking > max(room, 0):
            yield constraint.path, lacking - max(room, 0)

    def _worse(self, before: State, after: State, pending: bool) -> tuple[str, Constraint] | None:
        """A violation that there is more of than before; of those that further values may mend only where asked for."""
        for key, (degree, is_pending, got) in after.items():
            if degree > before.get(key, (0, False, ""))[0] and (pending or not is_pending):
                constraint = self.constraints[key[0]]
                return problem_of(constraint, got), constraint
        return None

    def _still_open(self, kept: list[list[int]]) -> tuple[list[int], str, Constraint] | None:
        """The least sure group that a violation comes from which nothing mended; None where there is none."""
        whole = self._state(self._tree_of(kept))
        reason = self._worse(self.given, whole, pending=True)
        if reason is None:
            return None
        for group in reversed(kept):  # without it there is less of what is wrong
            rest = self._state(self._tree_of([other for other in kept if other is not group]))
            if self._amount(rest) < self._amount(whole):
                return group, *reason
        return kept[-1], *reason

    def _amount(self, state: State) -> int:
        return sum(max(degree - self.given.get(key, (0, False, ""))[0], 0) for key, (degree, _, _) in state.items())

    def _tree_of(self, groups: Iterable[Sequence[int]]) -> Tree:
        tree = self.tree
        for group in groups:
            for n in group:
                head = next((path for path in _heads(self.proposals[n].path) if path in self.of.properties), None)
                tree = _with(tree, self.proposals[n], None if head is None else self.of.properties[head].kind)
        return tree


def _heads(path: Path) -> Iterable[Path]:
    """The paths of names that a path goes through, the longest first."""
    names = without_places(path)
    return (names[:n] for n in range(len(names), 0, -1))


def _most(of: Class, path: Path) -> int | None:
    """How many values there may be at a path; None where there is no limit, or it is not known."""
    property_ = of.properties.get(path)
    limits = [
        constraint.most
        for constraint in of.constraints
        if constraint.kind == "count" and constraint.path == path and constraint.where is None
    ]
    if property_ is not None and not isinstance(property_.kind, Listed | Mapped):
        limits.append(property_.kind.most if isinstance(property_.kind, Set) else 1)
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _check(kind: Any, value: Any) -> None:
    """Refuse a value that does not fit its kind."""
    check = getattr(kind, "check", None)
    if check is not None:
        check(value)
    else:
        kind.apply(value)


def _nested(path: Path, value: Any) -> Tree:
    return with_values({}, {path: value})


def _with(tree: Tree, proposal: Proposal, kind: Any) -> Tree:
    """A copy of a tree with a proposed value, beside those that stand there."""
    path, value = proposal.path, proposal.value
    try:
        here = at(tree, path)
    except KeyError:
        here = None
    if here is None or is_gap(here) or here in ("", []):
        several = isinstance(kind, Set) and not isinstance(value, list) and path == without_places(path)
        return with_values(tree, {path: [value] if several else value})
    if isinstance(here, dict) or (isinstance(here, Quantity) and here.value is not None and not _is_several(kind)):
        raise ValueError(f"expected a gap at {show(path)}, got {here!r}")
    given = here if isinstance(here, list) else [here]
    known = {identity(element) for element in given}
    new = [element for element in (value if isinstance(value, list) else [value]) if identity(element) not in known]
    return with_values(tree, {path: [*given, *new]}) if new else tree


def _is_several(kind: Any) -> bool:
    return isinstance(kind, Set | Listed)


# ---------------------------------------------------------------- what a single belief may be


@dataclass(frozen=True)
class Interval:
    """From low to high; an end that is None is unbounded, one that is open is not reached itself."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def above(self, bound: Any, is_open: bool) -> Interval:
        """Its part from a bound."""
        if self.low is not None:
            known = order(self.low, bound)
            if known is Order.GREATER or (known is not Order.LESS and (self.low_open or not is_open)):
                return self
        return replace(self, low=bound, low_open=is_open)

    def below(self, bound: Any, is_open: bool) -> Interval:
        """Its part up to a bound."""
        if self.high is not None:
            known = order(self.high, bound)
            if known is Order.LESS or (known is not Order.GREATER and (self.high_open or not is_open)):
                return self
        return replace(self, high=bound, high_open=is_open)

    @property
    def is_empty(self) -> bool:
        """Whether no value lies in it for certain."""
        if self.low is None or self.high is None:
            return False
        known = order(self.low, self.high)
        return known is Order.GREATER or (known is Order.EQUAL and (self.low_open or self.high_open))

    def contains(self, value: Any) -> bool:
        """Whether a value lies in it, or may lie in it."""
        low = Order.GREATER if self.low is None else order(value, self.low)
        high = Order.LESS if self.high is None else order(value, self.high)
        return (low in (Order.GREATER, Order.UNCERTAIN) or (low is Order.EQUAL and not self.low_open)) and (
            high in (Order.LESS, Order.UNCERTAIN) or (high is Order.EQUAL and not self.high_open)
        )


@dataclass(frozen=True)
class Restriction:
    """What a single value at a path may be, by the entity's other values. None of these where nothing restricts it.

    `interval` is of numbers, of amounts in `unit`, or of dates. Labels and links are plain or Link values: they must be
    among `allowed` where that is not None, and not among `forbidden`. `admits` asks all at once, patterns and classes too.
    """

    interval: Interval | None = None
    unit: str | None = None
    allowed: frozenset[Any] | None = None
    forbidden: frozenset[Any] = frozenset()
    admits: Callable[[Any], bool] = lambda value: True


def restriction(
    of: Class,
    tree: Tree,
    path: Path,
    *,
    unit: str | None = None,
    missing: Collection[str] = (),
    id: str = "",
    others: Others | None = None,
) -> Restriction:
    """What a value at a path of the class may be, together with the given values in `tree`.

    The bounds of the property's own kind are not part of it. Amounts are in `unit`, else in the main unit of the kind.
    """
    search = _Search(of, tree, (), missing, id, others)
    view = View(of.properties, tree, missing, id=of.id)
    kind = item_kind(of.properties[path].kind) if path in of.properties else None
    unit = unit or getattr(kind, "unit", None)
    interval = _interval(of, view, path, kind, unit)
    allowed: set[Any] | None = None
    forbidden: set[Any] = set()
    for constraint in of.constraints:
        if path not in constraint.paths:
            continue
        other = constraint.other if constraint.path == path else constraint.path
        beside = {_plain(typed.value) for typed in view.values(other)} if other else set()
        if constraint.kind == "disjoint":
            forbidden |= beside
        elif constraint.kind == "equals" and beside:
            allowed = beside if allowed is None else allowed & beside
        elif constraint.kind == "values" and constraint.where is not None and constraint.where.values:
            values = {_plain(view.read(path, value).value) for value in constraint.where.values}
            allowed = values if allowed is None else allowed & values
        elif constraint.kind == "has_value":
            lacking = {_plain(typed.value) for value in constraint.values if (typed := view.read(path, value))}
            lacking -= {_plain(typed.value) for typed in view.values(path)}
            most = _most(of, path)
            if most is not None and lacking and most - len(view.values(path)) <= len(lacking):
                allowed = lacking if allowed is None else allowed & lacking

    def admits(value: Any) -> bool:
        if allowed is not None and _plain(value) not in allowed:
            return False
        proposals = [Proposal(path, value)]
        again = _Search(of, tree, proposals, missing, id, others)
        reason, added = again._refused(tree, [0])
        return reason is None and again._worse(search.given, again._state(added), pending=False) is None

    is_bounded = interval != Interval()
    fixed = None if allowed is None else frozenset(allowed)
    return Restriction(
        interval if is_bounded else None, unit if is_bounded else None, fixed, frozenset(forbidden), admits
    )


def _plain(value: Any) -> Any:
    """A value that is hashable: what cannot be is its key."""
    try:
        hash(value)
    except TypeError:
        return identity(value)
    return value


def _interval(of: Class, view: View, path: Path, kind: Any, unit: str | None) -> Interval:
    """The numbers, amounts or dates that the constraints leave."""
    interval = Interval()
    for constraint in of.constraints:
        if constraint.kind in ("less_than", "less_than_or_equals") and path in constraint.paths:
            is_open = constraint.kind == "less_than"
            is_lower = constraint.path == path
            for typed in view.values(constraint.other if is_lower else constraint.path):
                bound = _bound(typed.value, typed.kind, kind, unit, ROUND_FLOOR if is_lower else ROUND_CEILING)
                if bound is not None:
                    interval = interval.below(bound, is_open) if is_lower else interval.above(bound, is_open)
        elif constraint.kind == "equals" and path in constraint.paths:
            others = view.values(constraint.other if constraint.path == path else constraint.path)
            bounds = [bound for typed in others if (bound := _bound(typed.value, typed.kind, kind, unit)) is not None]
            if len(bounds) == 1:
                interval = interval.above(bounds[0], False).below(bounds[0], False)
        elif constraint.kind == "values" and path == constraint.path and constraint.where is not None:
            where = constraint.where
            like = Quantity(None, unit) if unit is not None else Date() if _is_of_dates(kind) else None
            for limit, is_open, low in (
                (where.minimum, False, True),
                (where.above, True, True),
                (where.maximum, False, False),
                (where.below, True, False),
            ):
                value = limit if limit is None or isinstance(limit, Date) else number_as(limit, like, kind)
                rounding = ROUND_CEILING if low else ROUND_FLOOR
                bound = None if value is None else _bound(value, kind, kind, unit, rounding)
                if bound is not None:
                    interval = interval.above(bound, is_open) if low else interval.below(bound, is_open)
    return interval


def _is_of_dates(kind: Any) -> bool:
    return type(kind).__name__ == "Date"


def _bound(value: Any, own: Any, kind: Any, unit: str | None, rounding: str = ROUND_HALF_EVEN) -> Any:
    """A value as a bound: a number, an amount in the unit, a date; None of what has no order with it."""
    if isinstance(value, Date):
        return value if value.year is not None else None
    if numerals.is_number(value):
        return value if unit is None else None
    if not isinstance(value, Quantity) or unit is None:
        return None
    amount, unit_amount = amount_of(value, own), amount_of(Quantity(1, unit), kind)
    zero = amount_of(Quantity(0, unit), kind)
    if (
        amount is None
        or unit_amount is None
        or zero is None
        or amount.measures != unit_amount.measures
        or unit_amount.value == zero.value
    ):
        return None
    exact = (amount.value - zero.value) / (unit_amount.value - zero.value)
    return _number(exact, rounding)


def _number(exact: Fraction, rounding: str) -> Number:
    """A fraction as a whole number or a decimal; rounded to 50 digits where it has no end."""
    if exact.denominator == 1:
        return exact.numerator
    with localcontext(prec=50, rounding=rounding):
        return Decimal(exact.numerator) / Decimal(exact.denominator)


def years_of(interval: Interval) -> tuple[int | None, int | None]:
    """The first and the last year of an interval of dates, for a belief of years."""
    low, high = interval.low, interval.high
    first = None if low is None else low.year if isinstance(low, Date) else int(low)
    last = None if high is None else high.year if isinstance(high, Date) else int(high)
    return first, last


__all__ = [
    "Exclusion", "Interval", "Others", "Proposal", "Restriction", "excluded", "restriction", "years_of",
]  # fmt: skip
