"""Tensors that are written one after the other are those that safetensors reads."""

from __future__ import annotations

import io

import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load

from kbdisk import tensors

SHAPES = st.lists(st.integers(0, 3), max_size=3)


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(sorted(tensors.TYPES, key=str)), SHAPES),
        max_size=5,
    )
)
def test_what_is_written_is_read_by_safetensors(wanted):
    written = {name: (10 * torch.rand(shape)).to(dtype) for name, (dtype, shape) in wanted.items()}
    stream = io.BytesIO()
    tensors.write(stream, written)
    stored = load(stream.getvalue())
    assert stored.keys() == written.keys()
    for name, tensor in written.items():
        assert stored[name].dtype == tensor.dtype
        assert torch.equal(stored[name], tensor)


def test_a_transposed_tensor_is_written_row_by_row():
    stream = io.BytesIO()
    tensors.write(stream, {"t": torch.arange(6.0).view(2, 3).T})
    assert load(stream.getvalue())["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
