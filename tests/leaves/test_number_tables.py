"""The stacked tables do for rows of many slots what each slot's codec does for its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kbdisk.leaves.number import NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.schemas.kinds import Number

RANDOM = np.random.default_rng(0)
DATA = [
    (Number(minimum=0), RANDOM.lognormal(3, 2, size=400).round(2).tolist()),
    (Number(integer=True, minimum=1, maximum=12), RANDOM.integers(1, 13, size=300).tolist()),
    (Number(), [5] * 20),
    (Number(), RANDOM.normal(size=300).tolist() + [0.0] * 60 + [1 / 3] * 60),
    (Number(), []),
    (Number(above=0), [1e299, 2e299, 5e298]),
    (Number(), [2**60 + 1000 * k for k in range(9)]),
]


@pytest.fixture(params=["auto", "log", "minmax"])
def codecs(request) -> list[NumberCodec]:
    return [NumberCodec.fit(leaf, values, NumberConfig(code=request.param), None) for leaf, values in DATA]


def rows(codecs) -> tuple[torch.Tensor, torch.Tensor]:
    """Slots and numbers: training values, and others."""
    slot, numbers = [], []
    for at, (leaf, values) in enumerate(DATA):
        own = (
            [*values[:50], *values[-50:], 1, 7]
            if leaf.integer or leaf.above is not None
            else [*values[:99], 0.1, 3, 1e9]
        )
        slot += [at] * len(own)
        numbers += own
    return torch.tensor(slot), torch.tensor([float(number) for number in numbers], dtype=torch.float64)


def test_codes_are_those_of_the_codecs(codecs):
    slot, numbers = rows(codecs)
    codes = CodecTables(codecs).codes(slot, numbers[:, None]).squeeze(1)
    for at, codec in enumerate(codecs):
        torch.testing.assert_close(codes[slot == at], codec.encode(numbers[slot == at].tolist()), rtol=1e-6, atol=1e-9)


def test_the_way_back_and_the_slope_are_those_of_the_maps(codecs):
    slot, numbers = rows(codecs)
    tables = CodecTables(codecs)
    z = torch.randn(len(slot), 3, dtype=torch.float64)
    values, slopes = tables.inverse(slot, z), tables.derivative(slot, numbers[:, None])
    for at, codec in enumerate(codecs):
        low, high = codec.bounds
        own = torch.from_numpy(codec.map.inverse(z[slot == at].numpy())).clamp(low, high)
        torch.testing.assert_close(values[slot == at], own, rtol=1e-9, atol=1e-12)
        own = torch.from_numpy(codec.map.derivative(numbers[slot == at].numpy()))
        torch.testing.assert_close(slopes[slot == at, 0], own, rtol=1e-12, atol=0)


def test_snapped_numbers_are_those_that_can_be_written(codecs):
    tables = CodecTables(codecs)
    slot = torch.arange(len(codecs)).repeat_interleave(200)
    drawn = tables.inverse(slot, torch.randn(len(slot), 1, dtype=torch.float64))
    snapped = tables.snapped(slot, drawn).squeeze(1)
    codes = tables.codes(slot, snapped[:, None]).squeeze(1)
    for at, codec in enumerate(codecs):
        own = slot == at
        written = codec.decode(codes[own])
        assert np.allclose(
            np.array(written, dtype=float),
            snapped[own].numpy(),
            rtol=1e-6,
            atol=codec.step + 1e-6 * snapped[own].abs().max(),
        )
        assert torch.equal(codec.encode(written)[:, 3], codes[own, 3])


def test_a_table_of_ten_thousand_slots_is_small():
    codec = NumberCodec.fit(Number(), RANDOM.normal(size=300).tolist() + [0.0] * 50, NumberConfig(), None)
    size = sum(table.nbytes for table in CodecTables([codec] * 100).buffers())
    assert size * 100 < 100e6
