"""Our AdamW steps as torch's does, and spares every training the import of torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

from kbdisk.model.optimizers import AdamW

TESTS = Path(__file__).parents[1]


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in [(), (7,), (33, 5), (2, 8, 8), (3,)]]


def groups(params: list[nn.Parameter]) -> list[dict]:
    return [
        {"params": params[:2], "lr": 0.1, "weight_decay": 0.0},
        {"params": params[2:], "lr": 0.02, "weight_decay": 0.3},
    ]


def test_every_step_is_that_of_torch_to_the_last_bit():
    ours, theirs = parameters(), parameters()
    our = AdamW(groups(ours), (0.9, 0.98))
    their = torch.optim.AdamW(groups(theirs), betas=(0.9, 0.98), fused=True)
    for step in range(12):
        our.zero_grad()
        their.zero_grad()
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if place < 4 and (place + step) % 3:  # some lack a gradient in a step, the last in all
                one.grad = torch.randn(one.shape)
                other.grad = one.grad.clone()
        for group, like in zip(our.param_groups, their.param_groups, strict=True):
            group["lr"] = like["lr"] = group["lr"] * 0.9
        our.step()
        their.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    for one, other in zip(ours[:4], theirs[:4], strict=True):
        assert our.state[one].keys() == their.state[other].keys()
        assert all(torch.equal(our.state[one][key], their.state[other][key]) for key in our.state[one])
    assert ours[4] not in our.state


def test_training_does_not_import_the_compiler_of_torch():
    code = "from models import phones, tiny; import sys; tiny(*phones(), nearest=2); sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=TESTS).returncode == 0
