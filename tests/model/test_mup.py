"""muP: what is found good at one width is good at another."""

from __future__ import annotations

import math

import torch
from torch import nn

from kbdisk.leaves.layers import GLUBlock, GroupedLinear, score_table
from kbdisk.model.mup import Growth, coordinates, growths, parameter_groups, shrink_readouts

WIDTHS = [32, 64, 128, 256, 512]


class Small(nn.Module):
    """Every sort of parameter: a map in, a grouped block, a hidden map, a scored table."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inwards = GroupedLinear(2, 5, width)
        self.block = GLUBlock(2, width)
        self.hidden = nn.Linear(width, width)
        self.table = score_table(3, width)
        self.readout = nn.Linear(width, 3)

    def forward(self, x):
        h = self.hidden(self.block(self.inwards(x, [4, 4]), [4, 4])).relu()
        return self.readout(h) + h @ self.table.T


def run(model):
    torch.manual_seed(1)
    x, y = torch.randn(8, 5), torch.randint(0, 3, (8,))
    return nn.functional.cross_entropy(model(x), y)


def test_parameters_are_told_by_how_they_grow():
    grown = growths(Small(64), Small(16))
    assert grown["inwards.weight"] == Growth(1, 4)
    assert grown["block.widen.weight"] == grown["hidden.weight"] == Growth(4, 4)
    assert grown["table"] == grown["readout.weight"] == Growth(4, 1)
    fixed = ["inwards.bias", "block.widen.bias", "block.gain", "block.shift", "hidden.bias", "readout.bias"]
    assert {grown[name] for name in fixed} == {Growth()}


def test_only_maps_out_of_the_width_learn_slower_and_decay():
    model = Small(64)
    groups = parameter_groups(model, growths(model, Small(16)), rate=0.1, decay=0.01)
    told = {id(one): (group["lr"], group["weight_decay"]) for group in groups for one in group["params"]}
    assert told[id(model.hidden.weight)] == told[id(model.table)] == (0.025, 0.04)
    assert told[id(model.inwards.weight)] == (0.1, 0.01)
    assert told[id(model.block.gain)] == told[id(model.hidden.bias)] == (0.1, 0.0)
    assert len(told) == len(list(model.parameters()))


def test_a_table_of_nothing_is_a_readout_all_the_same():
    """Where every link is to one of many, no label is scored by heart."""
    base, model = (nn.ParameterDict({"table": score_table(0, width)}) for width in (16, 64))
    assert growths(model, base) == {"table": Growth(4, 1)}
    shrink_readouts(model, growths(model, base))


def test_readouts_are_drawn_smaller_the_wider_the_model():
    model = Small(64)
    before = model.readout.weight.clone(), model.hidden.weight.clone()
    shrink_readouts(model, growths(model, Small(16)))
    torch.testing.assert_close(model.readout.weight, before[0] / 2)
    assert torch.equal(model.hidden.weight, before[1])


def slope(sizes):
    """The exponent by which a size grows with the width."""
    xs = [math.log(width) for width in WIDTHS]
    ys = [math.log(size) for size in sizes]
    mean = sum(xs) / len(xs)
    return sum((x - mean) * y for x, y in zip(xs, ys, strict=True)) / sum((x - mean) ** 2 for x in xs)


def build(width):
    torch.manual_seed(0)
    return Small(width)


def test_no_output_grows_with_the_width_after_some_steps():
    sizes = coordinates(build, run, WIDTHS, rate=0.02, steps=4)
    assert set(sizes) >= {"inwards", "block", "hidden", "readout"}
    assert max(slope(size) for size in sizes.values()) < 0.15


def test_the_coordinate_check_sees_what_grows(monkeypatch):
    monkeypatch.setattr(
        "kbdisk.model.mup.growths", lambda model, base: dict.fromkeys(dict(model.named_parameters()), Growth())
    )
    sizes = coordinates(build, run, WIDTHS, rate=0.02, steps=4)
    assert max(slope(size) for size in sizes.values()) > 0.3


def test_a_model_of_the_base_width_is_as_it_was():
    groups = parameter_groups(Small(16), growths(Small(16), Small(16)), rate=0.1, decay=0.0)
    assert {group["lr"] for group in groups} == {0.1}
