"""Rules: exact values that a rule of the schema gives for gaps, before the model is asked.

A rule of the kind `determined` or `linked` presumes that the entity has the property: it gives every island the sea of its
group, and every country a king. So the confidence of its value is the model's presence times the rule's confidence; where the
model predicts no presence, it is the share of the entities where the rule applies that have the property. A rule of another
kind that was found in data presumes it, too, where fewer than half of the entities alike that it applies to have the property:
`second = first` holds where there is a second, and most entities may have none.

A rule that was found is known to hold for entities like those that have its target. A cell may be blank because there is nothing to
state. So of a found rule of any kind the presence is at most the share of entities alike that have the target, relative to the share
that is usual among entities that have it: `kbdisk/completion/missingness.py`. Where values are missing at random this is 1.

A rule that a person states, without support or exceptions, is taken to hold.

Most rules need the values of one entity alone. Those of the kinds `determined`, `linked` and `inverse` read the given values of
the other entities that are completed with it, once, before the first is filled.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kbdisk.completion.decide import ABSENT, below
from kbdisk.completion.missingness import ALL_HAVE_IT, MissingnessTree, Sample, one_leaf
from kbdisk.data.parse import Reading
from kbdisk.entity import Date, Link, Path, Quantity, Text
from kbdisk.experts.rule_columns import values_in
from kbdisk.schemas import rules as schema_rules
from kbdisk.schemas.composites.base import apply_kind
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Text as TextKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import Rule, Values, number_of, plain, text_of, value_at
from kbdisk.schemas.schema import Schema

MAJORITY = 2 / 3  # of the entities with a label: the share that has to agree on the value that it determines
MAX_ROUNDS = 4  # in each of which rules may need the values of the rounds before
PRESUMING = ("determined", "linked")  # kinds that give a value even where an entity has no such property
# A found rule of another kind presumes the property, too, where a smaller share of the entities alike have it.
MIN_SHARE_HAVING = 0.5
MIN_APPLIES = 20  # entities; where a rule applies to fewer, nothing is known of what is missing
MAX_SAMPLED = 3_000  # entities of a class: the random sample on which missingness is learnt

# property -> the probability that an entity has it; None where the model does not predict it
PresenceAt = Callable[[Path], float | None]


class Ruled(NamedTuple):
    """A value that a rule gives."""

    path: Path
    known: Property
    rule: Rule
    value: Any
    presence: float  # the probability that the entity has the property, and those that the rule needs
    correctness: float

    @property
    def confidence(self) -> float:
        """The probability that the value is right."""
        return self.presence * self.correctness

    def why_not(self, threshold: float) -> str:
        """The reason why a threshold holds the value back; empty where it does not."""
        if self.confidence >= threshold:
            return ""
        return ABSENT if self.presence < threshold else below(threshold)


def no_presence(path: Path) -> float | None:
    """The presence of a property where there is no model: None."""
    return None


class RuleFiller:
    """Applies the rules of a schema to the entities of a source."""

    def __init__(self, schema: Schema, readings: Iterable[Reading], fill: str) -> None:
        self.schema, self.fill = schema, fill
        self.rules = [rule for rule in schema.rules or () if rule.kind != "transitive"]
        self._tables: dict[Rule, dict[Any, Counter[Any]]] = {rule: defaultdict(Counter) for rule in self.rules if rule.kind == "determined"}  # fmt: skip
        self._shown: dict[Any, Any] = {}  # a value as it is given, by what it is compared by
        self._values: dict[str, dict[Path, Any]] = defaultdict(dict)  # of linked entities, by id
        self._back: dict[Path, dict[str, list[Link]]] = {rule.of[0]: defaultdict(list) for rule in self.rules if rule.kind == "inverse"}  # fmt: skip
        self._applies: Counter[tuple[Rule, str]] = Counter()
        self._present: Counter[tuple[Rule, str]] = Counter()
        self._samples: dict[str, list[Values]] = defaultdict(list)  # by class
        self._seen: Counter[str] = Counter()  # entities by class
        self._class_samples: dict[str, Sample] = {}
        self._random = random.Random(0)
        self._trees: dict[tuple[Rule, str], MissingnessTree] = {}
        self._taken: dict[Path, set[Any]] = {
            path: set()
            for schema_class in schema.classes.values()
            for path, known in schema_class.properties.items()
            if known.unique
        }
        if self.rules:
            for reading in readings:
                self._read(reading)

    def filled(
        self,
        reading: Reading,
        gaps: Collection[Path],
        closed: Collection[Path],
        presence_at: PresenceAt = no_presence,
    ) -> Iterator[Ruled]:
        """The values that the rules give for an entity. `gaps` are places without a value."""
        id, class_name, ruled = reading.id, reading.class_name, dict[Path, Ruled]()
        properties = self.schema.classes[class_name].properties
        waiting = [
            rule for rule in self.rules if self._may_fill(rule, class_name, properties, reading.values, gaps, closed)
        ]
        if not waiting:
            return
        given = values_in(self.schema, reading)
        values = dict(given)
        for _ in range(MAX_ROUNDS):
            is_filled = False
            for rule in waiting:
                if rule.target in values and not _is_blank(values[rule.target]):
                    continue
                value = self._value(rule, id, values)
                if value is None:
                    continue
                property = properties[rule.target]
                fitting = self._fitting(property, rule, value)
                if fitting is None:
                    continue
                needed = [ruled[path] for source in rule.of if (path := _top(source, values)) in ruled]
                presence = min((other.presence for other in needed), default=1.0)
                tree = ALL_HAVE_IT if property.required else self._tree(rule, class_name)
                own_presence = tree.presence(given)
                if rule.kind in PRESUMING or tree.share(given) < MIN_SHARE_HAVING:
                    has_place = rule.target in gaps or property.required
                    predicted = self._presence(rule, class_name, presence_at(rule.target), has_place=has_place)
                    own_presence = min(own_presence, predicted)
                presence *= own_presence
                correctness = confidence_of(rule) * min((other.correctness for other in needed), default=1.0)
                values[rule.target], is_filled = fitting, True
                ruled[rule.target] = Ruled(rule.target, property, rule, fitting, presence, correctness)
                yield ruled[rule.target]
            if not is_filled:
                return

    def members(self, id: str, class_name: str, path: Path, known: Collection[Any]) -> Iterator[tuple[Link, Rule]]:
        """The further members that inverse links give for a set with known members, each with its rule."""
        ids = {id, *(link.id if isinstance(link, Link) else link for link in known)}
        for rule in self.rules:
            if rule.kind == "inverse" and rule.target == path and rule.class_name in (None, class_name):
                new = [link for link in self._back[rule.of[0]].get(id, ()) if link.id not in ids]
                ids.update(link.id for link in new)
                yield from ((link, rule) for link in new)

    def _tree(self, rule: Rule, class_name: str) -> MissingnessTree:
        """The tree of the entities of a class that a found rule applies to, by whether they have its target."""
        key = rule, class_name
        if not is_found(rule) or self._present[key] == self._applies[key] or self._applies[key] < MIN_APPLIES:
            return ALL_HAVE_IT
        if key not in self._trees:
            if class_name not in self._class_samples:
                self._class_samples[class_name] = Sample(self._samples[class_name])
            grown = self._class_samples[class_name].tree(
                partial(_applies, rule), partial(_has, rule.target), self._following(rule.target)
            )
            self._trees[key] = grown or one_leaf(self._present[key], self._applies[key])
        return self._trees[key]

    def _following(self, path: Path) -> set[Path]:
        """The property, and all properties that rules compute from it. They are missing because the property is."""
        following, before = {path}, set[Path]()
        while following != before:
            before = following
            following = before | {rule.target for rule in self.rules if not before.isdisjoint(rule.of)}
        return following

    def _presence(self, rule: Rule, class_name: str, presence: float | None, *, has_place: bool) -> float:
        """The model's presence, or else the share of the entities of a class where a rule applies that have its property.

        Without a model, a place for a value, such as a blank cell, is taken to have one.
        """
        if presence is not None or has_place:
            return 1.0 if presence is None else presence
        return (self._present[rule, class_name] + 1) / (self._applies[rule, class_name] + 1)  # none known: 1

    def _fitting(self, property: Property, rule: Rule, value: Any) -> Any:
        """A value in the form of its property; None where it does not fit, or is unique and another entity has it."""
        try:
            fitting = in_kind(property, value)
        except ValueError:
            return None
        taken = self._taken.get(rule.target)
        if taken is not None:
            if plain(fitting) in taken:
                return None
            taken.add(plain(fitting))
        return fitting

    def _may_fill(
        self,
        rule: Rule,
        class_name: str,
        properties: Mapping[Path, Property],
        values: Values,
        gaps: Collection[Path],
        closed: Collection[Path],
    ) -> bool:
        """Whether a rule is for this class and its property may be filled."""
        property = properties.get(rule.target)
        if property is None or property.formula is not None or rule.class_name not in (None, class_name):
            return False
        if rule.target in closed or (rule.target in values and not _is_blank(values[rule.target])):
            return False
        if rule.target in gaps or property.required:
            return True
        return self.fill != "asked"

    def _value(self, rule: Rule, id: str, values: Values) -> Any:
        if rule.kind == "determined":
            labels = {self._most(rule, key) for key in _keys_of(rule, values)} - {None}
            return self._shown[labels.pop()] if len(labels) == 1 else None
        if rule.kind == "linked":
            target = _only_link(value_at(values, rule.of[0]))
            return None if target is None else self._values.get(target, {}).get(rule.of[1])
        if rule.kind == "inverse":
            return self._back[rule.of[0]].get(id) or None
        return schema_rules.evaluate(rule, values)

    def _most(self, rule: Rule, key: Any) -> Any:
        """The value of most entities with a label, in the form by which values are compared."""
        counts = self._tables[rule].get(key)
        if not counts:
            return None
        best, count = counts.most_common(1)[0]
        return best if count >= MAJORITY * counts.total() else None

    # ------------------------------------------------------------ the given values of all entities

    def _read(self, reading: Reading) -> None:
        id, class_name, values = reading.id, reading.class_name, values_in(self.schema, reading)
        self._take_into_sample(class_name, values)
        for path, taken in self._taken.items():
            if path in values:
                taken.add(plain(values[path]))
        for rule in self.rules:
            if rule.kind == "determined":
                self._read_determined(rule, class_name, values)
            elif rule.kind == "linked":
                value = value_at(values, rule.of[1])
                if value is not None:
                    self._values[id][rule.of[1]] = value
                self._count(rule, class_name, values, _applies(rule, values))
            elif rule.kind != "inverse":
                self._count(rule, class_name, values, _applies(rule, values))
        for path, back in self._back.items():
            links = value_at(values, path)
            for link in links if isinstance(links, list) else (links,):
                if isinstance(link, Link) and all(earlier_link.id != id for earlier_link in back[link.id]):
                    back[link.id].append(Link(id))

    def _read_determined(self, rule: Rule, class_name: str, values: Values) -> None:
        keys = _keys_of(rule, values)
        value = value_at(values, rule.target)
        if value is not None and rule.class_name in (None, class_name):
            comparable = plain(value)
            self._shown.setdefault(comparable, value)
            for key in keys:
                self._tables[rule][key][comparable] += 1
        self._count(rule, class_name, values, bool(keys))

    def _count(self, rule: Rule, class_name: str, values: Values, applies: bool) -> None:
        if applies:
            self._applies[rule, class_name] += 1
            self._present[rule, class_name] += _has(rule.target, values)

    def _take_into_sample(self, class_name: str, values: Values) -> None:
        """Add an entity to the reservoir sample of its class."""
        self._seen[class_name] += 1
        sample = self._samples[class_name]
        place = len(sample) if len(sample) < MAX_SAMPLED else self._random.randrange(self._seen[class_name])
        if place < MAX_SAMPLED:
            sample[place : place + 1] = [values]


def _applies(rule: Rule, values: Values) -> bool:
    """Whether an entity has the values that a rule needs."""
    if rule.kind == "determined":
        return bool(_keys_of(rule, values))
    if rule.kind == "linked":
        return _only_link(value_at(values, rule.of[0])) is not None
    return rule.kind != "inverse" and all(value_at(values, path) is not None for path in rule.of)


def _has(path: Path, values: Values) -> bool:
    """Whether an entity has a property."""
    return path in values and not _is_blank(values[path])


def is_found(rule: Rule) -> bool:
    """Whether a rule was found in data, and not stated by a person."""
    return bool(rule.support or rule.exceptions)


def confidence_of(rule: Rule) -> float:
    """The confidence of a rule by its support and exceptions; a rule that states neither is taken to hold."""
    return rule.confidence if is_found(rule) else 1.0


def in_kind(property: Property, value: Any) -> Any:
    """A value in the form of a property's kind; ValueError where it does not fit."""
    kind = property.kind
    if isinstance(kind, Set | Listed):
        return apply_kind(kind, value if isinstance(value, list) else [value])
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError(f"expected one value, got {len(value)}")
        value = value[0]
    if isinstance(kind, QuantityKind):
        number = number_of(value)
        value = value if isinstance(value, Quantity) and value.unit in (None, *kind.units()) else Quantity(_whole(number), kind.learnt_in)  # fmt: skip
    elif isinstance(kind, Number):
        value = _whole(number_of(value)) if kind.integer else number_of(value)
    elif isinstance(kind, DateKind) and not isinstance(value, Date):
        number = number_of(value)
        value = int(number) if number is not None and number == int(number) else value
    elif isinstance(kind, Category | TextKind) and isinstance(value, Quantity | Date):
        value = text_of(value)
    elif isinstance(kind, Category) and isinstance(value, Text):
        value = value.text
    elif isinstance(kind, LinkKind) and isinstance(value, str):
        value = Link(value)
    return apply_kind(kind, value)


def _whole(number: Any) -> Any:
    """A number as an int where it is whole."""
    return int(number) if number is not None and number == int(number) else number


def _is_blank(value: Any) -> bool:
    """Whether a value is a quantity without a number, or an empty list."""
    return (isinstance(value, Quantity) and value.value is None) or value == []


def _keys_of(rule: Rule, values: Values) -> list[Any]:
    """The values at a rule's paths that determine its value, in the form by which values are compared; of several links each."""
    inputs = [value_at(values, path) for path in rule.of]
    if len(inputs) == 1 and isinstance(inputs[0], list) and all(isinstance(link, Link) for link in inputs[0]):
        return [(plain(link),) for link in inputs[0]]
    keys = tuple(plain(value) for value in inputs)
    return [] if None in keys else [keys]


def _only_link(value: Any) -> str | None:
    """The id of the only linked entity; None for no link or several."""
    links: Sequence[Any] = value if isinstance(value, list) else [value]
    return links[0].id if len(links) == 1 and isinstance(links[0], Link) else None


def _top(path: Path, values: Values) -> Path:
    """The property that a path is of, or within."""
    return next((path[:length] for length in range(len(path), 0, -1) if path[:length] in values), path)


def by_rule(rule: Rule) -> str:
    """A rule as the reason for a value: its formula, with what agrees with it."""
    count = rule.support + rule.exceptions
    return f"{rule.text} ({rule.support:,} of {count:,})" if count else rule.text
