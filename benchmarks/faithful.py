"""The `paper` preset against a plain implementation of the paper: both learn the phones, for the same number of steps.

python -m benchmarks faithful [--data DIR] [--steps 5000] [--width 512] [--batch 1024] [--seed 0] [--alike]

The plain network is tests/reference.py: dense, one module for each property. AdamW and a cosine schedule are written out here. It
has its own initial weights and its own masks. Its trained weights are copied into a network of kbdisk, so that the same code
scores both: each value hidden in turn, all others given; on the paper's split, without the phones' names, which the plain
network cannot read. Width and batch may be smaller than the preset's, so that it runs on a CPU.

With --alike the plain network starts from kbdisk's weights and gets the same masks, and neither has dropout (whose draws cannot
be made equal). Then a difference is due not to chance, but to rounding or to a different computation.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

import kbdisk
from benchmarks import gsm
from benchmarks.base import Options
from benchmarks.data import data_folder
from benchmarks.properties import Task, predictions, scores
from benchmarks.script import argument_parser
from benchmarks.train import plain_reference
from kbdisk.entity import Path as EntityPath
from kbdisk.model import mup
from kbdisk.model.network import DiSK
from kbdisk.rng import derive_seed
from kbdisk.schemas.schema import Schema
from kbdisk.styles.styles import Styles
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer, build, shapes_at_any_width
from kbdisk.training.optimizer import BETAS
from kbdisk.training.run import Run
from kbdisk.training.trained import Record, Trained

NAME = ("model",)
REPORTED = 500  # steps between two lines of progress


def phones(data: Path) -> Task:
    """The paper's task without the names."""
    schema, entities = gsm.read(data)
    (of,) = schema.classes.values()
    properties = {path: prop for path, prop in of.properties.items() if path != NAME}
    bare = Schema({of.name: replace(of, properties=properties)})
    trees = ({key: value for key, value in entity.tree.items() if (key,) != NAME} for entity in entities)
    nameless = {entity.id: replace(entity, tree=tree) for entity, tree in zip(entities, trees, strict=True)}
    task = gsm.task(bare, entities, Options(data), 0)
    train, scored = ([nameless[entity.id] for entity in side] for side in (task.train, task.scored))
    targets = [target for target in task.targets if target.path != NAME]
    return replace(task, targets=targets, train=train, scored=scored)


# ---------------------------------------------------------------- two ways of learning


def ours(data: Data, run: Run) -> DiSK:
    """The preset's own loop, to its last step."""
    trainer = Trainer(data, run, torch.device("cpu"))
    for step in range(run.train.steps or 0):
        trainer.advance()
        _report("ours", step)
    trainer.finish()
    return trainer.network


def plainly(data: Data, run: Run, alike: bool) -> DiSK:
    """A plain loop over a plain network, begun and shown as ours is, or by chances of its own."""
    reference = plain_reference()
    shapes = shapes_at_any_width(data.codec, run.model)
    begun = build(data.codec, run if alike else replace(run, seed=derive_seed(run.seed, 1)), shapes)
    grown = shapes.growths(run.model.width, run.model.base)
    model = reference.Reference(data.codec, run.model, run.train.objective == "field-mean", run.train.presence)
    reference.take_weights(model, begun)
    shares = _shares(reference, model, begun, grown)
    groups = [{"params": [parameter], "share": share} for parameter, share in shares]
    optimizer = torch.optim.AdamW(groups, lr=run.train.rate, betas=BETAS, weight_decay=run.train.decay)
    whole = data.training.batch(torch.arange(len(data.training)))
    table = reference.dense(whole, whole.known, len(data.codec.slots))
    shown = _as_ours(table, Trainer(data, run, torch.device("cpu"))) if alike else _by_chance(table, run)
    steps = run.train.steps or 0
    for step, batch in enumerate(itertools.islice(shown, steps)):
        rate = run.train.rate * (0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["share"]
        optimizer.zero_grad()
        model(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), run.train.clip)
        optimizer.step()
        _report("plain", step)
    reference.give_weights(model, begun)
    return begun


def _shares(reference: ModuleType, model: Any, begun: DiSK, grown: dict[str, mup.Growth]) -> list[tuple[Tensor, float]]:
    """What part of the rate each parameter of the plain network learns at: muP's, by the name of its counterpart."""
    parameters = dict(begun.named_parameters())
    groups = mup.parameter_groups(begun, grown, 1.0, 0.0)
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    return [(own, rates[id(parameters[name])]) for own, name, _ in reference.counterparts(model, begun)]


def _by_chance(table: Any, run: Run) -> Iterator[Any]:
    """Batches of the plain loop's own, without end: every entity once before any comes again."""
    generator, order = torch.Generator().manual_seed(derive_seed(run.seed, 2)), torch.empty(0, dtype=torch.long)
    while True:
        if len(order) < run.train.batch:
            order = torch.cat([order, torch.randperm(len(table.known), generator=generator)])
        some, order = order[: run.train.batch], order[run.train.batch :]
        yield _rows(table, some, _seen(table.known[some], generator))


def _as_ours(table: Any, trainer: Trainer) -> Iterator[Any]:
    """What our loop is shown, step by step, without end."""
    for step in itertools.count():
        some = trainer.entities_of(step)
        batch, hidden = trainer.masked_batch(some, step)
        visible = torch.zeros_like(table.known[some])
        visible[batch.entity, batch.slot] = hidden.visible
        yield _rows(table, some, visible)


def _seen(known: Tensor, generator: torch.Generator) -> Tensor:
    """What is visible where each known property is hidden with one chance, drawn for all rows; one of each row at least."""
    hidden = known & (torch.rand(known.shape, generator=generator) < torch.rand((), generator=generator))
    chance = torch.rand(known.shape, generator=generator).where(known, -1)
    one = torch.zeros_like(known).scatter(1, chance.argmax(1, keepdim=True), True)
    return known & ~(hidden | one & ~hidden.any(1, keepdim=True))


def _rows(table: Any, some: Tensor, visible: Tensor) -> Any:
    """Some rows of a table."""
    codes = [column[some] for column in table.codes]
    return replace(table, classes=table.classes[some], codes=codes, known=table.known[some], visible=visible)


def _report(name: str, step: int) -> None:
    if (step + 1) % REPORTED == 0:
        print(f"{name}: step {step + 1:,}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- asked alike


@dataclass(frozen=True)
class Scores:
    """The errors of a network."""

    errors: dict[str, float]
    nats: dict[str, float]  # mean -log p of each property
    whole: float  # mean -log p of an entity, a bound
    minutes: float


def evaluate(network: DiSK, data: Data, run: Run, task: Task, minutes: float) -> Scores:
    """Its errors and nats, on what is scored."""
    trained = Trained(data.codec, network, run, Record(), Styles.learn(task.schema, list(task.train)))
    model = kbdisk.Model(trained)
    nats: dict[EntityPath, list[float]] = {}
    rows = scores(task, predictions(model, task, None, nats))
    means = {target.name: statistics.fmean(nats[target.path]) for target in task.targets}
    whole = -float(model.log_prob(list(task.scored)).mean())
    return Scores({row.name: row.value for row in rows}, means, whole, minutes)


def table(plain: Scores, ours: Scores) -> str:
    """Both, side by side; a difference in nats is in parts of all of a property's, or of an entity's."""
    lines = ["| property | error: plain | ours | off | nats: plain | ours |", "|---|---|---|---|---|---|"]
    for name, error in plain.errors.items():
        off = ours.errors[name] / error - 1
        lines.append(
            f"| {name} | {error:.4g} | {ours.errors[name]:.4g} | {off:+.1%} | {plain.nats[name]:.3f} | {ours.nats[name]:.3f} |"
        )
    mean = statistics.geometric_mean(ours.errors[name] / error for name, error in plain.errors.items())
    sums = [sum(scores.nats.values()) for scores in (plain, ours)]
    lines.append(f"| all | | | {mean - 1:+.1%} | {sums[0]:.3f} | {sums[1]:.3f} ({sums[1] / sums[0] - 1:+.1%}) |")
    lines.append(f"| an entity | | | | {plain.whole:.3f} | {ours.whole:.3f} ({ours.whole / plain.whole - 1:+.1%}) |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Train both, ask both, print."""
    preset = Run.of("paper")
    parser = argument_parser("faithful", __doc__)
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--width", type=int, default=preset.model.width)
    parser.add_argument("--batch", type=int, default=preset.train.batch)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alike", action="store_true", help="both begin and are shown alike, without dropout")
    arguments = parser.parse_args(argv)
    dropout = 0.0 if arguments.alike else preset.model.dropout
    run = replace(preset, seed=arguments.seed, model=replace(preset.model, width=arguments.width, dropout=dropout))
    run = run.with_train(steps=arguments.steps, batch=arguments.batch)
    task = phones(data_folder(arguments.data))
    data = Data.prepare(task.schema, list(task.train), run)
    both = []
    for way in (partial(plainly, alike=arguments.alike), ours):
        begun = time.monotonic()
        network = way(data, run).eval()
        both.append(evaluate(network, data, run, task, (time.monotonic() - begun) / 60))
    settings = (
        f"width {arguments.width}, batches of {arguments.batch}, {arguments.steps:,} steps, seed {arguments.seed}"
    )
    settings += ", begun and shown alike, no dropout" * arguments.alike
    print(f"{date.today()}: {settings}; minutes: plain {both[0].minutes:.1f}, ours {both[1].minutes:.1f}\n")
    print(table(*both))
