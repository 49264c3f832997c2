"""Predicates to keys: the last word of the IRI, unless another predicate of this source took it first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote, unquote

from kbdisk.entity import Tree
from kbdisk.loaders.rdf.vocabulary import CHAIN, FIRST, ID, KEY, REST, WELL_KNOWN


class Names:
    """What each predicate is called. First come, first served, and the same at every reading of a source.

    `prefixes` are the source's own (prefix -> namespace); they name a predicate whose last word is taken.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # predicate IRI -> key
        self.iris: dict[str, str] = {"@first": FIRST, "@rest": REST, **{key: iri for iri, key in CHAIN.items()}}
        self.prefixes: Mapping[str, str] = {}
        # predicates that a reader must look at, kept out of `keys`
        self._special: dict[str, str] = {FIRST: "@first", REST: "@rest"}

    def key(self, iri: str) -> str:
        """The key of a predicate."""
        known = self.keys.get(iri) or self._special.get(iri)
        if known is None:
            known = self.keys[iri] = self._named(iri)
        return known

    def special(self, iri: str) -> str:
        """The key of a predicate that shall be asked for each time."""
        known = self._special.get(iri)
        if known is None:
            known = self._special[iri] = self._named(iri)
        return known

    def known(self, iri: str) -> str | None:
        """The key of a predicate that was met."""
        return self.keys.get(iri) or self._special.get(iri)

    @property
    def contested(self) -> dict[str, str]:
        """key -> predicate, of those whose last word another has, too: another reader may give it to that one."""
        counts = Counter(map(_word, self.iris.values()))
        return {key: iri for key, iri in self.iris.items() if counts[_word(iri)] > 1 and key[:1] != "@"}

    def _named(self, iri: str) -> str:
        key = next(name for name in self._candidates(iri) if name not in self.iris)
        self.iris[key] = iri
        return key

    def _candidates(self, iri: str) -> tuple[str, ...]:
        word = _word(iri)
        if iri.startswith(KEY):
            return (word, iri)
        if not word or word.startswith("@"):
            return (iri,)
        space = iri[: -len(word)]
        prefix = next((prefix for prefix, name in self.prefixes.items() if name == space and prefix), None)
        prefix = prefix or WELL_KNOWN.get(space)
        return (word, f"{prefix}:{word}", iri) if prefix else (word, iri)


def _word(iri: str) -> str:
    """The last word of an IRI."""
    if iri.startswith(KEY):
        return unquote(iri[len(KEY) :])
    return iri[max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1 :]


def iri_of_key(key: str) -> str:
    """The predicate of a key in a source that has no predicates: the key itself where it is an IRI of the web."""
    return key if key.startswith(("http://", "https://")) and is_iri(key) else KEY + quote(key, safe="")


def iri_of_id(id: str) -> str:
    """The IRI of an entity in a source that has no IRIs: the id itself where it is one."""
    return id if is_iri(id) and not id.startswith(ID) else ID + quote(id, safe="")


def id_of_iri(iri: str) -> str:
    """The id that `iri_of_id` made an IRI of."""
    return unquote(iri[len(ID) :]) if iri.startswith(ID) else iri


def id_of_part(part: Tree) -> str:
    """What a part is called that is a node of its own; nothing where it is a blank one."""
    id = part.get("@id")
    return id if isinstance(id, str) and not id.startswith("_:") else ""


def is_iri(text: str) -> bool:
    """Whether a text can stand as an absolute IRI as it is."""
    import pyoxigraph

    if ":" not in text:
        return False
    try:
        pyoxigraph.NamedNode(text)
    except ValueError:
        return False
    return True
