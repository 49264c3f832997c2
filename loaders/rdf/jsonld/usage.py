"""What a JSON-LD document uses: its keys and its strings, and how the values of a key look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.loaders.rdf.jsonld.nodes import Document


@dataclass(frozen=True, slots=True)
class Usage:
    """The habits of a document."""

    keys: tuple[str, ...]  # of objects that speak of nodes, the most frequent first
    strings: frozenset[str]
    listed: frozenset[str]  # keys whose values are lists more often than not
    quoted: frozenset[str]  # those that are strings
    prefixes: Mapping[str, str]
    base: str | None

    @classmethod
    def of(cls, document: Document, whole: Any, prefixes: Mapping[str, str], base: str | None) -> Usage:
        """Those of a document, of all that it says as JSON, and what the parser knows of its short forms."""
        counts: Counter[str] = Counter()
        lists: Counter[str] = Counter()
        quoted: Counter[str] = Counter()
        for node in document.objects:
            for key, place in node.place.named.items():
                counts[key] += 1
                lists[key] += place.kind == "list"
                quoted[key] += document.text[place.start : place.start + 1] == b'"'
        keys = tuple(key for key, _ in counts.most_common())
        strings = frozenset(_strings(whole))
        seen = {text.partition(":")[0] for text in (*strings, *keys) if ":" in text}
        return cls(
            keys,
            strings,
            frozenset(key for key in keys if 2 * lists[key] > counts[key]),
            frozenset(key for key in keys if 2 * quoted[key] > counts[key]),
            {name: iri for name, iri in prefixes.items() if name in seen},
            base,
        )


def _strings(value: Any) -> Iterator[str]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            rest.extend(value.values())
