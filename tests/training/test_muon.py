"""Muon: turned matrices have one singular value, pieces cover a map once, and what is no map between widths is AdamW's."""

from __future__ import annotations

import pytest
import torch
from models import phones, tiny_run
from torch import nn

from kbdisk.model.optimizers import AdamW
from kbdisk.training import optimizer
from kbdisk.training.data import Data
from kbdisk.training.loop import build, shapes_at_any_width
from kbdisk.training.optimizer import MUON_RATE, ORTHOGONAL, Muon, build_optimizer, orthogonalize


def turned(*parameters, width: int = 4, rate: float = 0.1, decay: float = 0.0) -> Muon:
    return Muon([{"params": list(parameters), "lr": rate, "weight_decay": decay, ORTHOGONAL: True}], width, (0.9, 0.98))


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 32), (2, 32, 8), (1, 1, 5)])
def test_singular_values_become_about_one(shape, monkeypatch):
    monkeypatch.setattr(optimizer, "has_native_bfloat16", lambda device: False)
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
    assert bool(((values > 0.6) & (values < 1.3)).all())


def test_directions_stay_what_they_were(monkeypatch):
    monkeypatch.setattr(optimizer, "has_native_bfloat16", lambda device: False)
    torch.manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(6, 6))[0] for _ in range(2))
    skew = left @ torch.diag(torch.tensor([5.0, 3.0, 2.0, 1.0, 0.7, 0.5])) @ right.T
    aligned = left.T @ orthogonalize(skew[None])[0] @ right
    assert torch.allclose(aligned, torch.diag(aligned.diag()), atol=1e-4)
    assert bool((aligned.diag() > 0.6).all())


def test_halves_turn_as_floats_do():
    torch.manual_seed(0)
    x = torch.randn(4, 16, 64)
    if not optimizer.has_native_bfloat16(x.device):
        pytest.skip("no bfloat16 here")
    assert torch.linalg.svdvals(orthogonalize(x)).sub(1).abs().max() < 0.45


def test_nothing_stays_nothing():
    assert torch.equal(orthogonalize(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))


@pytest.mark.parametrize("shape", [(4, 4), (32, 4), (8, 16), (3, 8, 48), (5, 7)])
def test_pieces_cover_a_map_once(shape):
    parameter = nn.Parameter(torch.zeros(shape))
    with torch.no_grad():
        for piece in turned(parameter)._pieces(parameter):
            piece += 1
            assert min(piece.shape[-2:]) in (4, 5)
            assert max(piece.shape[-2:]) <= optimizer.MAX_ASPECT * 4
    assert torch.equal(parameter, torch.ones(shape))


def test_a_step_is_as_long_for_any_size_of_gradient():
    one, other = (nn.Parameter(torch.zeros(4, 4)) for _ in range(2))
    one.grad = torch.randn(4, 4)
    other.grad = one.grad * 1000
    turned(one).step()
    turned(other).step()
    assert torch.allclose(one, other, atol=1e-2)
    assert float(torch.linalg.matrix_norm(one.detach(), 2)) == pytest.approx(0.1, rel=0.35)


def test_maps_shrink_by_their_decay_and_stay_without_a_gradient():
    one, other = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(4, 4))
    one.grad = torch.zeros(4, 4)
    turned(one, other, decay=0.5).step()
    assert torch.allclose(one, torch.full((4, 4), 0.95))
    assert torch.equal(other, torch.ones(4, 4))


def test_it_finds_the_map_that_data_come_of():
    torch.manual_seed(0)
    wanted, x = torch.randn(8, 8), torch.randn(256, 8)
    found = nn.Parameter(torch.zeros(8, 8))
    stepping = turned(found, width=8)
    for step in range(150):
        stepping.param_groups[0]["lr"] = 0.2 * (1 - step / 150)
        found.grad = torch.autograd.grad(((x @ (found - wanted)) ** 2).mean(), found)[0]
        stepping.step()
    assert (found.detach() - wanted).abs().max().item() < 0.1


def test_maps_between_widths_are_turned_and_nothing_else_is():
    run = tiny_run()
    data = Data.prepare(*phones(), run)
    shapes = shapes_at_any_width(data.codec, run.model)
    network = build(data.codec, run, shapes)
    found = build_optimizer(network, run, shapes)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    mine = {names[id(one)] for group in found.param_groups if group.get(ORTHOGONAL) for one in group["params"]}
    every = [names[id(one)] for group in found.param_groups for one in group["params"]]
    assert sorted(every) == sorted(names.values())
    assert {
        "paths.step.weight",
        "entity_encoder.layers.0.widen.weight",
        "entity_encoder.layers.0.key_value.weight",
    } <= mine
    assert not any(
        part in name
        for name in mine
        for part in ("bias", "table", "norm", "gain", "names", "presence", "scores", "curve")
    )
    assert [group["lr"] for group in found.param_groups if group.get(ORTHOGONAL)] == [MUON_RATE]


def test_adamw_alone_turns_nothing():
    run = tiny_run(optimizer="adamw")
    data = Data.prepare(*phones(), run)
    shapes = shapes_at_any_width(data.codec, run.model)
    network = build(data.codec, run, shapes)
    found = build_optimizer(network, run, shapes)
    assert type(found) is AdamW
    assert not any(group.get(ORTHOGONAL) for group in found.param_groups)
