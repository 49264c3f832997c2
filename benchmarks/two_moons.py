"""Two moons, the paper's figure: a mixture of many Gaussians can draw both moons, one Gaussian (which is MSE) cannot.

Entities have three properties: x, y and the moon. All models train on the same entities with the same `hide` and `loss`, and draw
new ones with the same `reveal`, one property at a time in random order. The score of a model is the accuracy of a small classifier
that separates drawn points from data: by chance it is one half.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.base import Options, Table
from benchmarks.plots import save_plot
from benchmarks.progress import Progress
from benchmarks.results import OURS, Result, Row, latest
from benchmarks.tables import Measure, compared
from kbdisk.api.plots import COLOURS, INK
from kbdisk.data import Codec, CodecConfig
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError
from kbdisk.leaves.number.codec import NumberConfig
from kbdisk.model.diffusion import beliefs, loss, reveal
from kbdisk.model.masking import Hiding, hide
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

STEPS, POINTS = 1500, 4000
STORED_POINTS, DENSITY_POINTS = 1000, 150  # points, and places of a density, that are stored for the plot
SCHEMA = of_one_class(
    {
        ("x",): Property(Number(decimals=4)),
        ("y",): Property(Number(decimals=4)),
        ("moon",): Property(Category(("upper", "lower"), closed=True)),
    },
    "Point",
)
MODELS = {
    "256 Gaussians": NumberConfig(code="standard", belief="mixture", components=256),
    "1 Gaussian (MSE)": NumberConfig(code="standard", belief="mse"),
}


def run(options: Options, progress: Progress) -> Iterator[Result]:
    """Train all models with each seed, and judge what they draw."""
    from kbdisk.api.train import run_of

    steps = STEPS
    if options.config:
        chosen, default = (run_of(options.preset, None, file, None) for file in (options.config, None))
        if not chosen.train.steps or replace(chosen, train=replace(chosen.train, steps=default.train.steps)) != default:
            raise ConfigError(
                options.config, "expected train.steps and nothing else, which alone two-moons heeds, got other choices."
            )
        steps = chosen.train.steps
    for seed in options.seeds:
        if options.is_done("", OURS, seed):
            continue
        result = _measure(steps, seed, progress, is_plotted=seed == options.seeds[0])
        yield replace(result, told=options.label)


def _measure(steps: int, seed: int, progress: Progress, is_plotted: bool) -> Result:
    rows, details, seconds = [], {}, 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        training, test = moons(POINTS, generator), points(moons(POINTS, generator))
        for name, number in MODELS.items():
            progress.say(f"two-moons: {name}, seed {seed}")
            begun = time.monotonic()
            fitted = train(training, number, steps)
            seconds += time.monotonic() - begun
            drawn = points(draw(fitted, POINTS))
            rows.append(Row(name, classifier_accuracy(test, drawn), POINTS))
            details[name] = _plotted(fitted, drawn, test)
    plot = {"data": _rounded(test[:STORED_POINTS]), "models": details} if is_plotted else {}
    return Result("two-moons", OURS, rows, seed=seed, steps=steps, seconds=round(seconds, 1), details=plot)


def _plotted(fitted: Fitted, drawn: Tensor, test: Tensor) -> dict[str, Any]:
    """Some of the points, and the densities of x and y, given nothing."""
    details: dict[str, Any] = {"points": _rounded(drawn[:STORED_POINTS])}
    for path, values in zip("xy", test.T, strict=True):
        at = torch.linspace(float(values.min()) - 0.3, float(values.max()) + 0.3, DENSITY_POINTS)
        details[path] = [_rounded(at), _rounded(marginal(fitted, path, at).detach())]
    return details


def _rounded(values: Tensor) -> list[Any]:
    return [[round(x, 3) for x in row] if isinstance(row, list) else round(row, 3) for row in values.tolist()]


# ---------------------------------------------------------------- the models


@dataclass(frozen=True)
class Fitted:
    """A trained network with its codec."""

    codec: Codec
    network: DiSK


def moons(n: int, generator: torch.Generator) -> list[Entity]:
    """Points on two half circles that reach into each other, a little off them."""
    angle = math.pi * torch.rand(n, generator=generator)
    lower = torch.rand(n, generator=generator) < 0.5
    x = torch.where(lower, 1 - angle.cos(), angle.cos())
    y = torch.where(lower, 0.5 - angle.sin(), angle.sin())
    points = torch.stack([x, y], 1) + 0.07 * torch.randn(n, 2, generator=generator)
    return [
        Entity(str(place), {"x": round(x, 4), "y": round(y, 4), "moon": "lower" if low else "upper"})
        for place, ((x, y), low) in enumerate(zip(points.tolist(), lower.tolist(), strict=True))
    ]


def train(entities: list[Entity], number: NumberConfig, steps: int, batch: int = 512) -> Fitted:
    """A network that has learnt the points."""
    codec = Codec.fit(SCHEMA, entities, CodecConfig(sharing="disjoint", kinds={"number": number}))
    network = DiSK(codec, ModelConfig(width=64, heads=2, dropout=0.0))
    tokens = codec.encode(entities)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    for _ in range(steps):
        points = tokens.batch(torch.randint(len(tokens), (batch,)))
        loss(network, points, hide(points, Hiding())).total.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    network.eval()
    return Fitted(codec, network)


def draw(fitted: Fitted, n: int) -> list[Entity]:
    """New points, from nothing."""
    tokens = fitted.codec.encode([Entity(str(place), {}) for place in range(n)], ask="all")
    drawn = reveal(fitted.network, tokens.batch(torch.arange(n)))
    return [Entity(str(place), tree) for place, tree in enumerate(fitted.codec.trees(drawn, drawn.known))]


def marginal(fitted: Fitted, path: str, at: Tensor) -> Tensor:
    """The density of one property, given nothing."""
    batch = fitted.codec.encode([Entity("", {})], ask=[(path,)]).batch(torch.arange(1))
    belief: Any = beliefs(fitted.network, batch).kinds["number"].belief
    return torch.as_tensor(belief.pdf(at.double()[None])).flatten()


def points(entities: list[Entity]) -> Tensor:
    """x and y (n, 2)"""
    return torch.tensor([[entity.tree["x"], entity.tree["y"]] for entity in entities])


def classifier_accuracy(real: Tensor, drawn: Tensor, seed: int = 0) -> float:
    """The accuracy of a small network, trained on half of both, that tells real points from drawn ones, on the other half."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.cat([real, drawn])
    x = (x - x.mean(0)) / x.std(0)
    y = torch.cat([torch.zeros(len(real)), torch.ones(len(drawn))])
    order = torch.randperm(len(x), generator=generator)
    train, test = order[::2], order[1::2]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, weight_decay=1e-4)
        for _ in range(400):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(net(x[train])[:, 0], y[train]).backward()
            optimizer.step()
    return float(((net(x[test])[:, 0] > 0) == (y[test] > 0.5)).float().mean())


# ---------------------------------------------------------------- shown


def tables(results: Sequence[Result]) -> list[Table]:
    """One table."""
    measure = Measure(
        "Two moons: accuracy of a classifier of drawn points and data",
        list(MODELS),
        what="model",
        sources=["0.5: by chance."],
    )
    return [compared(measure, results)] if results else []


def figure(results: Sequence[Result], path: Path) -> bool:
    """What each model draws; then the data's histograms beside each model's density of one property alone."""
    plotted = [result for result in latest(results) if result.details]
    if not plotted:
        return False
    result = min(plotted, key=lambda result: result.told)  # the default number of steps, where these were taken
    details = result.details
    data, models = list(zip(*details["data"], strict=True)), details["models"]

    def draw(plot: Any) -> None:
        axes = plot.subplots(1, len(models) + 2)
        for axis, (name, of_model) in zip(axes, models.items(), strict=False):
            axis.scatter(*data, s=2, color="0.8", label="data")
            axis.scatter(*zip(*of_model["points"], strict=True), s=2, color=COLOURS["number"], label="drawn")
            axis.set(title=f"{name}: told apart {result.values[name]:.0%}", xlim=(-2, 3), ylim=(-1.5, 2))
            axis.legend(loc="lower left", markerscale=4)
        for axis, at, values in zip(axes[len(models) :], "xy", data, strict=True):
            axis.hist(values, bins=40, density=True, color="0.8", label="data")
            colours = (COLOURS["number"], COLOURS["category"], INK)
            for (name, of_model), colour in zip(models.items(), colours, strict=False):
                axis.plot(*of_model[at], label=name, color=colour)
            axis.set(title=f"{at}, given nothing", yticks=[], ylim=(0, 1.3 * axis.get_ylim()[1]))
            axis.legend()

    save_plot(path, 15, 3.8, draw)
    return True
