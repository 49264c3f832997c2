"""Numbers: coded by a monotone map, embedded by periodic functions, believed as a density over codes and masses of atoms.

transforms   what is learnt from the training values: the map, the resolution, bins
codec        numbers <-> codes of one property, its settings; `CodecTables`: the same for rows of many properties
encoder      codes -> vectors
decoder      vectors -> beliefs
densities    distributions over codes;  normal: the mass of an interval under Gaussians
belief       all that can be asked of a density and atoms in the property's units
"""

from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.codec import NumberCodec, NumberConfig
from kbdisk.leaves.number.decoder import NumberDecoder
from kbdisk.leaves.number.encoder import NumberEncoder

__all__ = ["NumberBelief", "NumberCodec", "NumberConfig", "NumberDecoder", "NumberEncoder"]
