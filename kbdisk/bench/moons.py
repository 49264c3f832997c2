"""Two moons: points to learn, models of them, points drawn from these, and a judge of how good they are.

Entities have three properties: x, y and which moon they are of. All models train on the same ones with the same `hide`
and `loss`, and draw new ones with the same `reveal`, one property at a time in random order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kbdisk.data import Codec, CodecConfig
from kbdisk.diffusion import beliefs, loss, reveal
from kbdisk.entity import Entity
from kbdisk.hiding import Hiding
from kbdisk.leaves.number.codec import NumberConfig
from kbdisk.network.config import ModelConfig
from kbdisk.network.disk import DiSK
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

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


@dataclass(frozen=True)
class Learnt:
    """A trained model, and what makes tensors for it."""

    codec: Codec
    model: DiSK


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


def train(entities: list[Entity], number: NumberConfig, steps: int, batch: int = 512) -> Learnt:
    """Learn the points."""
    codec = Codec.fit(SCHEMA, entities, CodecConfig(sharing="disjoint", kinds={"number": number}))
    model = DiSK(codec, ModelConfig(width=64, heads=2, dropout=0.0))
    tokens = codec.encode(entities)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    for _ in range(steps):
        loss(model, tokens.batch(torch.randint(len(tokens), (batch,))), Hiding()).total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    return Learnt(codec, model)


def draw(learnt: Learnt, n: int) -> list[Entity]:
    """New points, from nothing."""
    tokens = learnt.codec.encode([Entity(str(place), {}) for place in range(n)], ask="all")
    drawn = reveal(learnt.model, tokens.batch(torch.arange(n)))
    return [Entity(str(place), tree) for place, tree in enumerate(learnt.codec.trees(drawn, drawn.known))]


def marginal(learnt: Learnt, path: str, at: Tensor) -> Tensor:
    """The density of one property, given nothing."""
    batch = learnt.codec.encode([Entity("", {})], ask=[(path,)]).batch(torch.arange(1))
    belief: Any = beliefs(learnt.model, batch).kinds["number"].belief
    return torch.as_tensor(belief.pdf(at.double()[None])).flatten()


def points(entities: list[Entity]) -> Tensor:
    """x and y (n, 2)"""
    return torch.tensor([[one.tree["x"], one.tree["y"]] for one in entities])


def told_apart(real: Tensor, made: Tensor, seed: int = 0) -> float:
    """How often a small network, trained on half of both, tells the other half's real points from made ones."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.cat([real, made])
    x = (x - x.mean(0)) / x.std(0)
    y = torch.cat([torch.zeros(len(real)), torch.ones(len(made))])
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
