"""Constraints on written values: those of the model's schema, and those of a shapes file.

    Consistency                                the constraints on the entities of a source; both stages of completing ask it
    excluded(schema_class, tree, proposals)    the proposals to leave out, each with the constraint that it would violate
    restriction(schema_class, tree, path)      the values that a single belief may have: an interval, labels

The values that an entity would get are proposals, and those of one gap belong together. Where they violate a constraint with the
given values or with each other, the surest are kept. Given values may violate constraints already: a proposal must not make such
violations worse. Values that were filled in for other entities in the same run count, too, so that unique values stay unique.
Nothing here needs a model: proposals are plain values with probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from kbdisk.completion.gaps import Gap
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Date, Entity, Filled, Path, Quantity, Tree, at, is_gap, show, with_values, without_places
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
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import last_word

State: TypeAlias = dict[tuple[int, Hashable], tuple[int, bool, str]]  # violations: degree, pending, what was got
NEED_OTHER_ENTITIES = ("unique", "inverse")  # kinds of constraints that need an index of other entities


@dataclass(frozen=True)
class _ConstrainedSchema:
    """A schema whose constraints hold, and the index of other entities that they need."""

    schema: Schema
    others: OtherEntities | None
    is_of_model: bool  # so that values of the kinds of its properties are predicted anyway


class Consistency:
    """The constraints on the entities of a source."""

    def __init__(self, schema: Schema, shapes: Schema | None, entities: Iterable[Entity]) -> None:
        self.missing = schema.missing
        self.hierarchy: Mapping[str, Collection[str]] = {}
        stated = [schema] if any(known.constraints for known in schema.classes.values()) else []
        if shapes is not None:
            stated.append(renamed(shapes, schema))
            self.hierarchy = hierarchy_of(entities)
        self.demands = [
            _ConstrainedSchema(
                constrained, self._others(constrained, entities, constrained is not schema), constrained is schema
            )
            for constrained in stated
        ]

    def _others(self, schema: Schema, entities: Iterable[Entity], links: bool) -> OtherEntities | None:
        """The index of other entities, where a constraint needs one; `links`: the classes of linked entities count."""
        constraints = (constraint for known in schema.classes.values() for constraint in known.constraints)
        needs = links or any(
            constraint.kind in NEED_OTHER_ENTITIES or constraint.where is not None for constraint in constraints
        )
        return OtherEntities.of(schema, entities, self.hierarchy) if needs else None

    def restrictions(self, entity: Entity, gaps: Iterable[Gap]) -> dict[Path, list[Restriction]]:
        """The values that the gaps of an entity may get beside its given values, by the paths of the gaps."""
        restrictions: dict[Path, list[Restriction]] = {}
        for demand in self.demands:
            for schema_class in self._classes(demand.schema, entity):
                for gap in gaps:
                    if gap.path == gap.field.top and gap.path in _restricted(demand, schema_class):
                        unit = getattr(gap.field.kind, "learnt_in", None)
                        class_restriction = self._restriction(demand, schema_class, entity, gap.path, unit)
                        restrictions.setdefault(gap.path, []).append(class_restriction)
        return restrictions

    def _restriction(
        self, demand: _ConstrainedSchema, schema_class: Class, entity: Entity, path: Path, unit: str | None
    ) -> Restriction:
        class_restriction = restriction(
            schema_class,
            entity.tree,
            path,
            unit=unit,
            missing=self.missing,
            id=demand.schema.id_of(entity),
            others=demand.others,
        )
        kind = schema_class.properties[path].kind if path in schema_class.properties else None
        if isinstance(kind, Number):  # a shapes file bounds numbers by their kind
            interval = class_restriction.interval or Interval()
            for bound, is_open, low in (
                (kind.minimum, False, True),
                (kind.above, True, True),
                (kind.maximum, False, False),
                (kind.below, True, False),
            ):
                if bound is not None:
                    interval = interval.above(bound, is_open) if low else interval.below(bound, is_open)
            return replace(class_restriction, interval=interval)
        if isinstance(kind, Category) and kind.closed:
            labels, allowed = frozenset(kind.values), class_restriction.allowed
            return replace(class_restriction, allowed=labels if allowed is None else allowed & labels)
        return class_restriction

    def refused(self, entity: Entity, filled: Mapping[Path, Filled]) -> dict[Path, str]:
        """The values that are not written for an entity, with the reasons. The others count for entities after it."""
        refused: dict[Path, str] = {}
        for demand in self.demands:
            for schema_class in self._classes(demand.schema, entity):
                remaining = {path: value for path, value in filled.items() if path not in refused}
                refused |= self._refused(demand, schema_class, entity, remaining)
        written = {path: value.value for path, value in filled.items() if path not in refused}
        for demand in self.demands if written else ():
            if demand.others is not None:
                for schema_class in self._classes(demand.schema, entity):
                    entity_id = demand.schema.id_of(entity)
                    demand.others.add(demand.schema, schema_class, entity_id, with_values(entity.tree, written))
        return refused

    def _refused(
        self, demand: _ConstrainedSchema, schema_class: Class, entity: Entity, filled: Mapping[Path, Filled]
    ) -> dict[Path, str]:
        if not filled:
            return {}
        paths = list(filled)
        proposals = [
            Proposal(path, value.value, 1.0 if value.confidence is None else value.confidence, _gap_of(path, value))
            for path, value in filled.items()
        ]
        tree = with_values(entity.tree, entity.made) if entity.made else entity.tree
        exclusions = excluded(
            schema_class, tree, proposals, missing=self.missing, id=demand.schema.id_of(entity), others=demand.others
        )
        return {paths[exclusion.index]: f"breaks a constraint: {exclusion.problem}" for exclusion in exclusions}

    def _classes(self, schema: Schema, entity: Entity) -> list[Class]:
        """All classes of a schema that an entity is of, their superclasses included."""
        names, ahead = dict.fromkeys(entity.classes), list(entity.classes)
        while ahead:
            for name in self.hierarchy.get(ahead.pop(), ()):
                if name not in names:
                    names[name] = None
                    ahead.append(name)
        single_class_entities = [replace(entity, classes=(name,)) for name in names] or [entity]
        classes = map(schema.class_of, single_class_entities)
        return list({id(known): known for known in classes if known is not None}.values())


def _restricted(demand: _ConstrainedSchema, schema_class: Class) -> set[Path]:
    """The properties of a class whose beliefs are restricted."""
    stated = {path for constraint in schema_class.constraints for path in (constraint.path, constraint.other) if path}
    return stated if demand.is_of_model else stated | set(schema_class.properties)


def _gap_of(path: Path, filled: Filled) -> Path:
    """The path of the gap that a value was filled for."""
    return getattr(filled.belief, "gap", path)


def renamed(shapes: Schema, schema: Schema) -> Schema:
    """Shapes whose properties have the paths of a schema's properties with the same IRIs."""
    paths = {
        known.iri: path
        for schema_class in schema.classes.values()
        for path, known in schema_class.properties.items()
        if known.iri
    }
    classes = {}
    for name, shape in shapes.classes.items():
        renamed_paths = {path: paths.get(known.iri or "", path) for path, known in shape.properties.items()}
        constraints = tuple(
            replace(
                constraint,
                path=renamed_paths.get(constraint.path, constraint.path),
                other=renamed_paths.get(constraint.other, constraint.other),
                allowed=tuple(renamed_paths.get(path, path) for path in constraint.allowed),
            )
            for constraint in shape.constraints
        )
        properties = {renamed_paths[path]: known for path, known in shape.properties.items()}
        classes[name] = replace(shape, properties=properties, constraints=constraints)
    return replace(shapes, classes=classes)


# ---------------------------------------------------------------- proposals


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
class OtherEntities:
    """An index of the other entities of a source for constraints: their classes, unique values and links."""

    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hierarchy: Mapping[str, Collection[str]] = field(default_factory=dict)
    owners: dict[tuple[str, Path, Hashable], str] = field(default_factory=dict)  # of the values of unique properties
    links: dict[Path, dict[str, set[str]]] = field(default_factory=dict)  # at paths that links go back by, by entity
    inverses: tuple[Constraint, ...] = ()  # of all classes
    linked_from: dict[Path, dict[str, set[str]]] = field(default_factory=dict)  # at paths with an inverse, by target

    @classmethod
    def of(
        cls, schema: Schema, entities: Iterable[Entity], hierarchy: Mapping[str, Collection[str]] | None = None
    ) -> OtherEntities:
        """The index of some entities by their given values alone. One pass."""
        all_constraints = (constraint for known in schema.classes.values() for constraint in known.constraints)
        inverses = (constraint for constraint in all_constraints if constraint.kind == "inverse")
        others = cls(hierarchy=hierarchy or {}, inverses=tuple(dict.fromkeys(inverses)))
        for entity in entities:
            schema_class = schema.class_of(entity)
            id = schema.id_of(entity)
            others.classes[id] = (*entity.classes, *([schema_class.name] if schema_class is not None else []))
            if schema_class is not None:
                others.add(schema, schema_class, id, entity.tree)
        return others

    def add(self, schema: Schema, schema_class: Class, id: str, tree: Tree) -> None:
        """Add the values of an entity: given ones, or those that were written."""
        view = View(schema_class.properties, tree, schema.missing, id=schema_class.id)
        for constraint in schema_class.constraints:
            if constraint.kind == "unique":
                for typed in view.values(constraint.path):
                    self.owners.setdefault((schema_class.name, constraint.path, typed.identity), id)
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
        visited: set[str] = set()
        while ahead:
            class_name = ahead.pop()
            if class_name == name or last_word(class_name) == name or last_word(name) == class_name:
                return True
            if class_name not in visited:
                visited.add(class_name)
                ahead.extend(self.hierarchy.get(class_name, ()))
        return False


def _ids(view: View, path: Path) -> set[str]:
    return {typed.value.id for typed in view.values(path) if isinstance(typed.value, LinkValue)}


# ---------------------------------------------------------------- excluding proposals


def excluded(
    schema_class: Class,
    tree: Tree,
    proposals: Sequence[Proposal],
    *,
    missing: Collection[str] = (),
    id: str = "",
    others: OtherEntities | None = None,
) -> list[Exclusion]:
    """The proposals to leave out, in their order, so that all constraints of the class hold together with the given values.

    `tree` has the given values, `missing` are the schema's spellings of a gap, `id` is the entity's. Without `others`
    the constraints `unique` and `inverse` and the classes of linked entities are not checked.
    """
    return _Search(schema_class, tree, proposals, missing, id, others).excluded()


class _Search:
    """Greedy search: groups of proposals are added one after the other, the surest first.

    A violation is pending where a further value may resolve it. Groups that leave one pending at the end are taken back.
    """

    def __init__(
        self,
        schema_class: Class,
        tree: Tree,
        proposals: Sequence[Proposal],
        missing: Collection[str],
        id: str,
        others: OtherEntities | None,
    ) -> None:
        self.schema_class, self.tree, self.proposals = schema_class, tree, proposals
        self.missing, self.id, self.others = missing, id, others
        groups: dict[Hashable, list[int]] = {}
        for n, proposal in enumerate(proposals):
            groups.setdefault(("alone", n) if proposal.group is None else ("group", proposal.group), []).append(n)
        probability = {key: prod(proposals[n].probability for n in members) for key, members in groups.items()}
        self.groups = [groups[key] for key in sorted(groups, key=lambda key: -probability[key])]
        inverses = others.inverses if others is not None else ()
        own_constraints = schema_class.constraints
        inverses_to_it = (
            inverse for inverse in inverses if inverse not in own_constraints and schema_class.has(inverse.other)
        )
        self.constraints = [*own_constraints, *inverses_to_it]
        self.given = self._state(tree)

    def excluded(self) -> list[Exclusion]:
        """The proposals to leave out."""
        banned: dict[int, Exclusion] = {}
        while True:
            out, kept = self._add_all(banned)
            pending = self._still_pending(kept)
            if pending is None:
                for group in self._restored(banned, kept):
                    for n in group:
                        del out[n]
                return [out[n] for n in sorted(out)]
            group, problem, constraint = pending
            banned |= {n: Exclusion(n, problem, constraint) for n in group}

    def _add_all(self, banned: Mapping[int, Exclusion]) -> tuple[dict[int, Exclusion], list[list[int]]]:
        """Add each group without violations that no further value could resolve."""
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

    def _restored(self, banned: Collection[int], kept: list[list[int]]) -> Iterable[list[int]]:
        """Groups that were taken back, and leave no violation pending beside those that are kept at the end."""
        for group in self.groups:
            if group[0] in banned:
                tree = self._tree_of(kept)
                reason, added = self._refused(tree, group)
                if reason is None and self._worse(self._state(tree), self._state(added), pending=True) is None:
                    kept.append(group)
                    yield group

    def _refused(self, tree: Tree, group: Sequence[int]) -> tuple[tuple[str, Constraint | None] | None, Tree]:
        """The reason why the properties themselves refuse a group, if any; and the tree with the group."""
        for n in group:
            proposal = self.proposals[n]
            head = next((path for path in _heads(proposal.path) if path in self.schema_class.properties), None)
            try:
                tree = _with(tree, proposal, None if head is None else self.schema_class.properties[head].kind)
            except ValueError as error:
                return (str(error), None), tree
            if head is None:
                continue
            property_, kind = self.schema_class.properties[head], self.schema_class.properties[head].kind
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
        view = View(self.schema_class.properties, tree, self.missing, id=self.schema_class.id)
        is_of: ClassTest | None = None if self.others is None else self.others.is_of
        state: State = {}
        for n, constraint in enumerate(self.constraints):
            touched = not constraint.path or any(path[0] in changed for path in constraint.paths)
            if before is not None and not touched:
                state |= {key: violation for key, violation in before.items() if key[0] == n}
                continue
            for violation in violations(constraint, view, is_of):
                state[n, violation.key] = (violation.degree, violation.pending, violation.got)
            if self.others is not None and constraint.kind in NEED_OTHER_ENTITIES:
                for key, got in self._with_others(constraint, view, self.others):
                    state[n, key] = (1, False, got)
            for key, missing in self._without_room(constraint, view):
                state[n, ("no room", key)] = (missing, False, "no room for it")
        return state

    def _with_others(self, constraint: Constraint, view: View, others: OtherEntities) -> Iterable[tuple[Hashable, str]]:
        """Values of other entities, and links that are not returned."""
        values = view.values(constraint.path)
        if constraint.kind == "unique":
            for typed in values:
                owner = others.owners.get((self.schema_class.name, constraint.path, typed.identity), self.id)
                if owner != self.id:
                    yield typed.identity, f"a value of {owner!r}"
            return
        for id in _ids(view, constraint.path) if constraint in self.schema_class.constraints else ():
            back = others.links.get(constraint.other, {}).get(id)
            if back and self.id not in back:
                yield id, f"{id!r}, which links to others"
        links = _ids(view, constraint.other)  # links of others to this entity
        for id in others.linked_from.get(constraint.path, {}).get(self.id, ()) if links else ():
            if id not in links:
                yield ("from", id), f"others than {id!r}, which links to it"

    def _without_room(self, constraint: Constraint, view: View) -> Iterable[tuple[Hashable, int]]:
        """Required values of a property that already has as many others as it may have."""
        needs = constraint.kind == "has_value" or (constraint.kind == "count" and constraint.least)
        max_count = _max_count(self.schema_class, constraint.path) if needs else None
        if max_count is None:
            return
        room = max_count - len(view.values(constraint.path))
        is_of: ClassTest | None = None if self.others is None else self.others.is_of
        lacking = sum(violation.degree for violation in violations(constraint, view, is_of) if violation.pending)
        if lacking > max(room, 0):
            yield constraint.path, lacking - max(room, 0)

    def _worse(self, before: State, after: State, pending: bool) -> tuple[str, Constraint] | None:
        """A violation that is worse than before, pending ones only with `pending`; None where there is none."""
        for key, (degree, is_pending, got) in after.items():
            if degree > before.get(key, (0, False, ""))[0] and (pending or not is_pending):
                constraint = self.constraints[key[0]]
                return problem_of(constraint, got), constraint
        return None

    def _still_pending(self, kept: list[list[int]]) -> tuple[list[int], str, Constraint] | None:
        """The least sure group with a pending violation, and the violation; None where there is none."""
        state = self._state(self._tree_of(kept))
        reason = self._worse(self.given, state, pending=True)
        if reason is None:
            return None
        for group in reversed(kept):  # without it violations are fewer
            reduced_state = self._state(self._tree_of([kept_group for kept_group in kept if kept_group is not group]))
            if self._amount(reduced_state) < self._amount(state):
                return group, *reason
        return kept[-1], *reason

    def _amount(self, state: State) -> int:
        return sum(max(degree - self.given.get(key, (0, False, ""))[0], 0) for key, (degree, _, _) in state.items())

    def _tree_of(self, groups: Iterable[Sequence[int]]) -> Tree:
        tree = self.tree
        for group in groups:
            for n in group:
                head = next(
                    (path for path in _heads(self.proposals[n].path) if path in self.schema_class.properties), None
                )
                tree = _with(tree, self.proposals[n], None if head is None else self.schema_class.properties[head].kind)
        return tree


def _heads(path: Path) -> Iterable[Path]:
    """The paths of names that a path goes through, the longest first."""
    names = without_places(path)
    return (names[:n] for n in range(len(names), 0, -1))


def _max_count(schema_class: Class, path: Path) -> int | None:
    """The largest number of values at a path; None where there is no limit, or it is not known."""
    property_ = schema_class.properties.get(path)
    limits = [
        constraint.most
        for constraint in schema_class.constraints
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
    """A copy of a tree with a proposed value beside those that stand at its path."""
    path, value = proposal.path, proposal.value
    try:
        standing = at(tree, path)
    except KeyError:
        standing = None
    if standing is None or is_gap(standing) or standing in ("", []):
        is_member = isinstance(kind, Set) and not isinstance(value, list) and path == without_places(path)
        return with_values(tree, {path: [value] if is_member else value})
    if isinstance(standing, dict) or (
        isinstance(standing, Quantity) and standing.value is not None and not _has_several_values(kind)
    ):
        raise ValueError(f"expected a gap at {show(path)}, got {standing!r}")
    given = standing if isinstance(standing, list) else [standing]
    known = {identity(element) for element in given}
    new_elements = [
        element for element in (value if isinstance(value, list) else [value]) if identity(element) not in known
    ]
    return with_values(tree, {path: [*given, *new_elements]}) if new_elements else tree


def _has_several_values(kind: Any) -> bool:
    return isinstance(kind, Set | Listed)


# ---------------------------------------------------------------- restrictions of a single belief


@dataclass(frozen=True)
class Interval:
    """An interval from low to high. None is unbounded; an open end is not part of the interval."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def above(self, bound: Any, is_open: bool) -> Interval:
        """The part of the interval above a bound."""
        if self.low is not None:
            known = order(self.low, bound)
            if known is Order.GREATER or (known is not Order.LESS and (self.low_open or not is_open)):
                return self
        return replace(self, low=bound, low_open=is_open)

    def below(self, bound: Any, is_open: bool) -> Interval:
        """The part of the interval below a bound."""
        if self.high is not None:
            known = order(self.high, bound)
            if known is Order.LESS or (known is not Order.GREATER and (self.high_open or not is_open)):
                return self
        return replace(self, high=bound, high_open=is_open)

    @property
    def is_empty(self) -> bool:
        """Whether the interval certainly contains no value."""
        if self.low is None or self.high is None:
            return False
        known = order(self.low, self.high)
        return known is Order.GREATER or (known is Order.EQUAL and (self.low_open or self.high_open))

    def contains(self, value: Any) -> bool:
        """Whether the interval contains a value, or may contain it."""
        low = Order.GREATER if self.low is None else order(value, self.low)
        high = Order.LESS if self.high is None else order(value, self.high)
        return (low in (Order.GREATER, Order.UNCERTAIN) or (low is Order.EQUAL and not self.low_open)) and (
            high in (Order.LESS, Order.UNCERTAIN) or (high is Order.EQUAL and not self.high_open)
        )


@dataclass(frozen=True)
class Restriction:
    """The restriction of a belief by the entity's other values. The defaults restrict nothing.

    `interval` is of numbers, of amounts in `unit`, or of dates. Labels and links are plain or Link values: they must be
    among `allowed` where that is not None, and not among `forbidden`. `admits` checks a value against all constraints,
    including patterns and classes.
    """

    interval: Interval | None = None
    unit: str | None = None
    allowed: frozenset[Any] | None = None
    forbidden: frozenset[Any] = frozenset()
    admits: Callable[[Any], bool] = lambda value: True


def restriction(
    schema_class: Class,
    tree: Tree,
    path: Path,
    *,
    unit: str | None = None,
    missing: Collection[str] = (),
    id: str = "",
    others: OtherEntities | None = None,
) -> Restriction:
    """The values that may stand at a path of the class, together with the given values in `tree`.

    The bounds of the property's own kind are not part of it. Amounts are in `unit`, else in the main unit of the kind.
    """
    search = _Search(schema_class, tree, (), missing, id, others)
    view = View(schema_class.properties, tree, missing, id=schema_class.id)
    kind = item_kind(schema_class.properties[path].kind) if path in schema_class.properties else None
    unit = unit or getattr(kind, "unit", None)
    interval = _interval(schema_class, view, path, kind, unit)
    allowed: set[Any] | None = None
    forbidden: set[Any] = set()
    for constraint in schema_class.constraints:
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
            max_count = _max_count(schema_class, path)
            if max_count is not None and lacking and max_count - len(view.values(path)) <= len(lacking):
                allowed = lacking if allowed is None else allowed & lacking

    def admits(value: Any) -> bool:
        if allowed is not None and _plain(value) not in allowed:
            return False
        proposals = [Proposal(path, value)]
        again = _Search(schema_class, tree, proposals, missing, id, others)
        reason, added = again._refused(tree, [0])
        return reason is None and again._worse(search.given, again._state(added), pending=False) is None

    is_bounded = interval != Interval()
    fixed = None if allowed is None else frozenset(allowed)
    return Restriction(
        interval if is_bounded else None, unit if is_bounded else None, fixed, frozenset(forbidden), admits
    )


def _plain(value: Any) -> Any:
    """A hashable value: the value itself, or its identity."""
    try:
        hash(value)
    except TypeError:
        return identity(value)
    return value


def _interval(schema_class: Class, view: View, path: Path, kind: Any, unit: str | None) -> Interval:
    """The interval of numbers, amounts or dates that the constraints allow."""
    interval = Interval()
    for constraint in schema_class.constraints:
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


def _bound(value: Any, value_kind: Any, kind: Any, unit: str | None, rounding: str = ROUND_HALF_EVEN) -> Any:
    """A value as a bound: a number, an amount in the unit, a date; None where it has no order with the values of the kind."""
    if isinstance(value, Date):
        return value if value.year is not None else None
    if numerals.is_number(value):
        return value if unit is None else None
    if not isinstance(value, Quantity) or unit is None:
        return None
    amount, unit_amount = amount_of(value, value_kind), amount_of(Quantity(1, unit), kind)
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


def _number(exact: Fraction, rounding: str) -> int | Decimal:
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
