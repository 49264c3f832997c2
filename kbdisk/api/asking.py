"""Entities are asked about: what is believed of each property, and how likely the whole is.

A value that is given is hidden while it is asked about, and all other known values are seen. The length of a list is
asked about without its places, which would tell it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.api.beliefs import Belief, view_of
from kbdisk.data.dataset import CHUNK, Batch, batches
from kbdisk.data.graph import Graph
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import SchemaError
from kbdisk.metrics import unit_of
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import beliefs
from kbdisk.model.likelihood import in_order, log_prob
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.schema import unknown_to
from kbdisk.training.trained import Trained


def log_probs(
    trained: Trained, entities: Sequence[Entity], graph: Graph | None, *, orders: int = 4, seed: int = 0
) -> np.ndarray[Any, Any]:
    """(N,) in nats: exact where an entity has few values, else a lower bound, a mean over so many orders.

    Of a model that draws in the schema's order: exact in that, as its networks draw, each its share.
    """
    generator = torch.Generator(trained.device).manual_seed(seed)
    tokens = trained.encode(entities, graph=graph)
    if trained.run.hiding.is_in_order:
        several = [
            torch.stack([in_order(one.network, batch, tokens.layout.order) for one in trained.members])
            for _, batch in batches(tokens)
        ]
        logs = [one.logsumexp(0) - math.log(len(one)) for one in several]
        return np.concatenate([np.zeros(0), *(one.cpu() for one in logs)])
    found = [
        log_prob(trained.networks_model, batch, orders=orders, generator=generator) for _, batch in batches(tokens)
    ]
    return np.concatenate([np.zeros(0), *(one.exact.where(~one.exact.isnan(), one.bound).cpu() for one in found)])


def leaf_at(trained: Trained, of: str, path: Path) -> Path:
    """The path of the one value that is meant: of a quantity its number. SchemaError where there is none, or several."""
    slots, known = trained.codec.slots, trained.codec.index.tables[of].slot
    own = {one: slots[number] for one, number in known.items()}
    for one in (path, (*path, "value")):
        if one in own:
            if own[one].fixed:
                raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
            return one
    below = [show(one) for one in own if one[: len(path)] == path]
    if below:
        raise SchemaError(show(path), f"expected the path of one value, got several. Say one of {', '.join(below)}.")
    why = trained.codec.left_out.get((of, path))
    if why is not None:
        raise SchemaError(show(path), f"nothing is believed of it: {why}.")
    raise SchemaError(show(path), unknown_to(trained.schema.classes[of], path, own))


@torch.no_grad()
def beliefs_of(
    trained: Trained, entity: Entity, graph: Graph | None, paths: Collection[Path] | None = None
) -> dict[Path, Belief]:
    """What is believed of some leaves of an entity, or of all that its class has: each given all others."""
    trained.warn_of_order(": what it believes given what comes later is a guess.", stacklevel=3)
    known = trained.schema.leaves(entity)
    ask = "all" if paths is None else [path for path in paths if path not in known]
    batch = trained.encode([entity], ask or "nothing", graph).batch(torch.arange(1))
    slots = [trained.codec.slots[number] for number in batch.slot.tolist()]
    wanted = [token for token, slot in enumerate(slots) if not slot.fixed and (paths is None or slot.path in paths)]
    found: dict[Path, Belief] = {}
    of = trained.codec.classes[int(batch.classes[0])]
    for token, one in _asked(trained, batch, slots, wanted):
        slot = slots[token]
        value = trained.codec.leaves(batch, torch.arange(len(batch)) == token)[0] if batch.known[token] else {}
        assert one.presence is not None
        recorded = float(one.presence["logits"][one.presence["tokens"] == 0].sigmoid()[0])
        row = next(iter(one.kinds.values())).belief
        given = known.get(slot.path, value.get(slot.path))
        found[slot.path] = view_of(slot.kind)(
            entity.id, slot.path, slot, row, given, recorded, unit_of(trained.schema, of, slot.path)
        )
    order = {path: place for place, path in enumerate(trained.schema.classes[of].properties)}
    return dict(sorted(found.items(), key=lambda pair: _place(order, pair[0])))


def _place(order: Mapping[Path, int], leaf: Path) -> int:
    """The place of the property that a leaf is of."""
    return next((order[leaf[:n]] for n in range(len(leaf), 0, -1) if leaf[:n] in order), len(order))


def _asked(trained: Trained, batch: Batch, slots: list[Slot], wanted: list[int]) -> Iterator[tuple[int, Beliefs]]:
    """Each wanted token with a belief about it alone, so many at once as there is room for."""
    size = max(CHUNK // max(len(batch), 1), 1)
    for start in range(0, len(wanted), size):
        some = wanted[start : start + size]
        many = batch.repeat(len(some))
        visible = batch.known[:, None].repeat(1, len(some))  # (T, R)
        asked = torch.zeros_like(visible)
        for case, token in enumerate(some):
            visible[_hidden_with(slots, token), case] = False
            asked[token, case] = True
        told = beliefs(trained.full_model, many, asked.flatten(), visible.flatten())
        if trained.presence_trees is not None and told.presence is not None:
            told = replace(told, presence=trained.presence_trees.combined(many, visible.flatten(), told.presence))
        for case, token in enumerate(some):
            place = torch.arange(len(many)) == token * len(some) + case
            yield token, _alone(told, place)


def _hidden_with(slots: list[Slot], token: int) -> list[int]:
    """The tokens that are hidden with one: itself, and with the length of a list its places."""
    path = slots[token].path
    if path[-1:] != COUNT:
        return [token]
    within = [n for n, slot in enumerate(slots) if slot.path[: len(path) - 1] == path[:-1]]
    listed = any(isinstance(key, int) for n in within for key in slots[n].path[len(path) - 1 : len(path)])
    return within if listed else [token]


def _alone(told: Beliefs, place: Tensor) -> Beliefs:
    """The belief about one token, and the one in its presence, its number being 0."""
    picked = told.pick(place)
    kinds = {kind: one for kind, one in picked.kinds.items() if len(one.rows)}
    assert told.presence is not None
    mine = place[told.presence["tokens"]]
    presence = {"tokens": mine.nonzero()[:, 0] * 0, "logits": told.presence["logits"][mine]}
    return Beliefs(kinds, told.length, presence)
