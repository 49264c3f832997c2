"""Two moons, the paper's figure: a mixture of many Gaussians draws both moons, one Gaussian (which is MSE) cannot.

The figure of each model is how often a small classifier tells what it draws from data: half of the time is by chance.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbdisk.bench.base import Options, Table, Teller
from kbdisk.bench.pictures import drawn
from kbdisk.bench.results import OURS, Result, Row, latest
from kbdisk.bench.tables import Measure, compared
from kbdisk.errors import ConfigError
from kbdisk.plots import COLOURS, INK

TAKES = frozenset({"config"})  # of which train.steps alone
STEPS, POINTS = 1500, 4000
KEPT, CURVE = 1000, 150  # points, and places of a density, that are stored for the picture
NAMES = ("256 Gaussians", "1 Gaussian (MSE)")


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Train all models with each seed, and judge what they draw."""
    from kbdisk.api.training import run_of

    steps = STEPS
    if options.config:
        chosen, usual = (run_of(options.preset, None, one, None) for one in (options.config, None))
        if not chosen.train.steps or replace(chosen, train=replace(chosen.train, steps=usual.train.steps)) != usual:
            raise ConfigError(
                options.config, "expected train.steps and nothing else, which alone two-moons heeds, got other choices."
            )
        steps = chosen.train.steps
    for seed in options.seeds:
        if options.is_done("", OURS, seed):
            continue
        yield replace(_measured(steps, seed, teller, is_shown=seed == options.seeds[0]), told=options.told)


def _measured(steps: int, seed: int, teller: Teller, is_shown: bool) -> Result:
    import torch

    from kbdisk.bench.moons import MODELS, draw, moons, points, told_apart, train

    rows, details, seconds = [], {}, 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        known, fresh = moons(POINTS, generator), points(moons(POINTS, generator))
        for name, number in MODELS.items():
            teller.say(f"two-moons: {name}, seed {seed}")
            begun = time.monotonic()
            learnt = train(known, number, steps)
            seconds += time.monotonic() - begun
            made = points(draw(learnt, POINTS))
            rows.append(Row(name, told_apart(fresh, made), POINTS))
            details[name] = _shown(learnt, made, fresh)
    picture = {"data": _rounded(fresh[:KEPT]), "models": details} if is_shown else {}
    return Result("two-moons", OURS, rows, seed=seed, steps=steps, seconds=round(seconds, 1), details=picture)


def _shown(learnt: Any, made: Any, real: Any) -> dict[str, Any]:
    """Some of the points, and what is believed of x and y, given nothing."""
    import torch

    from kbdisk.bench.moons import marginal

    told: dict[str, Any] = {"points": _rounded(made[:KEPT])}
    for path, values in zip("xy", real.T, strict=True):
        at = torch.linspace(float(values.min()) - 0.3, float(values.max()) + 0.3, CURVE)
        told[path] = [_rounded(at), _rounded(marginal(learnt, path, at).detach())]
    return told


def _rounded(values: Any) -> Any:
    return [[round(x, 3) for x in one] if isinstance(one, list) else round(one, 3) for one in values.tolist()]


def tables(results: Sequence[Result]) -> list[Table]:
    """One table."""
    known = Measure(
        "Two moons: how often drawn points are told from data", NAMES, what="model", sources=["0.5: by chance."]
    )
    return [compared(known, results)] if results else []


def figure(results: Sequence[Result], path: Path) -> bool:
    """What each model draws; then the data's histograms beside what each believes of one property alone."""
    shown = [one for one in latest(results) if one.details]
    if not shown:
        return False
    result = min(shown, key=lambda one: one.told)  # the usual steps, where these were taken
    details = result.details
    data, models = list(zip(*details["data"], strict=True)), details["models"]

    def draw(picture: Any) -> None:
        axes = picture.subplots(1, len(models) + 2)
        for axis, (name, own) in zip(axes, models.items(), strict=False):
            axis.scatter(*data, s=2, color="0.8", label="data")
            axis.scatter(*zip(*own["points"], strict=True), s=2, color=COLOURS["number"], label="drawn")
            axis.set(title=f"{name}: told apart {result.values[name]:.0%}", xlim=(-2, 3), ylim=(-1.5, 2))
            axis.legend(loc="lower left", markerscale=4)
        for axis, at, values in zip(axes[len(models) :], "xy", data, strict=True):
            axis.hist(values, bins=40, density=True, color="0.8", label="data")
            for (name, own), colour in zip(models.items(), (COLOURS["number"], COLOURS["category"], INK), strict=False):
                axis.plot(*own[at], label=name, color=colour)
            axis.set(title=f"{at}, given nothing", yticks=[], ylim=(0, 1.3 * axis.get_ylim()[1]))
            axis.legend()

    drawn(path, 15, 3.8, draw)
    return True
