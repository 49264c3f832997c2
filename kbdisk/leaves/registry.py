"""The registry of learnt kinds of leaves: the parts of the rows of `kbdisk.schemas.kinds.KINDS` that load torch.

tests/leaves/test_leaves.py asks each row for an example, and checks that it keeps the promises of base.py and belief.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from kbdisk.plugins import load_part
from kbdisk.schemas.kinds import KINDS, LeafKind, kind_of


@dataclass(frozen=True)
class NoSettings:
    """The settings of a kind that has none."""


class LeafModules(NamedTuple):
    """The parts of a row that compute with tensors."""

    name: str
    codec: type[Any]  # a LeafCodec
    encoder: type[nn.Module]  # (codecs, Setting); forward(codes (n, ...), Rows) -> vectors (n, D)
    decoder: type[nn.Module]  # (codecs, Setting); forward(vectors (n, D), Rows) -> Belief
    config: type[Any]  # a frozen dataclass of plain values, all with defaults
    padding: int | None  # fills up shorter codes (n, L) where their length L varies


def learnt_leaf(leaf: Any) -> Any:
    """The leaf that a codec is fitted to: of a boolean a category, of most others the leaf itself."""
    learnt_as = load_part(KINDS[kind_of(leaf)].learnt_as)
    return leaf if learnt_as is None else learnt_as(leaf)


def learnt_kind(leaf: Any) -> str:
    """The name of the kind as which a leaf is learnt."""
    return kind_of(learnt_leaf(leaf))


@functools.cache
def _modules(name: str, row: LeafKind) -> LeafModules:
    codec, encoder, decoder = map(load_part, (row.codec, row.encoder, row.decoder))
    return LeafModules(name, codec, encoder, decoder, load_part(row.config or NoSettings), row.padding)


class _LearntKinds(Mapping[str, LeafModules]):
    """The kinds with modules of their own by name, in the order of KINDS, those that were added since included."""

    def __getitem__(self, name: str) -> LeafModules:
        row = KINDS[name]
        if row.codec is None:
            raise KeyError(name)
        return _modules(name, row)

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in KINDS.items() if row.codec is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


LEARNT_KINDS: Mapping[str, LeafModules] = _LearntKinds()
