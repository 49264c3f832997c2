"""How smooth functions are learnt: of known entities as columns, a property each; held-out values tell what they are worth.

Functions are learnt where a value is hidden alone, and as much is visible as is usual. Where less is, what is hidden counts
as usual, and what they are worth then is learnt apart.

n known values of one slot   t numbers that are told: 1, or one for each label
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.diffusion import Model
from kbdisk.experts.base import Guide, Guiding
from kbdisk.experts.config import GaussianProcessConfig
from kbdisk.experts.gaussian_process import fitted, learnt
from kbdisk.experts.gaussian_process_examples import Teacher, Values
from kbdisk.experts.gaussian_process_expert import Function, Points, along
from kbdisk.experts.latent_knn import ENOUGH, LESS, Place
from kbdisk.experts.stacking import judged
from kbdisk.experts.weights import limited

FEW = 20  # known values of a slot: of fewer there is no function
ASKING = 0.2  # of the time, at most: for hiding known values
JUDGING = 0.3  # of the time: for telling what functions are worth
STEEP = torch.logspace(-1, 1.5, 26, dtype=torch.float64)  # how sure of labels a function may be
SLIGHT = 1e-9  # of a chance, whose log is taken

Told = Callable[[int, int], None]  # how many properties have their function, of how many


@torch.no_grad()
def fit(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    config: GaussianProcessConfig,
    *,
    seed: int,
    seconds: float | None = None,
    told: Told | None = None,
) -> Guide | None:
    """The functions that are worth it beside a model, as what is held out has it; None if none are.

    Once that is known they go by what was held out, too.
    """
    if not len(held_out):
        return None
    begun, generator = time.monotonic(), Generator(tokens.slot.device).manual_seed(seed)
    teacher = Teacher(codec, tokens, config, generator)
    asking = None if seconds is None else ASKING * seconds
    known = {slot: own for slot, own in teacher.known(tokens, asking).items() if own.count >= FEW}
    found: dict[Place, Guiding] = {}
    values: dict[int, Values] = {}
    for done, (slot, own) in enumerate(sorted(known.items())):
        left = None if seconds is None else ((1 - JUDGING) * seconds - _since(begun)) / (len(known) - done)
        labels = teacher.labels(slot, own)
        values[slot] = teacher.values(slot, own, labels)
        one = _function(teacher, slot, values[slot], labels, left)
        if one is not None:
            found |= {(slot, level): Guiding.unweighed(one) for level in (ENOUGH, LESS)}
        if told is not None:
            told(done + 1, len(known))
    left = None if seconds is None else max(seconds - _since(begun), 0.0)
    guide = judged(Guide(teacher.features, teacher.enough, found), model, held_out, config.rounds, generator, left)
    return None if guide is None else _together(_with_held_out(guide, teacher, values, held_out))


def _since(begun: float) -> float:
    return time.monotonic() - begun


def _function(teacher: Teacher, slot: int, values: Values, labels: Tensor, seconds: float | None) -> Function | None:
    """What tells a property; None where there is nothing to tell or to tell it by, or no time."""
    if len(values.y) < FEW or len(labels) > teacher.config.labels or (seconds is not None and seconds <= 0):
        return None
    values = values.first(teacher.config.points)
    block = teacher.block(slot, values)
    ways = [values.y.new_zeros(2, 0), *([] if len(labels) else teacher.knots(slot))]
    told = [(knots, along(knots, values.y)) for knots in ways]
    told = [(knots, one) for knots, one in told if 0 < one.std() < torch.inf]
    if not told or bool((block < 0).all()):
        return None
    every = torch.cat([one for _, one in told], 1)
    mean, scale = every.mean(0), torch.where(every.std(0) > 0, every.std(0), 1)  # a label may be nobody's by now
    kernel = learnt(block, values.columns.nan_to_num().double(), (every - mean) / scale, teacher.generator, seconds)
    span = torch.stack([values.y.min(), values.y.max()])
    nobody = Points(values.columns[:0], values.whose[:0]), torch.arange(0, device=block.device), every[:0]
    found, wrong = [], []
    for (knots, _), at, by in zip(told, mean.chunk(len(told)), scale.chunk(len(told)), strict=True):
        empty = Function(*nobody, kernel, at, by, span, knots, labels, torch.ones_like(span[0]))
        function, apart = _by(empty, values)
        found.append(function)
        wrong.append((function.numbers(apart) - values.y).flatten())
    return found[int(limited(torch.stack(wrong, 1)).square().sum(0).argmin())]


def _by(function: Function, values: Values) -> tuple[Function, Tensor]:
    """The same function by these values, and (n, t) what it would tell of each if that were not known."""
    told = along(function.knots, values.y)
    standard = (told - function.mean) / function.scale
    counts, apart = fitted(function.kernel, values.columns.nan_to_num().double(), standard)
    apart = apart * function.scale + function.mean
    rows = torch.arange(len(values.whose), device=values.whose.device)
    one = replace(function, points=Points(values.columns, values.whose), rows=rows, counts=counts)
    return (replace(one, steep=_steep(apart, values.y)) if len(function.labels) else one), apart


def _steep(told: Tensor, truth: Tensor) -> Tensor:
    """() how sure of labels to be, by what a function would tell (n, t) of each entity that it did not know."""
    chances = (STEEP.to(told.device)[:, None, None] * told).softmax(2)  # (s, n, t)
    likely = ((chances * truth).sum(2) + SLIGHT).log().sum(1)
    return STEEP.to(told.device)[likely.argmax()]


def _with_held_out(guide: Guide, teacher: Teacher, values: Mapping[int, Values], held_out: Tokens) -> Guide:
    """What is held out is gone by, too."""
    known, by = teacher.known(held_out), {}
    for (slot, _), one in guide.places.items():
        function = one.expert
        assert isinstance(function, Function)
        if slot not in by:
            every = values[slot]
            if slot in known:
                every = every.and_others(teacher.values(slot, known[slot], function.labels), teacher.config.points)
            by[slot] = _by(function, every)[0]
    return replace(guide, places={place: replace(one, expert=by[place[0]]) for place, one in guide.places.items()})


def _together(guide: Guide) -> Guide:
    """The same with the points of all functions in one table."""
    functions = {place: one.expert for place, one in guide.places.items()}
    points = [one.points for one in functions.values() if isinstance(one, Function)]
    every, place = torch.cat([one.who for one in points]).unique(return_inverse=True)
    table = points[0].columns.new_full((len(every), points[0].columns.shape[1]), torch.nan)
    rows = place.split([len(one.who) for one in points])
    for row, own in zip(rows, points, strict=True):
        table[row] = torch.where(own.columns.isnan(), table[row], own.columns)  # each lacks what it tells
    shared, places = Points(table, every), {}
    for (at, one), row in zip(guide.places.items(), rows, strict=True):
        assert isinstance(one.expert, Function)
        places[at] = replace(one, expert=replace(one.expert, points=shared, rows=row))
    return replace(guide, places=places)
