"""Numbers: through a monotone map to codes, read through waves, believed as a curve over codes and masses of atoms.

maps, resolution, binning    what is learnt from the training values
codec                        numbers <-> codes of one property;  tables: the same for rows of many
embeddings, encoder          codes -> vectors
heads, decoder               vectors -> beliefs
normal, mixture, binned      the curves;  belief: all that can be asked of one
"""

from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.codec import NumberCodec
from kbdisk.leaves.number.config import NumberConfig
from kbdisk.leaves.number.decoder import NumberDecoder
from kbdisk.leaves.number.encoder import NumberEncoder

__all__ = ["NumberBelief", "NumberCodec", "NumberConfig", "NumberDecoder", "NumberEncoder"]
