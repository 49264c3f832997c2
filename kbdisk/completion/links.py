"""Predicted links: the likeliest targets of a property of an entity, and the likeliest entities that link to it.

An entity that training did not know is placed among the others by its values and links. Known links are not predicted again.
The reasons for a link are the entities most like the one asked about, of those that have the same link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kbdisk.data.triples import Relation, Triples, links_of
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import ConfigError, SchemaError
from kbdisk.experts.link_factorization import LinkPredictor
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import did_you_mean

DIGITS = 6  # of what is printed
MAX_SIMILAR = 3  # entities that are named as reasons
QUERIES_AT_ONCE = 512


class LinkQuery(NamedTuple):
    """A question for the targets of a property of an entity, or for the entities that link to it (`incoming`)."""

    entity: str
    path: Path
    incoming: bool = False


@dataclass(frozen=True)
class PredictedLink:
    """A link that is not known."""

    head: str
    path: Path
    tail: str
    presence: float  # the probability that the entity asked about has one more such link than is known
    correctness: float  # the probability that this is the link, if so
    similar: tuple[str, ...] = ()  # entities like the one asked about that have the same link
    is_calibrated: bool = True  # whether enough links were held out to calibrate correctness

    @property
    def confidence(self) -> float:
        """The probability that the link is right."""
        return self.presence * self.correctness

    def to_json(self) -> dict[str, Any]:
        """The link as plain data."""
        data = {"head": self.head, "property": show(self.path), "tail": self.tail}
        chances = {name: round(getattr(self, name), DIGITS) for name in ("confidence", "presence", "correctness")}
        return {**data, **chances, "calibrated": self.is_calibrated, "similar": list(self.similar)}


class LinkQuestions:
    """Asks a predictor about links, and finds the vectors of entities that it does not know."""

    def __init__(self, predictor: LinkPredictor, schema: Schema, entities: Iterable[Entity] = ()) -> None:
        """`entities` are those of the source at hand: their values and links place new ones, and are not predicted."""
        self.predictor, self.schema = predictor, schema
        self.triples = predictor.triples
        self.entities = entities
        self._vectors: dict[str, Tensor] = {}  # of placed entities

    def paths(self) -> list[Path]:
        """The properties that links are predicted of."""
        return [relation.path for relation in self.triples.relations if relation.is_link]

    def ask(self, queries: Sequence[LinkQuery], k: int) -> list[list[PredictedLink]]:
        """The k likeliest links for each query, the most certain first."""
        numbers = [self._relation(query) for query in queries]
        answers: list[list[PredictedLink]] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            answers.extend(self._ask(queries[part], torch.tensor(numbers[part]), k))
        return answers

    def _ask(self, queries: Sequence[LinkQuery], relations: Tensor, k: int) -> list[list[PredictedLink]]:
        nodes = [self.triples.number_of.get(query.entity) for query in queries]
        vectors = torch.stack([self.vector(query.entity) for query in queries])
        numbers = torch.tensor([-1 if node is None else node for node in nodes])
        links_known, answers, counts = self._known(queries, numbers, relations)
        excluded_rows, excluded = self._excluded(numbers, relations)
        predicted = self.predictor.predict(
            numbers,
            vectors,
            relations,
            (torch.cat([links_known, excluded_rows]), torch.cat([answers, excluded])),
            counts,
            k,
        )
        rows, places = (predicted.nodes >= 0).nonzero(as_tuple=True)
        answer, right, presence = (
            predicted.nodes[rows, places],
            predicted.correctness[rows, places],
            predicted.presence.tolist(),
        )
        similar = self._similar(numbers[rows], relations[rows], answer)
        links: list[list[PredictedLink]] = [[] for _ in queries]
        for row, node, chance, others in zip(rows.tolist(), answer.tolist(), right.tolist(), similar, strict=True):
            query, other = queries[row], self.triples.entities[node]
            head, tail = (other, query.entity) if query.incoming else (query.entity, other)
            links[row].append(
                PredictedLink(
                    head, query.path, tail, presence[row], chance, others, is_calibrated=self.predictor.is_calibrated
                )
            )
        return links

    def _similar(self, own: Tensor, relations: Tensor, answers: Tensor) -> list[tuple[str, ...]]:
        """The entities most like those asked about that have the same links; of one that training did not know none."""
        found: list[tuple[str, ...]] = [()] * len(own)
        known = (own >= 0).nonzero()[:, 0]
        of_known = self.predictor.similar(own[known], relations[known], answers[known], MAX_SIMILAR)
        for row, nodes in zip(known.tolist(), of_known, strict=True):
            found[row] = tuple(self.triples.entities[node] for node in nodes)
        return found

    def _relation(self, query: LinkQuery) -> int:
        """The number of a query's relation; SchemaError for a property without links."""
        number = self.triples.relation_of.get(Relation(query.path, True))
        if number is None:
            names = [show(path) for path in self.paths()]
            hint = did_you_mean(show(query.path), names)
            raise SchemaError(
                show(query.path), f"expected a property with links, such as {', '.join(names[:4])}.{hint}"
            )
        return number + len(self.triples.relations) * query.incoming

    def vector(self, id: str) -> Tensor:
        """(2R,) the vector of an entity; of one that training did not know, by its values and links."""
        node = self.triples.number_of.get(id)
        if node is not None:
            return self.predictor.factors.node_vectors(torch.tensor([node]))[0]
        if id not in self._vectors:
            placed = self._new_triples.get(id)
            if placed is None:
                hint = did_you_mean(id, self.triples.entities)
                raise ConfigError(id, f"expected an entity that has a known link or value, got none.{hint}")
            self._vectors[id] = self.predictor.place(*placed)
        return self._vectors[id]

    def _excluded(self, nodes: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The rows and the nodes of entities themselves, where no entity is known to have such a link to itself."""
        is_excluded = (nodes >= 0) & ~self._links_to_itself[relations % len(self.triples.relations)]
        return is_excluded.nonzero()[:, 0], nodes[is_excluded]

    def _known(self, queries: Sequence[LinkQuery], nodes: Tensor, relations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows and the nodes of the known answers, by training and by the source at hand, and how many each query has (q,)."""
        rows, answers = self.predictor.known.of(nodes, relations)
        counts = torch.bincount(rows, minlength=len(queries))
        new_rows, new_answers = [], []
        for row, query in enumerate(queries):
            ids = self._links_of_source.get((query.entity, query.path, query.incoming), set())
            in_source = {self.triples.number_of[id] for id in ids if id in self.triples.number_of}
            in_training = set(answers[rows == row].tolist()) if ids else set()
            new = sorted(in_source - in_training)
            counts[row] += len(new) + len(ids) - len(in_source)  # also links to what training did not know
            new_rows += [row] * len(new)
            new_answers += new
        return (
            torch.cat([rows, torch.tensor(new_rows).long()]),
            torch.cat([answers, torch.tensor(new_answers).long()]),
            counts,
        )

    @cached_property
    def _links_of_source(self) -> Mapping[tuple[str, Path, bool], set[str]]:
        """The other ends of the links of the source at hand, by entity, property, and whether they are incoming."""
        ends: dict[tuple[str, Path, bool], set[str]] = defaultdict(set)
        for head, path, tail in links_of(self.schema, self.entities):
            ends[head, path, False].add(tail)
            ends[tail, path, True].add(head)
        return ends

    @cached_property
    def _links_to_itself(self) -> Tensor:
        """(P,) whether any entity is known to have a relation to itself."""
        links = self.triples.links
        own = links[links[:, 0] == links[:, 2], 1]
        return torch.bincount(own, minlength=len(self.triples.relations)) > 0

    @cached_property
    def _new_triples(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """Of each entity that training did not know: the relations and the known nodes at their ends."""
        return new_triples(self.triples, Triples.of(self.schema, self.entities, like=self.triples))


def new_triples(known: Triples, triples: Triples) -> dict[str, tuple[Tensor, Tensor]]:
    """Of each entity of some triples that is not known: its relations, those of inverses included, and the known nodes at their ends."""
    value_nodes = {key: len(known.entities) + place for place, key in enumerate(known.values)}
    found: dict[str, list[tuple[int, int]]] = {}
    count, entities = len(known.relations), len(triples.entities)
    for head, relation, tail in triples.numbered.tolist():
        number = known.relation_of.get(triples.relations[relation])
        if number is None:
            continue
        head_id, end = triples.entities[head], None
        if tail < entities:
            tail_id = triples.entities[tail]
            end = known.number_of.get(tail_id)
            if tail_id not in known.number_of and head_id in known.number_of:
                found.setdefault(tail_id, []).append((number + count, known.number_of[head_id]))
        else:
            end = value_nodes.get((number, triples.values[tail - entities][1]))
        if head_id not in known.number_of and end is not None:
            found.setdefault(head_id, []).append((number, end))
    pairs = {id: torch.tensor(of_entity) for id, of_entity in found.items()}
    return {id: (of_entity[:, 0], of_entity[:, 1]) for id, of_entity in pairs.items()}
