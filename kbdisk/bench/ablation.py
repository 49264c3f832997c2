"""What each choice is worth: phones told by models that differ in one choice, each trained as long. Test is never touched.

A row is a choice, changed from what the preset has; a column is a property's error; the last is the mean of all, each in
parts of what it is with nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

from kbdisk.bench import gsm
from kbdisk.bench.base import TRAINING, Options, Table, Teller
from kbdisk.bench.pictures import drawn
from kbdisk.bench.properties import Task, ours, train_or_open
from kbdisk.bench.results import OURS, Result, figures, latest
from kbdisk.bench.tables import column, costs, decimals
from kbdisk.errors import ConfigError
from kbdisk.plots import COLOURS, GRID, INK
from kbdisk.schemas.text.names import did_you_mean

TAKES = TRAINING | {"only", "validation"}  # the latter is so anyway
SAME = "as it is"
NUMBER = "codec.kinds.number"
VARIANTS: dict[str, tuple[str, Any] | None] = {  # which choice, and what it is instead
    SAME: None,
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


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train with each choice changed, seed by seed."""
    for one in options.only:
        if one not in VARIANTS:
            hint = did_you_mean(one, VARIANTS)
            raise ConfigError("--only", f"expected some of {', '.join(VARIANTS)}, got {one!r}.{hint}")
    options = replace(options, validation=True)
    schema, entities = gsm.read(options.data)
    for seed in options.seeds:
        task = replace(gsm.task(schema, entities, options, seed), bench="ablation")
        for name in options.only or VARIANTS:
            if not options.is_done(name, OURS, seed):
                yield _measured(name, task, options, seed, teller)


def _measured(name: str, task: Task, options: Options, seed: int, teller: Teller) -> Result:
    from kbdisk.api.training import run_of

    run = run_of(options.preset, options.budget, options.config, seed)
    choice = VARIANTS[name]
    run = run if choice is None else with_choice(run, choice[0].split("."), choice[1])
    with teller.training(f"ablation: {name}, seed {seed}") as watch:
        model = train_or_open(task.train, task.schema, run, options, f"{name}-{seed}", watch)
    return ours(model, replace(task, setting=name), options, seed, teller)


def with_choice(base: Any, path: Sequence[str], value: Any) -> Any:
    """A dataclass, or a mapping, with another value at a path."""
    head, *rest = path
    old = base[head] if isinstance(base, Mapping) else getattr(base, head)
    new = with_choice(old, rest, value) if rest else value
    return replace(base, **{head: new}) if is_dataclass(base) else {**base, head: new}  # type: ignore[type-var]


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each preset, and what was told beside it."""
    found = []
    for told in dict.fromkeys(column(one) for one in results):
        own = latest(one for one in results if column(one) == told)
        rows = _means(own)
        names = [name for name in gsm.NAMES if any(name in one for one in rows.values())]
        digits = {name: decimals([one[name] for one in rows.values() if name in one]) for name in names}
        ratios = mean_ratios(rows)
        lines = [
            [
                variant,
                *(f"{one[name]:.{digits[name]}f}" if name in one else "" for name in names),
                f"{ratios[variant]:.3f}" if variant in ratios else "",
            ]
            for variant, one in rows.items()
        ]
        title = f"GSM, one choice changed, {told}, validation"
        found.append(Table(title, ["choice", *names, "mean"], lines, costs(own)))
    return found


def _means(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """By variant, in the order of VARIANTS, each property's mean over seeds."""
    several = {name: [one for one in results if one.setting == name] for name in VARIANTS}
    return {name: {row: one.mean for row, one in figures(own).items()} for name, own in several.items() if own}


def mean_ratios(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """By variant the mean of its errors in parts of those with nothing changed; nothing where these are not known."""
    base = rows.get(SAME, {})
    found = {}
    for variant, own in rows.items():
        parts = [own[name] / base[name] for name in own if base.get(name)]
        if parts:
            found[variant] = math.fsum(parts) / len(parts)
    return found


def figure(results: Sequence[Result], path: Path) -> bool:
    """The mean of each variant, trained as it was last."""
    ratios = mean_ratios(_means(latest(one for one in results if column(one) == column(results[-1]))))
    if not ratios:
        return False

    def draw(picture: Any) -> None:
        axes = picture.add_subplot()
        axes.axvline(1, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        places = list(range(len(ratios), 0, -1))
        axes.plot(list(ratios.values()), places, "o", color=COLOURS["number"], markersize=7)
        axes.set_yticks(places, list(ratios))
        axes.grid(axis="both", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        axes.set_xlabel("mean error, in parts of that with nothing changed")
        axes.set_title("GSM, one choice changed", loc="left", fontsize=12, fontweight="bold", pad=12)

    drawn(path, 7.6, 1.6 + 0.3 * len(ratios), draw)
    return True
