"""Tables with planted relations, and noise without any: plain columns for the search for rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from kbdisk.experts.rules import Column, Derived, Links, Table, years_between

MISSING = object()


class Planter:
    """Columns of one table in the making, and the rules that were planted."""

    def __init__(self, size: int, seed: int, missing: float = 0.0, exceptions: float = 0.0) -> None:
        self.size, self.rng = size, np.random.default_rng(seed)
        self.missing, self.exceptions = missing, exceptions
        self.vocabulary: dict[Any, int] = {}
        self.columns: list[Column] = []
        self.derived: list[Derived] = []
        self.links: dict[tuple[str], Links] = {}
        self.ids = np.array([self.code(f"entity {row}") for row in range(size)])
        self.planted: list[tuple[str, str, tuple[str, ...]]] = []

    def code(self, value: Any) -> int:
        return self.vocabulary.setdefault(value, len(self.vocabulary))

    def table(self) -> Table:
        return Table(self.size, self.columns, self.derived, self.links, self.ids)

    def _mask(self) -> np.ndarray:
        return self.rng.random(self.size) < self.missing

    def number(self, name: str, values: np.ndarray, decimals: int = 0, unit: str = "number", spoil: bool = False) -> np.ndarray:  # fmt: skip
        """A column of numbers; of a planted relation some are spoilt. Without any missing they are returned."""
        values = np.round(np.asarray(values, dtype=float), decimals)
        shown = values.copy()
        if spoil:
            wrong = self.rng.random(self.size) < self.exceptions
            shown[wrong] = np.round(self.rng.permutation(values)[wrong] * 1.37 + 11, decimals)
        shown[self._mask()] = np.nan
        codes = np.array([-1 if np.isnan(value) else self.code((unit != "day", value)) for value in shown])
        tolerance = np.full(self.size, 0.0 if unit == "day" else 0.5 * 10.0**-decimals)
        texts = _texts(shown, decimals)
        self.columns.append(
            Column((name,), codes, shown, tolerance, decimals, unit, texts, determines=unit != "day")  # type: ignore[arg-type]
        )
        return values

    def label(self, name: str, values: Any, spoil: bool = False, unique: bool = False) -> np.ndarray:
        """A column of strings."""
        values = np.array(values, dtype=object)
        shown = values.copy()
        if spoil:
            wrong = self.rng.random(self.size) < self.exceptions
            shown[wrong] = [f"other {n}" for n in self.rng.integers(0, 1000, wrong.sum())]
        shown[self._mask()] = None
        codes = np.array([-1 if value is None else self.code(value) for value in shown])
        self.columns.append(Column((name,), codes, texts=shown))
        return values

    def link(self, name: str, targets: np.ndarray, spoil: bool = False) -> np.ndarray:
        """A column of links to rows of the table itself."""
        shown = targets.copy()
        if spoil:
            wrong = self.rng.random(self.size) < self.exceptions
            shown[wrong] = self.rng.integers(0, self.size, wrong.sum())
        shown[self._mask()] = -1
        sources = np.flatnonzero(shown >= 0)
        codes = np.where(shown >= 0, self.ids[shown], -1)
        self.columns.append(Column((name,), codes))
        self.links[(name,)] = Links(sources, codes[sources], shown[sources])
        return targets

    def plant(self, name: str, kind: str, *of: str) -> None:
        self.planted.append((name, kind, of))


def _texts(numbers: np.ndarray, decimals: int) -> np.ndarray:
    texts = np.empty(len(numbers), dtype=object)
    texts[:] = [None if np.isnan(one) else f"{one:.{decimals}f}" for one in numbers]
    return texts


def planted_table(size: int = 1500, seed: int = 0, missing: float = 0.3, exceptions: float = 0.0, noise: int = 20) -> Planter:  # fmt: skip
    """40 relations of all kinds among columns of noise."""
    made = Planter(size, seed, missing, exceptions)
    rng = made.rng

    def real(low: float = 1.0, high: float = 1000.0) -> np.ndarray:
        return np.exp(rng.uniform(np.log(low), np.log(high), size))

    for n in range(3):  # copies
        x = made.number(f"copied {n}", real(), 2)
        made.number(f"copy {n}", x, 2, spoil=True)
        made.plant(f"copy {n}", "copy", f"copied {n}")
    for n, (factor, decimals) in enumerate([(1000.0, 0), (2.54, 2), (0.45359237, 3), (1 / 60, 2), (0.3048, 1)]):
        x = made.number(f"measured {n}", real(), 1)
        made.number(f"converted {n}", factor * x, decimals, spoil=True)
        made.plant(f"converted {n}", "linear", f"measured {n}")
    for n in range(2):  # temperatures
        x = made.number(f"celsius {n}", rng.normal(20, 30, size), 1)
        made.number(f"fahrenheit {n}", 1.8 * x + 32, 1 + n, spoil=True)
        made.plant(f"fahrenheit {n}", "linear", f"celsius {n}")
    for n in range(4):
        u, v = made.number(f"addend {n}", real(), n % 3), made.number(f"second addend {n}", real(), n % 3)
        made.number(f"sum {n}", u + v, n % 3, spoil=True)
        made.plant(f"sum {n}", "sum", f"addend {n}", f"second addend {n}")
    for n in range(4):
        u, v = made.number(f"minuend {n}", real(), 1), made.number(f"subtrahend {n}", real(), 1)
        made.number(f"difference {n}", u - v, 1, spoil=True)
        made.plant(f"difference {n}", "difference", f"minuend {n}", f"subtrahend {n}")
    u, v, w = (made.number(f"part {n}", real(), 0) for n in range(3))
    made.number("total of three", u + v + w, 0, spoil=True)
    made.plant("total of three", "sum", "part 0", "part 1", "part 2")
    for n in range(2):
        u, v = made.number(f"width {n}", real(1, 100), 1), made.number(f"height {n}", real(1, 100), 1)
        made.number(f"area {n}", u * v, 2 - n, spoil=True)
        made.plant(f"area {n}", "product", f"width {n}", f"height {n}")
    for n in range(2):
        u, v = made.number(f"amount {n}", real(100, 1e6), 0), made.number(f"people {n}", real(1, 1e4), 0)
        made.number(f"a head {n}", u / v, 3, spoil=True)
        made.plant(f"a head {n}", "ratio", f"amount {n}", f"people {n}")
    u, v = made.number("share", real(1, 1e4), 0), made.number("whole", real(1e4, 1e5), 0)
    made.number("percent", 100 * u / v, 2, spoil=True)
    made.plant("percent", "ratio", "share", "whole")
    for n in range(2):
        born = made.number(f"born {n}", rng.integers(650000, 700000, size), unit="day")
        died = made.number(f"died {n}", born + rng.integers(8000, 33000, size), unit="day")
        made.number(f"age {n}", years_between(died, born), spoil=True)
        made.plant(f"age {n}", "years", f"died {n}", f"born {n}")
    start = made.number("start", rng.integers(700000, 730000, size), unit="day")
    end = made.number("end", start + rng.integers(1, 3000, size), unit="day")
    made.number("duration", end - start, spoil=True)
    made.plant("duration", "days", "end", "start")
    begun, days = made.number("begun", rng.integers(700000, 730000, size), unit="day"), rng.integers(1, 5000, size)
    days = made.number("days", days)
    made.number("ended", begun + days, unit="day", spoil=True)
    made.plant("ended", "later", "begun", "days")
    for n, (labels, values) in enumerate([(20, 5), (100, 30), (300, 150), (12, 4), (60, 2)]):
        cause = rng.integers(0, labels, size)
        made.label(f"cause {n}", [f"cause {n} {label}" for label in cause])
        effect = rng.integers(0, values, labels)[cause]
        if n % 2:
            made.number(f"effect {n}", effect * 3 + 7, spoil=True)
        else:
            made.label(f"effect {n}", [f"effect {n} {label}" for label in effect], spoil=True)
        made.plant(f"effect {n}", "determined", f"cause {n}")
    given, family = (made.label(name, [f"{name[0].upper()}{chr(97 + a)}{chr(97 + b)}" for a, b in rng.integers(0, 26, (size, 2))]) for name in ("given", "family"))  # fmt: skip
    made.label("full name", [f"{a} {b}" for a, b in zip(given, family, strict=True)], spoil=True)
    made.plant("full name", "template", "given", "family")
    price, currency = made.number("price", real(), 0), made.label("currency", rng.choice(["€", "$", "£"], size))
    made.label("shown price", [f"{a:.0f} {b}" for a, b in zip(price, currency, strict=True)], spoil=True)
    made.plant("shown price", "template", "price", "currency")
    capital = made.link("capital", rng.permutation(size))
    made.link("capital of", np.argsort(capital), spoil=True)
    made.plant("capital of", "inverse", "capital")
    made.plant("capital", "inverse", "capital of")
    spouses = rng.permutation(size)
    spouse = np.empty(size, dtype=int)
    half = size // 2
    spouse[spouses[:half]], spouse[spouses[half : 2 * half]] = spouses[half : 2 * half], spouses[:half]
    made.link("spouse", spouse, spoil=True)
    made.plant("spouse", "inverse", "spouse")
    region = made.label("region", [f"region {n}" for n in rng.integers(0, 40, size)])
    place = made.link("place", rng.integers(0, size, size))
    made.label("region of place", region[place], spoil=True)
    made.plant("region of place", "linked", "place", "region")
    counted = made.number("counted", real(1, 1e6), 0)
    owner = made.link("owner", rng.integers(0, size, size))
    made.number("owner's count", counted[owner], 0, spoil=True)
    made.plant("owner's count", "linked", "owner", "counted")
    for kind in ("latest", "greatest"):
        values = np.round(real(1, 1e6))
        codes = np.array([made.code((True, value)) for value in values])
        source = Column(("readings", "value"), codes, values, np.full(size, 0.5), 0, is_target=False)
        of = ("readings.value", "readings.date") if kind == "latest" else ("readings.value",)
        made.derived.append(Derived(kind, tuple(tuple(path.split(".")) for path in of), source))
        made.number(f"{kind} reading", values, 0, spoil=True)
        made.plant(f"{kind} reading", kind, *of)
    add_noise(made, noise)
    return made


def add_noise(made: Planter, columns: int) -> Planter:
    """Columns without any relation: reals, integers of few values, constants, truths, labels few and near-unique, links."""
    rng, size = made.rng, made.size
    kinds = [
        lambda name: made.number(name, rng.normal(100, 30, size), 2),
        lambda name: made.number(name, rng.integers(0, 5, size)),
        lambda name: made.label(name, ["same"] * size),
        lambda name: made.number(name, rng.random(size) < 0.5),
        lambda name: made.number(name, rng.random(size) < 0.03),
        lambda name: made.label(name, [f"label {n}" for n in rng.zipf(1.6, size) % 50]),
        lambda name: made.label(name, [f"unique {n}" for n in rng.integers(0, 3 * size, size)]),
        lambda name: made.number(name, rng.integers(1, 100, size)),
        lambda name: made.number(name, np.exp(rng.normal(5, 2, size)), 0),
        lambda name: made.number(name, np.zeros(size) + 3),
        lambda name: made.number(name, rng.integers(700000, 700400, size), unit="day"),
        lambda name: made.link(name, rng.integers(0, size, size)),
        lambda name: made.label(name, ["yes" if one else "no" for one in rng.random(size) < 0.9]),
        lambda name: made.number(name, rng.poisson(1.0, size)),
        lambda name: made.link(name, rng.integers(0, 4, size)),
    ]
    for n in range(columns):
        kinds[n % len(kinds)](f"noise {n}")
    return made
