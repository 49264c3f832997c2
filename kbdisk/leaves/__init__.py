"""The one table that says how each kind of leaf becomes tensors and back.

To add a kind: write its dataclass in kbdisk.schemas.leaf, its codec, encoder, decoder and belief in one file here,
and one row. tests/leaves/test_leaves.py then asks for an example, and checks that it keeps the promises of base.py.
"""
