"""Attention over flat rows is attention within each entity, whatever its length and whatever else is there."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.model.attention import build_layout

D, HEADS, SCALE = 8, 2, 0.3


def plainly(q, k, v):
    """Attention of a few queries at a few rows, head by head."""
    heads = []
    for part in range(HEADS):
        own = slice(part * D // HEADS, (part + 1) * D // HEADS)
        heads.append((q[:, own] @ k[:, own].T * SCALE).softmax(-1) @ v[:, own])
    return torch.cat(heads, 1)


def rows(counts):
    """Whose each row is, in a random order."""
    entity = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return entity[torch.randperm(len(entity))]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=6), st.integers(0, 1000))
def test_each_entity_looks_at_its_own_rows_alone(lengths, seed):
    torch.manual_seed(seed)
    asking, seen = rows([n for n, _ in lengths]), rows([n for _, n in lengths])
    q, k, v = torch.randn(len(asking), D), torch.randn(len(seen), D), torch.randn(len(seen), D)
    mixed = build_layout(asking, seen, len(lengths)).attend(q, k, v, HEADS, SCALE)
    for one in range(len(lengths)):
        if bool((asking == one).any()):
            torch.testing.assert_close(mixed[asking == one], plainly(q[asking == one], k[seen == one], v[seen == one]))


def test_gradients_are_those_of_plain_attention():
    asking, seen = rows([3, 20, 70]), rows([5, 1, 90])
    leaves = [torch.randn(len(asking), D), torch.randn(len(seen), D), torch.randn(len(seen), D)]
    q, k, v = (leaf.requires_grad_() for leaf in leaves)
    weight = torch.randn(len(asking), D)
    (build_layout(asking, seen, 3).attend(q, k, v, HEADS, SCALE) * weight).sum().backward()
    ours = [leaf.grad.clone() for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    for one in range(3):
        out = plainly(q[asking == one], k[seen == one], v[seen == one])
        (out * weight[asking == one]).sum().backward()
    for leaf, grad in zip(leaves, ours, strict=True):
        torch.testing.assert_close(grad, leaf.grad)


@for_each("length", [10, 100])
def test_bfloat16_is_near_float32(length):
    entity = rows([length, 3])
    x = [torch.randn(len(entity), D) for _ in range(3)]
    layout = build_layout(entity, entity, 2)
    exact = layout.attend(*x, HEADS, SCALE)
    rough = layout.attend(*(one.bfloat16() for one in x), HEADS, SCALE)
    torch.testing.assert_close(rough.float(), exact, atol=0.05, rtol=0.05)


def test_one_long_entity_does_not_lengthen_the_others():
    counts = [500, *[4] * 100]
    entity = rows(counts)
    places = sum(one.queries.shape[0] * one.queries.shape[1] for one in build_layout(entity, entity, 101).buckets)
    assert places <= 2 * sum(counts)
