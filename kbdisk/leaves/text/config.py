"""What can be chosen of text."""

from __future__ import annotations

from dataclasses import dataclass

from kbdisk.leaves.words import SMALLEST

DECODINGS = ("beam", "greedy")


@dataclass(frozen=True)
class TextConfig:
    """The reader's and the writer's sizes, and how the likeliest text is sought."""

    layers: int = 2  # of the reader, and as many of the writer
    heads: int = 4
    hidden: int = 4  # times the width: of a layer's two maps
    vocabulary: int = 2048  # tokens at most: the writer's work grows with them
    grams: int = 2**14  # vectors for what the reader meets in the spelling: runs of characters, and words; 0: none
    blank: float = 0.3  # of a text's tokens, and of what its spelling tells, that are left out in a step of training
    most: int = 48  # tokens of a text; what is longer is cut
    decoding: str = "beam"  # how the likeliest text is sought: beam or greedy
    beams: int = 4
    temperature: float = 1.0  # of draws, times the one that is asked for
    draws: int = 4  # from which the entropy is estimated
    sentence_encoder: str | None = None  # the name of a pretrained one that reads instead of our own

    def __post_init__(self) -> None:
        if self.decoding not in DECODINGS:
            raise ValueError(f"expected one of {', '.join(DECODINGS)} for decoding, got {self.decoding!r}")
        if self.vocabulary < SMALLEST:
            raise ValueError(f"expected at least {SMALLEST} for vocabulary, got {self.vocabulary}")
        if self.grams < 0:
            raise ValueError(f"expected at least 0 for grams, got {self.grams}")
        if not 0 <= self.blank < 1:
            raise ValueError(f"expected at least 0 and less than 1 for blank, got {self.blank}")
        if not self.temperature > 0:
            raise ValueError(f"expected a temperature above 0, got {self.temperature}")
        for name in ("layers", "heads", "hidden", "most", "beams", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")
