"""Sizes that fit the data, where a run leaves them open: little data is learnt best by a small network in small steps.

Measured, at equal time on one core: 6,800 entities of 24 classes, 270 values a property, were learnt better at width 64 than
at 128, with little dropout; 118 chemical elements with much; 9,600 phones, 7,700 values a property, better at 64 than at 128 and
from 512 than from 256, of which two cores have a half each; 2,900 nuclei of 18 properties from 512 than from 128.
Where tables are drawn in one order, 500 to 6,400 rows that were learnt in that order alone were soon learnt by heart; 12,000 and
more were not, and what stands last was told better.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kbdisk.experts.gaussian_process import few_valued_slots
from kbdisk.experts.given_only import GivenProperties
from kbdisk.training.data import Data
from kbdisk.training.run import Run

NARROW, WIDE = 64, 128
MANY = 20_000  # values a property from which on a wide network is worth its time
TOKENS = 8000  # in a step, about
SHARE = 1 / 4  # of the entities in a batch, at most
FEW, DROPPED = 1000, 0.3  # entities below which what is dropped is more than is usual, and how much
LEAST, MOST = 64, 512  # entities in a batch
ENOUGH = 10_000  # entities from which on one order is all that is learnt
PART = 0.5  # of the entities: those that are learnt in it where there are fewer


def fitted(run: Run, data: Data) -> Run:
    """The run with a width, a batch and an order, where it has none of its own; with the width comes how much is dropped."""
    entities, tokens = len(data.training), max(len(data.training.slot), 1)
    width = run.model.width or (WIDE if tokens >= MANY * len(data.codec.slots) else NARROW)
    most = max(1 << max(int(entities * SHARE).bit_length() - 1, 0), LEAST)
    wanted = 1 << max(round(math.log2(TOKENS * entities / tokens)), 0) if entities else LEAST
    batch = run.train.batch or min(max(wanted, LEAST), most, MOST)
    dropout = DROPPED if not run.model.width and entities < FEW else run.model.dropout
    is_asked = len(data.validation) and GivenProperties.of(data.codec).numbers  # or time would go to nobody
    given_only = run.given_only if is_asked else replace(run.given_only, share=0.0)
    gaussian_process = run.gaussian_process
    if not few_valued_slots(data.training, gaussian_process).any():
        gaussian_process = replace(gaussian_process, share=0.0)
    hiding = run.hiding
    if hiding.ordered is None:
        hiding = replace(hiding, ordered=1.0 if entities >= ENOUGH else PART)
    model, train = replace(run.model, width=width, dropout=dropout), replace(run.train, batch=batch)
    return replace(
        run, model=model, train=train, hiding=hiding, given_only=given_only, gaussian_process=gaussian_process
    )


def left_open(run: Run) -> list[tuple[str, str]]:
    """The choices, each by its table and name, that are fitted to the data."""
    model = [("model", "width"), ("model", "dropout")] if not run.model.width else []
    hiding = [("hiding", "ordered")] if run.hiding.ordered is None else []
    experts = [(name, "share") for name in ("given_only", "gaussian_process") if getattr(run, name).share]
    return model + hiding + experts + ([("train", "batch")] if not run.train.batch else [])
