"""Two moons, the paper's figure: a mixture of many Gaussians draws both moons, one Gaussian (which is MSE) cannot.

    python examples/two_moons.py --out moons.png

Entities have three properties: x, y and which moon they are of. Both models train on the same ones with the same
`hide` and `loss`, and draw new ones with the same `reveal`, one property at a time in random order.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from kbdisk.codec import Codec, CodecConfig
from kbdisk.diffusion import beliefs, loss, reveal
from kbdisk.entity import Entity
from kbdisk.hiding import Hiding
from kbdisk.leaves.number.config import NumberConfig
from kbdisk.network.config import ModelConfig
from kbdisk.network.disk import DiSK
from kbdisk.schemas.leaf import Category, Number
from kbdisk.schemas.schema import Property, of_one_class

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
    belief = beliefs(learnt.model, batch).kinds["number"].belief
    return torch.as_tensor(belief.density(at.double()[None])).flatten()


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


def draw_figure(real: Tensor, made: dict[str, tuple[Learnt, Tensor]], out: Path) -> None:
    """What each model draws; then the data's histograms beside what the first has learnt of each property alone."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(15, 3.8), layout="constrained")
    for axis, (name, (_, drawn)) in zip(axes[:2], made.items(), strict=True):
        axis.scatter(*real.T, s=2, color="0.8", label="data")
        axis.scatter(*drawn.T, s=2, color="tab:blue", label="drawn")
        axis.set(title=f"{name}: told apart {told_apart(real, drawn):.0%}", xlim=(-2, 3), ylim=(-1.5, 2))
        axis.legend(loc="lower left", markerscale=4)
    for axis, path, values in zip(axes[2:], ("x", "y"), real.T, strict=True):
        at = torch.linspace(float(values.min()) - 0.3, float(values.max()) + 0.3, 600)
        axis.hist(values.tolist(), bins=60, density=True, color="0.8", label="data")
        for name, (learnt, _) in made.items():
            axis.plot(at, marginal(learnt, path, at), label=name)
        axis.set(title=f"{path}, given nothing", yticks=[], ylim=(0, 1.3 * axis.get_ylim()[1]))
        axis.legend()
    figure.savefig(out, dpi=110)


def main() -> None:
    """Train both, draw from both, say how well a classifier tells each from the data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("moons.png"), help="the picture")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    generator = torch.Generator().manual_seed(told.seed)
    torch.manual_seed(told.seed)
    known, fresh = moons(told.points, generator), points(moons(told.points, generator))
    made = {}
    for name, number in MODELS.items():
        learnt = train(known, number, told.steps)
        drawn = points(draw(learnt, told.points))
        print(f"{name}: a classifier tells drawn points from data {told_apart(fresh, drawn):.1%} of the time")
        made[name] = learnt, drawn
    draw_figure(fresh, made, told.out)
    print(f"the picture is in {told.out}")


if __name__ == "__main__":
    main()
