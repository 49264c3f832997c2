"""Constraints of a class, on several values together, such as `born <= died`.

A constraint has a kind (a row of KINDS), a path, and the further fields of its kind. A condition on a single value of a
single property (its kind, bounds, labels, length, language) is part of the property; constraints are all others.
`violations` finds those by an entity's own values. The kinds `unique` and `inverse` need other entities:
`kbdisk.schemas.validate` checks them.

A path that lies in a list of parts is about each part by itself: `prizes.from <= prizes.to` compares within a prize.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from kbdisk.entity import NOVALUE, Coordinate, Date, Known, Path, Quantity, Text, Tree, Value, is_gap, read_path, show
from kbdisk.entity import Link as LinkValue
from kbdisk.schemas.comparison import Order, identity, number_as, order
from kbdisk.schemas.composites.base import Kind, apply_kind, is_node
from kbdisk.schemas.composites.coordinate import Coordinate as CoordinateKind
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.kinds import KINDS as LEAVES
from kbdisk.schemas.kinds import Link, Number, Set
from kbdisk.schemas.kinds import Text as TextKind
from kbdisk.schemas.property import Property, apply_property
from kbdisk.schemas.text import dates, numerals

Bound: TypeAlias = int | float | Decimal | Date
ClassTest: TypeAlias = Callable[[str, str], bool | None]  # whether an entity, by its id, is of a class; None: not known
NodeKind: TypeAlias = Literal["iri", "blank", "literal"]

FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE}  # of SPARQL's REGEX
NODE_KINDS: tuple[NodeKind, ...] = ("iri", "blank", "literal")
COMPOSITE_VALUES = {DateKind: Date, QuantityKind: Quantity, CoordinateKind: Coordinate}
MAX_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True)
class ValueShape:
    """A condition on a single value: SHACL's value constraints. A field that is not set holds of every value."""

    kind: Kind | None = None  # the value fits it as it stands: "5" is no number
    classes: tuple[str, ...] = ()  # it is a link to an entity of each of these
    values: tuple[Value, ...] = ()  # it is one of these
    nodes: tuple[NodeKind, ...] = ()
    pattern: str = ""  # a regular expression that is found in it, as in SPARQL
    flags: str = ""
    min_length: int = 0
    max_length: int | None = None
    languages: tuple[str, ...] = ()  # it is a text in one of these: `en` takes `en-GB`, too
    minimum: Bound | None = None
    maximum: Bound | None = None
    above: Bound | None = None
    below: Bound | None = None

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum", "above", "below"):
            bound = getattr(self, name)
            if isinstance(bound, Date) and bound == Date(bound.year):
                object.__setattr__(self, name, bound.year)
        if isinstance(self.kind, Set | Listed | Mapped):
            raise ValueError("expected a kind of one value, got one of several")
        unknown = [flag for flag in self.flags if flag not in FLAGS]
        if unknown:
            raise ValueError(f"expected flags of {' '.join(FLAGS)}, got {unknown[0]!r}")
        if self.pattern:
            compiled(self.pattern, self.flags)
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(
                f"expected a max_length of at least the min_length, {self.min_length}, got {self.max_length}"
            )

    @property
    def text(self) -> str:
        """The shape in few words."""
        bound_words = {"minimum": "at least", "maximum": "at most", "above": "above", "below": "below"}
        parts = [kind_name(self.kind)] if self.kind is not None else []
        parts += [f"of class {' and '.join(self.classes)}"] if self.classes else []
        parts += [f"one of {', '.join(map(shown, self.values))}"] if self.values else []
        parts += [" or ".join(self.nodes)] if self.nodes else []
        parts += [f"matching {self.pattern!r}"] if self.pattern else []
        parts += [f"of at least {self.min_length} characters"] if self.min_length else []
        parts += [f"of at most {self.max_length} characters"] if self.max_length is not None else []
        parts += [f"in {' or '.join(self.languages)}"] if self.languages else []
        bounds = [(word, getattr(self, name)) for name, word in bound_words.items()]
        return ", ".join([*parts, *(f"{word} {shown(bound)}" for word, bound in bounds if bound is not None)])


@dataclass(frozen=True)
class Constraint:
    """A condition on the values at a path, and at another. The row of its kind in KINDS has the fields that it takes."""

    kind: str
    path: Path = ()
    other: Path = ()
    least: int = 0
    most: int | None = None
    where: ValueShape | None = None
    values: tuple[Value, ...] = ()
    allowed: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        row = KINDS.get(self.kind)
        if row is None:
            raise ValueError(f"expected a constraint of {', '.join(KINDS)}, got {self.kind!r}")
        if self.where == ValueShape():  # it restricts nothing, and a schema file does not show it
            object.__setattr__(self, "where", None)
        for field in fields(self)[1:]:
            is_set = getattr(self, field.name) != field.default
            if is_set and field.name not in (*row.needs, *row.takes):
                raise ValueError(f"expected no {field.name} for a constraint of the kind {self.kind}, got one")
            if not is_set and field.name in row.needs:
                raise ValueError(f"expected {field.name} for a constraint of the kind {self.kind}, got none")
        if self.kind == "count" and not self.least and self.most is None:
            raise ValueError("expected a least or a most number of values, got neither")
        if self.most is not None and self.most < self.least:
            raise ValueError(f"expected a max of at least the min, {self.least}, got {self.most}")
        if self.kind in PAIRS and self.kind != "inverse" and self.path == self.other:
            raise ValueError(f"expected two properties, got {show(self.path)} twice")

    @property
    def text(self) -> str:
        """The constraint as a formula for people."""
        return KINDS[self.kind].shown(self)

    @property
    def short(self) -> str | None:
        """The constraint as a line of text of a schema file; None where it has no such form."""
        sign = KINDS[self.kind].sign
        if not sign or Constraint(self.kind, self.path, self.other) != self:
            return None
        words = [show(self.path) if self.path else "", sign, show(self.other) if self.other else ""]
        text = " ".join(filter(None, words))
        try:
            return text if read_short(text) == self else None
        except ValueError:
            return None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of its values."""
        return tuple(filter(None, (self.path, self.other)))

    @property
    def needs_classes(self) -> bool:
        """Whether it depends on the classes of linked entities."""
        return self.where is not None and bool(self.where.classes)


class Violation(NamedTuple):
    """Values that violate a constraint, and the degree of it. Further values may mend a violation that is `pending`."""

    got: str
    key: Hashable  # identifies these values
    degree: int = 1
    pending: bool = False
    path: Path = ()  # where the constraint has none


class TypedValue(NamedTuple):
    """A value, and the kind of its property."""

    value: Any
    kind: Kind | None

    @property
    def identity(self) -> Hashable:
        """The key of the value."""
        return identity(self.value, self.kind)


# ---------------------------------------------------------------- values at paths


@dataclass(frozen=True)
class View:
    """The values of an entity, or of a part in a list of parts, by path: each once, in the form of its kind."""

    properties: Mapping[Path, Property]
    tree: Tree
    missing: Collection[str] = ()
    place: Path = ()  # of the part
    id: Path | None = None  # of the class

    def values(self, path: Path) -> list[TypedValue]:
        """The values at a path; of several values, and of the parts of a list, each one."""
        head = self._head(path)
        typed: list[TypedValue] = []
        if head is None:
            raws = (item for raw in _descend(self.tree, path) for item in (raw if isinstance(raw, list) else [raw]))
            typed = [TypedValue(raw, None) for raw in raws if not (raw is None or is_gap(raw) or raw is NOVALUE)]
        elif head == path:
            typed = list(self._read(self.properties[head], _descend(self.tree, head)))
        elif isinstance(self.properties[head].kind, Listed | Mapped):
            typed = [value for part in self._parts(head) for value in part.values(path[len(head) :])]
        else:
            composites = self._read(self.properties[head], _descend(self.tree, head))
            parts = (getattr(composite.value, str(path[len(head)]), None) for composite in composites)
            typed = [TypedValue(part, None) for part in parts if part not in (None, "")]
        unique: dict[Hashable, TypedValue] = {}
        for number, value in enumerate(typed):
            is_part = isinstance(value.value, dict)
            unique[number if is_part else (type(value.value), value.identity)] = value
        return list(unique.values())

    def scopes(self, paths: Sequence[Path]) -> Iterator[tuple[View, list[Path]]]:
        """The views in which a constraint on these paths is checked: of each part of a list that has all of them, else this."""
        heads = {self._head(path) for path in paths}
        head = heads.pop() if len(heads) == 1 else None
        inside = head is not None and all(len(path) > len(head) for path in paths)
        if head is None or not inside or not isinstance(self.properties[head].kind, Listed | Mapped):
            yield self, list(paths)
            return
        for part in self._parts(head):
            yield from part.scopes([path[len(head) :] for path in paths])

    def has_part_of(self, path: Path) -> bool:
        """Whether the part with the path is there; the entity itself always is."""
        if len(path) == 1:
            return True
        head = self._head(path)
        if head is not None and len(head) < len(path):
            return bool(self.values(head))
        return any(isinstance(raw, dict | list) for raw in _descend(self.tree, path[:-1]))

    def read(self, path: Path, value: Any) -> TypedValue:
        """A value of a constraint in the form of the property's kind, where it fits that."""
        head = self._head(path)
        if head != path:
            return TypedValue(value, None)
        return next(self._read(self.properties[head], [value]), TypedValue(value, self.properties[head].kind))

    def _head(self, path: Path) -> Path | None:
        """The property that a path is of, or lies in."""
        return next((path[:n] for n in range(len(path), 0, -1) if path[:n] in self.properties), None)

    def _parts(self, head: Path) -> Iterator[View]:
        """The parts of a list, each with its fields as properties."""
        property_ = self.properties[head]
        kinds = (
            property_.kind.fields
            if isinstance(property_.kind, Listed)
            else {KEY: property_.kind.key, **property_.kind.fields}
        )
        inner: dict[Path, Property] = {
            (name,): replace(property_, kind=kind, many="", formula=None) for name, kind in kinds.items() if name
        }
        place = 0
        for raw in _descend(self.tree, head):
            entries = [
                {KEY: key, **entry} if isinstance(entry, dict) else {KEY: key}
                for key, entry in (raw.items() if isinstance(property_.kind, Mapped) and isinstance(raw, dict) else ())
            ]
            for part in entries or (raw if isinstance(raw, list) else [raw]):
                if isinstance(part, dict):
                    yield View(inner, part, self.missing, (*self.place, *head, place))
                place += 1

    def _read(self, property_: Property, raws: Iterable[Any]) -> Iterator[TypedValue]:
        """Values in the form of their kind; a value that does not fit it as it stands."""
        kind = item_kind(property_.kind)
        item = property_ if kind is property_.kind else replace(property_, kind=kind, many="")
        for raw in raws:
            if isinstance(property_.kind, Mapped) and isinstance(raw, dict):
                yield from (TypedValue(entry, None) for key, entry in raw.items() if key[:1] != "@")
                continue
            if isinstance(raw, list) and kind is property_.kind and not isinstance(kind, Listed):
                try:
                    yield TypedValue(apply_kind(kind, raw), kind)  # a pair is one coordinate
                    continue
                except (ValueError, AttributeError):
                    pass
            for element in raw if isinstance(raw, list) else [raw]:
                value = element if isinstance(kind, Listed) else _in_form(item, element, self.missing)
                if value is not None and value is not NOVALUE and not is_gap(value):
                    yield TypedValue(value, kind)


def item_kind(kind: Kind) -> Kind:
    """The kind of a single value of a property; parts of a list have the kind of the list."""
    if isinstance(kind, Set):
        return kind.of
    return item_kind(kind.fields[""]) if isinstance(kind, Listed) and "" in kind.fields else kind


def _in_form(property_: Property, raw: Any, missing: Collection[str]) -> Any:
    try:
        value = apply_property(property_, raw, missing)
    except (ValueError, AttributeError):
        return raw
    if isinstance(property_.kind, Link) and isinstance(value, str):
        return LinkValue(value)
    return value


def _descend(tree: Any, path: Path) -> Iterator[Any]:
    """The values at a path, in each part of the lists on the way."""
    if not path:
        yield tree
    elif isinstance(tree, list):
        for item in tree:
            yield from _descend(item, path)
    elif isinstance(tree, dict) and path[0] in tree:
        yield from _descend(tree[path[0]], path[1:])


# ---------------------------------------------------------------- single values


def matches(shape: ValueShape, typed: TypedValue, is_of: ClassTest | None = None) -> bool | None:
    """Whether a value has a shape; None where that is not certain."""
    answers = [test(shape, typed) for test in TESTS]
    if shape.classes:
        answers += [_of_class(typed.value, name, is_of) for name in shape.classes]
    return False if False in answers else None if None in answers else True


def _of_kind(shape: ValueShape, typed: TypedValue) -> bool:
    return shape.kind is None or fits(shape.kind, typed.value)


def fits(kind: Kind, value: Any) -> bool:
    """Whether a value is of a kind as it stands, without being read as one."""
    types: tuple[Any, ...] = {Number: (int, float, Decimal), TextKind: (str, Text), Link: (LinkValue,)}.get(
        type(kind), (object,)
    )
    if not isinstance(value, types) or (isinstance(kind, Number) and isinstance(value, bool)):
        return False
    is_leaf = type(kind) in {row.type for row in LEAVES.values()}
    if not is_leaf and COMPOSITE_VALUES.get(type(kind)) is not type(value):
        return False
    try:
        kind.check(value) if is_leaf else kind.apply(value)
    except ValueError:
        return False
    parts = getattr(kind, "parts", None) if isinstance(value, Date) else None
    return parts is None or all(getattr(value, name) is None or name in parts for name in ("year", "month", "day"))


def _of_class(value: Any, name: str, is_of: ClassTest | None) -> bool | None:
    id = value.id if isinstance(value, LinkValue) else value["@id"] if is_node(value) else None
    if id is None:
        return None if isinstance(value, dict) else False
    return is_of(id, name) if is_of is not None else None


def _among(shape: ValueShape, typed: TypedValue) -> bool | None:
    if not shape.values:
        return True
    identities = {identity(value, typed.kind) for value in shape.values}
    if isinstance(typed.value, LinkValue):
        identities |= {identity(LinkValue(id)) for id in shape.values if isinstance(id, str)}
    return None if isinstance(typed.value, Known) else typed.identity in identities


def _of_node_kind(shape: ValueShape, typed: TypedValue) -> bool | None:
    if not shape.nodes or isinstance(typed.value, Known | Quantity | Coordinate):
        return None if shape.nodes else True
    if isinstance(typed.value, LinkValue | dict):
        id = typed.value.id if isinstance(typed.value, LinkValue) else typed.value.get("@id", "_:")
        return ("blank" if str(id).startswith("_:") else "iri") in shape.nodes
    return "literal" in shape.nodes


def _as_text(shape: ValueShape, typed: TypedValue) -> bool | None:
    if not (shape.pattern or shape.min_length or shape.max_length is not None):
        return True
    text = text_of(typed.value)
    if text is None:
        return None if isinstance(typed.value, Known | Date | Quantity | Coordinate | float | Decimal) else False
    if len(text) < shape.min_length or (shape.max_length is not None and len(text) > shape.max_length):
        return False
    return not shape.pattern or compiled(shape.pattern, shape.flags).search(text) is not None


def text_of(value: Any) -> str | None:
    """The lexical form of a value, or the IRI of a link; None where it has none, or where several forms are as likely."""
    if isinstance(value, Text):
        return value.text
    if isinstance(value, LinkValue):
        return None if value.id.startswith("_:") else value.id
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return numerals.show(value)
    return value if isinstance(value, str) else None


def _in_language(shape: ValueShape, typed: TypedValue) -> bool | None:
    if not shape.languages:
        return True
    if not isinstance(typed.value, Text):
        return None if isinstance(typed.value, Known) else False
    language = f"{typed.value.language}-".lower()
    return any(wanted == "*" or language.startswith(f"{wanted}-".lower()) for wanted in shape.languages)


def _within(shape: ValueShape, typed: TypedValue) -> bool | None:
    answers: list[bool | None] = []
    for bound, wrong in (
        (shape.minimum, (Order.LESS,)),
        (shape.maximum, (Order.GREATER,)),
        (shape.above, (Order.LESS, Order.EQUAL)),
        (shape.below, (Order.GREATER, Order.EQUAL)),
    ):
        if bound is not None:
            limit = bound if isinstance(bound, Date) else number_as(bound, typed.value, typed.kind)
            relation = order(typed.value, limit, typed.kind, typed.kind)
            uncertain = relation is Order.UNCERTAIN or isinstance(typed.value, Known)
            answers.append(None if uncertain else relation not in (*wrong, Order.INCOMPARABLE))
    return False if False in answers else None if None in answers else True


TESTS = (_of_kind, _among, _of_node_kind, _as_text, _in_language, _within)


@cache
def compiled(pattern: str, flags: str) -> re.Pattern[str]:
    """A compiled regular expression; ValueError where it is none, or has another meaning in Python."""
    if _has_xml_classes(pattern):
        raise ValueError(f"expected a regular expression without classes of XML Schema, got {pattern!r}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of sets that other dialects read otherwise
            return re.compile(pattern, sum(FLAGS[flag] for flag in set(flags)))
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression, got {pattern!r}: {error}") from None


def _has_xml_classes(pattern: str) -> bool:
    r"""Whether a pattern has classes that Python reads otherwise: \p{L}, \i, \c, or [a-z-[aeiou]]."""
    inside = escaped = False
    previous = ""
    for character in pattern:
        if escaped:
            if character in "pPiIcC":
                return True
            escaped, previous = False, ""
            continue
        if inside and character == "[" and previous == "-":
            return True
        inside = character == "[" or (inside and character != "]")
        escaped, previous = character == "\\", character
    return False


# ---------------------------------------------------------------- violations


def violations(constraint: Constraint, view: View, is_of: ClassTest | None = None) -> Iterator[Violation]:
    """The violations of a constraint by an entity's own values; none of constraints that need other entities.

    `is_of` tells the classes of linked entities. Without it values that depend on these are no violations.
    """
    check = KINDS[constraint.kind].check
    if check is None:
        return
    paths = constraint.paths
    for scope, inner in view.scopes(paths) if paths else [(view, [])]:
        local = constraint
        if scope is not view:
            local = replace(constraint, path=inner[0], other=inner[1] if constraint.other else ())
        for violation in check(local, scope, is_of):
            yield violation._replace(key=(scope.place, violation.key))


def problem_of(constraint: Constraint, got: str) -> str:
    """A violation in words."""
    return f"expected {constraint.text}, got {got}"


def _ordered(*orders: Order) -> Check:
    def check(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
        others = view.values(constraint.other)
        for earlier in view.values(constraint.path):
            for later in others:
                if isinstance(earlier.value, Known) or isinstance(later.value, Known):
                    continue
                relation = order(earlier.value, later.value, earlier.kind, later.kind)
                if relation is not Order.UNCERTAIN and relation not in orders:
                    got = f"{shown(earlier.value)} and {shown(later.value)}"
                    got += ", which have no order" if relation is Order.INCOMPARABLE else ""
                    yield Violation(got, (earlier.identity, later.identity))

    return check


def _equals(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    sides = [{typed.identity: typed for typed in view.values(path)} for path in constraint.paths]
    unknown = [any(isinstance(typed.value, Known) for typed in side.values()) for side in sides]
    for side, other, name in ((0, 1, constraint.other), (1, 0, constraint.path)):
        for key, typed in sides[side].items():
            if key not in sides[other] and not isinstance(typed.value, Known) and not unknown[other]:
                got = f"{shown(typed.value)}, which is not at {show(name)}"
                yield Violation(got, (side, key), pending=True)


def _disjoint(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    others = {typed.identity for typed in view.values(constraint.other)}
    for typed in view.values(constraint.path):
        if typed.identity in others and not isinstance(typed.value, Known):
            yield Violation(f"{shown(typed.value)} at both", typed.identity)


def _count(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    shape = constraint.where
    answers = [True if shape is None else matches(shape, typed, is_of) for typed in view.values(constraint.path)]
    certain, possible = answers.count(True), len(answers) - answers.count(False)
    if constraint.most is not None and certain > constraint.most:
        yield Violation(str(certain), "most", certain - constraint.most)
    if possible < constraint.least and view.has_part_of(constraint.path):
        degree = constraint.least - possible
        yield Violation(str(possible), "least", degree, pending=True)


def _has_value(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    typed_values = view.values(constraint.path)
    known = {typed.identity for typed in typed_values}
    is_unknown = any(isinstance(typed.value, Known) for typed in typed_values)  # it may be the one
    for value in constraint.values if view.has_part_of(constraint.path) and not is_unknown else ():
        required = view.read(constraint.path, value)
        if required.identity not in known:
            got = f"no {shown(value)}" if known else "none"
            yield Violation(got, required.identity, pending=True)


def _each(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    shape = constraint.where or ValueShape()
    for typed in view.values(constraint.path):
        if matches(shape, typed, is_of) is False:
            yield Violation(shown(typed.value), typed.identity)


def _unique_language(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    languages: dict[str, int] = {}
    for typed in view.values(constraint.path):
        if isinstance(typed.value, Text) and typed.value.language:
            language = typed.value.language.lower()
            languages[language] = languages.get(language, 0) + 1
    for language, count in languages.items():
        if count > 1:
            yield Violation(f"{count} in {language}", language, count - 1)


def _closed(constraint: Constraint, view: View, is_of: ClassTest | None) -> Iterator[Violation]:
    allowed = {path[0] for path in (*(constraint.allowed or view.properties), view.id or ("",))}
    for key in view.tree:
        if key[:1] != "@" and key not in allowed and view.values((key,)):
            yield Violation(show((key,)), key, path=(key,))


def shown(value: Any) -> str:
    """A value in few characters."""
    text = str(value)
    if isinstance(value, LinkValue):
        text = value.id
    elif isinstance(value, Text):
        text = f"{value.text!r} in {value.language}"
    elif isinstance(value, str):
        text = repr(value)
    elif isinstance(value, Quantity):
        text = f"{value.value} {value.unit or ''}".strip()
    elif isinstance(value, Date):
        try:
            text = dates.write_iso(value)
        except ValueError:
            text = str(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def kind_name(kind: Kind) -> str:
    """The name of a kind in messages."""
    return next((name for name, row in LEAVES.items() if row.type is type(kind)), type(kind).__name__.lower())


# ---------------------------------------------------------------- the kinds

Check: TypeAlias = Callable[[Constraint, View, ClassTest | None], Iterator[Violation]]


class Row(NamedTuple):
    """A kind of constraint: the fields that it needs and takes, its sign in a line of text, how it is shown and checked."""

    description: str
    needs: tuple[str, ...]
    shown: Callable[[Constraint], str]
    check: Check | None = None  # None: it needs other entities
    sign: str = ""
    takes: tuple[str, ...] = ()


def _pair(sign: str) -> Callable[[Constraint], str]:
    return lambda constraint: f"{show(constraint.path)} {sign} {show(constraint.other)}"


def _shown_count(constraint: Constraint) -> str:
    least, most = constraint.least, constraint.most
    if most is None:
        number = f"at least {least}"
    elif not least:
        number = f"at most {most}"
    else:
        number = f"{least}" if least == most else f"{least} to {most}"
    noun = "value" if number in ("1", "at least 1", "at most 1") else "values"
    shape = f" that are {constraint.where.text}" if constraint.where else ""
    return f"{number} {noun} at {show(constraint.path)}{shape}"


def _shown_each(constraint: Constraint) -> str:
    return f"values at {show(constraint.path)} that are {constraint.where.text if constraint.where else ''}"


def _shown_closed(constraint: Constraint) -> str:
    others = ", ".join(map(show, constraint.allowed))
    return f"no property but {others}" if others else "no property but those of the class"


_LESS, _LESS_OR_EQUAL = _ordered(Order.LESS), _ordered(Order.LESS, Order.EQUAL)

KINDS: dict[str, Row] = {
    "less_than": Row("Each value is below each of the other property.", ("path", "other"), _pair("<"), _LESS, "<"),
    "less_than_or_equals": Row(
        "No value is above one of the other property.", ("path", "other"), _pair("<="), _LESS_OR_EQUAL, "<="
    ),
    "equals": Row("Both properties have the same values.", ("path", "other"), _pair("="), _equals, "="),
    "disjoint": Row(
        "No value is one of the other property, too.", ("path", "other"), _pair("disjoint"), _disjoint, "disjoint"
    ),
    "count": Row(
        "From `min` to `max` values; of those that are as `where` says, where it is there. A least number holds where "
        "the part is there that the path lies in.",
        ("path",), _shown_count, _count, takes=("least", "most", "where"),
    ),
    "has_value": Row(
        "These are among the values.", ("path", "values"),
        lambda constraint: f"{' and '.join(map(shown, constraint.values))} at {show(constraint.path)}", _has_value,
    ),
    "values": Row(
        "Each value is as `where` says.", ("path", "where"),
        _shown_each, _each,
    ),
    "unique_language": Row(
        "No two texts are in one language.", ("path",), lambda constraint: f"one text for each language at {show(constraint.path)}",
        _unique_language, "unique_language",
    ),
    "closed": Row(
        "An entity has no properties but those of the class; with `allowed` none but these.", (), _shown_closed, _closed,
        "closed", ("allowed",),
    ),
    "unique": Row(
        "No two entities of the class have a value in common.", ("path",),
        lambda constraint: f"values of its own at {show(constraint.path)}", None, "unique",
    ),
    "inverse": Row(
        "An entity that is linked to, and has links at the other path, links back there.", ("path", "other"),
        _pair("inverse"), None, "inverse",
    ),
}  # fmt: skip
PAIRS = tuple(name for name, row in KINDS.items() if "other" in row.needs)
TURNED = {">": "<", ">=": "<="}  # the other way round


def read_short(text: str) -> Constraint:
    """The constraint of a line such as `born <= died`; ValueError where it is none, or could be two."""
    signs = {row.sign: name for name, row in KINDS.items() if row.sign} | dict.fromkeys(TURNED, "")
    readings: dict[Constraint, None] = {}
    for place in re.finditer(r"\S+", text):
        name = signs.get(place[0])
        if name is None:
            continue
        left, right = text[: place.start()].strip(), text[place.end() :].strip()
        try:
            path, other = (_names(side) if side else () for side in (left, right))
            if place[0] in TURNED:
                name, path, other = signs[TURNED[place[0]]], other, path
            readings[Constraint(name, path, other)] = None
        except ValueError:
            continue
    if len(readings) != 1:
        such = "expected a constraint such as born <= died, nickname disjoint name, code unique or closed"
        raise ValueError(f"{such}, got {'one that can be read in two ways, ' * bool(readings)}{text!r}")
    return next(iter(readings))


def _names(text: str) -> Path:
    path = read_path(text)
    if not all(isinstance(key, str) for key in path):
        raise ValueError(f"expected names, got {text!r}")
    return path
