"""SPARQL endpoints: first the names of the entities, page by page, then their triples in batches.

    --query    a SELECT whose first variable names the entities; asked once, as it is
    --class    all entities of a class (of a Wikibase: by its "instance of"); without either, all that have a type

Blank nodes are reached from the entity that they belong to, as deep as they go; so are statements and value nodes of a
Wikibase. Nothing is ever written to an endpoint.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, NoReturn

import pyoxigraph
from pyoxigraph import BlankNode, NamedNode, Quad, QueryResultsFormat, RdfFormat

from kbdisk.entity import Completion, Entity
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.loaders import http
from kbdisk.loaders.files import Source
from kbdisk.loaders.http import MAX_RESPONSE_SIZE, Limits
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.loaders.rdf import rdfxml, syntax
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.blank_nodes import renamed_quad
from kbdisk.loaders.rdf.fold import Trees

PAGE_SIZE = 5000  # entities named in one answer
BATCH_SIZE = 100  # entities whose triples come in one answer
OBSERVED_BATCHES = 10  # batches that show how an endpoint writes its values
DEPTHS = (0, 2, 4, 8, 16, 32)  # levels of blank nodes asked for, until there are no deeper ones

RESULTS = "application/sparql-results+json, application/sparql-results+xml;q=0.8"
TRIPLES = "application/n-triples, text/turtle;q=0.9, application/rdf+xml;q=0.5"

_SAFE = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*""")
_ITEM = re.compile(r"(.+)/entity/Q[1-9][0-9]*")
_CLAIM, _VALUE = re.compile(r".+/prop/P[1-9][0-9]*"), re.compile(r".+/prop/statement/value/P[1-9][0-9]*")


def load_endpoint(url: str, options: Options) -> KB:
    """A knowledge base over an endpoint."""
    if options.query is not None and not re.search(r"\bselect\b", options.query, re.IGNORECASE):
        raise ConfigError("--query", "expected a SELECT whose first variable names the entities.")
    return Endpoint(url, "sparql", options)


def load(source: Source, format: str, options: Options) -> KB:
    """Refused: an endpoint is no file."""
    raise LoadError(
        source.name, f"expected a file, but {format} reads an endpoint. Name one, such as https://example.org/sparql."
    )


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Refused: new values leave as an update."""
    raise WriteError(format, "an endpoint is not written to. Write sparql-update (.ru), and send that to it.")


class Endpoint(RdfKB):
    """Entities of a SPARQL endpoint."""

    joins = False
    is_quickly_read = False

    @property
    def limits(self) -> Limits:
        """The limits of one response."""
        size = MAX_RESPONSE_SIZE if self.options.max_size is None else self.options.max_size
        return Limits(size=size, redirects=self.options.redirects)

    def read(self) -> Iterator[Entity]:
        return self.finish(self._entities())

    def keeps(self, format: str) -> bool:
        return format == "sparql-update"

    def translate(self, completions: Iterable[Completion], stream: BinaryIO, format: str) -> Report:
        raise WriteError(self.name, "there is nothing new to send to it. Write its entities to another format.")

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        """Hand the triples of some entities to `take`, which show the endpoint's predicates and value formats."""
        names = self._queried_iris() if self.options.query is not None else self._listed_iris()
        for answers in range(OBSERVED_BATCHES):
            batch = list(islice(names, BATCH_SIZE))
            if batch:
                take(self._triples(batch, DEPTHS[1], answers))

    def _entities(self) -> Iterator[Entity]:
        names = self._queried_iris() if self.options.query is not None else self._listed_iris()
        answers = 0
        while batch := list(islice(names, BATCH_SIZE)):
            try:
                entities, answers = self._batch(batch, answers)
            except LoadError as error:
                self.skip(error)
                continue
            yield from entities

    # ------------------------------------------------------------ names of entities

    def _queried_iris(self) -> Iterator[str]:
        """The entities that the user's query names."""
        return iter(dict.fromkeys(self._select_iris(self.options.query or "")))

    def _listed_iris(self) -> Iterator[str]:
        """All entities of the wanted classes in the order of their IRIs; a page begins where the last one ended."""
        last = ""
        while page := list(self._select_iris(_listing_query(self.options.classes, last))):
            if page[-1] <= last:
                raise LoadError(self.name, "gives the same page again and again. Name the entities with --query.")
            yield from page
            last = page[-1]

    def _select_iris(self, query: str) -> Iterator[str]:
        """The IRIs among the values of a query's first variable."""
        for term in self._select(query):
            if isinstance(term, NamedNode) and _is_safe(term.value):
                yield term.value
            elif term is not None:
                self.odd.note("something that is named by no IRI, left out", f"{self.name}: {term}")

    def _select(self, query: str) -> Iterator[Any]:
        """The values of a query's first variable."""
        answer = http.post(self.name, {"query": query}, RESULTS, self.limits)
        format = QueryResultsFormat.from_media_type(answer.type)
        if format is None:
            self._refuse_media_type("results of a SELECT", answer.type)
        try:
            results = pyoxigraph.parse_query_results(answer.body, format)
            if not isinstance(results, pyoxigraph.QuerySolutions) or not results.variables:
                raise ConfigError("--query", "expected a SELECT whose first variable names the entities.")
            yield from (solution[0] for solution in results)
        except SyntaxError as error:
            raise LoadError(self.name, f"expected results of a SELECT: {error}. Try again later.") from None

    # ------------------------------------------------------------ triples of entities

    def _batch(self, batch: list[str], answers: int) -> tuple[list[Entity], int]:
        """The entities of some IRIs in their order; those with deeper nodes are queried again, deeper."""
        entities: dict[str, Entity] = {}
        iris = batch
        for depth in DEPTHS:
            quads = self._triples(iris, depth, answers)
            answers += 1
            deeper = _unfinished(quads, iris, depth)
            if depth == DEPTHS[-1] and deeper:
                self.odd.note(f"blank nodes nested deeper than {depth} levels, left out", f"{self.name}: {min(deeper)}")
                deeper = set()
            trees = Trees(self.name, self.odd, self.names)
            trees.add(_owned_quads(quads, [iri for iri in iris if iri not in deeper], depth))
            entities |= {entity.id: entity for entity in self.fold(trees)}
            iris = [iri for iri in iris if iri in deeper]
            if not iris:
                break
        separate = [node for id, node in entities.items() if id.startswith("_:")]  # shared or on a circle
        return [entities[iri] for iri in batch if iri in entities] + separate, answers

    def _triples(self, iris: list[str], depth: int, answers: int) -> list[Quad]:
        """The triples of some entities. Blank nodes get new labels: two responses may use one label for two nodes."""
        answer = http.post(self.name, {"query": _fetching_query(iris, depth)}, TRIPLES, self.limits)
        format = RdfFormat.N_TRIPLES if answer.type == "text/plain" else RdfFormat.from_media_type(answer.type)
        if format is None:
            self._refuse_media_type("triples", answer.type)
        body = answer.body
        if format == RdfFormat.RDF_XML:
            body = rdfxml.prepare(body, self.name)
        else:
            syntax.check_nesting(lambda: io.BytesIO(body), self.name, format == RdfFormat.N_TRIPLES)
        try:
            quads = list(pyoxigraph.parse(body, format, base_iri=self.name))
        except SyntaxError as error:
            raise LoadError(self.name, f"expected triples: {error}. Try again later.") from None
        return [renamed_quad(quad, lambda node: BlankNode(f"r{answers}_{node.value}")) for quad in quads]

    def _refuse_media_type(self, expected: str, type: str) -> NoReturn:
        raise LoadError(self.name, f"expected {expected}, got {type}. Is this the address of a SPARQL endpoint?")


def _leads_on(quad: Quad) -> bool:
    """Whether the object of a triple belongs to the entity that is its subject."""
    if isinstance(quad.object, BlankNode):
        return True
    predicate = quad.predicate.value
    return isinstance(quad.object, NamedNode) and bool(_CLAIM.fullmatch(predicate) or _VALUE.fullmatch(predicate))


def _unfinished(quads: list[Quad], iris: list[str], depth: int) -> set[str]:
    """The entities with nodes deeper than the query reached."""
    ends = _successors(quads)
    return {iri for iri in iris if _levels(ends, iri, depth + 1)[-1]}


def _owned_quads(quads: list[Quad], iris: list[str], depth: int) -> list[Quad]:
    """The triples of some entities and of the nodes that belong to them."""
    ends = _successors(quads)
    owned = set().union(*(level for iri in iris for level in _levels(ends, iri, depth)))
    return [quad for quad in quads if quad.subject in owned]


def _successors(quads: list[Quad]) -> dict[Any, list[Any]]:
    """The nodes that belong to each node."""
    ends: dict[Any, list[Any]] = {}
    for quad in quads:
        if _leads_on(quad):
            ends.setdefault(quad.subject, []).append(quad.object)
    return ends


def _levels(ends: dict[Any, list[Any]], iri: str, depth: int) -> list[set[Any]]:
    """The entity, the nodes that belong to it, those that belong to these, and so on; each node at its nearest level."""
    levels: list[set[Any]] = [{NamedNode(iri)}]
    seen = set(levels[0])
    for _ in range(depth):
        following = {end for node in levels[-1] for end in ends.get(node, ())} - seen
        seen |= following
        levels.append(following)
    return levels


# ---------------------------------------------------------------- queries


def _listing_query(classes: tuple[str, ...], last: str) -> str:
    """The query for the next page of all entities of some classes, or of all that have a type."""
    of_class = " UNION ".join(pattern for name in classes for pattern in _class_patterns(name)) or "{ ?s a ?class }"
    after = f" && STR(?s) > {_sparql_string(last)}" if last else ""
    return f"SELECT DISTINCT ?s WHERE {{ {of_class} FILTER(isIRI(?s){after}) }} ORDER BY STR(?s) LIMIT {PAGE_SIZE}"


def _class_patterns(name: str) -> Iterator[str]:
    """Patterns of membership in a class, which is named by its IRI or by the last word of that."""
    if ":" not in name:
        yield f"{{ ?s a ?class FILTER(REGEX(STR(?class), {_sparql_string(f'[#/:]{re.escape(name)}$')})) }}"
        return
    if not _is_safe(name):
        raise ConfigError("--class", f"expected an IRI, got {name!r}.")
    yield f"{{ ?s a <{name}> }}"
    if item := _ITEM.fullmatch(name):
        yield f"{{ ?s <{item[1]}/prop/direct/P31> <{name}> }}"


def _fetching_query(iris: list[str], depth: int) -> str:
    """The query for the triples of some entities and of the nodes that belong to them, to a depth."""
    iri_list = " ".join(f"<{iri}>" for iri in iris)
    branches = [f"{{ VALUES ?n {{ {iri_list} }} ?n ?p ?o }}"]
    way = f"VALUES ?n0 {{ {iri_list} }}"
    for level in range(1, depth + 1):
        node = "?n" if level == depth else f"?n{level}"
        step = "?n{} ?p{} {} FILTER(isBlank({}) || REGEX(STR(?p{}), {}))"
        shape = _sparql_string("/prop/P[1-9][0-9]*$" if level == 1 else "/prop/statement/value/P[1-9][0-9]*$")
        ending = step.format(level - 1, level, "?n", "?n", level, shape)
        branches.append(f"{{ {way} {ending} ?n ?p ?o }}")
        if node != "?n":
            way = f"{way} {step.format(level - 1, level, node, node, level, shape)}"
    return f"CONSTRUCT {{ ?n ?p ?o }} WHERE {{ {' UNION '.join(branches)} }}"


def _sparql_string(text: str) -> str:
    """A text as a SPARQL string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_safe(iri: str) -> bool:
    """Whether an IRI can stand in a query; what is stored is not always one."""
    return _SAFE.fullmatch(iri) is not None
