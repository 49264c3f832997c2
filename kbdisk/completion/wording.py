"""The keys of a sidecar's rows for properties whose short name several predicates share.

A loader gives the short name to the predicate that it meets first, so in a target that is written anew another predicate may
have it. There the whole IRI is the key, which every loader knows. A source that keeps its bytes keeps its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from kbdisk import loaders
from kbdisk.entity import read_path, show
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders import KB


def words_of(kbs: Sequence[KB], format: str, *, anew: bool = False) -> Mapping[str, str]:
    """What to say for some keys of sources that were read, in the sidecar of a target of a format."""
    if format not in loaders.RDF_FORMATS or (not anew and len(kbs) == 1 and kbs[0].keeps_bytes(format)):
        return {}
    return {key: iri for kb in kbs for key, iri in kb.contested().items()}


def in_words(lines: Iterable[bytes], words: Mapping[str, str]) -> Iterable[bytes]:
    """Lines of a sidecar, with what is to be said for some keys."""
    return map(partial(_in_words, words), lines) if words else lines


def _in_words(words: Mapping[str, str], line: bytes) -> bytes:
    row = load_json(line)
    for name in row.keys() & {"path", "gap"}:
        row[name] = show(tuple(words.get(key, key) if isinstance(key, str) else key for key in read_path(row[name])))
    return dump_json(row, LINE)
