"""Ablation of choices: phones are predicted by models that differ in one choice and train equally long. Test is never used.

A row is a choice that differs from the preset, a column the error of a property. The last column is the mean error over
properties, each relative to the error of the unchanged preset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import gsm
from benchmarks.base import Options, Table
from benchmarks.plots import save_plot
from benchmarks.progress import Progress
from benchmarks.properties import Task, evaluate_model, train_or_open
from benchmarks.results import OURS, Result, figures, latest
from benchmarks.tables import column_name, costs, decimals
from kbdisk.api.plots import COLOURS, GRID, INK
from kbdisk.errors import ConfigError
from kbdisk.schemas.text.names import did_you_mean

UNCHANGED = "as it is"
NUMBER = "codec.kinds.number"
VARIANTS: dict[str, tuple[str, Any] | None] = {  # which choice, and what it is instead
    UNCHANGED: None,
    "embedding: periodic": (f"{NUMBER}.embedding", "periodic"),
    "embedding: DICE": (f"{NUMBER}.embedding", "dice"),
    "code: min-max": (f"{NUMBER}.code", "minmax"),
    "code: standard": (f"{NUMBER}.code", "standard"),
    "belief: binned": (f"{NUMBER}.belief", "binned"),
    "belief: one Gaussian (MSE)": (f"{NUMBER}.belief", "mse"),
    "no atoms": (f"{NUMBER}.atoms", 0),
    "labels by their text": ("codec.kinds.category.labels", "text"),
    "weights tied": ("codec.sharing", "tied"),
    "weights disjoint": ("codec.sharing", "disjoint"),
    "paths as text": ("model.paths", "text"),
    "no dropout": ("model.dropout", 0.0),
    "no weight decay": ("train.decay", 0.0),
    "no averaging of weights": ("train.smoothing", 0.0),
    "objective: field mean": ("train.objective", "field-mean"),
    "hiding: the paper's draw": ("hiding.rate", "paper"),
    "hiding: always half": ("hiding.rate", "fixed"),
    "hiding: parts one by one": ("hiding.together", 0.0),
    "hiding: as others miss it": ("hiding.patterns", 0.5),
}


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train with each choice changed, seed by seed."""
    for name in options.only:
        if name not in VARIANTS:
            hint = did_you_mean(name, VARIANTS)
            raise ConfigError("--only", f"expected some of {', '.join(VARIANTS)}, got {name!r}.{hint}")
    options = replace(options, validation=True)
    schema, entities = gsm.read(options.data)
    for seed in options.seeds:
        task = replace(gsm.task(schema, entities, options, seed), bench="ablation")
        for name in options.only or VARIANTS:
            if not options.is_done(name, OURS, seed):
                yield _measure(name, task, options, seed, progress)


def _measure(name: str, task: Task, options: Options, seed: int, progress: Progress) -> Result:
    from kbdisk.api.train import run_of

    run = run_of(options.preset, options.budget, options.config, seed)
    choice = VARIANTS[name]
    run = run if choice is None else with_choice(run, choice[0].split("."), choice[1])
    with progress.training(f"ablation: {name}, seed {seed}") as watch:
        model = train_or_open(task.train, task.schema, run, options, f"{name}-{seed}", watch)
    return evaluate_model(model, replace(task, setting=name), options, seed, progress)


def with_choice(base: Any, path: Sequence[str], value: Any) -> Any:
    """A dataclass, or a mapping, with another value at a path."""
    head, *rest = path
    old = base[head] if isinstance(base, Mapping) else getattr(base, head)
    new = with_choice(old, rest, value) if rest else value
    return replace(base, **{head: new}) if is_dataclass(base) else {**base, head: new}  # type: ignore[type-var]


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each preset, with its budget and run file."""
    tables = []
    for column in dict.fromkeys(column_name(result) for result in results):
        of_column = latest(result for result in results if column_name(result) == column)
        means = _means(of_column)
        names = [name for name in gsm.NAMES if any(name in errors for errors in means.values())]
        digits = {name: decimals([errors[name] for errors in means.values() if name in errors]) for name in names}
        ratios = mean_ratios(means)
        rows = [
            [
                variant,
                *(f"{errors[name]:.{digits[name]}f}" if name in errors else "" for name in names),
                f"{ratios[variant]:.3f}" if variant in ratios else "",
            ]
            for variant, errors in means.items()
        ]
        title = f"GSM, one choice changed, {column}, validation"
        tables.append(Table(title, ["choice", *names, "mean"], rows, costs(of_column)))
    return tables


def _means(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """By variant, in the order of VARIANTS, each property's mean over seeds."""
    groups = {name: [result for result in results if result.setting == name] for name in VARIANTS}
    return {
        name: {row: figure.mean for row, figure in figures(group).items()} for name, group in groups.items() if group
    }


def mean_ratios(means: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """By variant the mean of its errors in parts of those with nothing changed; nothing where these are not known."""
    base = means.get(UNCHANGED, {})
    ratios = {}
    for variant, errors in means.items():
        parts = [errors[name] / base[name] for name in errors if base.get(name)]
        if parts:
            ratios[variant] = math.fsum(parts) / len(parts)
    return ratios


def figure(results: Sequence[Result], path: Path) -> bool:
    """The mean of each variant, of the preset, budget and run file of the last result."""
    ratios = mean_ratios(
        _means(latest(result for result in results if column_name(result) == column_name(results[-1])))
    )
    if not ratios:
        return False

    def draw(plot: Any) -> None:
        axes = plot.add_subplot()
        axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        places = list(range(len(ratios), 0, -1))
        axes.plot(list(ratios.values()), places, "o", color=COLOURS["number"], markersize=7)
        axes.set_yticks(places, list(ratios))
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlabel("mean error, in parts of that with nothing changed")
        axes.set_title("GSM, one choice changed", loc="left", fontsize=12, fontweight="bold", pad=12)

    save_plot(path, 7.6, 1.6 + 0.3 * len(ratios), draw)
    return True
