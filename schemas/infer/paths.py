"""The decision on each path of a class: a plain value, several values, a composite, a map, a list of parts, or parts whose
keys are paths of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from kbdisk.entity import Path
from kbdisk.plugins import load_part
from kbdisk.schemas.composites import COMPOSITES, CompositeKind
from kbdisk.schemas.composites.coordinate import NAMES, Coordinate
from kbdisk.schemas.composites.date import COARSE, NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.infer.decision import (
    FAMILY_NAMES,
    MIN_FIT_SHARE,
    NOTHING_TO_LEARN,
    Decision,
    counted,
    misfit_reasons,
    misfits,
    odd_values,
    percent,
    shown,
    times,
)
from kbdisk.schemas.infer.numbers import MIN_VALUES, number_decision, number_leaf, quantity_in, sentinel, unit_remark
from kbdisk.schemas.infer.read import LinkTargets
from kbdisk.schemas.infer.statistics import MAX_DEPTH, Budget, Node, ValueSketch, ValueStatistics, merged
from kbdisk.schemas.infer.strings import string_decision
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import GAP_SPELLINGS, Many

MIN_SEVERAL_SHARE = 0.01  # the share of entities with several values from which they are a set or a list
MIN_SEVERAL_NUMBERS_SHARE = 0.2  # the same for numbers
COORDINATE_NAME = re.compile(r"(?i:lat_?lo?ng?|coord|geo|gps|position|location|centroid|center|centre|point)")
LONGITUDE_FIRST_NAME = re.compile(r"(?i:coordinates|lo?ng_?lat)")
MAX_LEARNT_ITEMS = 32  # of a list or a map
MAX_NUMBER_LABELS = 20  # different numbers of a set of labels
MIN_WITHOUT_CONSTANT = 20  # entities without a value that is always the same, from which on presence is learnt
MAX_SHORT_LIST = 8  # items; all of them are learnt

Decisions = Iterator[tuple[Path, Decision]]


class ClassInference:
    """Decides on the paths of one class."""

    def __init__(self, targets: LinkTargets, node: Node) -> None:
        self.targets = targets
        self.labels = set(labels_within(node))  # keys of the parts that are certainly maps

    def properties(self, node: Node, path: Path, entities: int) -> Decisions:
        """The decisions on all paths below a part, in order."""
        for key, child in node.children.items():
            yield from self.property((*path, key), child, entities)
        if node.rests:
            yield (
                (*path, "..."),
                Decision(None, f"too many different keys: {counted(node.rests, 'value')} not looked at"),
            )

    def property(self, path: Path, node: Node, entities: int) -> Decisions:
        """The decision on a path; those on the paths below it where its parts are no composite."""
        if not node.filled:
            yield path, Decision(None, "never filled")
        elif node.parts > node.values.total + node.lists:
            decision = self.composite(str(path[-1]), node)
            if decision is not None:
                decision = _one_of_several(decision, node).because(*odd_values(decision.kind, node))
                yield path, _filled(decision, _value_count(decision.kind, node), entities)
            else:
                yield from self.properties(node, path, entities)
        else:
            value_decision = self.value(str(path[-1]), node)
            filled = node.filled - value_decision.gaps
            if value_decision.is_constant and len(path) == 1 and entities - filled >= MIN_WITHOUT_CONSTANT:
                reason = value_decision.reason.removesuffix(NOTHING_TO_LEARN) + "; which entities have it is learnt"
                value_decision = replace(value_decision, role="value", reason=reason)
            yield path, _filled(value_decision, filled, entities)

    def field(self, name: str, node: Node) -> Decision:
        """The decision on a field of a part in a list or a map, within which there are no paths of their own."""
        if not node.filled:
            return Decision(None, "never filled")
        if node.parts > node.values.total + node.lists:
            return self.composite(name, node) or self._record(node)
        return self.value(name, node, field=True)

    def _record(self, node: Node) -> Decision:
        return Decision(None, f"parts with {', '.join(node.children)} within parts of a list: carried along")

    # ------------------------------------------------------------ parts

    def composite(self, name: str, node: Node) -> Decision | None:
        """The decision that parts are composites, such as dates, or maps; None where they are not. Later rows come first."""
        for kind_name, row in reversed([*COMPOSITES.items()]):
            if row.of_parts is not None:
                decision: Decision | None = load_part(row.of_parts)(node)
            else:
                decision = None if row.of_fields is None else self._composite_of_fields(kind_name, row, node)
            if decision is not None:
                return decision
        return self._map(node)

    def _composite_of_fields(self, kind_name: str, row: CompositeKind, node: Node) -> Decision | None:
        fields = {name: self.field(name, child).kind for name, child in node.children.items()}
        kind = None if None in fields.values() else load_part(row.of_fields)(fields)
        return None if kind is None else Decision(kind, f"parts {' and '.join(fields)}: {kind_name}")

    def _map(self, node: Node) -> Decision | None:
        reason = keys_are_labels(node)
        if (
            not reason
            and len(node.children) > 1
            and self.labels.issuperset(node.children)
            and are_alike([*node.children.values()])
        ):
            reason = f"its keys {', '.join(node.children)} are labels elsewhere"
        if not reason:
            return None
        entry = merged([*node.children.values(), *([node.rest] if node.rest else [])])
        fields, left_out = self._fields(entry)
        if not fields:
            return None
        return Decision(
            Mapped(fields, most=_learnt_length(node.sizes)),
            f"{reason}; {_length_reason(node.sizes)[2:] or '1 at most'}{left_out}",
        )

    def _fields(self, entry: Node) -> tuple[dict[str, Any], str]:
        """The kinds of the fields of an entry or an item ("" for a plain value), and the words for what is left out."""
        if entry.parts <= entry.values.total + entry.lists:
            decision = self.field("", entry)
            return ({} if decision.kind is None else {"": decision.kind}), "".join(
                f"; {misfit}" for misfit in misfit_reasons(decision)
            )
        decided = {name: self.field(name, child) for name, child in entry.children.items()}
        fields = {name: decision.kind for name, decision in decided.items() if decision.kind is not None and name}
        left_out = [
            f"{name} is left out ({decision.reason})" for name, decision in decided.items() if decision.kind is None
        ]
        misfits = [
            f"{name}: {misfit}"
            for name, decision in decided.items()
            if decision.kind is not None
            for misfit in misfit_reasons(decision)
        ]
        return fields, "".join(f"; {decision}" for decision in (*left_out, *misfits))

    # ------------------------------------------------------------ values and lists

    def value(self, name: str, node: Node, field: bool = False) -> Decision:
        """The decision on a plain value, or several, with the words for values of another shape."""
        decision = self._value(name, node, field)
        return decision if decision.kind is None else decision.because(*odd_values(decision.kind, _items(node)))

    def _value(self, name: str, node: Node, field: bool) -> Decision:
        if not node.lists:
            return scalar_decision(name, node.values, self.targets, gaps=not field)
        if node.depth >= MAX_DEPTH:
            return Decision(None, "lists too deep to be looked into")
        place = self._place_list(name, node)
        if place is not None:
            return place
        items = _items(node)
        if items.parts > items.values.total + items.lists:
            return self._list_of_parts(name, node, items)
        if items.lists > items.values.total:
            inner = self.field(name, items)
            return Decision(
                None if inner.kind is None else Listed({"": inner.kind}, _learnt_length(node.lengths)),
                f"lists of lists; {inner.reason}",
            )
        return self._several(name, node, items, field)

    def _list_of_parts(self, name: str, node: Node, items: Node) -> Decision:
        composite = self.composite(name, items)
        fields, left_out = ({"": composite.kind}, "") if composite is not None else self._fields(items)
        if not fields:
            return Decision(None, f"lists of parts without a field that can be learnt{left_out}")
        reason = f"{counted(items.parts, 'part')} in {counted(node.filled, 'list')}{_length_reason(node.lengths)}"
        inner = f"; {composite.reason}" if composite is not None else f", with {', '.join(fields)}"
        return Decision(Listed(fields, _learnt_length(node.lengths)), reason + inner + left_out)

    def _several(self, name: str, node: Node, items: Node, field: bool) -> Decision:
        """The decision on plain values of which some entities have several."""
        decision = scalar_decision(name, items.values, self.targets, gaps=False)
        if decision.kind is None:
            return decision
        share = sum(count for length, count in node.lengths.items() if length > 1) / node.filled
        mostly_lists = node.lists > node.filled / 2
        reason = f"{percent(share)} have several{_length_reason(node.lengths)}"
        if self._is_few_numbers(decision.kind, items, node) and share >= MIN_SEVERAL_SHARE:
            decision = replace(decision, kind=Category()).because(
                f"{counted(items.values.sketch_of('number').distinct(), 'number')}, none twice"
            )
        are_labels = isinstance(decision.kind, Category | Link)
        if (
            not field
            and not mostly_lists
            and share
            < (MIN_SEVERAL_SHARE if are_labels or isinstance(decision.kind, Text) else MIN_SEVERAL_NUMBERS_SHARE)
        ):
            many, why = _choice_of_several(decision.kind)
            return replace(decision, many=many).because(f"{reason}: {why} counts")
        repeated = node.repeats > MIN_SEVERAL_SHARE * node.lists
        if are_labels and not repeated:
            return replace(decision, kind=Set(decision.kind), role="value", unique=False).because(reason)
        repeats = ", some of them twice" if are_labels else ""
        return replace(
            decision, kind=Listed({"": decision.kind}, _learnt_length(node.lengths)), role="value", unique=False
        ).because(reason + repeats)

    def _is_few_numbers(self, kind: Any, items: Node, node: Node) -> bool:
        """Whether several numbers are rather labels: few different ones, and none twice in a list."""
        sketch = items.values.sketch_of("number")
        few = sketch.distinct() <= MAX_NUMBER_LABELS and sketch.seen >= 4 * sketch.distinct()
        return isinstance(kind, Number) and kind.integer and few and not node.repeats

    def _place_list(self, name: str, node: Node) -> Decision | None:
        pairs = node.pairs
        if not COORDINATE_NAME.search(name) or not pairs or set(node.lengths) - {0, 2} or node.values.total:
            return None
        if node.items is None or set(node.items.values.count) - {"number"} or node.items.parts:
            return None
        for longitude_first in (bool(LONGITUDE_FIRST_NAME.fullmatch(name)), not LONGITUDE_FIRST_NAME.fullmatch(name)):
            latitudes = [pair[longitude_first] for pair in pairs]
            longitudes = [pair[not longitude_first] for pair in pairs]
            if max(map(abs, latitudes)) <= 90 and min(longitudes) >= -180 and max(longitudes) <= 360:
                order = "longitude first" if longitude_first else "latitude first"
                return Decision(Coordinate(longitude_first), f"pairs of degrees, {order}")
        return None


def _one_of_several(decision: Decision, node: Node) -> Decision:
    """The decision on composites, with the one that counts where some entities have a list of them."""
    if not node.lists or isinstance(decision.kind, Mapped):
        return decision
    return replace(decision, many=_choice_of_several(decision.kind)[0])


def _items(node: Node) -> Node:
    """The statistics of all single values at a path, within lists and outside."""
    return merged([inner for inner in (node.items, _without_lists(node)) if inner is not None]) if node.lists else node


def _filled(decision: Decision, filled: int, entities: int) -> Decision:
    return decision.because(f"{percent(filled / entities)} filled") if entities else decision


def _value_count(kind: Any, node: Node) -> int:
    """The number of composites with a value: a unit alone is no quantity, and a map may be empty."""
    if isinstance(kind, Mapped):
        return node.filled - node.sizes[0]
    parts = [node.children[kind.names[0]]] if isinstance(kind, Quantity) else node.children.values()
    return max(child.filled for child in parts) + node.filled - node.parts


def _without_lists(node: Node) -> Node | None:
    """The statistics of values outside of lists, which count as lists of one."""
    if not node.values.total and not node.parts:
        return None
    outside = Node(node.values.budget, node.depth + 1)
    outside.values, outside.parts, outside.named, outside.children = node.values, node.parts, node.named, node.children
    return outside


def _length_reason(lengths: Counter[int]) -> str:
    longest, learnt = max(lengths), _learnt_length(lengths)
    first = "" if learnt >= longest else f", of which {learnt} {'is' if learnt == 1 else 'are'} learnt"
    return f", {longest} at most{first}" if longest > 1 else ""


def _learnt_length(lengths: Counter[int]) -> int:
    """The number of items that are learnt: all of few, else the 95th percentile of the lengths."""
    total, seen = lengths.total(), 0
    if max(lengths) <= MAX_SHORT_LIST:
        return max(1, max(lengths))
    for length, count in sorted(lengths.items()):
        seen += count
        if seen >= 0.95 * total:
            return max(1, min(length, MAX_LEARNT_ITEMS))
    return MAX_LEARNT_ITEMS


def _choice_of_several(kind: Any) -> tuple[Many, str]:
    """Which of several values counts, and its name in a reason."""
    if isinstance(kind, Number):
        return "median", "the middle one"
    return ("latest", "the latest") if isinstance(kind, Date) else ("first", "the first")


# ---------------------------------------------------------------- plain values, by their family


MANY_UNITS = 30
ALSO_TAKEN = {  # by family, other families whose values its kind takes
    "quantity": {"number"},
    "tagged": {"text"},
    "link": {"text"},
}
INFINITE = frozenset({"INF", "+INF", "-INF"})  # of XSD
LABEL_FAMILIES = {"number", "text", "truth"}  # families that a category takes


def scalar_decision(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool = True) -> Decision:
    """The decision on the plain values at a path with this last key; `gaps`: whether the usual spellings of a gap are gaps."""
    shares = dict(statistics.shares())
    missing = _texts_among(statistics, GAP_SPELLINGS) if gaps else ()
    infinite = _texts_among(statistics, INFINITE) if "number" in shares else ()
    if (missing or infinite) and len(shares) > 1 and len(missing + infinite) == len(statistics.sketches["text"].counts):
        del shares["text"]
    if not shares:
        return Decision(None, "no value")
    family = _main_family(shares)
    other_shares = {
        other: share for other, share in shares.items() if other != family and other not in ALSO_TAKEN.get(family, ())
    }
    if sum(other_shares.values()) > 1 - MIN_FIT_SHARE and {family, *other_shares} <= LABEL_FAMILIES:
        return _mixed(shares)
    decision = BY_FAMILY[family](name, statistics, targets, gaps)
    if missing and family != "text":
        gap_count = sum(statistics.sketches["text"].counts[text] for text in missing)
        decision = replace(decision, missing=missing, gaps=gap_count).because(
            f"{', '.join(map(repr, missing))} stands for no value"
        )
    if infinite and family == "number":
        decision = replace(decision, novalue=infinite).because(f"{', '.join(infinite)} stands on no scale")
    return decision.because(
        *(misfits(decision.kind, statistics, other, share, decision.missing) for other, share in other_shares.items())
    )


def _main_family(shares: dict[str, float]) -> str:
    """The family that takes all the others; else the largest."""
    takers = (family for family, others in ALSO_TAKEN.items() if shares.keys() - {family} <= others)
    return next((family for family in takers if family in shares), next(iter(shares)))


def _texts_among(statistics: ValueStatistics, known: Collection[str]) -> tuple[str, ...]:
    """The strings among the values that are in a collection."""
    sketch = statistics.sketches.get("text")
    return tuple(sorted(text for text in sketch.counts if text.strip() in known)) if sketch else ()


def _mixed(shares: dict[str, float]) -> Decision:
    """The decision on a mixture of numbers, strings and booleans: labels."""
    families = ", ".join(f"{percent(share)} {FAMILY_NAMES[family]}" for family, share in shares.items())
    return Decision(Category(), f"{families}: labels take them all")


def _numbers(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    sketch = statistics.sketch_of("number")
    gap_spelling = sentinel(statistics.low, statistics.high, sketch) if gaps else None
    if gap_spelling is None:
        return number_decision(name, statistics.low, statistics.high, statistics.whole, sketch)
    other_numbers = ValueSketch(Budget())
    other_numbers.take(
        [value for value, count in sketch.weighted() for _ in range(min(count, MIN_VALUES)) if value != statistics.low]
    )
    decision = number_decision(name, min(other_numbers.counts), statistics.high, statistics.whole, other_numbers)
    gap_count = sketch.counts[statistics.low]
    return replace(decision, missing=(gap_spelling,), gaps=gap_count).because(
        f"{gap_spelling} stands for no value {times(gap_count)}"
    )


def _strings(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    sketch = statistics.sketch_of("text")
    decision = string_decision(name, sketch, gaps)
    return replace(
        decision, gaps=round(decision.gaps * statistics.count["text"] / sketch.seen)
    )  # of all, not of those looked at


def _truths(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    seen = statistics.count["truth"]
    if statistics.true in (0, seen) and seen >= MIN_VALUES:
        only = "true" if statistics.true else "false"
        return Decision(
            Boolean(), f"{only} in all {counted(seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    return Decision(Boolean(), f"true in {percent(statistics.true / seen)} of {counted(seen, 'value')}")


def _tagged(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    languages = statistics.languages or Counter()
    language, count = languages.most_common(1)[0]
    seen = languages.total()
    if count >= MIN_FIT_SHARE * seen:
        return Decision(Text(language=language), f"text in {language}")
    return Decision(Text(), f"text in {counted(len(languages), 'language')}, most of it in {language}")


def _dates(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    counts = statistics.dates or Counter()
    finer = [part for part in ("month", "day") if counts[part]]
    coarse = [precision for precision in COARSE if counts[f"precision {precision}"]]
    parts_reason = "dates with " + " and ".join(["a year", *(f"a {part}" for part in finer)]) if finer else "years"
    coarse_reason = f", some known to the {' or '.join(coarse)} alone" if coarse else ""
    return Decision(Date(parts=("year", *finer), coarse=bool(coarse)), parts_reason + coarse_reason)


def _quantities(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    units = statistics.units or Counter()
    leaf = number_leaf(statistics.low, statistics.whole, statistics.sketch_of("number"))
    ordered = [
        unit for unit, _ in sorted(units.items(), key=lambda item: (-item[1], item[0] or "")) if unit is not None
    ]
    bare = statistics.count.get("number", 0) + units[None]
    if not ordered:
        return Decision(Quantity(value=leaf), "quantities without a unit")
    if len(ordered) > MANY_UNITS:
        main = None if bare else ordered[0]
        return Decision(Quantity(main, {}, leaf, any_unit=True), f"quantities of {len(ordered)} units: any is taken")
    units_reason = (
        f"quantities, all in {ordered[0]}" if len(ordered) == 1 else f"quantities in {counted(len(ordered), 'unit')}"
    )
    kind = quantity_in(Counter({unit: units[unit] for unit in ordered}), leaf, bool(bare))
    return Decision(kind, units_reason + (", some without one" if bare else "") + unit_remark(kind.factors, kind.unit))


def _coordinates(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    return Decision(Coordinate(), "coordinates")


def _links(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    sketch = statistics.sketch_of("link")
    to, classes_reason = targets.of(sketch)
    reason = f"{counted(sketch.distinct(), 'target')} in {counted(sketch.seen, 'link')}, {classes_reason}"
    if sketch.exact and sketch.distinct() == 1 and sketch.seen >= MIN_VALUES:
        only = shown(next(iter(sketch.counts)))
        return Decision(
            Link(to), f"{only} in all {counted(sketch.seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    return Decision(Link(to), reason)


def _unknown(name: str, statistics: ValueStatistics, targets: LinkTargets, gaps: bool) -> Decision:
    return Decision(None, FAMILY_NAMES["other"])


BY_FAMILY: dict[str, Callable[[str, ValueStatistics, LinkTargets, bool], Decision]] = {
    "number": _numbers,
    "text": _strings,
    "truth": _truths,
    "tagged": _tagged,
    "date": _dates,
    "quantity": _quantities,
    "coordinate": _coordinates,
    "link": _links,
    "other": _unknown,
}


# ---------------------------------------------------------------- composites made of parts


CODE = re.compile(r"[a-z]{2,3}(?:[-_]\w{2,8})?|[A-Z]{2,4}|[A-Z]?\d+|\d{4}-\d\d(?:-\d\d)?|\W+")
MIN_CODES = 8  # keys that look like codes are labels from this number on, even if every part has all of them
MAX_SHARE_OF_KEYS = 0.5  # of all keys, in a part on average, below which they are labels
MIN_KEYS = 4  # fewer keys are names


def date_of_parts(node: Node) -> Decision | None:
    """The decision that parts with year, month and day are dates; None where they are not."""
    names = set(node.children)
    if "year" not in names or not names <= set(NUMBERS) or len(names) < 2:
        return None
    bounds = {"month": (1, 12), "day": (1, 31)}
    for name, child in node.children.items():
        low, high = bounds.get(name, (None, None))
        statistics = child.values
        bad = child.parts or child.lists or set(statistics.count) - {"number"} or not statistics.whole
        if bad or (low is not None and statistics.low is not None and (statistics.low < low or statistics.high > high)):
            return None
    parts = tuple(name for name in NUMBERS if name in names)
    return Decision(Date(parts=parts), f"parts {', '.join(parts)}: a date")


def place_of_parts(node: Node) -> Decision | None:
    """The decision that parts with latitude and longitude, by any of their names, are coordinates; None where they are not."""
    names = sorted(NAMES.get(name, "") for name in node.children)
    numbers = all(_numeric(child) for child in node.children.values())
    if names != ["latitude", "longitude"] or not numbers or not _in_degrees(node):
        return None
    return Decision(Coordinate(), f"parts {' and '.join(node.children)}: a place")


def quantity_of_parts(node: Node) -> Decision | None:
    """The decision that parts with a value and a unit, or an amount and a currency, are quantities; None where they are not."""
    names = _value_and_unit(node)
    if names is None:
        return None
    value, unit = (node.children[name] for name in names)
    sketch = unit.values.sketch_of("text")
    is_text = set(unit.values.count) == {"text"} and not unit.parts and not unit.lists
    if not is_text or not sketch.exact or sketch.distinct() > MANY_UNITS:
        return None
    units = Counter(
        {unit_name: count for unit_name, count in sketch.counts.items() if unit_name}
    )  # an empty string is no unit
    leaf = number_leaf(value.values.low, value.values.whole, value.values.sketch_of("number"))
    bare = len(units) > 1 and unit.filled < node.parts
    kind = quantity_in(units, leaf, bare, names)
    return Decision(kind, f"parts {' and '.join(names)}: a quantity{unit_remark(kind.factors, kind.unit)}")


def _value_and_unit(node: Node) -> tuple[str, str] | None:
    """The keys of the number and of the unit, where parts have only these."""
    if len(node.children) != 2:
        return None
    values, units = ([name for name in node.children if name in known] for known in (VALUE_NAMES, UNIT_NAMES))
    return (values[0], units[0]) if values and units and _numeric(node.children[values[0]]) else None


def keys_are_labels(node: Node) -> str:
    """The reason why the keys of a part are labels; empty where they are names of properties."""
    keys = list(node.children)
    if node.rest is not None:
        return f"more than {len(keys):,} different keys: they are labels"
    filled = [child for child in node.children.values() if child.filled]
    if len(filled) < MIN_KEYS or not are_alike(filled):
        return ""
    share = sum(child.filled for child in filled) / (len(filled) * node.parts)
    are_codes = all(map(CODE.fullmatch, keys))
    reason = (
        f"{counted(len(keys), 'different key')} such as {keys[0]}, {percent(share)} of them in each: they are labels"
    )
    if share < MAX_SHARE_OF_KEYS and (are_codes or len(keys) > 4 * MIN_CODES or share < 0.1):
        return reason
    return reason if are_codes and len(keys) >= MIN_CODES else ""


def labels_within(node: Node) -> Iterator[str]:
    """The keys of all maps within a part."""
    for child in node.children.values():
        if child.parts and keys_are_labels(child):
            yield from child.children
        yield from labels_within(child)


def are_alike(nodes: list[Node]) -> bool:
    """Whether nodes have values of the same family, or parts with mostly the same keys."""
    nodes = [node for node in nodes if node.filled]
    shapes = {_shape(node) for node in nodes}
    if len(shapes) != 1:
        return False
    if "part" not in shapes:
        return True
    names = [set(node.children) for node in nodes]
    all_names = set.union(*names)
    return sum(len(keys) for keys in names) >= MAX_SHARE_OF_KEYS * len(all_names) * len(names)


def _shape(node: Node) -> str:
    if node.parts or node.lists:
        return "part" if node.parts else "list"
    return next(iter(dict(node.values.shares())))


def _numeric(node: Node) -> bool:
    return set(node.values.count) <= {"number"} and not node.parts and not node.lists


def _in_degrees(node: Node) -> bool:
    for name, child in node.children.items():
        low, high = (-90, 90) if NAMES[name] == "latitude" else (-180, 360)
        if child.values.low is None or child.values.low < low or child.values.high > high:
            return False
    return True
