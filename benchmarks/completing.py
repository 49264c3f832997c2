"""How right completed values are: a tenth of every property's values is hidden, the rest is completed, and both are compared.

python benchmarks/completing.py SOURCE ... [--seeds 5] [--budget 60] [--json FILE] [--schema S]

Numbers count by their absolute error beside the median's, labels and links by how often they are wrong beside the
mode's; median and mode are those of the values left. What says the same elsewhere in an entity is hidden with a value.
A property is counted where it has 100 values or more: a number, a truth, or a category or link with 2 to 200 labels.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import kbdisk
from kbdisk.api.reading import Reading
from kbdisk.cli.ownmodel import Wanted, own_model
from kbdisk.data.graph import pattern
from kbdisk.entity import Date, Entity, Link, Quantity, walk
from kbdisk.schemas.leaf import Boolean, Category, Number
from kbdisk.schemas.leaf import Link as LinkLeaf
from kbdisk.schemas.schema import Schema

SHARE, LEAST, MOST = 0.1, 100, 200
DRAWN = 2.0  # standard errors


@dataclass(frozen=True)
class Hidden:
    """A value that was there."""

    entity: int
    of: str
    path: tuple
    truth: object


def wanted(schema: Schema, entities: list[Entity]) -> dict[tuple, list[tuple[int, tuple, object]]]:
    """(class, pattern) -> where its values are, and what: of the properties that count."""
    found: dict[tuple, list] = {}
    for place, entity in enumerate(entities):
        of = schema.class_of(entity)
        for path, value in schema.leaves(entity).items() if of else ():
            if not any(key == "count" for key in path) and not isinstance(value, list):
                found.setdefault((of.name, pattern(path)), []).append((place, path, value))
    kinds = {(name, path): leaf for name, one in schema.classes.items() for path, leaf in one.leaves().items()}
    roles = {(name, path): one.role for name, of in schema.classes.items() for path, one in of.properties.items()}
    chosen = {}
    for key, values in found.items():
        leaf = kinds.get(key)
        given = any(roles.get((key[0], key[1][:n])) == "given" for n in range(1, len(key[1]) + 1))
        labels = len({_plain(value) for _, _, value in values})
        label = isinstance(leaf, Category | LinkLeaf | Boolean) and 2 <= labels <= MOST
        if len(values) >= LEAST and not given and labels > 1 and (isinstance(leaf, Number) or label):
            chosen[key] = values
    return chosen


def _plain(value: object) -> object:
    return value.id if isinstance(value, Link) else value


def hide(schema: Schema, entities: list[Entity], chosen: dict, seed: int) -> tuple[list[Entity], list[Hidden]]:
    """A tenth of each property's values away, and what was there."""
    rng = random.Random(seed)
    gone: dict[int, set[tuple]] = {}
    picked: list[tuple[int, tuple]] = []
    for values in chosen.values():
        for place, path, _ in rng.sample(values, round(SHARE * len(values))):
            raw = _raw(entities[place].tree, path)
            if raw is not None:
                gone.setdefault(place, set()).update((raw, *_copies(entities[place].tree, raw)))
                picked.append((place, path))
    left = [
        replace(entity, tree=_without(entity.tree, (), gone[place])) if place in gone else entity
        for place, entity in enumerate(entities)
    ]
    hidden = []
    for place, path in picked:
        of = schema.class_of(entities[place])
        if path not in schema.leaves(left[place]):
            hidden.append(Hidden(place, of.name, path, schema.leaves(entities[place])[path]))
    return left, hidden


def _raw(tree: dict, path: tuple) -> tuple | None:
    """Where in the tree as it was read a leaf stands; None where that is a place of a list."""
    here: object = tree
    for at, key in enumerate(path):
        inside = isinstance(here, list) and isinstance(key, int) and key < len(here)
        if not inside and not (isinstance(here, dict) and key in here):
            return None if not at or isinstance(here, dict | list) else path[:at]
        here = here[key]
    return path if isinstance(path[-1], str) and not isinstance(here, dict | list) else None


def _copies(tree: dict, raw: tuple) -> Iterator[tuple]:
    """Where else the same number, quantity or date stands."""
    value = dict(walk(tree))[raw]
    telling = isinstance(value, Date | Quantity) or (isinstance(value, int | float) and abs(value) > MOST)
    for path, other in walk(tree):
        same = value in (other, getattr(other, "value", None)) or getattr(value, "value", value) == other
        if path != raw and telling and same and isinstance(path[-1], str):
            yield path


def _without(tree: object, at: tuple, gone: set[tuple]) -> object:
    if isinstance(tree, dict):
        return {key: _without(value, (*at, key), gone) for key, value in tree.items() if (*at, key) not in gone}
    return [_without(value, (*at, i), gone) for i, value in enumerate(tree)] if isinstance(tree, list) else tree


@dataclass
class Compared:
    """One property's errors, ours and the constant's, value by value."""

    ours: list[float]
    constant: list[float]
    unanswered: int = 0

    @property
    def gain(self) -> tuple[float, float]:
        """How much better ours is, on average, and the standard error of that."""
        gains = [a - b for a, b in zip(self.constant, self.ours, strict=True)]
        spread = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
        return statistics.fmean(gains), spread


def compare(schema: Schema, left: list[Entity], hidden: list[Hidden], completed: Iterable, into: dict) -> None:
    """Take in what was said for what was hidden."""
    said = {one.entity.id: one for one in completed}
    known: dict[tuple, list] = {}
    for entity in left:
        of = schema.class_of(entity)
        for path, value in schema.leaves(entity).items() if of else ():
            known.setdefault((of.name, pattern(path)), []).append(value)
    for one in hidden:
        key = (one.of, pattern(one.path))
        row = into.setdefault(key, Compared([], []))
        entity = left[one.entity]
        tree = said[entity.id].tree() if entity.id in said else entity.tree
        guess = schema.leaves(replace(entity, tree=tree)).get(one.path)
        values = known.get(key)
        if guess is None or not values:
            row.unanswered += 1
        elif isinstance(one.truth, int | float) and not isinstance(one.truth, bool):
            row.ours.append(abs(float(guess) - float(one.truth)))
            row.constant.append(abs(float(statistics.median(map(float, values))) - float(one.truth)))
        else:
            mode = Counter(map(_plain, values)).most_common(1)[0][0]
            row.ours.append(float(_plain(guess) != _plain(one.truth)))
            row.constant.append(float(mode != _plain(one.truth)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", help="of each training, such as 60s; as `kbdisk complete` has it where left out")
    parser.add_argument("--schema")
    parser.add_argument("--id")
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    print(f"{date.today()}, Python {platform.python_version()}, {platform.machine()}, seeds 0 to {told.seeds - 1}\n")
    for source in told.sources:
        one(source, told)


def one(source: str, told: argparse.Namespace) -> None:
    """One knowledge base, with every seed."""
    entities = list(kbdisk.load(source, id=told.id))
    schema = Schema.read(told.schema) if told.schema else kbdisk.infer(entities).schema
    chosen, rows, begun = wanted(schema, entities), {}, time.monotonic()
    for seed in range(told.seeds):
        left, hidden = hide(schema, entities, chosen, seed)
        reading = Reading.of(left)
        wished = Wanted(schema if told.schema else None, budget=told.budget, seed=seed)
        model = own_model(reading, wished, None, lambda line: print(line, file=sys.stderr), None).model
        compare(schema, left, hidden, model.complete(left, fill="all"), rows)
        print(f"seed {seed}: {len(hidden)} hidden, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    report(source, rows, time.monotonic() - begun, told.json)


def report(source: str, rows: dict, seconds: float, file: Path | None) -> None:
    """The table, and what it comes to."""
    print(f"## {Path(source).name}: {seconds:.0f} s\n")
    print("| class | property | hidden | unanswered | ours | constant | better by | standard errors |")
    print("|---|---|---|---|---|---|---|---|")
    counted = {"better": 0, "worse": 0, "all": 0, "hidden": 0}
    for (of, path), row in sorted(rows.items(), key=lambda item: str(item[0])):
        if not row.ours:
            continue
        gain, spread = row.gain
        ours, constant = statistics.fmean(row.ours), statistics.fmean(row.constant)
        counted["all"] += 1
        counted["hidden"] += len(row.ours)
        counted["better"] += gain > 0 or constant == 0 == ours
        counted["worse"] += gain < -DRAWN * spread
        share = gain / constant if constant else 0.0
        name = ".".join(map(str, path)).replace(".-1", "[]")
        print(
            f"| {of} | {name} | {len(row.ours)} | {row.unanswered} | {ours:.4g} | {constant:.4g} | {share:.0%} | {gain / spread if spread else 0:+.1f} |"
        )
    print(
        f"\nbetter than the constant: {counted['better']} of {counted['all']} properties ({counted['hidden']:,} values "
        f"hidden); worse by more than {DRAWN:g} standard errors: {counted['worse']}\n"
    )
    if file is not None:
        with file.open("a") as stream:
            stream.write(json.dumps({"source": Path(source).name, "date": str(date.today()), **counted}) + "\n")


if __name__ == "__main__":
    main()
