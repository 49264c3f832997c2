"""Text: token ids of the knowledge base's own tokenizer, read by one transformer and written by another.

codec         texts <-> token ids of one property; the settings
transformer   the layers of both, over packed texts
encoder       token ids -> vectors: the reader, by which labels are read, too; character n-grams; sentence encoders
decoder       vectors -> beliefs: the writer; greedy decoding, sampling, beam search
"""

from kbdisk.leaves.text.codec import TextCodec, TextConfig
from kbdisk.leaves.text.decoder import TextBelief, TextDecoder, Writer
from kbdisk.leaves.text.encoder import Reader, SentenceEncoder, SentenceReader, TextEncoder, build_reader

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
