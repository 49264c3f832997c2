"""A learning rate falls with the steps, or with the time."""

from __future__ import annotations

import pytest
import torch

from kbdisk.model.optimizers import AdamW, linear_decay


@pytest.fixture
def optimizer() -> AdamW:
    return AdamW([{"params": [torch.zeros(1, requires_grad=True)], "lr": 7.0, "weight_decay": 0.0}])


def test_a_rate_falls_evenly_with_the_steps(optimizer):
    rates = [optimizer.param_groups[0]["lr"] for _ in linear_decay(optimizer, 0.8, 4)]
    assert rates == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_a_rate_falls_with_the_time_where_that_is_shorter(optimizer, monkeypatch):
    clock = iter([0.0, 0.0, 5.0, 9.0, 10.0])
    monkeypatch.setattr("kbdisk.model.optimizers.time.monotonic", lambda: next(clock))
    rates = [optimizer.param_groups[0]["lr"] for _ in linear_decay(optimizer, 0.8, 100, 10.0)]
    assert rates == pytest.approx([0.8, 0.4, 0.08])


def test_without_time_there_are_no_steps(optimizer):
    assert not list(linear_decay(optimizer, 0.8, 4, 0.0))
