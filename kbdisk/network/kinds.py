"""The encoders and decoders of every kind of leaf that a codec has slots of, and which rows are whose.

n tokens, ascending, of all kinds   D width
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.slots import BY_NAME, Slot
from kbdisk.leaves.base import Rows, Setting
from kbdisk.network.beliefs import Asked
from kbdisk.network.config import ModelConfig


def setting_of(codec: Codec, kind: str, config: ModelConfig, reader: nn.Module | None = None) -> Setting:
    """What the encoder and decoder of a kind are built for."""
    return Setting(
        width=config.width,
        groups=[slot.group for slot in codec.slots if slot.kind == kind],
        config=codec.config.kinds[kind],
        blocks=config.blocks,
        dropout=config.dropout,
        tokenizer=codec.words,
        reader=reader,
        base=config.base,
    )


class KindModules(nn.Module):
    """Values in, vectors out; vectors in, beliefs out; each kind by its own modules."""

    group: Tensor

    def __init__(self, codec: Codec, config: ModelConfig, reader: nn.Module | None) -> None:
        super().__init__()
        own: dict[str, list[Slot]] = {}
        for slot in codec.slots:
            own.setdefault(slot.kind, []).append(slot)
        self.first = {kind: codec.slots.index(slots[0]) for kind, slots in own.items()}
        self.sets = {kind: slots[-1].group + 1 for kind, slots in own.items()}
        self.register_buffer("group", torch.tensor([slot.group for slot in codec.slots]), persistent=False)  # (S,)
        self.encoders, self.decoders = nn.ModuleDict(), nn.ModuleDict()
        for kind, slots in own.items():
            setting = setting_of(codec, kind, config, reader)
            codecs = [slot.codec for slot in slots]
            self.encoders[kind] = BY_NAME[kind].encoder(codecs, setting)
            self.decoders[kind] = BY_NAME[kind].decoder(codecs, setting)

    def read(self, batch: Batch, tokens: Tensor, path: Tensor) -> Tensor:
        """(n,) visible tokens, (n, D) their paths -> (n, D) what their values mean."""
        parts = [
            self.encoders[kind](batch.values[kind][own - start], rows)
            for kind, start, own, rows in self._rows(batch, tokens, path)
        ]
        return torch.cat([part.to(path.dtype) for part in parts]) if parts else path

    def believe(self, batch: Batch, tokens: Tensor, h: Tensor, path: Tensor) -> dict[str, Asked]:
        """(n,) asked tokens, (n, D) what the network makes of them, (n, D) their paths -> beliefs by kind."""
        beliefs, begin = {}, 0
        for kind, start, own, rows in self._rows(batch, tokens, path):
            vectors = h[begin : begin + len(own)]
            beliefs[kind] = Asked(own - start, start, vectors, self.decoders[kind](vectors, rows))
            begin += len(own)
        return beliefs

    def _rows(self, batch: Batch, tokens: Tensor, path: Tensor) -> Iterator[tuple[str, int, Tensor, Rows]]:
        """Kind by kind: where the batch's tokens of it begin, those of these tokens that are of it, whose they are."""
        begin = 0
        for kind, (start, stop) in batch.spans.items():
            end = int(torch.searchsorted(tokens, stop))
            if end > begin:
                own = tokens[begin:end]
                slot = batch.slot[own]
                counts = self.group[slot].bincount(minlength=self.sets[kind]).tolist()
                yield kind, start, own, Rows(slot - self.first[kind], counts, path[begin:end])
            begin = end
