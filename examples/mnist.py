"""The paper's figure of digits: the same hide, loss and reveal as for entities, around a small U-Net instead of DiSK.

An image is an entity with 784 properties, its pixels, each ink or paper, and one that is always given: the digit.
Drawn pixel by pixel in random order, digits come out; drawn all at once, every pixel decides for itself.

    python examples/mnist.py --data DIR --out mnist.png

DIR has mnist_10k_cazala.npz (images to train on) and t10k-*-ubyte.gz (others, to judge the judge by).
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.data.dataset import Batch, plain_batch
from kbdisk.leaves.category import CategoryBelief
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.diffusion import loss, reveal, revealing
from kbdisk.model.masking import Hiding, hide

SIDE = 28
PIXELS = SIDE * SIDE


def digits(pixels: Tensor, labels: Tensor, known: Tensor) -> Batch:
    """Images (B, 784) as entities: a slot for each pixel, and the last one for the digit, which is given."""
    B = len(labels)
    codes = torch.cat([pixels.T.flatten(), labels])  # token by token: a pixel of all images, the next one, ..., digits
    there = torch.cat([known.T.flatten(), torch.ones(B, dtype=torch.bool)])
    entity, slot = torch.arange(B).repeat(PIXELS + 1), torch.arange(PIXELS + 1).repeat_interleave(B)
    batch = plain_batch(torch.zeros(B, dtype=torch.long), entity, slot, there, {"category": codes})
    return replace(batch, fixed=slot == PIXELS)


def images(batch: Batch) -> Tensor:
    """(B, 784)"""
    return batch.values["category"].view(PIXELS + 1, -1)[:-1].T


class Block(nn.Module):
    """Two convolutions, told the digit, added to what came in: at first nothing is."""

    def __init__(self, fan_in: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(fan_in, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.told, self.skip = nn.Embedding(10, width), nn.Conv2d(fan_in, width, 1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor, digit: Tensor) -> Tensor:
        """(B, fan_in, H, W), (B,) -> (B, width, H, W)"""
        told = self.told(digit)[:, :, None, None]
        return self.skip(x) + self.second(F.relu(self.first(F.relu(x)) + told))


class UNet(nn.Module):
    """What is visible of some images in, a belief about every pixel asked for out; four pixels are one place."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        w = width
        self.start = nn.Conv2d(8, w, 3, padding=1)
        self.down = nn.ModuleList([Block(w, w), Block(w, 2 * w), Block(2 * w, 2 * w)])
        self.up = nn.ModuleList([Block(3 * w, w), Block(w, w)])
        self.end = nn.Conv2d(w, 4, 3, padding=1)
        self.to(memory_format=torch.channels_last)

    def forward(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """A hidden pixel is 0, whatever it is; ink is 1 and paper -1."""
        codes, seen = (x.view(PIXELS + 1, -1).T for x in (batch.values["category"], visible))  # (B, 785)
        shown = seen[:, :-1].float()
        x = torch.stack([(2 * codes[:, :-1] - 1) * shown, shown], 1).view(-1, 2, SIDE, SIDE)
        with torch.autocast("cpu", torch.bfloat16):
            ink = self.logits(F.pixel_unshuffle(x, 2).contiguous(memory_format=torch.channels_last), codes[:, -1])
        rows = asked.nonzero()[:, 0]
        ink = F.pixel_shuffle(ink.float(), 2).flatten(1).T.flatten()[rows]
        return Beliefs({"category": Asked(rows, 0, CategoryBelief(F.pad(ink[:, None], (1, 0))))}, len(batch))

    def logits(self, x: Tensor, digit: Tensor) -> Tensor:
        """(B, 8, 14, 14), (B,) -> (B, 4, 14, 14) of ink"""
        large = self.down[0](self.start(x), digit)  # (B, w, 14, 14)
        small = self.down[2](self.down[1](F.avg_pool2d(large, 2), digit), digit)  # (B, 2w, 7, 7)
        large = torch.cat([F.interpolate(small, scale_factor=2), large], 1)  # (B, 3w, 14, 14)
        return self.end(F.relu(self.up[1](self.up[0](large, digit), digit)))


def judge() -> nn.Module:
    """A classifier of images (B, 1, 28, 28)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def named_right(classifier: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """The share of images whose digit the classifier names."""
    with torch.no_grad():
        return float((classifier(as_seen(pixels)).argmax(1) == labels).float().mean())


def as_seen(pixels: Tensor) -> Tensor:
    """(B, 784) -> (B, 1, 28, 28)"""
    return pixels.float().view(-1, 1, SIDE, SIDE)


def fit(model: nn.Module, step: Callable[[int], Tensor], steps: int, rate: float) -> nn.Module:
    """Train so many steps; returns the average of the last weights."""
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    for n in range(steps):
        optimizer.zero_grad()
        step(n).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        optimizer.step()
        schedule.step()
        mean.update_parameters(model)
    return mean.module.eval()


def rounds(count: int, size: int) -> Iterator[Tensor]:
    """Numbers of images, some at a time, shuffled anew each round."""
    while True:
        yield from torch.randperm(count)[: count // size * size].split(size)


def train(pixels: Tensor, labels: Tensor, steps: int, size: int = 64) -> nn.Module:
    """A U-Net that believes in images, by the diffusion's own loss."""
    model, turns, known = UNet(), rounds(len(labels), size), torch.ones(size, PIXELS, dtype=torch.bool)

    def step(n: int) -> Tensor:
        chosen = next(turns)
        batch = digits(pixels[chosen], labels[chosen], known)
        done = loss(model, batch, hide(batch, Hiding()))
        if n % 100 == 0:
            click.echo(f"step {n}: {float(done.nats):.0f} nats an image")
        return done.total / PIXELS

    return fit(model, step, steps, 3e-3)


def teach(pixels: Tensor, labels: Tensor, steps: int) -> nn.Module:
    """A classifier of real digits."""
    model, turns = judge(), rounds(len(labels), 128)

    def step(_: int) -> Tensor:
        chosen = next(turns)
        return F.cross_entropy(model(as_seen(pixels[chosen])), labels[chosen])

    return fit(model, step, steps, 3e-3)


def read(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pixels that are ink or not (n, 784), and digits (n,): to train on, and others."""
    with np.load(folder / "mnist_10k_cazala.npz") as found:
        known = found["X"], found["y"]
    raw = [gzip.decompress((folder / f"t10k-{name}-ubyte.gz").read_bytes()) for name in ("images-idx3", "labels-idx1")]
    others = np.frombuffer(raw[0], np.uint8, offset=16), np.frombuffer(raw[1], np.uint8, offset=8)
    pair = [(x.reshape(-1, PIXELS) > 127, y) for x, y in (known, others)]
    return tuple(torch.from_numpy(part.astype(np.int64)) for both in pair for part in both)


def lonely(pixels: Tensor) -> float:
    """The share of ink that touches no other ink."""
    ink = as_seen(pixels)
    around = F.conv2d(ink, torch.ones(1, 1, 3, 3), padding=1)  # and itself
    return float(((around == 1) & (ink == 1)).sum() / ink.sum())


def grow(model: nn.Module, asking: Batch, leap: int) -> tuple[Tensor, Tensor]:
    """What is drawn pixel by pixel (B, 784), and ten moments of the fourth of it (10, 784), grey where unknown."""
    passes = -(-PIXELS // leap)
    moments = {round(passes * tenth / 10) for tenth in range(1, 11)}
    batch, growing = asking, []
    for turn, batch in enumerate(revealing(model, asking, leap=leap), 1):
        if turn in moments:
            known = batch.known.view(PIXELS + 1, -1)[:-1, 3]
            growing.append(images(batch)[3].float().where(known, 0.3))
    return images(batch), torch.stack(growing)


def draw(path: Path, single: Tensor, growing: Tensor, at_once: Tensor) -> None:
    """The picture: digits pixel by pixel, one of them as it grows, digits all at once."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = [
        *(("pixel by pixel", single[:10]), ("", single[10:20])),
        ("as it is revealed", growing),
        *(("all at once", at_once[:10]), ("", at_once[10:20])),
    ]
    figure, axes = pyplot.subplots(len(lines), 10, figsize=(10, 5.6), layout="constrained", squeeze=False)
    for line, (title, shown) in zip(axes, lines, strict=True):
        for place in line:
            place.axis("off")
        for place, image in zip(line, shown, strict=False):
            place.imshow(image.view(SIDE, SIDE), cmap="gray_r", vmin=0, vmax=1)
        line[0].set_title(title, loc="left", fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of images.  [default: $KBDISK_DATA/mnist]")
@click.option("--out", type=click.Path(path_type=Path), default="mnist.png", show_default=True, help="The picture.")
@click.option("--steps", default=1600, show_default=True, help="Of training.")
@click.option("--each", default=10, show_default=True, help="Images drawn of each digit, either way.")
@click.option("--leap", default=1, show_default=True, help="Pixels at a time.")
def main(data: Path | None, out: Path, steps: int, each: int, leap: int) -> None:
    """Learn digits, draw some pixel by pixel and some all at once, and have them named."""
    torch.manual_seed(0)
    folder = data or Path(os.environ.get("KBDISK_DATA", "../shared/data")) / "mnist"
    pixels, labels, other_pixels, other_labels = read(folder)
    start = time.process_time()
    classifier = teach(pixels, labels, 300)
    right = named_right(classifier, other_pixels, other_labels)
    click.echo(f"of real digits the classifier names {right:.1%} right; {lonely(other_pixels):.1%} of ink is alone")
    model = train(pixels, labels, steps)
    click.echo(f"trained: {time.process_time() - start:.0f} s of processor time")

    wanted = torch.arange(10).repeat(each)
    blank = torch.zeros(len(wanted), PIXELS, dtype=torch.long)
    asking = digits(blank, wanted, blank.bool())
    single, growing = grow(model, asking, leap)
    at_once = images(reveal(model, asking, leap=PIXELS))
    draw(out, single, growing, at_once)
    for how, drawn in (("pixel by pixel", single), ("all at once", at_once)):
        right = named_right(classifier, drawn, wanted)
        click.echo(f"drawn {how}, it names {right:.1%} right; {lonely(drawn):.1%} of ink is alone")
    click.echo(f"{out}: {time.process_time() - start:.0f} s of processor time in all")


if __name__ == "__main__":
    main()
