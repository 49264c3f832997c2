"""Text: token ids of the KB's own tokenizer, read by one transformer and written by another.

codec      texts <-> token ids          reader    ids -> a vector of each text; labels are read by it, too
belief     how likely, what, how sure   writer    a vector -> a text, token by token
decoding   greedy, drawn, beams         sentences a pretrained encoder in the reader's place
packing    texts of all lengths as one flat row of tokens, without padding     layers    the transformer
"""

from kbdisk.leaves.text.belief import TextBelief
from kbdisk.leaves.text.codec import TextCodec
from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.modules import TextDecoder, TextEncoder, build_reader
from kbdisk.leaves.text.reader import Reader
from kbdisk.leaves.text.sentences import SentenceEncoder, SentenceReader
from kbdisk.leaves.text.writer import Writer

__all__ = [
    "Reader",
    "SentenceEncoder",
    "SentenceReader",
    "TextBelief",
    "TextCodec",
    "TextConfig",
    "TextDecoder",
    "TextEncoder",
    "Writer",
    "build_reader",
]
