"""A world of any size with known truth: values are functions of an entity's number and the seed.

Every draw is a hash of the seed, a name and the entity's number (a counter-based generator, splitmix64), so that the values of an
entity that a link leads to are computed again and no table of entities is held. Each entity has latent variables: of its own, and
shared with the entities that its links lead to. A value is its centre, which is a function of latent variables and links alone, plus
noise that depends on nothing. The noise is therefore the least error of any predictor that knows the latent variables, and the
error of a predictor that knows only the other values is above it.

All arithmetic is on integers, so that every machine draws the same: numbers are thousandths of a standard deviation, decimals
are counted in the last place written, and logarithms in thousandths of a decade. `Property` and its subclasses are the kinds of
properties, `CLASSES` the table of classes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.generator import BASE

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_COUNTRIES = 200
PERIOD = 100  # of entities that are no countries, after which the sequence of their classes repeats
OF_A_PERIOD = {"City": 8, "Company": 14, "Product": 24, "Person": 54}
COUNTRY = "Country"
UNIT = 1000  # a standard deviation, a decade, or all of a rate
SUM_SD = 37837  # the standard deviation of a sum of four numbers of 16 bits
SUM_MEAN = 2 * 0xFFFF
MAX_LOG = 15_999  # in thousandths of a decade
XSD = "http://www.w3.org/2001/XMLSchema#"
UCUM = "https://w3id.org/cdt/ucum"
EURO = "http://dbpedia.org/datatype/euro"


# ---------------------------------------------------------------- the world and its entities


@dataclass(frozen=True)
class World:
    """So many entities, numbered from 0, by a seed."""

    entities: int
    seed: int = 0

    @cached_property
    def countries(self) -> int:
        """How many countries there are; they stand at equal distances."""
        return min(MAX_COUNTRIES, max(4, self.entities // 100))

    @cached_property
    def stride(self) -> int:
        """The distance between two countries."""
        return self.entities // self.countries

    def count(self, class_name: str) -> int:
        """How many entities a class has."""
        if class_name == COUNTRY:
            return self.countries
        periods, rest = divmod(self.entities - self.countries, PERIOD)
        slots = _slots()[class_name]
        return periods * len(slots) + int((slots < rest).sum())

    def number_of(self, class_name: str, index: IntArray) -> IntArray:
        """The numbers of entities, given their places within their class."""
        if class_name == COUNTRY:
            return index * self.stride
        slots = _slots()[class_name]
        other = index // len(slots) * PERIOD + slots[index % len(slots)]
        countries_before = 1 + np.minimum(other // (self.stride - 1), self.countries - 1)
        return np.asarray(other + countries_before)

    def members(self, class_name: str, start: int, stop: int) -> Members:
        """The entities of a class with numbers from start to before stop."""
        numbers = np.arange(start, stop, dtype=np.int64)
        is_country = (numbers % self.stride == 0) & (numbers // self.stride < self.countries)
        if class_name == COUNTRY:
            return Members(self, class_name, numbers[is_country] // self.stride)
        numbers = numbers[~is_country]
        other = numbers - np.minimum(numbers // self.stride + 1, self.countries)
        slots = _slots()[class_name]
        other = other[np.isin(other % PERIOD, slots)]
        return Members(self, class_name, other // PERIOD * len(slots) + np.searchsorted(slots, other % PERIOD))

    def sample(self, class_name: str, size: int) -> Members:
        """At most so many entities of a class, at equal distances."""
        count = self.count(class_name)
        size = min(size, count)
        return Members(self, class_name, np.arange(size, dtype=np.int64) * count // size)


@cache
def _slots() -> Mapping[str, IntArray]:
    """By class: its places within a period."""
    classes = [name for name, count in OF_A_PERIOD.items() for _ in range(count)]
    mixed = [classes[37 * place % PERIOD] for place in range(PERIOD)]
    return {name: np.array([place for place in range(PERIOD) if mixed[place] == name]) for name in OF_A_PERIOD}


class Members:
    """Entities of one class: their draws, latent variables and values, as arrays with an element for each."""

    def __init__(self, world: World, class_name: str, index: IntArray) -> None:
        self.world, self.class_name, self.index = world, class_name, index
        self.numbers = world.number_of(class_name, index)
        self._known: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return len(self.index)

    def _once(self, kind: str, name: str, compute: Callable[[], Any]) -> Any:
        if (kind, name) not in self._known:
            self._known[kind, name] = compute()
        return self._known[kind, name]

    def bits(self, name: str) -> npt.NDArray[np.uint64]:
        """64 random bits by name: splitmix64 of the entities' numbers."""
        digest = hashlib.blake2b(f"kbdisk world {self.world.seed} {name}".encode(), digest_size=8).digest()
        mixed = self.numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed += np.uint64(int.from_bytes(digest, "big"))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return mixed

    def uniform(self, name: str, count: int) -> IntArray:
        """Numbers from 0 to before count."""
        return ((self.bits(name) >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)

    def normal(self, name: str) -> IntArray:
        """Nearly normal numbers of variance 1, in thousandths: sums of four uniform numbers, from -3464 to 3464."""
        bits, low = self.bits(name), np.uint64(0xFFFF)
        total = np.full(len(self), -SUM_MEAN, dtype=np.int64)
        for shift in (0, 16, 32, 48):
            total += ((bits >> np.uint64(shift)) & low).astype(np.int64)
        return total * UNIT // SUM_SD

    def skewed(self, name: str, count: int) -> IntArray:
        """Numbers from 0 to before count, small ones more often: the cube of a uniform number."""
        draw = self.bits(name) >> np.uint64(32)
        cube = (draw * draw >> np.uint64(32)) * draw >> np.uint64(32)
        return (cube * np.uint64(count) >> np.uint64(32)).astype(np.int64)

    def latent(self, name: str) -> IntArray:
        """A latent variable, in thousandths of its standard deviation."""
        latents = CLASSES[self.class_name].latents
        result: IntArray = self._once("latent", name, lambda: latents[name](self))
        return result

    def centre(self, name: str) -> IntArray:
        """The values of a property without their noise."""
        single = CLASSES[self.class_name].property(name)
        assert isinstance(single, Single)
        result: IntArray = self._once("centre", name, lambda: single.centre(self))
        return result

    def value(self, name: str) -> IntArray:
        """The true values of a property, as integers; of a set a row of members, and -1 where there is none."""
        property = CLASSES[self.class_name].property(name)
        result: IntArray = self._once("value", name, lambda: property.values(self))
        return result

    def target(self, link: str) -> Members:
        """The entities that a link leads to."""
        property = CLASSES[self.class_name].property(link)
        assert isinstance(property, LinkTo)
        result: Members = self._once("target", link, lambda: Members(self.world, property.target, self.value(link)))
        return result

    def is_missing(self, property: Property) -> BoolArray:
        """Whether the value of a property is left out."""
        gap = property.gap
        rate: Any = CLASSES[self.class_name].gap_rate if gap.rate is None else gap.rate
        if gap.driver:
            driver = self.value(gap.driver)
            is_within = np.ones(len(self), dtype=bool)
            if gap.low is not None:
                is_within &= driver >= gap.low
            if gap.high is not None:
                is_within &= driver < gap.high
            rate = np.where(is_within, gap.rate_within, rate)
        return np.asarray(self.uniform(f"gap of {property.name}", UNIT) < rate)

    def is_member_missing(self, property: SetOf) -> BoolArray:
        """Whether each member of a set is left out, apart from sets that are missing as a whole."""
        width = self.value(property.name).shape[1]
        columns = [self.uniform(f"gap of member {n} of {property.name}", UNIT) for n in range(width)]
        return np.stack(columns, axis=1) < property.member_gap_rate


# ---------------------------------------------------------------- kinds of properties

Centre: TypeAlias = Callable[[Members], IntArray]


@dataclass(frozen=True)
class Gap:
    """How often a value is missing, in thousandths: with another rate where the value `driver` is from low to before high."""

    rate: int | None = None  # None: that of the class
    driver: str = ""
    low: int | None = None
    high: int | None = None
    rate_within: int = 0


@dataclass(frozen=True)
class Property:
    """A property of a class. A value is written as its text between two parts that depend on the kind alone."""

    name: str
    gap: Gap = field(default=Gap(), kw_only=True)
    kind: ClassVar[str]

    def values(self, members: Members) -> IntArray:
        """The true values, as integers."""
        raise NotImplementedError

    def texts(self, world: World, values: IntArray) -> list[str]:
        """The text of each value."""
        raise NotImplementedError

    def json(self) -> tuple[str, str]:
        """What stands before and after the text in JSON."""
        return "", ""

    def hidden_json(self) -> tuple[str, str, str]:
        """The path, and what stands before and after the text, in a file of hidden values beside JSON."""
        return self.name, *self.json()

    def rdf(self) -> tuple[str, str]:
        """What stands before and after the text in an RDF term."""
        raise NotImplementedError


@dataclass(frozen=True)
class Single(Property):
    """A property with one value: a centre, and noise."""

    centre: Centre
    noise: int  # a standard deviation; of labels and links the share of values that are drawn anew, in thousandths

    def costs(self, values: IntArray, predictions: IntArray | int) -> npt.NDArray[np.float64]:
        """The error of each prediction: its distance from the value."""
        return np.asarray(np.abs(values - predictions), dtype=np.float64)

    def constant(self, values: IntArray) -> int:
        """The best constant prediction: the median."""
        return int(np.sort(values)[len(values) // 2])

    def error(self, members: Members) -> float:
        """The mean error of the centre, which is the least of any predictor that knows the latent variables."""
        return mean_absolute_noise(self.noise)

    def values(self, members: Members) -> IntArray:
        """The centre with normal noise."""
        return members.centre(self.name) + _rounded(members.normal(f"noise of {self.name}") * self.noise)


def _rounded(thousandths: IntArray) -> IntArray:
    """Thousandths as the nearest integers."""
    return (thousandths + UNIT // 2) // UNIT


@cache
def mean_absolute_noise(noise: int) -> float:
    """The mean absolute value of noise with a standard deviation, rounded to integers: twice the sum of its tails beyond halves."""
    tail_starts = (np.arange(math.ceil(noise * 2 * math.sqrt(3))) + 0.5) / noise  # in standard deviations
    left = 2 - tail_starts / math.sqrt(3)  # the mirrored place of a tail's start in a sum of four numbers from 0 to 1
    tails = sum(
        (-1) ** k * math.comb(4, k) * np.clip(left - k, 0, None) ** 4 / math.factorial(4) for k in range(2)
    )  # the distribution of Irwin and Hall
    return 2 * float(np.sum(tails))


@dataclass(frozen=True)
class Number(Single):
    """A number with so many decimals; its integers count the last one."""

    decimals: int = 0
    kind = "number"

    def raw(self, values: IntArray) -> IntArray:
        """The numbers that are written, in their last place."""
        return values

    def texts(self, world: World, values: IntArray) -> list[str]:
        """With all decimals."""
        raw = self.raw(values)
        if not self.decimals:
            return list(map(str, raw.tolist()))
        return list(map(f"%.{self.decimals}f".__mod__, (raw / 10**self.decimals).tolist()))

    def rdf(self) -> tuple[str, str]:
        """An integer or a decimal."""
        return '"', f'"^^<{XSD}{"decimal" if self.decimals else "integer"}>'


@dataclass(frozen=True)
class Quantity(Number):
    """A number of a unit: a part in JSON, a literal in RDF with the unit in its text, of euros in its datatype."""

    unit: str = field(kw_only=True)
    kind = "quantity"

    @property
    def _keys(self) -> tuple[str, str]:
        return ("amount", "currency") if self.unit == "EUR" else ("value", "unit")

    def json(self) -> tuple[str, str]:
        """Value and unit, of money amount and currency."""
        value, unit = self._keys
        return f'{{"{value}": ', f', "{unit}": "{self.unit}"}}'

    def hidden_json(self) -> tuple[str, str, str]:
        """The number alone."""
        return f"{self.name}.{self._keys[0]}", "", ""

    def rdf(self) -> tuple[str, str]:
        """A literal with its unit."""
        return '"', f'"^^<{EURO}>' if self.unit == "EUR" else f' {self.unit}"^^<{UCUM}>'


@dataclass(frozen=True)
class LogNumber(Number):
    """A number whose logarithm has the noise; centre and errors are in thousandths of a decade."""

    def values(self, members: Members) -> IntArray:
        """Logarithms, none below 0."""
        return np.clip(super().values(members), 0, MAX_LOG)

    def raw(self, values: IntArray) -> IntArray:
        """Powers of ten with four significant digits."""
        powers = 10 ** np.arange(MAX_LOG // UNIT + 1, dtype=np.int64)
        return (_mantissas()[values % UNIT] * powers[values // UNIT] + 500) // 1000


@dataclass(frozen=True)
class LogQuantity(LogNumber, Quantity):
    """A quantity whose logarithm has the noise."""


@cache
def _mantissas() -> IntArray:
    """The powers of ten from 3 to 4, rounded, in thousandths of a decade."""
    powers = (Decimal(10) ** (Decimal(3 * UNIT + place) / UNIT) for place in range(UNIT))
    return np.array([int(power.to_integral_value()) for power in powers])


@dataclass(frozen=True)
class Day(Single):
    """A date; its integers are days since the beginning of 1970."""

    kind = "date"

    def texts(self, world: World, values: IntArray) -> list[str]:
        """Year, month and day."""
        texts: list[str] = np.datetime_as_string(values.astype("datetime64[D]")).tolist()
        return texts

    def json(self) -> tuple[str, str]:
        """A string."""
        return '"', '"'

    def rdf(self) -> tuple[str, str]:
        """A date."""
        return '"', f'"^^<{XSD}date>'


@dataclass(frozen=True)
class Category(Single):
    """One of some labels; its integers are their places."""

    labels: tuple[str, ...] = ()
    kind = "category"

    def values(self, members: Members) -> IntArray:
        """The centre, or any label."""
        is_noise = members.uniform(f"noise of {self.name}", UNIT) < self.noise
        other = members.uniform(f"other {self.name}", len(self.labels))
        return np.where(is_noise, other, members.centre(self.name))

    def error(self, members: Members) -> float:
        """The error rate of the centre."""
        return self.noise / UNIT * (1 - 1 / len(self.labels))

    def costs(self, values: IntArray, predictions: IntArray | int) -> npt.NDArray[np.float64]:
        """1 for each wrong prediction."""
        return np.not_equal(values, predictions).astype(np.float64)

    def constant(self, values: IntArray) -> int:
        """The most frequent label."""
        labels, counts = np.unique(values, return_counts=True)
        return int(labels[counts.argmax()])

    def texts(self, world: World, values: IntArray) -> list[str]:
        """The labels."""
        return list(map(self.labels.__getitem__, values.tolist()))

    def json(self) -> tuple[str, str]:
        """A string."""
        return '"', '"'

    def rdf(self) -> tuple[str, str]:
        """A string."""
        return '"', '"'


@dataclass(frozen=True)
class Boolean(Category):
    """True or false."""

    labels: tuple[str, ...] = ("false", "true")
    kind = "boolean"

    def json(self) -> tuple[str, str]:
        """The word."""
        return "", ""

    def rdf(self) -> tuple[str, str]:
        """A boolean."""
        return '"', f'"^^<{XSD}boolean>'


@dataclass(frozen=True)
class LinkTo(Category):
    """A link to an entity of a class; its integers are places in that class. Some entities are linked to far more often."""

    target: str = ""
    kind = "link"

    def values(self, members: Members) -> IntArray:
        """The centre, or any entity of the class."""
        drawn = members.skewed(f"other {self.name}", members.world.count(self.target))
        is_noise = members.uniform(f"noise of {self.name}", UNIT) < self.noise
        return drawn if self.noise == UNIT else np.where(is_noise, drawn, members.centre(self.name))

    def error(self, members: Members) -> float:
        """The error rate of the centre on these entities."""
        return float(self.costs(members.value(self.name), members.centre(self.name)).mean())

    def texts(self, world: World, values: IntArray) -> list[str]:
        """The numbers of the entities."""
        return list(map(str, world.number_of(self.target, values).tolist()))

    def json(self) -> tuple[str, str]:
        """An object with the id alone."""
        return f'{{"@id": "{BASE}e', '"}'

    def hidden_json(self) -> tuple[str, str, str]:
        """The id."""
        return self.name, f'"{BASE}e', '"'

    def rdf(self) -> tuple[str, str]:
        """An IRI."""
        return f"<{BASE}e", ">"


def _free_link(name: str, target: str, gap: Gap | None = None) -> LinkTo:
    """A link that depends on nothing; its centre is the entity that most links lead to."""
    return LinkTo(name, lambda members: np.zeros_like(members.index), UNIT, gap=gap or Gap(), target=target)


@dataclass(frozen=True)
class SetOf(Property):
    """A property with several values; a row of its integers has a place for each possible member."""

    member: Single  # how a member is written
    member_gap_rate: int = 50  # of a member that is missing where the set is not, in thousandths
    kind = "set"

    def texts(self, world: World, values: IntArray) -> list[str]:
        """The texts of members."""
        return self.member.texts(world, values)

    def json(self) -> tuple[str, str]:
        """As of one value."""
        return self.member.json()

    def hidden_json(self) -> tuple[str, str, str]:
        """The same."""
        return self.member.hidden_json()

    def rdf(self) -> tuple[str, str]:
        """As of one value."""
        return self.member.rdf()


@dataclass(frozen=True)
class LabelSet(SetOf):
    """Labels, each with a probability in thousandths: a high one for two that a centre chooses, and a low one for the others."""

    centre: Centre = lambda members: members.index
    likely: int = 800
    unlikely: int = 80

    def values(self, members: Members) -> IntArray:
        """The members, in the order of the labels."""
        assert isinstance(self.member, Category)
        count, first = len(self.member.labels), self.centre(members)
        columns = []
        for place in range(count):
            is_likely = (place - first) % count < 2
            is_member = members.uniform(f"{self.name} {place}", UNIT) < np.where(is_likely, self.likely, self.unlikely)
            columns.append(np.where(is_member, place, -1))
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class LinkSet(SetOf):
    """Links to up to so many entities of the same class that stand near in it, each drawn with a probability of a half."""

    width: int = 3

    def values(self, members: Members) -> IntArray:
        """The members; each is within seven places of another distance."""
        count = members.world.count(members.class_name)
        columns: list[IntArray] = []
        for place in range(self.width):
            near = (members.index + 1 + 7 * place + members.uniform(f"{self.name} {place}", 7)) % count
            is_member = (members.uniform(f"{self.name} {place} there", 2) == 0) & (near != members.index)
            for earlier in columns:
                is_member &= near != earlier
            columns.append(np.where(is_member, near, -1))
        return np.stack(columns, axis=1)


# ---------------------------------------------------------------- classes


@dataclass(frozen=True)
class WorldClass:
    """A class: how often its values are missing, its latent variables and its properties."""

    gap_rate: int  # in thousandths
    latents: Mapping[str, Centre]
    properties: Sequence[Property]

    def property(self, name: str) -> Property:
        """A property by its name."""
        return next(property for property in self.properties if property.name == name)


def _own(name: str) -> Centre:
    return lambda members: members.normal(f"latent {name}")


def _shared(name: str, link: str, weight: int) -> Centre:
    """A latent variable of variance 1 that is shared, with a weight, with the entity that a link leads to."""
    rest = math.isqrt(UNIT * UNIT - weight * weight)
    return lambda members: (
        (weight * members.target(link).latent(name) + rest * members.normal(f"latent {name}")) // UNIT
    )


def _linear(constant: int, **weights: int) -> Centre:
    """A constant plus latent variables, each with a weight: the change for a standard deviation."""

    def centre(members: Members) -> IntArray:
        total = sum(weight * members.latent(name) for name, weight in weights.items())
        return constant + _rounded(np.asarray(total, dtype=np.int64))

    return centre


def _level(count: int, **weights: int) -> Centre:
    """One of so many levels of a linear function of latent variables of variance 1."""
    score = _linear(0, **weights)
    return lambda members: np.clip((score(members) + 1800) * count // 3600, 0, count - 1)


def _choice(name: str, count: int) -> Centre:
    """A latent variable with so many equally likely values."""
    return lambda members: members.uniform(f"choice of {name}", count)


def _through(link: str, centre: str) -> Centre:
    """The centre of a property of the entity that a link leads to."""
    return lambda members: members.target(link).centre(centre)


def _link_through(link: str, further: str) -> Centre:
    """What the entity that a link leads to links to."""
    return lambda members: members.target(link).value(further)


def _with(centre: Centre, further: Centre, count: int) -> Centre:
    """A label that two centres determine together."""
    return lambda members: (centre(members) + further(members)) % count


LANGUAGES = (
    "Arabic",
    "Bengali",
    "Chinese",
    "English",
    "French",
    "German",
    "Hindi",
    "Japanese",
    "Portuguese",
    "Russian",
    "Spanish",
    "Swahili",
)
CONTINENTS = ("Africa", "Asia", "Europe", "North America", "Oceania", "South America")
INDUSTRIES = (
    "banking",
    "chemistry",
    "farming",
    "food",
    "media",
    "mining",
    "software",
    "steel",
    "textiles",
    "transport",
)
PROFESSIONS = (
    "accountant",
    "chemist",
    "farmer",
    "cook",
    "journalist",
    "miner",
    "programmer",
    "engineer",
    "tailor",
    "driver",
    "teacher",
    "nurse",
)
SKILLS = (
    "analysis",
    "budgeting",
    "cooking",
    "design",
    "driving",
    "planning",
    "programming",
    "selling",
    "teaching",
    "writing",
)
COLOURS = ("black", "blue", "brown", "green", "grey", "red", "white", "yellow")
GRADES = ("A", "B", "C", "D", "E")
YEAR = 365  # days

CLASSES: Mapping[str, WorldClass] = {
    COUNTRY: WorldClass(
        60,
        {name: _own(name) for name in ("wealth", "climate", "size")},
        [
            Category("continent", _level(6, climate=900, wealth=400), 50, labels=CONTINENTS),
            Category("language", _choice("language", 12), 20, labels=LANGUAGES),
            Category("currency", _level(5, wealth=1000), 100, labels=("crown", "dinar", "dollar", "franc", "peso")),
            LogNumber("population", _linear(6800, size=600), 150),
            LogQuantity("area", _linear(5200, size=600, climate=100), 200, unit="km2"),
            LogQuantity("gdp", _linear(10800, size=550, wealth=450), 100, gap=Gap(None, "population", None, 6500, 350), unit="EUR"),
            Quantity("rainfall", _linear(1500, climate=350), 80, unit="mm"),
            Number("temperature", _linear(150, climate=60, wealth=-20), 15, decimals=1),
            Quantity("lifeExpectancy", _linear(700, wealth=60), 15, decimals=1, unit="a"),
            Number("internetUsers", _linear(600, wealth=100), 30, gap=Gap(None, "gdp", None, 10600, 400), decimals=1),
            Day("independence", _linear(-20 * YEAR, wealth=-30 * YEAR), 10 * YEAR),
            Boolean("drivesOnLeft", _level(2, climate=-900, size=430), 50),
            Quantity("coastline", _linear(12000, size=2000), 700, unit="km"),
            LinkSet("neighbours", _free_link("neighbours", COUNTRY), width=4),
        ],
    ),
    "City": WorldClass(
        100,
        {
            "wealth": _shared("wealth", "country", 700),
            "climate": _shared("climate", "country", 800),
            "size": _own("size"),
        },
        [
            _free_link("country", COUNTRY, gap=Gap(20)),
            Category("language", _through("country", "language"), 50, labels=LANGUAGES),
            LogNumber("population", _linear(4800, size=600), 100),
            LogQuantity("area", _linear(4000, size=500), 120, decimals=2, unit="km2"),
            Quantity("rainfall", _linear(1500, climate=350), 60, gap=Gap(None, "population", None, 4500, 500), unit="mm"),
            Number("temperature", _linear(150, climate=60, wealth=-20), 10, decimals=1),
            Quantity("elevation", _linear(900, climate=-200), 100, gap=Gap(None, "population", None, 4500, 400), unit="m"),
            Day("founded", _linear(-400 * YEAR, size=-80 * YEAR), 30 * YEAR, gap=Gap(None, "population", None, 4800, 350)),
            Number("universities", _linear(60, size=9, wealth=5), 2),
            Quantity("rent", _linear(1100, wealth=220, size=150), 60, unit="EUR"),
            Boolean("coastal", _level(2, climate=900, size=430), 60),
            LogNumber("airportPassengers", _linear(5500, size=550, wealth=250), 150, gap=Gap(None, "population", None, 4800, 600)),
            Category("governingParty", _level(5, wealth=800, climate=-600), 150, labels=("blue", "green", "red", "white", "yellow")),
            Category("transit", _level(4, size=1000), 80, labels=("bus", "metro", "none", "tram")),
            Number("crimeRate", _linear(560, wealth=-80, size=50), 25, decimals=1),
            Number("greenSpace", _linear(420, wealth=60, climate=30), 30, decimals=1),
            LabelSet("festivals", Category("festivals", _own(""), 0, labels=("beer", "dance", "film", "food", "jazz", "light", "theatre")), centre=_level(7, climate=1000)),
            LinkSet("twins", _free_link("twins", "City")),
        ],
    ),
    "Company": WorldClass(
        110,
        {
            "wealth": _shared("wealth", "headquarters", 500),
            "size": _own("size"),
            "age": _own("age"),
        },
        [
            _free_link("headquarters", "City", gap=Gap(40)),
            Category("industry", _choice("industry", 10), 60, labels=INDUSTRIES),
            LogNumber("employees", _linear(2300, size=600), 100),
            LogQuantity("revenue", _linear(7300, size=650, wealth=250), 120, gap=Gap(None, "employees", None, 2200, 550), unit="EUR"),
            Day("founded", _linear(20 * YEAR, age=-15 * YEAR), 3 * YEAR),
            _free_link("ceo", "Person"),
            _free_link("supplier", "Company"),
            LinkTo("registeredIn", _level(4, wealth=1000), 150, target=COUNTRY),
            Boolean("listed", _level(2, size=900, age=430), 50),
            Number("profitMargin", _linear(80, wealth=50), 15, gap=Gap(None, "listed", None, 1, 500), decimals=1),
            Category("legalForm", _level(4, size=900, wealth=430), 100, labels=("cooperative", "corporation", "partnership", "sole trader")),
            Category("creditRating", _level(5, wealth=-900, size=-430), 120, gap=Gap(None, "listed", None, 1, 450), labels=GRADES),
            LogQuantity("officeArea", _linear(3600, size=550), 150, unit="m2"),
            LogNumber("patents", _linear(2500, size=500, wealth=400), 200, gap=Gap(None, "employees", None, 2000, 600)),
            Category("workingLanguage", _through("headquarters", "language"), 100, labels=LANGUAGES),
            Number("satisfaction", _linear(600, wealth=60, size=-40), 30, decimals=1),
            Number("marketShare", _linear(300, size=50), 15, gap=Gap(None, "employees", None, 2200, 450), decimals=1),
            Quantity("turnover", _linear(180, wealth=-30), 12, decimals=1, unit="%"),
            LabelSet("markets", Category("markets", _own(""), 0, labels=CONTINENTS), centre=_level(6, wealth=1000)),
            LinkSet("partners", _free_link("partners", "Company")),
        ],
    ),
    "Product": WorldClass(
        150,
        {
            "wealth": _shared("wealth", "maker", 600),
            "size": _own("size"),
            "age": _own("age"),
        },
        [
            _free_link("maker", "Company", gap=Gap(30)),
            LinkTo("madeIn", _link_through("maker", "headquarters"), 250, target="City"),
            Category("category", _through("maker", "industry"), 100, labels=INDUSTRIES),
            LogQuantity("price", _linear(4300, wealth=500, size=350), 80, decimals=2, unit="EUR"),
            LogQuantity("mass", _linear(3200, size=600), 60, unit="g"),
            Quantity("length", _linear(1600, size=350), 60, decimals=1, unit="mm"),
            Quantity("width", _linear(800, size=170), 40, decimals=1, unit="mm"),
            LogQuantity("power", _linear(3000, size=500, wealth=200), 100, gap=Gap(None, "mass", None, 2900, 500), unit="W"),
            Day("released", _linear(45 * YEAR, age=-4 * YEAR), YEAR // 2),
            Day("discontinued", _linear(52 * YEAR, age=-4 * YEAR), YEAR, gap=Gap(None, "released", 46 * YEAR, None, 700)),
            Category("colour", _level(8, size=600, wealth=800), 200, labels=COLOURS),
            Category("material", _with(_through("maker", "industry"), _level(2, size=1000), 6), 100, labels=("aluminium", "glass", "paper", "plastic", "steel", "wood")),
            Category("energyClass", _level(5, age=900, wealth=-430), 100, gap=Gap(None, "mass", None, 3000, 400), labels=GRADES),
            Number("rating", _linear(360, wealth=40, age=-15), 15, gap=Gap(None, "released", 48 * YEAR, None, 500), decimals=2),
            LogNumber("sales", _linear(4500, age=400, wealth=400), 150, gap=Gap(None, "sales", 5000, None, 350)),
            Quantity("warranty", _linear(36, wealth=7), 2, unit="mo"),
            Quantity("loudness", _linear(500, size=70, age=40), 30, gap=Gap(None, "power", None, 2900, 500), decimals=1, unit="dB"),
            Boolean("recyclable", _level(2, age=-900, wealth=430), 60),
            LabelSet("features", Category("features", _own(""), 0, labels=("foldable", "quiet", "robust", "smart", "solar", "waterproof", "wireless")), centre=_level(7, wealth=1000)),
            LinkSet("compatibleWith", _free_link("compatibleWith", "Product")),
        ],
    ),
    "Person": WorldClass(
        140,
        {
            "wealth": _shared("wealth", "employer", 600),
            "body": _own("body"),
            "age": _own("age"),
        },
        [
            _free_link("employer", "Company", gap=Gap(30)),
            LinkTo("home", _link_through("employer", "headquarters"), 150, target="City"),
            Day("born", _linear(10 * YEAR, age=-12 * YEAR), YEAR),
            Day("hired", _linear(45 * YEAR, age=-4 * YEAR, wealth=-2 * YEAR), YEAR, gap=Gap(None, "employmentType", 2, None, 500)),
            Quantity("height", _linear(1710, body=90), 30, decimals=1, unit="cm"),
            Quantity("weight", _linear(720, body=110, age=40), 40, gap=Gap(None, "weight", 800, None, 400), decimals=1, unit="kg"),
            LogQuantity("income", _linear(4400, wealth=450, age=200), 100, gap=Gap(None, "income", 4700, None, 450), unit="EUR"),
            LogQuantity("savings", _linear(4000, wealth=500, age=400), 200, gap=Gap(None, "income", 4600, None, 500), unit="EUR"),
            Category("profession", _with(_through("employer", "industry"), _level(3, wealth=1000), 12), 100, labels=PROFESSIONS),
            Category("employmentType", _level(4, wealth=-800, age=-600), 80, labels=("civil servant", "permanent", "self-employed", "temporary")),
            Category("education", _level(5, wealth=900, age=-430), 150, labels=("apprenticeship", "bachelor", "doctorate", "master", "school")),
            Category("nativeLanguage", lambda members: members.target("employer").target("headquarters").centre("language"), 150, labels=LANGUAGES),
            Number("visitedCountries", _linear(12, age=3), 1),
            Quantity("commute", _linear(420, wealth=60, age=20), 30, gap=Gap(None, "employmentType", 2, 3, 600), decimals=1, unit="km"),
            Number("restingPulse", _linear(68, body=5, age=3), 3),
            Number("bloodPressure", _linear(125, age=9, body=6), 5, gap=Gap(None, "born", 14 * YEAR, None, 500)),
            Boolean("married", _level(2, age=900, wealth=430), 80),
            LabelSet("skills", Category("skills", _own(""), 0, labels=SKILLS), centre=_level(10, wealth=1000)),
            LabelSet("languages", Category("languages", _own(""), 0, labels=LANGUAGES), centre=lambda members: members.target("home").centre("language"), unlikely=40),
            LinkSet("friends", _free_link("friends", "Person"), width=4),
        ],
    ),
}  # fmt: skip
