"""Quantities in mixed units and money in mixed currencies, compared with the same source in one unit of each.

    python -m benchmarks mixed-units --seeds 0 1 2

A generated source is completed twice: as it is, and with every amount converted into one unit. The same values are
hidden. The error is the mean absolute error of the logarithm of amounts, in one unit. The column off has the median ratio of the
filled amounts to those of the source in one unit, for the unit whose ratio is furthest from 1: a wrong factor would show there. The
last column is the share of amounts without a unit whose filled unit is right.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.generator import CURRENCIES, UNITS, Generated, GeneratorOptions, generate, json_lines
from benchmarks.script import argument_parser

NAMES = {"quantity": ("value", "unit"), "money": ("amount", "currency")}
RATES = {currency: 1 / rate for currency, rate in CURRENCIES.items()}
FACTORS: dict[str, float] = {unit: factor for units in UNITS.values() for unit, factor in units.items()} | RATES
FIRST = {unit: next(iter(units)) for units in (*UNITS.values(), CURRENCIES) for unit in units}


def amounts(tree: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], tuple[str, str]]]:
    """The quantities and the money of an entity: property, part, and what its number and its unit are called."""
    for name, part in tree.items():
        kind = name.rstrip("0123456789")
        if kind in NAMES:
            yield name, part, NAMES[kind]


def in_one_unit(generated: Generated) -> list[str]:
    """The given entities as JSON Lines, each amount converted into the first unit of its kind."""
    rows = []
    for line, complete in zip(json_lines(generated.entities), generated.complete, strict=True):
        row = json.loads(line)
        for name, part, (value, unit) in amounts(row):
            unit_in_truth = complete.tree[name][unit]  # the unit itself may be hidden
            if value in part:
                part[value] = float(f"{part[value] * FACTORS[unit_in_truth] / FACTORS[FIRST[unit_in_truth]]:.6g}")
            if unit in part:
                part[unit] = FIRST[unit_in_truth]
        rows.append(json.dumps(row))
    return rows


def complete(lines: list[str], folder: Path, budget: str) -> dict[str, dict[str, Any]]:
    """The completed entities by their ids."""
    source, target = folder / "source.jsonl", folder / "completed.jsonl"
    source.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "kbdisk", "complete", str(source), "--out", str(target), "--fill", "all"]
    only = {name for line in lines for name, _, _ in amounts(json.loads(line))}
    subprocess.run([*command, "--only", ",".join(sorted(only)), "--budget", budget, "--quiet"], check=True)
    rows = map(json.loads, target.read_text().splitlines())
    return {row["@id"]: row for row in rows}


Errors = dict[str, tuple[str, float]]  # by entity: the unit, and the log of the filled over the true amount


def errors(generated: Generated, filled: dict[str, dict[str, Any]], mixed: bool) -> dict[str, Errors]:
    """By property, the errors of the hidden amounts that were filled."""
    by_property: dict[str, Errors] = {}
    for given, truth in zip(generated.entities, generated.complete, strict=True):
        for name, part, (value, unit) in amounts(truth.tree):
            made = filled[given.id].get(name, {})
            if value in given.tree.get(name, {}) or made.get(value) is None or made[value] <= 0:
                continue
            filled_unit = made.get(unit) or FIRST[part[unit]]
            ratio = made[value] * FACTORS[filled_unit] / (part[value] * FACTORS[part[unit]])
            by_property.setdefault(name, {})[given.id] = (filled_unit if mixed else FIRST[filled_unit], math.log(ratio))
    return by_property


def units_right(generated: Generated, filled: dict[str, dict[str, Any]], name: str) -> float:
    """Of the amounts of a property that are given without a unit, the share whose filled unit is right."""
    value, unit = NAMES[name.rstrip("0123456789")]
    cases = [
        filled[given.id][name].get(unit) == truth.tree[name][unit]
        for given, truth in zip(generated.entities, generated.complete, strict=True)
        if given.tree.get(name, {}).keys() == {value}
    ]
    return statistics.fmean(cases)


def off(ours: Errors, theirs: Errors) -> float:
    """The median ratio of filled amounts to those of the other source, of the unit with the worst one."""
    by_unit: dict[str, list[float]] = {}
    for id in ours.keys() & theirs.keys():
        by_unit.setdefault(ours[id][0], []).append(ours[id][1] - theirs[id][1])
    return math.exp(max(map(statistics.median, by_unit.values()), key=abs))


def main(argv: Sequence[str]) -> None:
    """Prints a row for each property and seed, and the mean ratio of errors."""
    parser = argument_parser("mixed-units", __doc__)
    parser.add_argument("--budget", default="10s")
    parser.add_argument("--entities", type=int, default=600)
    parser.add_argument("--properties", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args(argv)
    ratios = []
    print(f"{'seed':>4} {'property':12} {'hidden':>6} {'mixed':>7} {'one':>7} {'ratio':>6} {'off':>6} {'units':>6}")
    for seed in arguments.seeds:
        generated = generate(GeneratorOptions(arguments.entities, arguments.properties, 8, 0, 4, seed=seed))
        with tempfile.TemporaryDirectory() as mixed, tempfile.TemporaryDirectory() as single:
            filled = complete(list(json_lines(generated.entities)), Path(mixed), arguments.budget)
            mixed_errors = errors(generated, filled, True)
            single_errors = errors(generated, complete(in_one_unit(generated), Path(single), arguments.budget), False)
        for name in sorted(mixed_errors.keys() & single_errors.keys()):
            both = mixed_errors[name], single_errors[name]
            mean, single_mean = (statistics.fmean(abs(log) for _, log in logs.values()) for logs in both)
            ratios.append(mean / single_mean)
            figures = f"{mean:7.3f} {single_mean:7.3f} {ratios[-1]:6.2f} {off(*both):6.2f}"
            right = units_right(generated, filled, name)
            print(f"{seed:4} {name:12} {len(mixed_errors[name]):6} {figures} {right:6.2f}", flush=True)
    print(f"mean ratio of errors {statistics.fmean(ratios):.3f}")
