"""What blank nodes are called: `_:label` where they have one, else `_:[0]`, `_:[1]`, ... as they appear.

pyoxigraph gives an anonymous node another id at each parse; its number, subject before object, within triple terms too, is
always the same.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from pyoxigraph import BlankNode, Triple

from kbdisk.loaders.rdf.brackets import ANONYMOUS


class Blanks:
    """The blank nodes of one parse, by pyoxigraph's ids and by ours."""

    def __init__(self, *, anonymous: bool = False, labels: Container[str] = ()) -> None:
        self.anonymous = anonymous  # whether any may be anonymous at all
        self.labels = labels  # of labelled ones that look like anonymous ones
        self.ids: dict[str, str] = {}  # pyoxigraph's -> ours
        self.numbers: dict[str, int] = {}  # pyoxigraph's -> the number of an anonymous one
        self.unnamed: list[str] = []  # pyoxigraph's of the anonymous ones, by their numbers
        self.graphs: dict[str, str] = {}  # pyoxigraph's -> ours, of graphs without a name

    def id(self, raw: str) -> str:
        """Our id of a node."""
        id = self.ids.get(raw)
        if id is None:
            if self.is_anonymous(raw):
                self.numbers[raw] = len(self.numbers)
                self.unnamed.append(raw)
                id = f"_:[{self.numbers[raw]}]"
            else:
                id = "_:" + raw
            self.ids[raw] = id
        return id

    def graph(self, raw: str) -> str:
        """Our id of a node that names a graph; `[] { ... }` takes no number, since nothing else can be said of it."""
        if raw in self.ids or not self.is_anonymous(raw):
            return self.ids.get(raw, "_:" + raw)
        return self.graphs.setdefault(raw, f"_:[graph {len(self.graphs)}]")

    def shown(self, term: Any) -> str:
        """A term as N-Triples has it, but for what anonymous nodes are called: the same at each parse."""
        if type(term) is Triple:
            return f"<<( {self.shown(term.subject)} {term.predicate} {self.shown(term.object)} )>>"
        return self.id(term.value) if type(term) is BlankNode else str(term)

    def is_anonymous(self, raw: str) -> bool:
        """Whether a node has no label."""
        return self.anonymous and ANONYMOUS.fullmatch(raw) is not None and raw not in self.labels

    def raw(self, id: str) -> str:
        """pyoxigraph's id of a node of ours."""
        return self.unnamed[int(id[3:-1])] if id.startswith("_:[") else id[2:]
