"""What the plain values at one path are: their families first, then each family's own look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import COARSE, Date
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.inference.decision import FITS, NOTHING_TO_LEARN, Decision, counted, percent, shown, times
from kbdisk.schemas.inference.facts import Facts
from kbdisk.schemas.inference.links import Targets
from kbdisk.schemas.inference.numbers import ENOUGH, number_decision, number_leaf, sentinel
from kbdisk.schemas.inference.sketch import Budget, Labels
from kbdisk.schemas.inference.strangers import FAMILY, misfits
from kbdisk.schemas.inference.strings import GAPS, string_decision
from kbdisk.schemas.inference.units import quantity_in, remark
from kbdisk.schemas.kinds import Boolean, Category, Link, Text

MANY_UNITS = 30
TAKES_TOO = {  # what a kind of one family takes of others
    "quantity": {"number"},
    "tagged": {"text"},
    "link": {"text"},
}
INFINITE = frozenset({"INF", "+INF", "-INF"})  # of XSD
LABELS = {"number", "text", "truth"}  # families that a category takes


def scalar_decision(name: str, facts: Facts, targets: Targets, gaps: bool = True) -> Decision:
    """What the plain values at a path of this name are; `gaps`: whether spellings of no value may be told."""
    shares = dict(facts.shares())
    missing = _spelt(facts, GAPS) if gaps else ()
    infinite = _spelt(facts, INFINITE) if "number" in shares else ()
    if (missing or infinite) and len(shares) > 1 and len(missing + infinite) == len(facts.labels["text"].counts):
        del shares["text"]
    if not shares:
        return Decision(None, "no value")
    family = _main(shares)
    rest = {
        other: share for other, share in shares.items() if other != family and other not in TAKES_TOO.get(family, ())
    }
    if sum(rest.values()) > 1 - FITS and {family, *rest} <= LABELS:
        return _mixed(shares)
    found = LOOKS[family](name, facts, targets, gaps)
    if missing and family != "text":
        spelt = sum(facts.labels["text"].counts[text] for text in missing)
        found = replace(found, missing=missing, gaps=spelt).because(
            f"{', '.join(map(repr, missing))} stands for no value"
        )
    if infinite and family == "number":
        found = replace(found, novalue=infinite).because(f"{', '.join(infinite)} stands on no scale")
    return found.because(*(misfits(found.kind, facts, other, share, found.missing) for other, share in rest.items()))


def _main(shares: dict[str, float]) -> str:
    """The largest family; or one that takes all the others."""
    takers = (family for family, others in TAKES_TOO.items() if shares.keys() - {family} <= others)
    return next((family for family in takers if family in shares), next(iter(shares)))


def _spelt(facts: Facts, known: Collection[str]) -> tuple[str, ...]:
    """The strings among the values that are known ones."""
    labels = facts.labels.get("text")
    return tuple(sorted(text for text in labels.counts if text.strip() in known)) if labels else ()


def _mixed(shares: dict[str, float]) -> Decision:
    """Numbers, strings and truths at one path: labels take all of them."""
    told = ", ".join(f"{percent(share)} {FAMILY[family]}" for family, share in shares.items())
    return Decision(Category(), f"{told}: labels take them all")


def _numbers(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    labels = facts.labels_of("number")
    spelt = sentinel(facts.low, facts.high, labels) if gaps else None
    if spelt is None:
        return number_decision(name, facts.low, facts.high, facts.whole, labels)
    rest = Labels(Budget())
    rest.take([value for value, count in labels.weighted() for _ in range(min(count, ENOUGH)) if value != facts.low])
    found = number_decision(name, min(rest.counts), facts.high, facts.whole, rest)
    met = labels.counts[facts.low]
    return replace(found, missing=(spelt,), gaps=met).because(f"{spelt} stands for no value {times(met)}")


def _strings(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    labels = facts.labels_of("text")
    found = string_decision(name, labels, gaps)
    return replace(found, gaps=round(found.gaps * facts.count["text"] / labels.seen))  # of all, not of those looked at


def _truths(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    seen = facts.count["truth"]
    if facts.true in (0, seen) and seen >= ENOUGH:
        only = "true" if facts.true else "false"
        return Decision(
            Boolean(), f"{only} in all {counted(seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    return Decision(Boolean(), f"true in {percent(facts.true / seen)} of {counted(seen, 'value')}")


def _tagged(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    languages = facts.languages or Counter()
    language, count = languages.most_common(1)[0]
    seen = languages.total()
    if count >= FITS * seen:
        return Decision(Text(language=language), f"text in {language}")
    return Decision(Text(), f"text in {counted(len(languages), 'language')}, most of it in {language}")


def _dates(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    met = facts.dates or Counter()
    finer = [part for part in ("month", "day") if met[part]]
    coarse = [precision for precision in COARSE if met[f"precision {precision}"]]
    told = "dates with " + " and ".join(["a year", *(f"a {part}" for part in finer)]) if finer else "years"
    rough = f", some known to the {' or '.join(coarse)} alone" if coarse else ""
    return Decision(Date(parts=("year", *finer), coarse=bool(coarse)), told + rough)


def _quantities(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    units = facts.units or Counter()
    leaf = number_leaf(facts.low, facts.whole, facts.labels_of("number"))
    ordered = [unit for unit, _ in sorted(units.items(), key=lambda one: (-one[1], one[0] or "")) if unit is not None]
    bare = facts.count.get("number", 0) + units[None]
    if not ordered:
        return Decision(Quantity(value=leaf), "quantities without a unit")
    if len(ordered) > MANY_UNITS:
        main = None if bare else ordered[0]
        return Decision(Quantity(main, {}, leaf, any_unit=True), f"quantities of {len(ordered)} units: any is taken")
    told = f"quantities, all in {ordered[0]}" if len(ordered) == 1 else f"quantities in {counted(len(ordered), 'unit')}"
    kind = quantity_in(Counter({unit: units[unit] for unit in ordered}), leaf, bool(bare))
    return Decision(kind, told + (", some without one" if bare else "") + remark(kind.factors, kind.unit))


def _coordinates(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    return Decision(Coordinate(), "coordinates")


def _links(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    labels = facts.labels_of("link")
    to, told = targets.of(labels)
    reason = f"{counted(labels.distinct(), 'target')} in {counted(labels.seen, 'link')}, {told}"
    if labels.exact and labels.distinct() == 1 and labels.seen >= ENOUGH:
        only = shown(next(iter(labels.counts)))
        return Decision(
            Link(to), f"{only} in all {counted(labels.seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    return Decision(Link(to), reason)


def _others(name: str, facts: Facts, targets: Targets, gaps: bool) -> Decision:
    return Decision(None, FAMILY["other"])


LOOKS: dict[str, Callable[[str, Facts, Targets, bool], Decision]] = {
    "number": _numbers,
    "text": _strings,
    "truth": _truths,
    "tagged": _tagged,
    "date": _dates,
    "quantity": _quantities,
    "coordinate": _coordinates,
    "link": _links,
    "other": _others,
}
