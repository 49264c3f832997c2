"""IRIs, as people call what they name."""

from __future__ import annotations


def last_word(iri: str) -> str:
    """What stands behind the last #, / or : of an IRI, but for those at its end; all of it where nothing does."""
    words = iri.rstrip("#/:")
    return words[max(words.rfind("#"), words.rfind("/"), words.rfind(":")) + 1 :] or iri
