"""Generates a knowledge base with known truth: classes, skewed links, parts, units, and planted relations.

Each entity has a latent vector, which depends on its classes and on chance. Values depend on it: numbers linearly, labels by the
largest score, links by similarity and popularity. Some values depend on the class, some on the entity that a link leads to.
Planted relations (`RELATIONS`) hold exactly, apart from a stated share of exceptions. Noise depends on nothing. Finally a share of
the values is left out. The same settings give the same source.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from kbdisk.entity import Date, Entity, Link
from kbdisk.errors import ConfigError

BASE = "http://example.org/"
LATENTS = 4
SIDES = 6  # of a class tree, below each other class, about
MAX_CLASSES = 4  # of an entity, its superclasses not counted
UNITS: Mapping[str, Mapping[str, float]] = {  # by quantity: unit -> how many of the first make it
    "mass": {"kg": 1.0, "g": 0.001, "lb": 0.45359237, "oz": 0.028349523125},
    "length": {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048},
    "time": {"s": 1.0, "min": 60.0, "h": 3600.0},
    "data": {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9},
}
CURRENCIES = {"EUR": 1.0, "USD": 1.1, "GBP": 0.85, "JPY": 160.0}  # of each for a euro
FACTORS = (1000.0, 0.001, 2.54, 0.45359237, 60.0)  # of planted conversions
KINDS = ("number", "integer", "decades", "date", "label", "link", "quantity", "links", "money", "linked", "integer", "date", "typed", "series", "part", "link")  # fmt: skip

Tree: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class GeneratorOptions:
    """What is generated."""

    entities: int = 1500
    properties: int = 160
    classes: int = 160
    relations: int = 40
    noise: int = 20
    exceptions: float = 0.01  # the share of a relation's values that break it
    missing: float = 0.3  # the share of values that are left out
    mixed: bool = True  # units and currencies; otherwise one of each
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("exceptions", "missing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"--{name}", f"expected at least 0 and less than 1, got {getattr(self, name):g}.")
        least = len(KINDS) if self.relations else 1
        if self.properties - self.relations - self.noise < least:
            raise ConfigError(
                "--properties",
                f"expected {self.relations + self.noise + least} at least, as {self.relations} are relations and "
                f"{self.noise} are noise, got {self.properties}.",
            )


@dataclass
class Property:
    """A property: its kind, and which entities may have it."""

    name: str
    kind: str
    root: int | None  # the root class whose entities have it; None: all
    presence: float = 1.0


@dataclass
class Relation:
    """A planted relation, and where it does not hold."""

    kind: str
    target: str
    sources: list[str]
    factor: float | None = None
    holds: int = 0  # entities of which it holds
    exceptions: list[str] = field(default_factory=list)  # ids of those of which it does not


@dataclass
class Generated:
    """A generated knowledge base: what is given, and the truth beside it."""

    options: GeneratorOptions
    entities: list[Entity]  # with values missing
    complete: list[Entity]
    superclasses: dict[str, str]  # class -> its direct superclass
    relations: list[Relation]
    noise: list[str]

    def truth(self) -> dict[str, Any]:
        """All that is known of it, as plain data."""
        return {
            "options": asdict(self.options),
            "relations": [asdict(relation) for relation in self.relations],
            "noise": self.noise,
            "superclasses": self.superclasses,
            "units": {name: dict(units) for name, units in UNITS.items()},
            "currencies": CURRENCIES,
            "values": {entity.id: _plain(entity.tree) for entity in self.complete},
        }


def generate(options: GeneratorOptions) -> Generated:
    """A knowledge base with these settings."""
    return _Generator(options).run()


class _Generator:
    def __init__(self, options: GeneratorOptions) -> None:
        self.options = options
        self.random = random.Random(f"kbdisk {options.seed}")
        self.relations: list[Relation] = []
        self.latest_link = ""  # the property of links that was made last

    def run(self) -> Generated:
        options = self.options
        self._make_classes()
        self._make_entities()
        base = self._properties()
        for property in base:
            VALUES[property.kind](self, property)
        for n in range(options.relations):
            self._plant(n, base)
        noise = [Property(f"noise{n}", "number" if n % 2 else "label", None) for n in range(options.noise)]
        for property in noise:
            self._add_noise(property)
        complete = [Entity(id, tree, classes, f"Thing {n}") for n, (id, tree, classes) in enumerate(self._entities())]
        given = [replace(entity, tree=self._without_missing(entity.tree)) for entity in complete]
        return Generated(
            options, given, complete, self.superclasses, self.relations, [property.name for property in noise]
        )

    # ------------------------------------------------------------ classes and entities

    def _make_classes(self) -> None:
        count = self.options.classes
        self.roots = max(1, min(8, count // 4))
        self.parent = [
            None if n < self.roots else self.random.randrange(max(self.roots, n // SIDES + 1)) for n in range(count)
        ]
        self.superclasses = {f"{BASE}C{n}": f"{BASE}C{p}" for n, p in enumerate(self.parent) if p is not None}
        self.effect = [self.vector(1.0 if parent is None else 0.6) for parent in self.parent]
        self.root_of = list(range(count))
        for n, parent in enumerate(self.parent):
            self.root_of[n] = n if parent is None else self.root_of[parent]

    def vector(self, scale: float) -> list[float]:
        """A random vector as long as a latent one."""
        return [self.random.gauss(0, scale) for _ in range(LATENTS)]

    def _make_entities(self) -> None:
        draw, count = self.random, self.options.entities
        weights = [1 / (n + 3) for n in range(self.options.classes)]  # few classes are common
        self.ids = [f"{BASE}e{n}" for n in range(count)]
        self.trees: list[Tree] = [{} for _ in range(count)]
        self.classes: list[list[int]] = []
        self.latent: list[list[float]] = []
        self.popularity: list[float] = []
        for _ in range(count):
            class_count = min(MAX_CLASSES, 1 + int(draw.expovariate(1.2)))
            numbers = list(dict.fromkeys(draw.choices(range(self.options.classes), weights, k=class_count)))
            for number in list(numbers):
                parent = self.parent[number]
                if parent is not None and draw.random() < 0.5:
                    numbers.append(parent)
            numbers = list(dict.fromkeys(numbers))
            self.classes.append(numbers)
            lines = [effect for number in numbers for effect in self._line(number)]
            self.latent.append(
                [sum(line[k] for line in lines) / math.sqrt(len(lines)) + draw.gauss(0, 0.7) for k in range(LATENTS)]
            )
            self.popularity.append(draw.paretovariate(1.1))

    def _line(self, number: int) -> Iterator[list[float]]:
        """The effects of a class and its superclasses."""
        here: int | None = number
        while here is not None:
            yield self.effect[here]
            here = self.parent[here]

    def _entities(self) -> Iterator[tuple[str, Tree, tuple[str, ...]]]:
        for id, tree, classes in zip(self.ids, self.trees, self.classes, strict=True):
            yield id, tree, tuple(f"{BASE}C{number}" for number in classes)

    # ------------------------------------------------------------ properties that depend on latents

    def _properties(self) -> list[Property]:
        options = self.options
        properties = []
        for n in range(options.properties - options.relations - options.noise):
            block = n // len(KINDS)  # the properties of a block are of the same entities
            root = None if block % 2 == 0 else (block // 2) % self.roots
            kind = KINDS[n % len(KINDS)]
            properties.append(Property(f"{kind}{n}", kind, root, self.random.uniform(0.6, 1.0)))
        return properties

    def having(self, of: Property) -> Iterator[int]:
        """The entities that have a property."""
        for place in range(len(self.trees)):
            allowed = of.root is None or any(self.root_of[number] == of.root for number in self.classes[place])
            if allowed and self.random.random() < of.presence:
                yield place

    def score(self) -> Callable[[int], float]:
        """A random linear function of an entity's latent vector, with noise; of variance 1 or so."""
        weights = self.vector(1.0)
        size = math.sqrt(sum(weight * weight for weight in weights)) * 1.5
        return lambda place: sum(map(float.__mul__, weights, self.latent[place])) / size + self.random.gauss(0, 0.3)

    def chosen(self, taste: list[float], place: int, candidates: list[int]) -> int:
        """A link's target: popular and alike ones are likelier."""
        some = self.random.choices(candidates, [self.popularity[target] for target in candidates], k=6)
        return max(
            some,
            key=lambda target: sum(
                t * a * b for t, a, b in zip(taste, self.latent[place], self.latent[target], strict=True)
            ),
        )

    def _add_noise(self, property: Property) -> None:
        for place in range(len(self.trees)):
            drawn = (
                round(self.random.uniform(0, 1000), 1) if property.kind == "number" else f"n{self.random.randrange(6)}"
            )
            self.trees[place][property.name] = drawn

    # ------------------------------------------------------------ relations

    def _plant(self, n: int, base: list[Property]) -> None:
        names = list(RELATIONS)
        kind = names[n % len(names)]
        kinds, planted = RELATIONS[kind]
        blocks = range(max(1, len(base) // len(KINDS)))
        wanted_block = (n // len(names)) % len(blocks)
        block = [property for place, property in enumerate(base) if place // len(KINDS) == wanted_block]
        sources = []
        for wanted in kinds:
            fitting = [property for property in block if property.kind == wanted and property.name not in sources]
            sources.append((fitting or [property for property in base if property.kind == wanted])[0].name)
        relation = Relation(kind, f"{kind}{n}", sources)
        self.relations.append(relation)
        planted(self, relation)

    def is_exception(self, relation: Relation, place: int) -> bool:
        """Whether the relation does not hold of an entity; it is counted."""
        if self.random.random() < self.options.exceptions:
            relation.exceptions.append(self.ids[place])
            return True
        relation.holds += 1
        return False

    def with_all(self, relation: Relation) -> Iterator[tuple[int, list[Any]]]:
        """The entities that have all sources, with their values."""
        for place, tree in enumerate(self.trees):
            if all(name in tree for name in relation.sources):
                yield place, [tree[name] for name in relation.sources]

    # ------------------------------------------------------------ missing values

    def _without_missing(self, tree: Tree) -> Tree:
        kept: Tree = {}
        for name, value in tree.items():
            if isinstance(value, dict):
                value = self._without_missing(value)
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                value = [part for whole in value if (part := self._without_missing(whole))]
            elif self.random.random() < self.options.missing:
                continue
            if value not in ({}, []):
                kept[name] = value
        return kept


# ---------------------------------------------------------------- kinds of value

Maker: TypeAlias = Callable[[_Generator, Property], None]


def _numbers(of: Callable[[float], Any]) -> Maker:
    def make(generator: _Generator, property: Property) -> None:
        score = generator.score()
        for place in generator.having(property):
            generator.trees[place][property.name] = of(score(place))

    return make


def _day(score: float) -> Date:
    day = date(1960, 1, 1) + timedelta(days=round(7000 * max(-2.5, min(score, 2.5))))
    return Date(day.year, day.month, day.day)


def _label(generator: _Generator, property: Property) -> None:
    scores = [generator.score() for _ in range(generator.random.randint(3, 8))]
    for place in generator.having(property):
        of_labels = [score(place) for score in scores]
        generator.trees[place][property.name] = f"{property.name}-{of_labels.index(max(of_labels))}"


def _targets(generator: _Generator) -> list[int]:
    """The entities that a property leads to: those of a class, as many as a tenth of all or more."""
    root = generator.random.randrange(generator.roots)
    of_root = [
        place
        for place, classes in enumerate(generator.classes)
        if any(generator.root_of[number] == root for number in classes)
    ]
    return of_root if len(of_root) >= 2 else list(range(len(generator.trees)))


def _link(generator: _Generator, property: Property) -> None:
    """One link."""
    taste, targets = generator.vector(1.0), _targets(generator)
    generator.latest_link = property.name
    for place in generator.having(property):
        generator.trees[place][property.name] = Link(generator.ids[generator.chosen(taste, place, targets)])


def _linked(generator: _Generator, property: Property) -> None:
    """A number that depends on what the latest link leads to, where there is one."""
    score, link = generator.score(), generator.latest_link
    places = {id: place for place, id in enumerate(generator.ids)}
    for place in generator.having(property):
        if link in generator.trees[place]:
            generator.trees[place][property.name] = round(50 + 12 * score(places[generator.trees[place][link].id]), 2)


def _typed(generator: _Generator, property: Property) -> None:
    """A label that depends on the first class, nine times of ten."""
    labels = [f"{property.name}-{n}" for n in range(5)]
    table = generator.random.choices(labels, k=generator.options.classes)
    for place in generator.having(property):
        certain = generator.random.random() < 0.9
        generator.trees[place][property.name] = (
            table[generator.classes[place][0]] if certain else generator.random.choice(labels)
        )


def _links(generator: _Generator, property: Property) -> None:
    """Several links: most entities have few, some have very many."""
    taste, targets = generator.vector(1.0), _targets(generator)
    for place in generator.having(property):
        count = min(int(generator.random.paretovariate(0.9)), 60, len(targets))
        linked = {generator.chosen(taste, place, targets): None for _ in range(count)}
        generator.trees[place][property.name] = [Link(generator.ids[target]) for target in linked]


def _quantity(generator: _Generator, property: Property) -> None:
    quantity = generator.random.choice(list(UNITS))
    units = list(UNITS[quantity]) if generator.options.mixed else list(UNITS[quantity])[:1]
    score = generator.score()
    for place in generator.having(property):
        unit, amount = generator.random.choice(units), math.exp(score(place))
        generator.trees[place][property.name] = {"value": float(f"{amount / UNITS[quantity][unit]:.6g}"), "unit": unit}


def _money(generator: _Generator, property: Property) -> None:
    currencies = list(CURRENCIES) if generator.options.mixed else ["EUR"]
    score = generator.score()
    for place in generator.having(property):
        currency, euros = generator.random.choice(currencies), 100 * math.exp(score(place))
        amount = round(euros * CURRENCIES[currency], 0 if currency == "JPY" else 2)
        generator.trees[place][property.name] = {"amount": amount, "currency": currency}


def _series(generator: _Generator, property: Property) -> None:
    score = generator.score()
    for place in generator.having(property):
        years = sorted(generator.random.sample(range(1980, 2025), generator.random.randint(1, 5)))
        start = math.exp(8 + 2 * score(place))
        generator.trees[place][property.name] = [
            {"year": year, "count": round(start * 1.02 ** (year - 1980) * math.exp(generator.random.gauss(0, 0.05)))}
            for year in years
        ]


def _part(generator: _Generator, property: Property) -> None:
    width, height = generator.score(), generator.score()
    for place in generator.having(property):
        generator.trees[place][property.name] = {
            "width": round(50 + 10 * width(place), 1),
            "height": round(80 + 10 * height(place), 1),
            "outer": {"colour": ("red", "green", "blue")[int(abs(3 * width(place))) % 3]},
        }


VALUES: Mapping[str, Maker] = {
    "number": _numbers(lambda score: round(50 + 12 * score, 2)),
    "integer": _numbers(lambda score: max(1, round(300 + 80 * score))),
    "decades": _numbers(lambda score: max(1, round(10 ** (4 + max(-2.0, min(score, 2.0)))))),
    "date": _numbers(_day),
    "label": _label,
    "link": _link,
    "links": _links,
    "linked": _linked,
    "typed": _typed,
    "quantity": _quantity,
    "money": _money,
    "series": _series,
    "part": _part,
}

# ---------------------------------------------------------------- kinds of relation


def _of_values(compute: Callable[..., Any], spoil: Callable[[random.Random, Any], Any], factors: bool = False) -> Any:
    """A value that is computed from others of its entity."""

    def plant(generator: _Generator, relation: Relation) -> None:
        if factors:
            relation.factor = generator.random.choice(FACTORS)
        given = [relation.factor] if factors else []
        for place, values in generator.with_all(relation):
            value = compute(*values, *given)
            if generator.is_exception(relation, place):
                value = spoil(generator.random, value)
            generator.trees[place][relation.target] = value

    return plant


def _spoil_number(draw: random.Random, value: Any) -> Any:
    wrong = value * draw.choice((0.5, 0.8, 1.3, 2.1)) + draw.choice((-7, 7))
    wrong = round(wrong) if isinstance(value, int) else round(wrong, 4)
    return wrong if wrong != value else value + 1


def _spoil_date(draw: random.Random, value: Date) -> Date:
    return _shifted(value, draw.choice((-900, -40, 55, 800)))


def _shifted(value: Date, days: int) -> Date:
    moved = date(value.year or 1, value.month or 1, value.day or 1) + timedelta(days=days)
    return Date(moved.year, moved.month, moved.day)


def _dependency(generator: _Generator, relation: Relation) -> None:
    """One label determines another, of which there are fewer."""
    (source,) = relation.sources
    labels = sorted({tree[source] for tree in generator.trees if source in tree})
    table = {label: f"{relation.target}-{generator.random.randrange(max(2, len(labels) - 1))}" for label in labels}
    for place, (label,) in generator.with_all(relation):
        value = table[label]
        if generator.is_exception(relation, place):
            value = generator.random.choice([other for other in [*table.values(), "none"] if other != value])
        generator.trees[place][relation.target] = value


def _inverse(generator: _Generator, relation: Relation) -> None:
    """Each link is stated backwards by its target."""
    places = {id: place for place, id in enumerate(generator.ids)}
    for place, (links,) in generator.with_all(relation):
        for link in links if isinstance(links, list) else [links]:
            if not generator.is_exception(relation, place):
                generator.trees[places[link.id]].setdefault(relation.target, []).append(Link(generator.ids[place]))


def _symmetric(generator: _Generator, relation: Relation) -> None:
    """Pairs of entities that link to each other."""
    places = list(range(len(generator.trees)))
    generator.random.shuffle(places)
    for source, target in zip(places[::2], places[1::2], strict=False):
        generator.trees[source].setdefault(relation.target, Link(generator.ids[target]))
        if not generator.is_exception(relation, source):
            generator.trees[target].setdefault(relation.target, Link(generator.ids[source]))


def _transitive(generator: _Generator, relation: Relation) -> None:
    """Links along chains of five, each with all links of the one that it leads to."""
    places = list(range(len(generator.trees)))
    generator.random.shuffle(places)
    for first in range(0, len(places) - 4, 5):
        chain = places[first : first + 5]
        for at, place in enumerate(chain[:-1]):
            links = [chain[at + 1]]
            links += [other for other in chain[at + 2 :] if not generator.is_exception(relation, place)]
            generator.trees[place][relation.target] = [Link(generator.ids[other]) for other in links]


def _latest(series: list[dict[str, Any]]) -> Any:
    return max(series, key=lambda part: part["year"])["count"]


RELATIONS: Mapping[str, tuple[tuple[str, ...], Callable[[_Generator, Relation], None]]] = {
    "copy": (("number",), _of_values(lambda a: a, _spoil_number)),
    "conversion": (
        ("integer",),
        _of_values(lambda a, factor: float(f"{a * factor:.10g}"), _spoil_number, factors=True),
    ),
    "sum": (("integer", "integer"), _of_values(lambda a, b: a + b, _spoil_number)),
    "difference": (("integer", "integer"), _of_values(lambda a, b: a - b, _spoil_number)),
    "product": (("integer", "number"), _of_values(lambda a, b: float(f"{a * b:.10g}"), _spoil_number)),
    "ratio": (("decades", "integer"), _of_values(lambda a, b: float(f"{a / b:.10g}"), _spoil_number)),
    "years": (("date", "date"), _of_values(lambda a, b: b.year - a.year, _spoil_number)),
    "shifted": (("date",), _of_values(lambda a: _shifted(a, 30), _spoil_date)),
    "dependency": (("label",), _dependency),
    "inverse": (("links",), _inverse),
    "symmetric": ((), _symmetric),
    "transitive": ((), _transitive),
    "latest": (("series",), _of_values(_latest, _spoil_number)),
    "template": (
        ("integer", "label"),
        _of_values(lambda a, b: f"{a} {b}", lambda draw, text: f"{draw.randrange(1000, 2000)} {text.split()[1]}"),
    ),
}


# ---------------------------------------------------------------- written


def refuse_name(out: Path) -> None:
    """ConfigError for a name of no format that is written."""
    if out.suffix not in (".ttl", ".jsonl"):
        raise ConfigError(str(out), f"expected a name that ends in .ttl or .jsonl, got {out.name!r}.")


def write_generated(generated: Generated, out: Path) -> Path:
    """Write the given values as Turtle or JSON Lines, by the name, and the truth beside it; returns the truth's place."""
    from kbdisk.loaders.files import writing

    lines = turtle(generated) if out.suffix == ".ttl" else json_lines(generated.entities)
    with writing(out) as stream:
        stream.writelines(f"{line}\n".encode() for line in lines)
    truth = out.with_name(f"{out.name}.truth.json")
    with writing(truth) as stream:
        stream.write(json.dumps(generated.truth(), ensure_ascii=False).encode())
    return truth


def json_lines(entities: Iterable[Entity]) -> Iterator[str]:
    """Entities as JSON Lines: links as {"@id": ...}, dates as text."""
    for entity in entities:
        row = {"@id": entity.id, "@type": list(entity.classes), "label": entity.label, **_plain(entity.tree)}
        yield json.dumps(row, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, Link):
        return {"@id": value.id}
    return f"{value.year:04}-{value.month:02}-{value.day:02}" if isinstance(value, Date) else value


def turtle(generated: Generated) -> Iterator[str]:
    """The knowledge base as Turtle: several values as several triples, parts as blank nodes."""
    yield f"@prefix ex: <{BASE}> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."
    yield "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    for child, parent in generated.superclasses.items():
        yield f"{_name(child)} rdfs:subClassOf {_name(parent)} ."
    for entity in generated.entities:
        types = ", ".join(map(_name, entity.classes))
        statements = [f"a {types}", f'rdfs:label "{entity.label}"@en', *_statements(entity.tree)]
        yield f"{_name(entity.id)} " + " ;\n    ".join(statements) + " ."


def _name(iri: str) -> str:
    return f"ex:{iri.removeprefix(BASE)}"


def _statements(tree: Tree) -> Iterator[str]:
    for name, value in tree.items():
        values = value if isinstance(value, list) else [value]
        yield f"ex:{name} {', '.join(map(_term, values))}"


def _term(value: Any) -> str:
    if isinstance(value, dict):
        return f"[ {' ; '.join(_statements(value))} ]"
    if isinstance(value, Link):
        return _name(value.id)
    if isinstance(value, Date):
        return f'"{_plain(value)}"^^xsd:date'
    if isinstance(value, float):
        text = f"{value:.17g}" if float(f"{value:.12g}") != value else f"{value:.12g}"
        return f'"{text}"^^xsd:double' if "e" in text else f'"{text}"^^xsd:decimal'
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
