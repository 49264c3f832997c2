"""Entities to tensors and back: slots, leaf codecs fitted to training entities, evidence over links, queries.

Codec.fit(schema, entities)      learn from training entities
codec.encode(entities, ask)      Tokens, the whole data set encoded once
tokens.batch(indices)            a Batch of some of them
codec.leaves(batch, asked)       {path: value} of each entity, once the asked tokens are filled in
"""

from __future__ import annotations

from kbdisk.data.codec import Codec
from kbdisk.data.config import CodecConfig, EvidenceConfig
from kbdisk.data.slots import Over, Slot

__all__ = ["Codec", "CodecConfig", "EvidenceConfig", "Over", "Slot"]
