"""The moving average of a network's weights."""

from __future__ import annotations

import pytest
import torch

from kbdisk.training.optimizer import EMA


def test_the_first_steps_count_as_a_plain_mean_and_later_ones_as_the_smoothing_says():
    network = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        network.weight.zero_()
    average = EMA(network, smoothing=0.5)
    with torch.no_grad():
        network.weight.fill_(1.0)
    average.update(1)
    assert average.weights[0].item() == pytest.approx(0.9)  # of the first step 9 parts in 10
    average.weights[0].zero_()
    average.update(1000)
    assert average.weights[0].item() == pytest.approx(0.5)


def test_the_average_is_applied_for_a_while_and_the_own_weights_come_back():
    network = torch.nn.Linear(1, 1, bias=False)
    average = EMA(network, smoothing=0.5)
    own = network.weight.detach().clone()
    average.weights[0].fill_(7.0)
    with average.applied():
        assert network.weight.item() == 7.0
    assert torch.equal(network.weight, own)


def test_the_average_stays_while_it_is_applied_and_neither_is_copied():
    network = torch.nn.Linear(1, 1, bias=False)
    average = EMA(network, smoothing=0.5)
    average.weights[0].fill_(7.0)
    places = network.weight.data_ptr(), average.weights[0].data_ptr()
    with average.applied():
        assert (average.weights[0].data_ptr(), network.weight.data_ptr()) == places
    assert (network.weight.data_ptr(), average.weights[0].data_ptr()) == places
    assert average.weights[0].item() == 7.0
