"""The optimizer: Muon where two widths meet and AdamW elsewhere, the EMA of the weights, device and precision.

Muon (Jordan and others, 2024) moves the maps between two widths by the orthogonal matrix nearest to their momentum, so
every direction of a map learns as fast as those that its gradient is full of. Five small matrix products make a matrix
orthogonal (Newton-Schulz); bfloat16 is exact enough for them. Large maps are made orthogonal a piece at a time: a piece of
one width stays in the cache.

G  maps of a stack   r c  rows and columns of a piece   n  pieces
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from kbdisk.errors import ConfigError
from kbdisk.model import mup
from kbdisk.model.network import DiSK
from kbdisk.model.optimizers import AdamW, has_native_bfloat16
from kbdisk.training.run import Run

MIN_BFLOAT16_WIDTH = 128  # on a CPU: narrower vectors are not worth their conversion, at 64 a step took twice as long


def device_named(name: str) -> torch.device:
    """The device of a name, such as auto, cpu, cuda or cuda:1; ConfigError where it is missing or unsuitable."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):  # torch says at length why: with all kinds of devices that there ever were
        raise ConfigError("--device", f"expected auto, cpu or a device that is there, got {name!r}.") from None
    if device.type == "mps":  # it lacks float64, which beliefs in numbers need
        raise ConfigError(
            "--device", "expected auto, cpu or cuda, got mps, which lacks 64-bit floats. Say --device cpu."
        )
    return device


def autocast(precision: str, device: torch.device, width: int) -> AbstractContextManager[object]:
    """Autocasts to bfloat16 where `precision` is bfloat16, or auto and bfloat16 is faster; keeps float32 elsewhere."""
    faster = has_native_bfloat16(device) and (device.type != "cpu" or width >= MIN_BFLOAT16_WIDTH)
    is_bfloat16 = precision == "bfloat16" or (precision == "auto" and faster)
    return torch.autocast(device.type, torch.bfloat16) if is_bfloat16 else nullcontext()


ORTHOGONAL = "orthogonal"  # the key that marks a parameter group
MUON_RATE = 5.0  # the learning rate of an orthogonal step, relative to AdamW's
MOMENTUM = 0.95
MAX_ASPECT = 4  # the longer side of a piece, in widths, at most
NEWTON_SCHULZ_STEPS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of the polynomial that takes singular values from 0.01 to 1 to about 1
EPSILON = 1e-12
MAX_CACHED = 1 << 17  # numbers made orthogonal at once: as many as fit a processor's cache


class Muon(AdamW):
    """Muon for the groups marked `ORTHOGONAL`, AdamW for the others; `width` is the side of one piece."""

    def __init__(self, groups: list[dict[str, Any]], width: int, betas: tuple[float, float]) -> None:
        super().__init__(groups, betas)
        self.width = width

    def _update(self, group: dict[str, Any]) -> None:
        if group.get(ORTHOGONAL):
            self._move_orthogonally(group)
        else:
            super()._update(group)

    def _move_orthogonally(self, group: dict[str, Any]) -> None:
        pieces: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            momentum = state["momentum"].lerp_(parameter.grad, 1 - MOMENTUM)
            ahead = parameter.grad.lerp(momentum, MOMENTUM)
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            for piece, direction in zip(self._pieces(parameter), self._pieces(ahead), strict=True):
                pieces.setdefault(tuple(piece.shape[-2:]), []).append((piece, direction))
        for (out, fan_in), pairs in pieces.items():
            counts = [len(piece) for piece, _ in pairs]
            orthogonal = orthogonalize(torch.cat([direction for _, direction in pairs])).split(counts)
            step = -group["lr"] * max(1.0, out / fan_in) ** 0.5
            for (piece, _), direction in zip(pairs, orthogonal, strict=True):
                piece.add_(direction, alpha=step)

    def _pieces(self, parameter: Tensor) -> Iterator[Tensor]:
        """Views (G, r, c) of a stack of maps (G, out, in), or of one map: of whole widths where these divide it."""
        stack = parameter.view(-1, *parameter.shape[-2:])
        rows, columns = stack.shape[1:]
        short = 1 if rows <= columns else 2
        sizes = {short: self.width, 3 - short: MAX_ASPECT * self.width}
        lengths = {axis: size if stack.shape[axis] % size == 0 else stack.shape[axis] for axis, size in sizes.items()}
        for part in stack.split(lengths[1], 1):
            yield from part.split(lengths[2], 2)


def orthogonalize(x: Tensor) -> Tensor:
    """(n, r, c) about the nearest orthogonal matrix to each matrix: singular values from 0.7 to 1.2."""
    at_once = max(MAX_CACHED // max(x.shape[1] * x.shape[2], 1), 1) if x.device.type == "cpu" else max(len(x), 1)
    return torch.cat([_newton_schulz(part) for part in x.split(at_once)]) if len(x) > at_once else _newton_schulz(x)


def _newton_schulz(x: Tensor) -> Tensor:
    wide = x if x.shape[1] <= x.shape[2] else x.mT
    wide = wide / wide.flatten(1).norm(dim=1).clamp(min=EPSILON)[:, None, None]
    wide = wide.bfloat16() if has_native_bfloat16(x.device) else wide
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = wide @ wide.mT
        wide = torch.baddbmm(wide, torch.baddbmm(square, square, square, beta=B, alpha=C), wide, beta=A)
    return (wide if x.shape[1] <= x.shape[2] else wide.mT).to(x.dtype)


BETAS = (0.9, 0.98)


def build_optimizer(network: DiSK, run: Run, shapes: mup.Shapes) -> AdamW:
    """The optimizer of a run; the rate of each group is a factor of the run's."""
    decay, width = run.train.decay, run.model.width
    growths = shapes.growths(width, run.model.base)
    if run.train.optimizer == "adamw":
        return AdamW(mup.parameter_groups(network, growths, 1.0, decay), BETAS)
    hidden = frozenset(name for name, growth in shapes.growths(2 * width, width).items() if growth.hidden)
    groups = mup.parameter_groups(network, growths, 1.0, decay, apart=hidden)
    between_widths = [parameter for name, parameter in network.named_parameters() if name in hidden]
    return Muon(
        [*groups, {"params": between_widths, "lr": MUON_RATE, "weight_decay": decay, ORTHOGONAL: True}], width, BETAS
    )


class EMA:
    """An exponential moving average of a network's parameters; its first steps count as a plain mean."""

    def __init__(self, network: nn.Module, smoothing: float) -> None:
        self.parameters = list(network.parameters())
        self.smoothing = smoothing
        self.weights: list[Tensor] = []
        self.restart()

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        smoothing = min(self.smoothing, step / (step + 9))
        torch._foreach_lerp_(self.weights, [parameter.detach() for parameter in self.parameters], 1 - smoothing)

    def restart(self) -> None:
        """Begin anew with the weights that the network has now."""
        self.weights = [parameter.detach().clone() for parameter in self.parameters]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The network with the averaged weights, for the length of the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Exchange the weights of the network and the averaged ones, without a copy of either."""
        for place, parameter in enumerate(self.parameters):
            parameter.data, self.weights[place] = self.weights[place], parameter.data

    @torch.no_grad()
    def put(self, weights: list[Tensor]) -> None:
        """Write some weights into the network."""
        for parameter, weight in zip(self.parameters, weights, strict=True):
            parameter.copy_(weight)
