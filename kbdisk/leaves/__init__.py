"""Kinds of leaf: for each a codec, an encoder, a decoder and a belief. `registry.py` has the table, `base.py` the promises."""
