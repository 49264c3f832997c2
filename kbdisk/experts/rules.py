"""The search for rules: what holds exactly between the columns of a source, by vectorised tests that bound chance.

    y = x, y = a x + b          copies, unit conversions          `linear` fits a and b on one half of the rows
    y = u + v, u - v, u v, u/v  sums, products, ratios            screened on some rows, counted on all
    dates                       ages, durations, dates from them
    y = f(x)                    functional dependencies           learnt on one half, tested on the other
    y = z of the entity at x    links, inverse and transitive ones
    y = "{u} {v}"               string templates
    y = latest u                of a list of parts

A column's informative rows, those without its most frequent value, screen the candidates. Each survivor is counted on
all rows where it applies. It is offered where its exceptions are few, where it is far better than the best predictor
that uses less of it (a constant, one input of two), and where the binomial tail of its hits under that predictor,
times the number of candidates tried, stays below SIGNIFICANCE. Numbers count as equal within the digits written;
where decimal inputs of a sum, a difference, a product or a ratio are rounded themselves, also within the error that this
gives the result, up to MAX_INPUT_ERROR.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbdisk.entity import Path
from kbdisk.schemas.rules import Rule

Array: TypeAlias = NDArray[Any]
Unit: TypeAlias = Literal["number", "day", "year"]

SIGNIFICANCE = 1e-4  # probability of a false rule in a source, for each family of candidates
MAX_EXCEPTIONS = 0.12  # share of the rows where a rule applies
MAX_SHARE_OF_CHANCE = 1 / 3  # exceptions, as a share of those of the best predictor that uses less
MIN_SUPPORT = 10
SCREEN_ROWS = 48  # informative rows by which the candidates for a target are screened
TRIPLE_ROWS = 24
MIN_SCREENED = 3
SCREEN_SHARE = 0.65
MIN_INFORMATIVE = 6
MAX_RULES = 6  # of one property
MAX_DISTINCT = 0.9  # of a determinant's labels, as a share of its rows
LOW = (1 << 32) - 1
MAX_PAIRS = 4000  # of rows with one label, by which a dependency is screened
MAX_PATHS = 200_000  # of two links, looked at for each property
MAX_ADDEND_COLUMNS = 200  # of which a sum of three is looked for
MAX_FOUR = 40  # columns of which a sum of four is looked for
MAX_FINALISTS = 40  # of one family for one property
MAX_INPUT_ERROR = 1e-6  # of a result, as a share of it: six digits are right in spite of rounded inputs
SECONDS = 10.0
KNOWN_FACTORS = (
    25.4, 2.54, 0.3048, 0.9144, 1.609344, 1.852, 28.349523125, 453.59237, 3.785411784, 4.184, 4.1868, 0.0254,
    0.45359237, 1055.05585262, 745.69987158, 9.80665, 101325.0, 133.322387415, 6.89475729, 365.25, 365.2425, math.pi,
)  # fmt: skip

# The complexity of a rule: where two rules give the same values, the one with the lower rank is kept.
RANKS = {
    "copy": 0, "linear": 1, "latest": 2, "earliest": 2, "greatest": 2, "least": 2, "total": 2, "count": 2, "first": 3,
    "last": 3, "inverse": 3, "years": 3, "days": 3, "shifted": 1, "later": 3, "earlier": 3, "sum": 4, "difference": 4, "product": 5,
    "ratio": 5, "template": 5, "linked": 6, "determined": 7, "transitive": 8,
}  # fmt: skip


ARITHMETIC = ("linear", "sum", "difference", "product", "ratio")


@dataclass(frozen=True, eq=False)
class Column:
    """A property's values, or those of a part of it, aligned by entity.

    `codes` are equal where values are, in all columns of a table; -1 is a missing value. `numbers` are NaN where a value
    is none; `tolerance` is half of the last digit written. A column that is no `target` is an input alone.
    """

    path: Path
    codes: Array
    numbers: Array | None = None
    tolerance: Array | None = None
    decimals: int | None = None
    unit: Unit = "number"
    texts: Array | None = None  # of str or None
    is_target: bool = True
    determines: bool = True  # whether its labels may determine others: those of dates and their parts do not


@dataclass(frozen=True, eq=False)
class Derived:
    """A value computed from a list of parts for each entity, such as the value with the latest date."""

    kind: str
    of: tuple[Path, ...]
    column: Column


@dataclass(frozen=True, eq=False)
class Links:
    """The links at one path, an edge each: rows of the entities that link, and codes and rows of their targets."""

    sources: Array
    codes: Array
    targets: Array  # -1 for a target outside of the table


@dataclass(frozen=True, eq=False)
class Cause:
    """Labels of a column that may determine other values: codes, each with its row; a row may have several."""

    path: Path
    rows: Array
    codes: Array


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with a row for each entity, their links, and the series derived from lists."""

    size: int
    columns: Sequence[Column]
    derived: Sequence[Derived] = ()
    links: Mapping[Path, Links] = field(default_factory=dict)
    ids: Array | None = None  # the code that a link to each row has

    def at(self, rows: Array) -> Table:
        """The table of some rows alone; links to other rows have no target."""
        place = np.full(self.size + 1, -1)
        place[rows] = np.arange(len(rows))
        links = {}
        for path, edges in self.links.items():
            is_inside = place[edges.sources] >= 0
            links[path] = Links(
                place[edges.sources[is_inside]], edges.codes[is_inside], place[edges.targets[is_inside]]
            )
        derived = [replace(series, column=_at(series.column, rows)) for series in self.derived]
        ids = None if self.ids is None else self.ids[rows]
        return Table(len(rows), [_at(column, rows) for column in self.columns], derived, links, ids)


def _at(column: Column, rows: Array) -> Column:
    parts = {name: getattr(column, name) for name in ("codes", "numbers", "tolerance", "texts")}
    return replace(column, **{name: part[rows] for name, part in parts.items() if part is not None})


@dataclass(frozen=True, eq=False)
class Match:
    """A rule with the rows where it applies, and whether it agrees with the known values there."""

    rule: Rule
    applies: Array  # rows where the inputs are known, whether or not the property is
    known: Array  # rows where the property is known, too
    hits: Array  # whether the rule agrees, for each of `known`
    exact: float = 1.0  # the share of `known` where a number agrees to the digits written, in spite of rounded inputs

    @property
    def examples(self) -> Array:
        """Rows of exceptions."""
        return self.known[~self.hits]


def search(
    table: Table,
    seconds: float = SECONDS,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
    *,
    thorough: bool = True,
) -> list[Match]:
    """The rules that hold among the columns of a table, the simplest of each property first.

    Only a thorough search looks for factors of products and for sums of three and more, which take longest.
    """
    with np.errstate(all="ignore"):  # values beyond the range of floats agree with nothing
        return _Search(table, seconds, seed, significance).run(thorough)


# ---------------------------------------------------------------- agreement by chance


def log_tail(hits: int, count: int, chance: float) -> float:
    """The logarithm of a bound on the probability of so many hits or more by chance (Chernoff, Hoeffding)."""
    share = hits / count if count else 0.0
    if share <= chance:
        return 0.0
    if chance <= 0:
        return -math.inf
    miss_term = 0.0 if share == 1 else (1 - share) * math.log((1 - share) / (1 - chance))
    return -count * (share * math.log(share / chance) + miss_term)


def holds(
    hits: Array, chance: float, tried: int, min_support: int = MIN_SUPPORT, significance: float = SIGNIFICANCE
) -> bool:
    """Whether hits make a rule: few exceptions, far fewer than by chance, and a significant number of hits."""
    count, agree = len(hits), int(hits.sum())
    exceptions = count - agree
    if (
        agree < min_support
        or exceptions > MAX_EXCEPTIONS * count
        or exceptions > MAX_SHARE_OF_CHANCE * (1 - chance) * count
    ):
        return False
    smoothed = (chance * count + 1) / (count + 1)
    return log_tail(agree, count, smoothed) + math.log(max(tried, 1)) < math.log(significance)


def most_frequent_share(values: Array, tolerance: Array) -> float:
    """The largest share of numbers that one number agrees with."""
    if not len(values):
        return 1.0
    order = np.sort(values)
    width = 2 * float(np.median(tolerance)) * (1 + 1e-9)
    ends = np.searchsorted(order, order + width, side="right")
    return float((ends - np.arange(len(order))).max() / len(order))


def most_frequent_code_share(codes: Array) -> float:
    """The share of the most frequent code."""
    if not len(codes):
        return 1.0
    return float(np.unique(codes, return_counts=True)[1].max() / len(codes))


# ---------------------------------------------------------------- the search


class _Search:
    def __init__(self, table: Table, seconds: float, seed: int, significance: float) -> None:
        self.table, self.rng, self.significance = table, np.random.default_rng(seed), significance
        self.until = time.monotonic() + seconds
        self.matches: dict[Path, list[Match]] = {}
        self.tried: Counter[str] = Counter()
        self.half = self.rng.permutation(table.size) % 2 == 0  # fitted on; the others test
        numeric = [column for column in table.columns if column.numbers is not None]
        self.numeric = [column for column in numeric if np.isfinite(column.numbers).sum() >= MIN_SUPPORT]  # type: ignore[arg-type]
        self.targets = [column for column in table.columns if column.is_target]
        self.labelled = [column for column in table.columns if (column.codes >= 0).sum() >= MIN_SUPPORT]
        self.X = _stack([column.numbers for column in self.numeric], table.size)  # type: ignore[misc]
        self.C = _stack([column.codes for column in self.labelled], table.size, dtype=np.int64)
        self.units = np.array([column.unit for column in self.numeric])

    def run(self, thorough: bool) -> list[Match]:
        """All families, the cheapest first, until the time is up."""
        families: list[Callable[[], Iterator[Match]]] = [
            self._copies, self._series, self._scales, self._inverses, self._ages, self._shifted, self._pairs, self._linked,
            self._determined, self._templates, self._transitive,
        ]  # fmt: skip
        if thorough:
            families += [self._scaled_pairs, self._longer_sums]
        for family in families:
            for match in family():
                self.matches.setdefault(match.rule.target, []).append(match)
        self._drop_approximate()
        return [match for path in self.matches for match in self._kept(self.matches[path])]

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until

    # ------------------------------------------------------------ screening

    def _informative(self, column: Column, max_rows: int, where: Array | None = None) -> Array:
        """Rows of a column without its most frequent value, some of them; none where there are too few."""
        rows = np.flatnonzero(column.codes >= 0 if where is None else (column.codes >= 0) & where)
        if len(rows) < MIN_SUPPORT:
            return np.zeros(0, dtype=int)
        codes, counts = np.unique(column.codes[rows], return_counts=True)
        rows = rows[column.codes[rows] != codes[counts.argmax()]]
        if len(rows) < MIN_INFORMATIVE:
            return np.zeros(0, dtype=int)
        return self.rng.permutation(rows)[:max_rows]

    @staticmethod
    def _survivors(hits: Array, present: Array) -> Array:
        """Places of candidates that agree with most of the rows where they have a value, the best first."""
        survives = (present >= MIN_SCREENED) & (hits >= SCREEN_SHARE * present)
        places = np.flatnonzero(survives)
        if len(places) > MAX_FINALISTS:
            rate = (hits[places] + 1) / (present[places] + 2)
            places = places[np.argsort(-rate, kind="stable")[:MAX_FINALISTS]]
        return places

    def _by_number(self, rule: Rule, column: Column, predicted: Array, simpler: Iterable[Array] = (), *, input_error: Array | float = 0.0, held_out: bool = False) -> Match | None:  # fmt: skip
        """The match of a rule by its predicted numbers, if it holds; `simpler` are predictions from fewer inputs.

        `input_error` bounds the errors of the predictions that rounded inputs cause.
        """
        assert column.numbers is not None
        assert column.tolerance is not None
        applies = np.isfinite(predicted)
        known = np.flatnonzero(applies & np.isfinite(column.numbers))
        tolerance = (column.tolerance + np.minimum(input_error, MAX_INPUT_ERROR * np.abs(predicted)))[known]
        truth = column.numbers[known]
        hits = agrees(predicted[known], truth, tolerance)
        if not _is_plausible(hits):
            return None
        chance = most_frequent_share(truth, tolerance)
        for simpler_prediction in simpler:
            chance = max(chance, float(np.mean(agrees(simpler_prediction[known], truth, tolerance))))
        match = self._match(rule, applies, known, hits, chance, held_out)
        exact = float(np.mean(agrees(predicted[known], truth, column.tolerance[known])))
        return None if match is None else replace(match, exact=exact)

    def _by_code(self, rule: Rule, column: Column, predicted: Array, *, held_out: bool = False, known: Array | None = None) -> Match | None:  # fmt: skip
        """The match of a rule by its predicted codes, if it holds."""
        applies = predicted >= 0
        if known is None:
            known = np.flatnonzero(applies & (column.codes >= 0))
        hits = predicted[known] == column.codes[known]
        if not _is_plausible(hits):
            return None
        return self._match(rule, applies, known, hits, most_frequent_code_share(column.codes[known]), held_out)

    def _match(
        self, rule: Rule, applies: Array, known: Array, hits: Array, chance: float, held_out: bool
    ) -> Match | None:
        family = rule.kind
        if not holds(hits, chance, self.tried[family] if not held_out else 1, significance=self.significance):
            return None
        if held_out:
            tested = hits[~self.half[known]]
            if not holds(tested, chance, self.tried[family], MIN_SUPPORT // 2, self.significance):
                return None
        if len(np.unique(known[hits])) < MIN_SUPPORT:
            return None
        agree = int(hits.sum())
        return Match(replace(rule, support=agree, exceptions=len(hits) - agree), np.flatnonzero(applies), known, hits)

    # ------------------------------------------------------------ one input

    def _copies(self) -> Iterator[Match]:
        """Copies of another property, compared by codes, and numbers within their digits."""
        numeric = {id(column): place for place, column in enumerate(self.numeric)}
        self.tried["copy"] += len(self.targets) * (len(self.labelled) + len(self.numeric))
        for column in self.targets:
            rows = self._informative(column, SCREEN_ROWS)
            if not len(rows):
                continue
            place = numeric.get(id(column))
            if place is not None:
                assert column.numbers is not None
                assert column.tolerance is not None
                rows = rows[np.isfinite(column.numbers[rows])]
                X = self.X[rows]
                equal = agrees(X, column.numbers[rows, None], column.tolerance[rows, None])
                for source_place in self._survivors(equal.sum(0), np.isfinite(X).sum(0)):
                    source = self.numeric[source_place]
                    if source.path != column.path and _copies(source.unit, column.unit):
                        match = self._by_number(self._rule(column, "copy", source), column, source.numbers)
                        if match:
                            yield match
            else:
                C = self.C[rows]
                equal = column.codes[rows, None] == C
                for source_place in self._survivors(equal.sum(0), (C >= 0).sum(0)):
                    source = self.labelled[source_place]
                    if source.path != column.path:
                        match = self._by_code(self._rule(column, "copy", source), column, source.codes)
                        if match:
                            yield match

    def _series(self) -> Iterator[Match]:
        """Values computed from a list of parts: its latest, greatest or first value, their count or total."""
        derived = self.table.derived
        N = _stack([_numbers_of(series.column, self.table.size) for series in derived], self.table.size)
        C = _stack([series.column.codes for series in derived], self.table.size, dtype=np.int64)
        for column in self.targets if derived else ():
            rows = self._informative(column, SCREEN_ROWS)
            if not len(rows):
                continue
            equal, present = column.codes[rows, None] == C[rows], C[rows] >= 0
            if column.numbers is not None and column.tolerance is not None:
                equal |= agrees(N[rows], column.numbers[rows, None], column.tolerance[rows, None])
            self.tried["series"] += len(derived)
            for place in self._survivors(equal.sum(0), present.sum(0)):
                series = derived[place]
                if any(path[: len(column.path)] == column.path for path in series.of):
                    continue
                rule = Rule(column.path, series.kind, series.of)
                self.tried[series.kind] = self.tried["series"]
                if column.numbers is not None and series.column.numbers is not None:
                    match = self._by_number(rule, column, series.column.numbers)
                else:
                    match = self._by_code(rule, column, series.column.codes)
                if match:
                    yield match

    def _scales(self) -> Iterator[Match]:
        """y = a x and y = a x + b: medians of ratios and slopes, then the roundest factors that agree with most values."""
        plain = self.units == "number"
        self.tried["linear"] += 2 * len(self.targets) * int(plain.sum())
        for column in self._numeric_targets("number"):
            if self.is_late:
                return
            copied = {match.rule.of[0] for match in self.matches.get(column.path, ()) if match.rule.kind == "copy"}
            rows = self._informative(column, SCREEN_ROWS, self.half & np.isfinite(column.numbers))  # type: ignore[arg-type]
            if len(rows) < MIN_INFORMATIVE or _distinct(column.numbers) < 4:
                continue
            y, X = column.numbers[rows], np.where(plain, self.X[rows], np.nan)  # type: ignore[index]
            for fit, with_offset in ((_scale_screen, False), (_line_screen, True)):
                hits, present = fit(y, X, column.tolerance[rows], self.rng)  # type: ignore[index]
                for place in self._survivors(hits, present):
                    source = self.numeric[place]
                    if source.path == column.path or source.path in copied:
                        continue
                    match = self._fitted_line(column, source, with_offset)
                    if match:
                        copied.add(source.path)
                        yield match

    def _fitted_line(self, column: Column, source: Column, with_offset: bool) -> Match | None:
        assert column.numbers is not None
        assert column.tolerance is not None
        assert source.numbers is not None
        fit = np.flatnonzero(self.half & np.isfinite(column.numbers) & np.isfinite(source.numbers))
        if len(fit) < MIN_SUPPORT // 2 or _distinct(source.numbers[fit]) < 3:
            return None
        line = fit_line(source.numbers[fit], column.numbers[fit], column.tolerance[fit], with_offset)
        if line is None or line[0] == 0 or (line[0] == 1 and line[1] == 0):
            return None
        rule = self._rule(column, "linear", source, factor=line[0], offset=line[1])
        return self._by_number(rule, column, line[0] * source.numbers + line[1], held_out=True)

    def _determined(self) -> Iterator[Match]:
        """Functional dependencies: the value that most entities with the same label have, learnt on one half."""
        targets = [column for column in self.labelled if column.is_target]
        if not targets:
            return
        Y = _stack([column.codes for column in targets], self.table.size, dtype=np.int64)
        distinct = np.array([len(np.unique(column.codes[column.codes >= 0])) for column in targets])
        squares = np.array([_agreement(column.codes) for column in targets])
        once = np.zeros(self.table.size, dtype=bool)
        once[self._once()] = True
        for cause in self._causes():
            if self.is_late:
                return
            rows = np.flatnonzero(once[cause.rows])
            order = rows[np.argsort(cause.codes[rows], kind="stable")]
            is_same_label = cause.codes[order[:-1]] == cause.codes[order[1:]]
            first, second = cause.rows[order[:-1][is_same_label]], cause.rows[order[1:][is_same_label]]
            labels = len(np.unique(cause.codes[order]))
            if len(first) < MIN_SUPPORT // 2 or labels < 3 or labels > MAX_DISTINCT * len(order):
                continue
            if len(first) > MAX_PAIRS:
                some = self.rng.permutation(len(first))[:MAX_PAIRS]
                first, second = first[some], second[some]
            A, B = Y[first], Y[second]
            both_known = (A >= 0) & (B >= 0)
            pairs = both_known.sum(0)
            agree = ((A == B) & both_known).sum(0) / np.maximum(pairs, 1)
            survives = (pairs >= MIN_SUPPORT // 2) & (agree > 0.7) & (1 - agree <= 0.6 * (1 - squares)) & (distinct > 1)
            self.tried["determined"] += len(targets)
            for place in np.flatnonzero(survives):
                column = targets[place]
                if column.path == cause.path or self._is_given_by(column.path, cause.path):
                    continue
                match = self._dependency(column, cause, once)
                if match:
                    yield match

    def _causes(self) -> Iterator[Cause]:
        """The columns of labels and links that may determine other values; of several links each counts."""
        for column in self.labelled:
            edges = self.table.links.get(column.path)
            if edges is not None:
                yield Cause(column.path, edges.sources, edges.codes)
            elif column.determines:
                rows = np.flatnonzero(column.codes >= 0)
                yield Cause(column.path, rows, column.codes[rows])

    def _dependency(self, column: Column, cause: Cause, once: Array) -> Match | None:
        size, known = self.table.size, column.codes >= 0
        fit, test = known & once & self.half, known & once & ~self.half
        learnt = fit[cause.rows]
        predicted = _looked_up(cause.codes[learnt], column.codes[cause.rows[learnt]], cause.codes)
        unanimous = _unanimous(cause.rows, predicted, size)
        tested = np.flatnonzero(test & (unanimous >= 0))
        truth = column.codes[tested]
        hits = unanimous[tested] == truth
        used = np.unique(cause.codes[np.isin(cause.rows, tested[hits])])
        if not _is_plausible(hits) or len(used) < 3 or len(np.unique(truth[hits])) < 2:
            return None
        chance = most_frequent_code_share(truth)
        if not holds(hits, chance, self.tried["determined"], MIN_SUPPORT // 2, self.significance):
            return None
        learnt = known[cause.rows]
        codes, values = cause.codes[learnt], column.codes[cause.rows[learnt]]
        everywhere = _unanimous(cause.rows, _looked_up(codes, values, cause.codes), size)
        predicted_by_others = np.full(len(cause.codes), -1)
        predicted_by_others[learnt] = _by_others(codes, values)
        judged = _unanimous(cause.rows, predicted_by_others, size)
        rows = np.flatnonzero(known & (judged >= 0))
        hits = judged[rows] == column.codes[rows]
        rule = Rule(column.path, "determined", (cause.path,))
        if not _is_plausible(hits):
            return None
        return self._match(rule, everywhere >= 0, rows, hits, most_frequent_code_share(column.codes[rows]), False)

    def _once(self) -> Array:
        """The distinct rows: a repeated row supports no rule again."""
        if self.C.shape[1] < 5 or self.table.size < 2:
            return np.arange(self.table.size)
        several = [place for place, column in enumerate(self.labelled) if not self._is_name(column)]
        if len(several) < 5:
            return np.arange(self.table.size)
        return np.sort(np.unique(self.C[:, several], axis=0, return_index=True)[1])

    def _is_name(self, column: Column) -> bool:
        codes = column.codes[column.codes >= 0]
        return column.numbers is None and len(np.unique(codes)) > MAX_DISTINCT * len(codes)

    def _is_given_by(self, target: Path, cause: Path) -> bool:
        """Whether a rule with this single input was found for the target."""
        return any(match.rule.of == (cause,) for match in self.matches.get(target, ()))

    # ------------------------------------------------------------ two inputs

    def _ages(self) -> Iterator[Match]:
        """Whole years between two dates."""
        days = [column for column in self.numeric if column.unit == "day"]
        for column in self._numeric_targets("number"):
            rows = self._informative(column, SCREEN_ROWS)
            for later, earlier in itertools.permutations(days, 2) if len(rows) else ():
                self.tried["years"] += 1
                assert later.numbers is not None
                assert earlier.numbers is not None
                span = (later.numbers[rows] - earlier.numbers[rows]) / 365.2425 - column.numbers[rows]  # type: ignore[index]
                near = (span > -0.02) & (span < 1.02)
                if near.sum() < max(MIN_SCREENED, SCREEN_SHARE * np.isfinite(span).sum()):
                    continue
                predicted = years_between(later.numbers, earlier.numbers)
                match = self._by_number(self._rule(column, "years", later, earlier), column, predicted)
                if match:
                    yield match

    def _shifted(self) -> Iterator[Match]:
        """Dates that are always so many days after others."""
        days = [column for column in self.numeric if column.unit == "day"]
        for column in self._numeric_targets("day"):
            rows = self._informative(column, SCREEN_ROWS, self.half)
            for source in days if len(rows) else ():
                self.tried["shifted"] += 1
                if source.path == column.path or self._is_given_by(column.path, source.path):
                    continue
                assert column.numbers is not None
                assert source.numbers is not None
                spans = column.numbers[rows] - source.numbers[rows]
                offset = _middle(spans)
                if not offset or (spans == offset).sum() < max(MIN_SCREENED, SCREEN_SHARE * np.isfinite(spans).sum()):
                    continue
                rule = self._rule(column, "shifted", source, offset=offset)
                match = self._by_number(rule, column, source.numbers + offset, held_out=True)
                if match:
                    yield match

    def _pairs(self) -> Iterator[Match]:
        """Sums, differences, products and ratios of two columns."""
        for column in self._numeric_targets("number", "day", "year"):
            if self.is_late:
                return
            rows = self._informative(column, TRIPLE_ROWS, np.isfinite(column.numbers))  # type: ignore[arg-type]
            if not len(rows) or _distinct(column.numbers) < 4:
                continue
            present = np.isfinite(self.X[rows]).sum(0)
            place = next(other_place for other_place, numeric in enumerate(self.numeric) if numeric is column)
            single = {match.rule.of[0] for match in self.matches.get(column.path, ()) if len(match.rule.of) == 1}
            usable = [
                other_place for other_place in np.flatnonzero(present >= MIN_SCREENED) if other_place != place and self.numeric[other_place].path not in single
            ]  # fmt: skip
            yield from self._pairs_of(column, rows, np.array(usable, dtype=int))

    def _pairs_of(self, column: Column, rows: Array, usable: Array) -> Iterator[Match]:
        assert column.numbers is not None
        assert column.tolerance is not None
        A, y, tolerance = self.X[np.ix_(rows, usable)], column.numbers[rows], column.tolerance[rows]
        units, size = self.units[usable], len(usable)
        upper = np.triu(np.ones((size, size), dtype=bool), 1)
        is_finite = np.isfinite(A).astype(np.float32)
        present = is_finite.T @ is_finite
        moment = column.unit != "number"
        plain = (units == "number")[:, None] & (units == "number")[None, :]
        mixed = (units == column.unit)[:, None] & (units == "number")[None, :]
        alike = (units[:, None] == units[None, :]) & ~np.eye(size, dtype=bool)
        rounding = np.stack([_rounding(self.numeric[place])[rows] for place in usable], 1) if size else A
        is_rounded, max_error = bool(rounding.any()), MAX_INPUT_ERROR * np.abs(y)
        operations: list[tuple[str, Array]] = [
            ("sum", (mixed if column.unit != "number" else plain & upper)),
            ("difference", mixed if moment else alike),
        ]
        if not moment:
            operations += [("product", plain & (upper | np.eye(size, dtype=bool))), ("ratio", plain & ~np.eye(size, dtype=bool))]  # fmt: skip
        for name, allowed in operations:
            if not allowed.any():
                continue
            self.tried[name] += int(allowed.sum())
            hits = np.zeros((size, size), dtype=np.int32)
            for row in range(len(rows)):
                u, v = A[row][:, None], A[row][None, :]
                allowed_error = tolerance[row]
                if is_rounded:
                    input_error = _input_error(name, u, v, rounding[row][:, None], rounding[row][None, :])
                    allowed_error = allowed_error + np.minimum(input_error, max_error[row])
                hits += agrees(OPERATIONS[name](u, v), y[row], allowed_error)
            flat = np.flatnonzero(allowed.ravel())
            for place in flat[self._survivors(hits.ravel()[flat], present.ravel()[flat])]:
                first, second = self.numeric[usable[place // size]], self.numeric[usable[place % size]]
                match = self._match_pair(name, column, first, second)
                if match:
                    yield match

    def _match_pair(
        self, name: str, column: Column, first: Column, second: Column, factor: float = 1.0
    ) -> Match | None:
        u, v = first.numbers, second.numbers
        assert u is not None
        assert v is not None
        assert column.numbers is not None
        predicted = factor * OPERATIONS[name](u, v)
        simpler = list(_single_input_predictions(name, column.numbers, u, v, predicted))
        kind = KINDS_OF_DAYS.get((name, column.unit, first.unit, second.unit), name)
        rule = self._rule(column, kind, first, second, factor=factor)
        self.tried[kind] = max(self.tried[kind], self.tried[name])
        input_error = abs(factor) * _input_error(name, u, v, _rounding(first), _rounding(second))
        return self._by_number(rule, column, predicted, simpler, input_error=input_error, held_out=factor != 1.0)

    def _scaled_pairs(self) -> Iterator[Match]:
        """factor * u * v and factor * u / v; the factor is estimated by the median."""
        for column in self._unexplained():
            rows = self._informative(column, TRIPLE_ROWS, self.half & np.isfinite(column.numbers))  # type: ignore[arg-type]
            if not len(rows) or _distinct(column.numbers) < 8:
                continue
            present = np.isfinite(self.X[rows]).sum(0)
            usable = np.flatnonzero((present >= MIN_SCREENED) & (self.units == "number"))
            usable = np.array([place for place in usable if self.numeric[place] is not column], dtype=int)
            yield from self._scaled_pairs_of(column, rows, usable)

    def _scaled_pairs_of(self, column: Column, rows: Array, usable: Array) -> Iterator[Match]:
        assert column.numbers is not None
        assert column.tolerance is not None
        y, A, tolerance = column.numbers[rows], self.X[np.ix_(rows, usable)], column.tolerance[rows]
        with np.errstate(all="ignore"):
            logs = np.where(A != 0, np.log(np.abs(A)), np.nan).astype(np.float32)
            target = np.where(y != 0, np.log(np.abs(y)), np.nan).astype(np.float32)
            slack = np.minimum(2 * tolerance / np.abs(y), 0.2).astype(np.float32) + 4e-6
        wide = slack[:, None] + np.nanmedian(slack)
        for name, sign in (("product", 1), ("ratio", -1)):
            for first_place in range(len(usable)):  # the first factor, with all others at once
                log_factors = target[:, None] - logs[:, first_place, None] - sign * logs
                middle = _median(log_factors)
                near = np.abs(log_factors - middle) <= wide
                self.tried[name] += len(usable)
                for second_place in self._survivors(near.sum(0), np.isfinite(log_factors).sum(0)):
                    if second_place == first_place or (name == "product" and second_place < first_place):
                        continue
                    match = self._with_factor(
                        name, column, self.numeric[usable[first_place]], self.numeric[usable[second_place]]
                    )
                    if match:
                        yield match
            if self.is_late:
                return

    def _with_factor(self, name: str, column: Column, first: Column, second: Column) -> Match | None:
        u, v = first.numbers, second.numbers
        assert u is not None
        assert v is not None
        assert column.numbers is not None
        assert column.tolerance is not None
        base = OPERATIONS[name](u, v)
        fit = np.flatnonzero(self.half & np.isfinite(base) & np.isfinite(column.numbers) & (base != 0))
        if len(fit) < MIN_SUPPORT // 2:
            return None
        line = fit_line(base[fit], column.numbers[fit], column.tolerance[fit], with_offset=False)
        if line is None or line[0] in (0.0, 1.0):
            return None
        return self._match_pair(name, column, first, second, line[0])

    def _longer_sums(self) -> Iterator[Match]:
        """Sums of three columns, and of four where there are few; no addend is negative or greater than the sum."""
        for column in self._unexplained():
            rows = self._informative(column, SCREEN_ROWS, np.isfinite(column.numbers))  # type: ignore[arg-type]
            usable = self._addends(column, rows)
            if len(usable) < 3:
                continue
            for count in (3, 4) if len(usable) <= MAX_FOUR else (3,):
                self.tried["sum"] += math.comb(len(usable), count)
                for addends in self._screened_sums(column, rows, usable, count):
                    columns = [self.numeric[place] for place in addends]
                    predicted = np.sum([addend.numbers for addend in columns], axis=0)  # type: ignore[arg-type]
                    simpler = [predicted - addend.numbers + _middle(addend.numbers) for addend in columns]  # type: ignore[arg-type]
                    input_error = np.sum([_rounding(addend) for addend in columns], axis=0)
                    rule = self._rule(column, "sum", *columns)
                    match = self._by_number(rule, column, predicted, simpler, input_error=input_error)
                    if match:
                        yield match
                        break
                else:
                    continue
                break

    def _addends(self, column: Column, rows: Array) -> Array:
        """The columns that may be addends of a sum."""
        if not len(rows) or _distinct(column.numbers) < MIN_SUPPORT:
            return rows[:0]
        X, y = self.X[rows], column.numbers[rows][:, None]  # type: ignore[index]
        present = np.isfinite(X)
        with np.errstate(invalid="ignore"):
            fits = (present & (X >= 0) & (y >= X)).sum(0)
        may_be_part = (present.sum(0) >= MIN_SCREENED) & (fits >= 0.85 * present.sum(0)) & (self.units == "number")
        places = np.flatnonzero(may_be_part)
        return np.array(
            [place for place in places if self.numeric[place] is not column and _distinct(self.numeric[place].numbers) >= 4], dtype=int
        )[:MAX_ADDEND_COLUMNS]  # fmt: skip

    def _screened_sums(self, column: Column, rows: Array, usable: Array, count: int) -> list[tuple[int, ...]]:
        """The sets of columns whose sums agree on most rows where all are known: pairs are looked up among pairs or columns."""
        first, second = np.triu_indices(len(usable), 1)
        keys_of_rows: list[Array] = []
        max_rounding = np.max([_rounding(self.numeric[place]) for place in usable], axis=0)
        for row in rows:
            values = self.X[row, usable]
            pairs = values[first] + values[second]
            finite = np.flatnonzero(np.isfinite(pairs))
            finite = finite[np.argsort(pairs[finite])]
            sums = pairs[finite]
            missing_sums = column.numbers[row] - (values if count == 3 else pairs)  # type: ignore[index]
            known = np.flatnonzero(np.isfinite(missing_sums))
            width = column.tolerance[row] * (1 + 1e-9) + 4e-12 * abs(column.numbers[row])  # type: ignore[index]
            width += min(count * max_rounding[row], MAX_INPUT_ERROR * abs(column.numbers[row]))  # type: ignore[index]
            low, high = (
                np.searchsorted(sums, missing_sums[known] - width),
                np.searchsorted(sums, missing_sums[known] + width, "right"),
            )
            total = int((high - low).sum())
            if not total or total > MAX_PATHS:
                continue
            missing_places = np.repeat(known, high - low)
            sum_places = (
                np.arange(total)
                - np.repeat(np.cumsum(high - low) - (high - low), high - low)
                + np.repeat(low, high - low)
            )
            right = finite[sum_places]
            parts = [
                first[right],
                second[right],
                *([missing_places] if count == 3 else [first[missing_places], second[missing_places]]),
            ]
            sets = np.sort(np.stack(parts, axis=1), axis=1)
            sets = sets[(np.diff(sets, axis=1) > 0).all(1)]
            keys = (sets * len(usable) ** np.arange(count)).sum(1)
            keys_of_rows.append(np.unique(keys))
        if not keys_of_rows:
            return []
        keys, counts = np.unique(np.concatenate(keys_of_rows), return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_FINALISTS]
        kept = []
        for key, agreeing in zip(keys[order], counts[order], strict=True):
            addends = usable[[key // len(usable) ** place % len(usable) for place in range(count)]]
            present = np.isfinite(self.X[np.ix_(rows, addends)]).all(1).sum()
            if agreeing >= MIN_SCREENED and agreeing >= SCREEN_SHARE * present:
                kept.append(tuple(int(place) for place in addends))
        return kept

    # ------------------------------------------------------------ links

    def _inverses(self) -> Iterator[Match]:
        """Links with an inverse: another path, or the same one, that leads back."""
        if self.table.ids is None:
            return
        by_path = {column.path: column for column in self.table.columns}
        for back, edges in self.table.links.items():
            is_entity = edges.targets >= 0
            sources, targets = edges.sources[is_entity], edges.targets[is_entity]
            if len(sources) < MIN_SUPPORT:
                continue
            ids = self.table.ids[sources]
            for path, links in self.table.links.items():
                column = by_path.get(path)
                self.tried["inverse"] += 1
                if column is None or not column.is_target:
                    continue
                has = np.zeros(self.table.size, dtype=bool)
                has[links.sources] = True
                known = has[targets]
                if known.sum() < MIN_SUPPORT:
                    continue
                pairs = _pair(links.sources, links.codes)
                hits = np.isin(_pair(targets[known], ids[known]), pairs)
                if not _is_plausible(hits):
                    continue
                reached = np.unique(targets[known])
                common = np.unique(links.codes[np.isin(links.sources, reached)], return_counts=True)[1].max()
                applies = np.zeros(self.table.size, dtype=bool)
                applies[targets] = True
                match = self._match(
                    Rule(path, "inverse", (back,)), applies, targets[known], hits, min(common / len(reached), 1.0), False
                )  # fmt: skip
                if match:
                    yield match

    def _linked(self) -> Iterator[Match]:
        """The value at a path of the only linked entity."""
        for link, edges in self.table.links.items():
            if self.is_late:
                return
            target_rows = np.full(self.table.size, -1)
            target_rows[edges.sources] = edges.targets
            several = np.bincount(edges.sources, minlength=self.table.size) > 1
            target_rows[several] = -1
            target_rows[target_rows == np.arange(self.table.size)] = -1
            if (target_rows >= 0).sum() < MIN_SUPPORT:
                continue
            pulled = np.where((target_rows >= 0)[:, None], self.C[target_rows], -1)
            useful = np.flatnonzero((pulled >= 0).sum(0) >= MIN_SUPPORT)
            for column in self.targets:
                rows = self._informative(column, SCREEN_ROWS, target_rows >= 0)
                self.tried["linked"] += len(useful)
                if not len(rows) or not len(useful) or column.path == link:
                    continue
                P = pulled[np.ix_(rows, useful)]
                for place in self._survivors((column.codes[rows, None] == P).sum(0), (P >= 0).sum(0)):
                    source = self.labelled[useful[place]]
                    if self._is_given_by(column.path, link):
                        continue
                    rule = Rule(column.path, "linked", (link, source.path))
                    match = self._by_code(rule, column, pulled[:, useful[place]])
                    if match:
                        yield match

    def _transitive(self) -> Iterator[Match]:
        """Transitive links: a link followed by another at the same path, whose target is linked directly, too."""
        by_path = {column.path: column for column in self.table.columns}
        for path, edges in self.table.links.items():
            if self.is_late:
                return
            column = by_path.get(path)
            self.tried["transitive"] += 1
            inner = np.flatnonzero(edges.targets >= 0)
            if column is None or not column.is_target or len(inner) < MIN_SUPPORT or self.table.ids is None:
                continue
            order = np.argsort(edges.sources, kind="stable")
            starts = np.searchsorted(edges.sources[order], np.arange(self.table.size + 1))
            counts = starts[edges.targets[inner] + 1] - starts[edges.targets[inner]]
            if counts.sum() > MAX_PATHS:
                inner = self.rng.permutation(inner)[: max(int(len(inner) * MAX_PATHS / counts.sum()), 1)]
                counts = starts[edges.targets[inner] + 1] - starts[edges.targets[inner]]
            first = np.repeat(inner, counts)
            if len(first) < MIN_SUPPORT:
                continue
            within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
            second = order[starts[edges.targets[first]] + within]
            ends = edges.codes[second]
            is_other_end = (ends != self.table.ids[edges.sources[first]]) & (ends != edges.codes[first])
            first, ends = first[is_other_end], ends[is_other_end]
            hits = np.isin(_pair(edges.sources[first], ends), _pair(edges.sources, edges.codes))
            if not len(hits) or not _is_plausible(hits) or len(np.unique(edges.sources[first])) < MIN_SUPPORT:
                continue
            heads = np.unique(edges.sources[first])
            head_ends, counts = np.unique(edges.codes[np.isin(edges.sources, heads)], return_counts=True)
            place = np.minimum(np.searchsorted(head_ends, ends), len(head_ends) - 1)
            share = np.where(head_ends[place] == ends, counts[place] / len(heads), 0.0)
            chance = min(float(share.mean()), 1.0)  # of a link to the target of the second, whatever the first is
            sources = edges.sources[first]
            applies = np.zeros(self.table.size, dtype=bool)
            applies[sources] = True
            match = self._match(Rule(path, "transitive", (path,)), applies, sources, hits, chance, False)
            if match:
                yield match

    # ------------------------------------------------------------ strings

    def _templates(self) -> Iterator[Match]:
        """Strings put together from others: the template that most rows of one half have in common."""
        sources = [column for column in self.table.columns if column.texts is not None]
        for column in self.targets:
            if self.is_late:
                return
            if column.texts is None or column.numbers is not None:
                continue
            rows = self._informative(column, SCREEN_ROWS, self.half)
            other_columns = [source for source in sources if source.path != column.path]
            self.tried["template"] += len(other_columns)
            within = [source for source in other_columns if self._is_within(column, source, rows)] if len(rows) else []
            for template, slots in self._templates_of(column, within, rows)[:3]:
                if len(slots) == 1 and template == "{}":
                    continue
                predicted = _rendered(template, [source.texts for source in slots])
                rule = Rule(column.path, "template", tuple(source.path for source in slots), template=template)
                self.tried["template"] += 1
                match = self._by_text(rule, column, predicted)
                if match:
                    yield match

    def _is_within(self, column: Column, other: Column, rows: Array) -> bool:
        """Whether most strings of a column hold those of another."""
        assert column.texts is not None
        assert other.texts is not None
        text_pairs = [(column.texts[row], other.texts[row]) for row in rows if column.texts[row] and other.texts[row]]
        inside = sum(part in text and part != text for text, part in text_pairs)
        return len(text_pairs) >= MIN_SCREENED and inside >= SCREEN_SHARE * len(text_pairs)

    def _templates_of(
        self, column: Column, columns: Sequence[Column], rows: Array
    ) -> list[tuple[str, tuple[Column, ...]]]:
        """The templates that strings have in common, the most frequent first."""
        template_counts: Counter[tuple[str, tuple[int, ...]]] = Counter()
        for row in rows:
            text = column.texts[row]  # type: ignore[index]
            parts = [(source.texts[row], number) for number, source in enumerate(columns) if source.texts[row]]  # type: ignore[index]
            if text and parts:
                template_counts[_template_of(text, sorted(parts, key=lambda part: (-len(part[0]), part[1])))] += 1
        common = [
            (template, slots)
            for (template, slots), count in template_counts.most_common()
            if slots and count >= MIN_SCREENED
        ]
        return [(template, tuple(columns[number] for number in slots)) for template, slots in common if len(slots) <= 8]

    def _by_text(self, rule: Rule, column: Column, predicted: Array) -> Match | None:
        assert column.texts is not None
        applies = np.array([text is not None for text in predicted], dtype=bool)
        known = np.flatnonzero(applies & np.array([text is not None for text in column.texts], dtype=bool))
        hits = np.array([predicted[row] == column.texts[row] for row in known], dtype=bool)
        if not _is_plausible(hits):
            return None
        chance = most_frequent_code_share(column.codes[known])
        return self._match(rule, applies, known, hits, chance, True)

    # ------------------------------------------------------------ selection

    def _drop_approximate(self) -> None:
        """Drop approximate rules, such as amount = quotient * divisor where the quotient is a rounded ratio."""
        fewest: dict[frozenset[Path], float] = {}
        for match in itertools.chain.from_iterable(self.matches.values()):
            paths = frozenset((match.rule.target, *match.rule.of))
            share = match.rule.exceptions / len(match.known)
            fewest[paths] = min(fewest.get(paths, 1.0), share)
        for path, matches in self.matches.items():
            self.matches[path] = [
                match
                for match in matches
                if match.rule.kind not in ARITHMETIC
                or match.rule.exceptions <= (2 * fewest[frozenset((path, *match.rule.of))] + 0.01) * len(match.known)
            ]

    def _unexplained(self) -> Iterator[Column]:
        """Numeric columns without a rule other than dependencies, until the time is up."""
        for column in self._numeric_targets("number"):
            if self.is_late:
                return
            if all(match.rule.kind in ("determined", "linked") for match in self.matches.get(column.path, ())):
                yield column

    def _numeric_targets(self, *units: Unit) -> list[Column]:
        return [column for column in self.numeric if column.is_target and column.unit in units]

    def _rule(self, column: Column, kind: str, *inputs: Column, factor: float = 1.0, offset: float = 0.0) -> Rule:
        computed = kind in ARITHMETIC and column.unit == "number"
        paths = tuple(source.path for source in inputs)
        return Rule(column.path, kind, paths, factor, offset, decimals=column.decimals if computed else None)

    def _kept(self, matches: Sequence[Match]) -> list[Match]:
        """The rules of a property: the simplest first, and of a kind those that hold to the digit before those that do not.

        A further rule is kept if it applies to rows that no earlier one does.
        """
        kept: list[Match] = []
        covered = np.zeros(self.table.size, dtype=bool)
        kept_rules: set[Rule] = set()
        order = sorted(
            matches,
            key=lambda match: (
                RANKS[match.rule.kind],
                match.exact < 1 - MAX_EXCEPTIONS,
                -_rate(match.rule),
                -match.rule.support,
            ),
        )
        for match in order:
            if match.rule in kept_rules or (
                kept and match.rule.kind not in ("inverse", "transitive") and covered[match.applies].all()
            ):
                continue
            kept_rules.add(match.rule)
            kept.append(match)
            covered[match.applies] = True
            if len(kept) == MAX_RULES:
                break
        return kept


def _rate(rule: Rule) -> float:
    return round(rule.confidence, 2)


# ---------------------------------------------------------------- numbers


OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "difference": np.subtract,
    "product": np.multiply,
    "ratio": lambda u, v: np.divide(u, np.where(v == 0, np.nan, v)),
}
KINDS_OF_DAYS = {  # the kinds of rules for sums and differences of days
    ("difference", "number", "day", "day"): "days",
    ("sum", "day", "day", "number"): "later",
    ("difference", "day", "day", "number"): "earlier",
}


def agrees(predicted: Array, truth: Array, tolerance: Array) -> Array:
    """Whether numbers are equal within a tolerance, such as half of the last digit written."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(predicted - truth) <= tolerance + 4e-12 * np.abs(truth))


def years_between(later: Array, earlier: Array) -> Array:
    """The whole years between days, by their numbers."""
    result = np.full(len(later), np.nan)
    rows = np.flatnonzero(np.isfinite(later) & np.isfinite(earlier))
    y1, m1, d1 = civil(later[rows].astype(np.int64))
    y0, m0, d0 = civil(earlier[rows].astype(np.int64))
    result[rows] = y1 - y0 - ((m1 < m0) | ((m1 == m0) & (d1 < d0)))
    return result


def civil(days: Array) -> tuple[Array, Array, Array]:
    """Year, month and day of day numbers (Hinnant's algorithm); 1 is the first day of year 1."""
    z = days + 305
    era = z // 146097
    day_of_era = z - era * 146097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    return year + era * 400 + (month <= 2), month, day


def fit_line(x: Array, y: Array, tolerance: Array, with_offset: bool) -> tuple[float, float] | None:
    """The roundest factor, and offset, with which most values agree."""
    offset = 0.0
    if not with_offset:
        factor = _stabbed(x, y, tolerance)
        return None if factor is None else (factor, 0.0)
    slope = _slope(x, y)
    if slope is None:
        return None
    offset = float(np.median(y - slope * x))
    for width in (20.0, 4.0, 2.0, 1.0):
        near = np.abs(slope * x + offset - y) <= width * tolerance + 1e-9 * np.abs(y)
        if near.sum() < MIN_SUPPORT // 2 or np.ptp(x[near]) == 0:
            return None
        centre = x[near].mean()
        slope, level = np.polyfit(x[near] - centre, y[near], 1)
        offset = float(level - slope * centre)
    span = float(np.ptp(x[near]))
    step = float(np.median(tolerance)) / max(span, 1e-300) + 1e-12 * abs(slope)
    for width in (1.0, 0.3, 0.1, 0.0):  # a rounder slope, as long as an offset agrees with as many values
        factor = _roundest(slope - width * step, slope + width * step) if width else float(slope)
        spread = _interval(y - factor * x, tolerance)
        if factor and spread is not None and spread[2] >= near.sum():
            zero = _roundest(
                -spread[1] / factor, -spread[0] / factor
            )  # of x, where y is nothing: 32 degrees Fahrenheit
            offset = _roundest(spread[0], spread[1])
            return factor, offset if len(f"{abs(offset):.15g}") <= len(f"{abs(zero):.15g}") else -factor * zero
    return None


def _stabbed(x: Array, y: Array, tolerance: Array) -> float | None:
    """The factor with the fewest digits within most of the intervals that the values allow."""
    nonzero = x != 0
    if nonzero.sum() < MIN_SUPPORT // 2:
        return None
    x, y, tolerance = x[nonzero], y[nonzero], tolerance[nonzero]
    interval = _interval(y / x, (tolerance + 4e-12 * np.abs(y)) / np.abs(x))
    return None if interval is None else _roundest(interval[0], interval[1])


def _interval(middles: Array, widths: Array) -> tuple[float, float, int] | None:
    """The range in which most of the intervals [middle - width, middle + width] overlap, and how many do."""
    if not len(middles):
        return None
    ends = np.concatenate([middles - widths, middles + widths])
    steps = np.concatenate([np.ones(len(middles), dtype=int), -np.ones(len(middles), dtype=int)])
    order = np.lexsort((-steps, ends))
    depth = np.cumsum(steps[order])
    deepest = int(depth.argmax())
    following = min(deepest + 1, len(order) - 1)
    return float(ends[order[deepest]]), float(ends[order[following]]), int(depth[deepest])


def _roundest(low: float, high: float) -> float:
    """The number of fewest digits between two bounds; a unit's factor or a reciprocal, if one lies between them."""
    if low > high:
        low, high = high, low
    middle = (low + high) / 2
    if low <= 0 <= high:
        return 0.0
    for digits in range(1, 4):
        number = float(f"{middle:.{digits}g}")
        if low <= number <= high:
            return number
    for factor in KNOWN_FACTORS:
        for number in (factor, 1 / factor, factor * 1000, factor / 1000):
            if low <= math.copysign(number, middle) <= high:
                return math.copysign(number, middle)
    inverse = 1 / middle
    for digits in range(1, 5):
        number = 1 / float(f"{inverse:.{digits}g}")
        if low <= number <= high:
            return number
    for digits in range(4, 17):
        number = float(f"{middle:.{digits}g}")
        if low <= number <= high:
            return number
    return middle


def _slope(x: Array, y: Array) -> float | None:
    """The median slope between values that are far apart (Theil-Sen)."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    half = len(x) // 2
    dx, dy = x[half:] - x[: len(x) - half], y[half:] - y[: len(y) - half]
    differs = dx > 0
    return float(np.median(dy[differs] / dx[differs])) if differs.any() else None


def _scale_screen(y: Array, X: Array, tolerance: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        ratios = np.where(X != 0, y[:, None] / X, np.nan)
        factor = _median(ratios)
        slack = np.nanmedian(tolerance / np.abs(y)) if (y != 0).any() else 0.0
        near = np.abs(factor * X - y[:, None]) <= 2 * tolerance[:, None] + 2 * slack * np.abs(y[:, None]) + 1e-9 * np.abs(y[:, None])  # fmt: skip
    return near.sum(0), np.isfinite(X).sum(0)


def _line_screen(y: Array, X: Array, tolerance: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    slopes = []
    with np.errstate(all="ignore"):
        for _ in range(3):
            partner = rng.permutation(len(y))
            dy, dX = y - y[partner], X - X[partner]
            far = np.abs(dX) >= _median(np.abs(dX))
            slopes.append(np.where(far & (dX != 0), dy[:, None] / dX, np.nan))
        slope = _median(np.concatenate(slopes))
        offset = _median(y[:, None] - slope * X)
        known = np.isfinite(X)
        spread = np.where(known, X, -np.inf).max(0) - np.where(known, X, np.inf).min(0)
        near = np.abs(slope * X + offset - y[:, None]) <= 6 * tolerance[:, None] + 1e-6 * np.abs(slope) * spread
    return np.where(spread > 0, near.sum(0), 0), np.isfinite(X).sum(0)


def _median(values: Array) -> Array:
    """The median of each column without NaN; NaN of a column without values."""
    order = np.sort(values, axis=0)
    counts = np.isfinite(values).sum(0)
    middle = np.take_along_axis(order, np.maximum((counts - 1) // 2, 0)[None], axis=0)[0]
    return np.where(counts > 0, middle, np.nan)


def _single_input_predictions(name: str, y: Array, u: Array, v: Array, predicted: Array) -> Iterator[Array]:
    """The predictions from each input alone, with the other one replaced by a constant."""
    known = np.isfinite(predicted) & np.isfinite(y)
    with np.errstate(all="ignore"):
        if name in ("sum", "difference"):
            sign = 1 if name == "sum" else -1
            yield u + _middle((y - u)[known])
            yield sign * v + _middle((y - sign * v)[known])
        else:
            factor = v if name == "product" else 1 / np.where(v == 0, np.nan, v)
            yield u * _middle((y / u)[known])
            yield factor * _middle((y / factor)[known])


def _input_error(name: str, u: Array, v: Array, u_error: Array, v_error: Array) -> Array:
    """A bound on the error that errors of two inputs cause in the result of an operation."""
    if name == "product":
        return np.asarray(np.abs(u) * v_error + np.abs(v) * u_error)
    if name == "ratio":
        return np.asarray((u_error + np.abs(u / v) * v_error) / np.abs(v))
    return np.asarray(u_error + v_error)


def _rounding(column: Column) -> Array:
    """Half of the last digit of decimal numbers; whole numbers, such as counts and days, are exact."""
    assert column.tolerance is not None
    return np.zeros_like(column.tolerance) if column.decimals == 0 else column.tolerance


def _middle(values: Array) -> float:
    values = values[np.isfinite(values)]
    if not len(values):
        return math.nan
    rounded, counts = np.unique(np.round(values, 9), return_counts=True)
    return float(rounded[counts.argmax()]) if counts.max() > 1 else float(np.median(values))


def _copies(source: Unit, target: Unit) -> bool:
    return source == target or {source, target} == {"number", "year"}


def _numbers_of(column: Column, size: int) -> Array:
    return np.full(size, np.nan) if column.numbers is None else column.numbers


def _distinct(numbers: Array | None) -> int:
    return 0 if numbers is None else len(np.unique(numbers[np.isfinite(numbers)]))


def _is_plausible(hits: Array) -> bool:
    """Whether hits have few enough exceptions to be those of a rule."""
    return len(hits) >= MIN_SUPPORT // 2 and int((~hits).sum()) <= MAX_EXCEPTIONS * len(hits)


# ---------------------------------------------------------------- codes and strings


def _stack(columns: Sequence[Array], size: int, dtype: Any = float) -> Array:
    return np.column_stack(columns) if columns else np.zeros((size, 0), dtype=dtype)


def _agreement(codes: Array) -> float:
    """The probability that two random values of a column are equal."""
    counts = np.unique(codes[codes >= 0], return_counts=True)[1]
    return float(((counts / counts.sum()) ** 2).sum()) if len(counts) else 1.0


def _looked_up(causes: Array, values: Array, wanted: Array) -> Array:
    """The most frequent value of each wanted label; -1 where a label is new."""
    if not len(causes):
        return np.full(len(wanted), -1)
    keys, counts = np.unique(_pair(causes, values), return_counts=True)
    pairs = keys >> 32, keys & LOW
    order = np.lexsort((-counts, pairs[0]))
    labels, first = np.unique(pairs[0][order], return_index=True)
    best = pairs[1][order][first]
    place = np.minimum(np.searchsorted(labels, wanted), len(labels) - 1)
    return np.where((labels[place] == wanted) & (wanted >= 0), best[place], -1)


def _by_others(causes: Array, values: Array) -> Array:
    """For each row the most frequent value of the other rows with its label; -1 where there is no other."""
    keys, counts = np.unique(_pair(causes, values), return_counts=True)
    pairs = keys >> 32, keys & LOW
    order = np.lexsort((-counts, pairs[0]))
    _, first, distinct = np.unique(pairs[0][order], return_index=True, return_counts=True)
    best, second = pairs[1][order][first], np.zeros(len(first), dtype=int)
    several = distinct > 1
    second[several] = counts[order][first[several] + 1]
    runner_up = np.full(len(first), -1)
    runner_up[several] = pairs[1][order][first[several] + 1]
    label = np.searchsorted(pairs[0][order][first], causes)
    top = counts[order][first][label]
    is_best = values == best[label]
    loses = is_best & (top - 1 < second[label])
    alone = is_best & (top == 1) & ~several[label]
    return np.where(alone, -1, np.where(loses, runner_up[label], best[label]))


def _unanimous(rows: Array, predicted: Array, size: int) -> Array:
    """The value that all labels of a row predict; -1 where they differ, or none predicts one."""
    is_known = predicted >= 0
    low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
    np.minimum.at(low, rows[is_known], predicted[is_known])
    np.maximum.at(high, rows[is_known], predicted[is_known])
    return np.where(low == high, high, -1)


def _pair(first: Array, second: Array) -> Array:
    """Two numbers below 2**31, packed into one."""
    return first.astype(np.int64) << 32 | second.astype(np.int64)


def _template_of(text: str, parts: Sequence[tuple[str, int]]) -> tuple[str, tuple[int, ...]]:
    """The template of a string: its parts, the longest first, are replaced by placeholders."""
    pieces: list[str | int] = [text]
    for part, number in parts:
        for place, piece in enumerate(pieces):
            start = _place_of(part, piece) if isinstance(piece, str) else -1
            if start >= 0:
                assert isinstance(piece, str)
                pieces[place : place + 1] = [piece[:start], number, piece[start + len(part) :]]
                break
    template = "".join(
        "{}" if isinstance(piece, int) else piece.replace("{", "{{").replace("}", "}}") for piece in pieces
    )
    return template, tuple(piece for piece in pieces if isinstance(piece, int))


def _place_of(part: str, text: str) -> int:
    """The place of a part in a string at word boundaries: no letter or digit continues it; -1 if there is none."""
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        before = start > 0 and text[start - 1].isalnum() and part[0].isalnum()
        behind = end < len(text) and text[end].isalnum() and part[-1].isalnum()
        if not (before and text[start - 1].isdigit() == part[0].isdigit()) and not (behind and text[end].isdigit() == part[-1].isdigit()):  # fmt: skip
            return start
        start = text.find(part, start + 1)
    return -1


def _rendered(template: str, columns: Sequence[Array | None]) -> Array:
    """The strings that a template gives; None where a part is missing."""
    rows = zip(*columns, strict=True)
    texts = [template.format(*parts) if all(parts) else None for parts in rows]
    strings = np.empty(len(texts), dtype=object)
    strings[:] = texts
    return strings
