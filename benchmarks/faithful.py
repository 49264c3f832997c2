"""Is the `paper` preset the paper? It learns the phones beside a plain network in a plain loop, as many steps of each.

python benchmarks/faithful.py [--data DIR] [--steps 5000] [--width 512] [--batch 1024] [--seed 0] [--alike]

The plain one is tests/reference.py: dense, one module for each property, AdamW and a cosine written out here, begun from
weights of its own and shown masks of its own. What it has learnt is put into a network of ours to be asked, so that both
are scored by the same lines: each value hidden in turn, all others given; on the paper's split, without the phones' names,
which the plain network cannot read. Width and batch may be smaller than the preset's, for a processor's sake.

With --alike it begins with our weights and is shown our masks, and neither has any dropout (whose draws cannot be the same):
what is left of a difference is no chance, but rounding and whatever is computed otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from train import plain_reference

from kbdisk import api
from kbdisk.bench import gsm
from kbdisk.bench.base import Options, data_folder
from kbdisk.bench.properties import Task, said, scores
from kbdisk.network import mup
from kbdisk.network.disk import DiSK
from kbdisk.rng import derive_seed
from kbdisk.schemas.schema import Class, Schema
from kbdisk.styles import Styles
from kbdisk.training.data import Data
from kbdisk.training.loop import Trainer, build
from kbdisk.training.optimizer import BETAS
from kbdisk.training.run import Run
from kbdisk.training.trained import Record, Trained

NAME = ("model",)
TOLD = 500  # steps between two lines of progress


def phones(data: Path) -> Task:
    """The paper's task without the names."""
    schema, entities = gsm.read(data)
    (of,) = schema.classes.values()
    properties = {path: one for path, one in of.properties.items() if path != NAME}
    bare = Schema({of.name: Class(of.name, properties, of.id)})
    trees = ({key: value for key, value in one.tree.items() if (key,) != NAME} for one in entities)
    nameless = [replace(one, tree=tree) for one, tree in zip(entities, trees, strict=True)]
    task = gsm.task(bare, entities, Options(data), 0)
    own = {one.id: one for one in nameless}
    train, scored = ([own[one.id] for one in side] for side in (task.train, task.scored))
    return replace(task, asked=[one for one in task.asked if one.path != NAME], train=train, scored=scored)


# ---------------------------------------------------------------- two ways of learning


def ours(data: Data, run: Run) -> DiSK:
    """The preset's own loop, to its last step."""
    trainer = Trainer(data, run, torch.device("cpu"))
    for step in range(run.train.steps or 0):
        trainer.advance()
        _tell("ours", step)
    trainer.finish()
    return trainer.network


def plainly(data: Data, run: Run, alike: bool) -> DiSK:
    """A plain loop over a plain network, begun and shown as ours is, or by chances of its own."""
    reference = plain_reference()
    begun, grown = build(data.codec, run if alike else replace(run, seed=derive_seed(run.seed, 1)))
    model = reference.Reference(data.codec, run.model, run.train.objective == "field-mean", run.train.presence)
    reference.take_weights(model, begun)
    shares = _shares(reference, model, begun, grown)
    groups = [{"params": [one], "share": share} for one, share in shares]
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
        _tell("plain", step)
    reference.give_weights(model, begun)
    return begun


def _shares(reference: ModuleType, model: Any, begun: DiSK, grown: dict[str, mup.Growth]) -> list[tuple[Tensor, float]]:
    """What part of the rate each parameter of the plain network learns at: muP's, by the name of its counterpart."""
    parameters = dict(begun.named_parameters())
    parts = {id(one): group["lr"] for group in mup.parameter_groups(begun, grown, 1.0, 0.0) for one in group["params"]}
    return [(own, parts[id(parameters[name])]) for own, name, _ in reference.counterparts(model, begun)]


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
        some = trainer.chosen(step)
        batch, hidden = trainer.shown(some, step)
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


def _tell(who: str, step: int) -> None:
    if (step + 1) % TOLD == 0:
        print(f"{who}: step {step + 1:,}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- asked alike


@dataclass(frozen=True)
class Learnt:
    """What a network comes to."""

    errors: dict[str, float]
    nats: dict[str, float]  # mean -log p of each property
    whole: float  # mean -log p of an entity, a bound
    minutes: float


def asked(network: DiSK, data: Data, run: Run, task: Task, minutes: float) -> Learnt:
    """Its errors and nats, on what is scored."""
    trained = Trained(data.codec, network, run, Record(), Styles.learn(task.schema, list(task.train)))
    model, nats = api.Model(trained), {}
    rows = scores(task, said(model, task, None, nats))
    means = {one.name: statistics.fmean(nats[one.path]) for one in task.asked}
    whole = -float(model.log_prob(list(task.scored)).mean())
    return Learnt({row.name: row.value for row in rows}, means, whole, minutes)


def table(plain: Learnt, own: Learnt) -> str:
    """Both, side by side; a difference in nats is told in parts of all of a property's, or of an entity's."""
    lines = ["| property | error: plain | ours | off | nats: plain | ours |", "|---|---|---|---|---|---|"]
    for name, error in plain.errors.items():
        off = own.errors[name] / error - 1
        lines.append(
            f"| {name} | {error:.4g} | {own.errors[name]:.4g} | {off:+.1%} | {plain.nats[name]:.3f} | {own.nats[name]:.3f} |"
        )
    mean = statistics.geometric_mean(own.errors[name] / error for name, error in plain.errors.items())
    sums = [sum(one.nats.values()) for one in (plain, own)]
    lines.append(f"| all | | | {mean - 1:+.1%} | {sums[0]:.3f} | {sums[1]:.3f} ({sums[1] / sums[0] - 1:+.1%}) |")
    lines.append(f"| an entity | | | | {plain.whole:.3f} | {own.whole:.3f} ({own.whole / plain.whole - 1:+.1%}) |")
    return "\n".join(lines)


def main() -> None:
    """Train both, ask both, print."""
    preset = Run.of("paper")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--width", type=int, default=preset.model.width)
    parser.add_argument("--batch", type=int, default=preset.train.batch)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alike", action="store_true", help="both begin and are shown alike, without dropout")
    chosen = parser.parse_args()
    dropout = 0.0 if chosen.alike else preset.model.dropout
    run = replace(preset, seed=chosen.seed, model=replace(preset.model, width=chosen.width, dropout=dropout))
    run = run.with_train(steps=chosen.steps, batch=chosen.batch)
    task = phones(data_folder(chosen.data))
    data = Data.prepare(task.schema, list(task.train), run)
    learnt = []
    for way in (partial(plainly, alike=chosen.alike), ours):
        begun = time.monotonic()
        network = way(data, run).eval()
        learnt.append(asked(network, data, run, task, (time.monotonic() - begun) / 60))
    told = f"width {chosen.width}, batches of {chosen.batch}, {chosen.steps:,} steps, seed {chosen.seed}"
    told += ", begun and shown alike, no dropout" * chosen.alike
    print(f"{date.today()}: {told}; minutes: plain {learnt[0].minutes:.1f}, ours {learnt[1].minutes:.1f}\n")
    print(table(*learnt))


if __name__ == "__main__":
    main()
