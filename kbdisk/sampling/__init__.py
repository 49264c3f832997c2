"""Entities that might be, drawn from a model.

    class       by how frequent it is, or as told
    pattern     which properties it has: those of some training entity that has all that is given, too
    network     one of those that were trained, each as often: so all together are what is drawn from
    values      property by property, in random order or as it was learnt (Hiding.ordered), each given all before it
                (diffusion.reveal); first what stands in no list, the lengths of lists among them, then as many places
                as were drawn; no number beyond all that training had of its property
    formulas    what is derived is computed of what was drawn, where that has all it takes
    tree        by the schema: units, dates that there are, decimals, bounds

What a property's role makes evidence alone is never drawn, and free text only where it is wanted: a made-up name is
worse than none. Values are drawn without knowing which properties are still to come, so what a property's mere presence
says of others is in its pattern, not in them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from kbdisk.entity import Entity
from kbdisk.errors import ConfigError
from kbdisk.model.diffusion import at_once
from kbdisk.sampling.drawing import Drawing
from kbdisk.sampling.starting import Start, starts_of
from kbdisk.training.trained import Trained

NAME = "new-"  # begins the ids of what is drawn

Told = Callable[[int, int], None]  # how many are drawn, of how many


def sample(
    trained: Trained,
    n: int,
    given: Mapping[Any, Any] | None = None,
    *,
    of: str | None = None,
    seed: int = 0,
    leap: int = 1,
    text: bool = False,
    watch: Told | None = None,
) -> Iterator[Entity]:
    """So many entities, all with what is given by path; the same for the same seed and `n`. Free text only with `text`."""
    if n < 0:
        raise ConfigError("-n", f"expected how many entities to draw, got {n}.")
    if leap < 1:
        raise ConfigError("--leap", f"expected at least 1, got {leap}.")
    starts = starts_of(trained, given or {}, of, text)
    return _sample(trained, n, starts, seed, leap, text, watch)


def _sample(
    trained: Trained, n: int, starts: list[Start], seed: int, leap: int, text: bool, watch: Told | None
) -> Iterator[Entity]:
    longest = max(len(pattern) for one in starts for pattern in one.patterns)
    networks = [one.network for one in trained.members]
    together = at_once(longest)
    rounds = math.ceil(n / together / len(networks)) * len(networks)  # each network draws as often as any other
    together = max(math.ceil(n / max(rounds, 1)), 1)
    first = random.Random(f"{seed}").randrange(len(networks))
    for turn, begin in enumerate(range(0, n, together)):
        draw = random.Random(f"{seed} {turn}")
        generator = torch.Generator(trained.device).manual_seed(draw.getrandbits(62))
        places = range(begin, min(begin + together, n))
        chosen = draw.choices(starts, [one.entities for one in starts], k=len(places))
        patterns = [set(draw.choices(one.patterns, one.weights)[0]) for one in chosen]
        some = [Entity(f"{NAME}{place + 1}", one.tree, one.classes) for place, one in zip(places, chosen, strict=True)]
        network = networks[(first + turn) % len(networks)]
        yield from Drawing(trained, network, draw, generator, leap, text).drawn(some, patterns)
        if watch is not None:
            watch(places.stop, n)
