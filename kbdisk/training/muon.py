"""Muon: AdamW, but for the maps between two widths, which are moved by what is nearest to their momentum and orthogonal.

So every direction of a map learns as fast as those that its gradient is full of (Jordan and others, 2024: Muon). To turn a
matrix takes five small products, which bfloat16 is exact enough for. Large maps are turned a piece at a time:
a piece of one width stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kbdisk.model.optimizers import AdamW
from kbdisk.training.precision import is_native

TURNED = "turned"  # marks a parameter group
STRENGTH = 5.0  # of a turned step, beside one of AdamW's
MOMENTUM = 0.95
LONG = 4  # widths: of a piece's longer side, at most
TURNS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of the polynomial that takes singular values from 0.01 to 1 to about 1
TINY = 1e-12
CACHED = 1 << 17  # numbers that are turned at once: as many as fit a processor's cache


class Muon(AdamW):
    """For the groups that are marked; AdamW for the others. `width`: of one piece."""

    def __init__(self, groups: list[dict[str, Any]], width: int, betas: tuple[float, float]) -> None:
        super().__init__(groups, betas)
        self.width = width

    def _move(self, group: dict[str, Any]) -> None:
        if group.get(TURNED):
            self._turn(group)
        else:
            super()._move(group)

    def _turn(self, group: dict[str, Any]) -> None:
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
            for piece, own in zip(self._pieces(parameter), self._pieces(ahead), strict=True):
                pieces.setdefault(tuple(piece.shape[-2:]), []).append((piece, own))
        for (out, fan_in), several in pieces.items():
            counts = [len(piece) for piece, _ in several]
            turned = orthogonal(torch.cat([own for _, own in several])).split(counts)
            step = -group["lr"] * max(1.0, out / fan_in) ** 0.5
            for (piece, _), one in zip(several, turned, strict=True):
                piece.add_(one, alpha=step)

    def _pieces(self, parameter: Tensor) -> Iterator[Tensor]:
        """Views (G, r, c) of a stack of maps (G, out, in), or of one: a width by some widths, where it is of whole ones."""
        stack = parameter.view(-1, *parameter.shape[-2:])
        rows, columns = stack.shape[1:]
        short = 1 if rows <= columns else 2
        sizes = {short: self.width, 3 - short: LONG * self.width}
        whole = {axis: size if stack.shape[axis] % size == 0 else stack.shape[axis] for axis, size in sizes.items()}
        for part in stack.split(whole[1], 1):
            yield from part.split(whole[2], 2)


def orthogonal(x: Tensor) -> Tensor:
    """The orthogonal matrices nearest to each of some (n, r, c), about: singular values from 0.7 to 1.2."""
    at_once = max(CACHED // max(x.shape[1] * x.shape[2], 1), 1) if x.device.type == "cpu" else max(len(x), 1)
    return torch.cat([_turned(part) for part in x.split(at_once)]) if len(x) > at_once else _turned(x)


def _turned(x: Tensor) -> Tensor:
    wide = x if x.shape[1] <= x.shape[2] else x.mT
    wide = wide / wide.flatten(1).norm(dim=1).clamp(min=TINY)[:, None, None]
    wide = wide.bfloat16() if is_native(x.device) else wide
    for _ in range(TURNS):
        square = wide @ wide.mT
        wide = torch.baddbmm(wide, torch.baddbmm(square, square, square, beta=B, alpha=C), wide, beta=A)
    return (wide if x.shape[1] <= x.shape[2] else wide.mT).to(x.dtype)
