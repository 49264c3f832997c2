"""muP, the maximal update parametrisation: learning rates and initial sizes that hold at every width.

Parameters are of three classes, by how their shape grows from the base width to that of the network:

    hidden    a map between two widths        drawn by 1 / sqrt(fan in)                   learns at rate / growth
    readout   a map from a width to a few     drawn by 1 / sqrt(fan in) / sqrt(growth)    learns at rate / growth
    fixed     biases, gains, looked-up tables, maps from a few                            learns at the rate itself

So one learning rate serves every width (Yang and others, Tensor Programs V, the table for Adam); attention scores by
1 / d, which network.py sets. Maps are the weights of nn.Linear, stacks of maps (G, out, in), and tables marked as scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kbdisk.leaves.layers import IS_SCORED
from kbdisk.model.optimizers import AdamW


@dataclass(frozen=True)
class Growth:
    """The width of the input and of the output of a parameter, as multiples of those at the base width."""

    fan_in: float = 1.0
    fan_out: float = 1.0

    @property
    def readout(self) -> bool:
        """Whether it maps a width that grows to something that does not."""
        return self.fan_in != 1 and self.fan_out == 1

    @property
    def hidden(self) -> bool:
        """Whether it maps a width that grows to one that grows."""
        return self.fan_in != 1 and self.fan_out != 1


def growths(model: nn.Module, base: nn.Module) -> dict[str, Growth]:
    """name -> growth of each parameter of a model, against a base model that differs in width alone."""
    shapes, base_shapes = shapes_of(model), shapes_of(base)
    maps = maps_of(model)
    return {name: _growth(name in maps, shapes[name], base_shapes[name]) for name in shapes}


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """name -> shape of each parameter of a model."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def maps_of(model: nn.Module) -> frozenset[str]:
    """The names of the parameters that are maps."""
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    return frozenset(
        name
        for name, parameter in model.named_parameters()
        if parameter.dim() == 3 or name in linear or getattr(parameter, IS_SCORED, False)
    )


def _growth(is_map: bool, shape: Sequence[int], base: Sequence[int]) -> Growth:
    if not is_map:
        return Growth()
    ratios = [size / max(base_size, 1) for size, base_size in zip(shape, base, strict=True)]  # tables may be empty
    return Growth(ratios[-1], ratios[-2] or 1.0)


@dataclass(frozen=True)
class Shapes:
    """The shapes of a model's parameters at any width, from those of two narrow models: each side is linear in the width."""

    width: int  # of the first model; that of the second is twice as much
    narrow: Mapping[str, Sequence[int]]
    wider: Mapping[str, Sequence[int]]
    maps: frozenset[str]

    @classmethod
    def of(cls, build: Callable[[int], nn.Module], width: int) -> Shapes:
        """Those of models of so many widths as `build(width)` makes."""
        narrow = build(width)
        return cls(width, shapes_of(narrow), shapes_of(build(2 * width)), maps_of(narrow))

    def at(self, width: int) -> dict[str, tuple[int, ...]]:
        """name -> shape at a width."""
        return {
            name: tuple(
                side + (wider - side) * (width - self.width) // self.width
                for side, wider in zip(shape, self.wider[name], strict=True)
            )
            for name, shape in self.narrow.items()
        }

    def count(self, width: int) -> int:
        """The number of parameters at a width."""
        return sum(math.prod(shape) for shape in self.at(width).values())

    def growths(self, width: int, base: int) -> dict[str, Growth]:
        """name -> growth of each parameter from a base width to another."""
        shapes, base_shapes = self.at(width), self.at(base)
        return {name: _growth(name in self.maps, shapes[name], base_shapes[name]) for name in shapes}


@torch.no_grad()
def shrink_readouts(model: nn.Module, grown: dict[str, Growth]) -> None:
    """Divide readouts by the square root of their growth. Once, when a model is made."""
    for name, parameter in model.named_parameters():
        if grown[name].readout:
            parameter.div_(grown[name].fan_in ** 0.5)


def parameter_groups(
    model: nn.Module, grown: Mapping[str, Growth], rate: float, decay: float, apart: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Groups for AdamW: the learning rate of maps falls with their growth, their weight decay stays; nothing else decays.

    Parameters named in `apart` are in none of the groups.
    """
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if name in apart:
            continue
        is_map = parameter.dim() > 1 and not name.endswith(("bias", "gain", "shift"))
        fan_in = grown[name].fan_in
        groups.setdefault((rate / fan_in, decay * fan_in if is_map else 0.0), []).append(parameter)
    return [{"params": params, "lr": lr, "weight_decay": wd} for (lr, wd), params in groups.items()]


def coordinates(
    build: Callable[[int], nn.Module],
    run: Callable[[nn.Module], Tensor],
    widths: Sequence[int],
    *,
    rate: float,
    steps: int,
) -> dict[str, list[float]]:
    """The coordinate check: by module, the mean absolute output after some steps of AdamW, at each width.

    `build(width)` makes a model, `run(model)` gives its loss. Under muP no size grows with the width.
    """
    sizes: dict[str, list[float]] = {}
    for width in widths:
        model, base = build(width), build(widths[0])
        grown = growths(model, base)
        shrink_readouts(model, grown)
        optimizer = AdamW(parameter_groups(model, grown, rate, 0.0))
        for _ in range(steps):
            optimizer.zero_grad()
            run(model).backward()
            optimizer.step()
        for name, size in _sizes(model, run).items():
            sizes.setdefault(name, []).append(size)
    return sizes


def _sizes(model: nn.Module, run: Callable[[nn.Module], Tensor]) -> dict[str, float]:
    """module -> its mean absolute output."""
    sizes: dict[str, float] = {}

    def note(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                sizes[name] = float(output.detach().abs().mean())

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules() if name]
    with torch.no_grad():
        run(model)
    for hook in hooks:
        hook.remove()
    return sizes
