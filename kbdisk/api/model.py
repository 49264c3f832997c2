"""A trained model: complete, beliefs, why, samples, log-probabilities, embeddings, evaluation.

Each method reads what it is given and calls the room of kbdisk that computes the answer.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.api.belief import Belief, view_of
from kbdisk.api.source import Knowledge, LoadedSource, as_path
from kbdisk.data.dataset import CHUNK, Batch, batches
from kbdisk.data.graph import Graph
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import ConfigError, KBDiskWarning, LoadError, SchemaError, option_name
from kbdisk.metrics import unit_of
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import beliefs
from kbdisk.model.likelihood import in_order, log_prob
from kbdisk.notebook import html_table
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.schema import Schema, unknown_to
from kbdisk.schemas.text.names import no_id
from kbdisk.store.card import quality
from kbdisk.store.folder import card, save
from kbdisk.training.trained import Record, Trained

if TYPE_CHECKING:
    import pandas

    from kbdisk.api.vectors import EntityVectors
    from kbdisk.completion import Completing
    from kbdisk.completion.links import LinkQuestions
    from kbdisk.completion.reasons import Why
    from kbdisk.evaluation.drift import Drift
    from kbdisk.evaluation.links import LinkEvaluation
    from kbdisk.experts.link_factorization import LinkPredictor

CountCallback = Callable[[int, int], None]  # how many are done, of how many
MAX_CLASSES_SHOWN = 5  # in the line of a model


class Model:
    """A trained model, by `train` or `open`: it completes, predicts, explains, samples and scores."""

    def __init__(self, trained: Trained, known: LoadedSource | None = None) -> None:
        self.trained = trained
        self.known = known  # its training data, if they are in memory
        self._graph: tuple[Any, Graph] | None = None  # of the latest source
        self._questions: tuple[Any, LinkQuestions] | None = None  # about links, with the latest source

    @property
    def schema(self) -> Schema:
        """The classes and properties of the entities, with their kinds."""
        return self.trained.schema

    @property
    def record(self) -> Record:
        """Facts about its training, and its quality on held-out values."""
        return self.trained.record

    @property
    def links(self) -> LinkPredictor:
        """Its predictor of links; ConfigError where it has none."""
        predictor: LinkPredictor | None = self.trained.experts.get("link_factorization")
        if predictor is None:
            raise ConfigError(
                "the model", "expected one that predicts links, got one that has learnt none. kbdisk links learns them."
            )
        return predictor

    @property
    def predicts_links(self) -> bool:
        """Whether `predict_links` has an answer."""
        return "link_factorization" in self.trained.experts

    def is_of(self, loaded: LoadedSource) -> bool:
        """Whether it was trained on these very sources, as far as is recorded: then the number of a row identifies it."""
        return self.record.source.get("sha256") in (None, loaded.sha256)

    def __repr__(self) -> str:
        classes = list(filter(None, self.schema.classes))
        more = f" and {len(classes) - MAX_CLASSES_SHOWN:,} more" if len(classes) > MAX_CLASSES_SHOWN else ""
        names = ", ".join(classes[:MAX_CLASSES_SHOWN]) + more
        properties = sum(len(known.properties) for known in self.schema.classes.values())
        source = self.record.source.get("name", "entities")
        return f"<Model of {source}: {names or 'one class'}, {properties} properties>"

    def _repr_html_(self) -> str:
        """The held-out quality of each property, as the model card has it."""
        columns = ("property", "kind", ">trained on", ">n", "metric", ">constant", ">ours", ">better")
        rows = quality({"quality": self.record.quality})
        return html_table(repr(self)[1:-1], columns, rows, "" if rows else "not evaluated: nothing was held out")

    # ------------------------------------------------------------ asking

    def complete(self, kb: Knowledge, *, only: Iterable[Path | str] = (), **options: Any) -> Completing:
        """Each entity of a knowledge base with its gaps filled; see kbdisk.completion.CompletionConfig for options.

        The filled values satisfy the constraints of `shapes`, a schema such as
        `kbdisk.schemas.importers.read("shapes.ttl").schema`.

        The result is an iterator. Its `summary` counts the completions so far, and its `drift` lists what in them is unlike
        the training data. A completion of such an entity says why in `unlike`.
        """
        from kbdisk.completion import complete

        return complete(self.trained, self._loaded(kb).entities, only=tuple(map(as_path, only)), **options)

    def belief(self, entity: Entity | Mapping[str, Any] | str, path: Path | str, kb: Knowledge = None) -> Belief:
        """The belief about one property of an entity, given all its others; of a quantity, about its number.

        An id needs the knowledge base that has it, unless the model was trained in this process.
        """
        found, graph = self._entity_and_graph(entity, kb)
        leaf = leaf_at(self.trained, self._class_of(found), as_path(path))
        return beliefs_of(self.trained, found, graph, [leaf])[leaf]

    def beliefs(self, entity: Entity | Mapping[str, Any] | str, kb: Knowledge = None) -> dict[str, Belief]:
        """The beliefs about all properties of an entity's class, each given all others, by path."""
        found, graph = self._entity_and_graph(entity, kb)
        return {show(path): belief for path, belief in beliefs_of(self.trained, found, graph).items()}

    def why(
        self,
        entity: Entity | Mapping[str, Any] | str,
        path: Path | str,
        kb: Knowledge = None,
        *,
        watch: CountCallback | None = None,
    ) -> Why:
        """Why a property of an entity was, or would be, filled in with its value; see kbdisk.completion.why.

        The result has the confidence with its parts, the rule if one gives the value, the predictions of the network and of
        the experts, similar entities, and the given properties that moved the prediction most. A given value is hidden first.
        """
        from kbdisk.completion.why import why

        found, graph = self._entity_and_graph(entity, kb)
        loaded = LoadedSource.of(kb) if kb is not None else self.known
        return why(self.trained, found, as_path(path), () if loaded is None else loaded.entities, graph, watch)

    def predict_links(
        self,
        head: str | Iterable[str] | None = None,
        property: Path | str | None = None,
        tail: str | Iterable[str] | None = None,
        kb: Knowledge = None,
        *,
        k: int = 10,
    ) -> list[Any]:
        """The k likeliest targets of a property of an entity (`head`), or entities that link to it (`tail`), most certain first.

        Each is a `PredictedLink`. Without a property, links of all properties are predicted. Of several entities the result is a
        list for each. Known links are left out. `kb` is needed for entities that the model was not trained on.
        """
        return predict_links(self, head, property, tail, kb, k)

    def sample(
        self,
        n: int = 1,
        given: Mapping[str, Any] | None = None,
        *,
        class_name: str | None = None,
        seed: int = 0,
        leap: int = 1,
        text: bool = False,
        watch: CountCallback | None = None,
    ) -> list[Entity]:
        """Synthetic entities, drawn property by property, `leap` at a time, from the given values.

        The order is random, or that of the schema for a model of the preset "synthetic". All are of the class `class_name`, if
        there is one. Free text is drawn only with `text`.
        """
        from kbdisk.sampling import sample

        return list(
            sample(self.trained, n, given or {}, class_name=class_name, seed=seed, leap=leap, text=text, watch=watch)
        )

    def log_prob(self, kb: Knowledge, *, orders: int = 4, seed: int = 0) -> np.ndarray[Any, Any]:
        """The log-probability of each entity's values in nats; a lower bound for an entity with more than 8 of them."""
        loaded = self._loaded(kb)
        return log_probs(self.trained, loaded.entities, self._graph_of(loaded), orders=orders, seed=seed)

    def embed(self, kb: Knowledge) -> np.ndarray[Any, Any]:
        """A vector for each entity, by all of its known values: (entities, width). Similar entities are near each other."""
        loaded = self._loaded(kb)
        return embed(self.trained, loaded.entities, self._graph_of(loaded))

    def vectors(
        self, kb: Knowledge, *, classes: Iterable[str] = (), watch: CountCallback | None = None
    ) -> EntityVectors:
        """The vectors of `embed` with the ids of their entities, to be written: `model.vectors(kb).write("vectors.txt")`.

        Entities of classes that the model does not have are left out; with `classes`, all others than these.
        """
        from kbdisk.api.vectors import EntityVectors

        loaded = self._loaded(kb)
        chosen = loaded.of_classes(tuple(classes)).entities
        known = [entity for entity in chosen if self.schema.class_of(entity) is not None]
        ids = [self.schema.id_of(entity) for entity in known]
        for id, count in Counter(ids).items():
            if count > 1:
                advice = f"Say {option_name('id')} to tell them apart."
                raise LoadError(loaded.name, f"has more than one entity {id!r}. {advice}")
        return EntityVectors(ids, embed(self.trained, known, self._graph_of(loaded), watch), len(chosen) - len(known))

    def evaluate(
        self,
        kb: Knowledge,
        *,
        given: float | None = None,
        against: Iterable[str] | None = (),
        watch: CountCallback | None = None,
        **scope: Any,
    ) -> pandas.DataFrame:
        """The error of each property, predicted from the others, beside the constant's: a row each; see evaluation.evaluate.Scope.

        Of a knowledge base that the model was trained on, only held-out entities are asked, if there are any. Baselines
        (`against`, see kbdisk.evaluation) learn from the rest and are asked the same: a column for each. What in the asked
        entities is unlike the training data is listed in `attrs["drift"]`.
        """
        import pandas

        from kbdisk.evaluation.compare import FittedBaselines, training_entities
        from kbdisk.evaluation.drift import Drift
        from kbdisk.evaluation.evaluate import Scope, SourcePartition, evaluate

        names, loaded = _baseline_names(against), self._loaded(kb)
        sides = SourcePartition.of(self.trained, loaded.entities, self.is_of(loaded))
        if sides.trained_on and sides.fair is sides.trained_on:
            warnings.warn(f"{loaded.name}: the model was trained on all of these entities", KBDiskWarning, stacklevel=2)
        graph = self._graph_of(loaded)
        if "only" in scope:
            scope["only"] = tuple(map(as_path, scope["only"]))
        asked = Scope(**scope)
        baselines = None
        if names:
            training = training_entities(self.trained, sides, loaded.name)
            baselines = FittedBaselines.fit(names, self.trained, training, sides.fair, asked)
        rows = evaluate(self.trained, sides.fair, graph, asked, given=given, against=baselines, watch=watch)
        scores = pandas.DataFrame(map(_with_baseline_columns, rows))
        scores.attrs["drift"] = Drift.of(self.trained.codec, sides.compared, asked.classes).to_json()
        return scores

    def evaluate_links(self, kb: Knowledge, false: Knowledge = None) -> LinkEvaluation:
        """How well links are predicted, in both directions: filtered ranks, by property; see kbdisk.evaluation.links.

        Scored are the links of a knowledge base that the model does not know. Where it knows all, as in its training data, those
        that were held out in training are scored as they were before the model learnt from them. `false` is a knowledge base of
        links that are wrong: then the result also says how well links are told from these.
        """
        from kbdisk.evaluation.links import evaluate_links

        wrong = None if false is None else self._loaded(false).entities
        return evaluate_links(self.links, self.schema, self._loaded(kb).entities, wrong)

    def drift(self, kb: Knowledge, *, classes: Iterable[str] = ()) -> Drift:
        """What in a knowledge base is unlike the training data: `rows()`, `to_json()`; false where nothing is."""
        from kbdisk.evaluation.drift import Drift

        return Drift.of(self.trained.codec, self._loaded(kb).entities, classes)

    # ------------------------------------------------------------ keeping

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model folder."""
        save(self.trained, folder, force=force)

    @property
    def card(self) -> str:
        """The model card: its training data and its quality, as Markdown."""
        return card(self.trained)

    # ------------------------------------------------------------ sources and entities

    def _loaded(self, kb: Knowledge) -> LoadedSource:
        return LoadedSource.of([kb] if isinstance(kb, Entity | Mapping) else kb)

    def _entity_and_graph(self, entity: Entity | Mapping[str, Any] | str, kb: Knowledge) -> tuple[Entity, Graph | None]:
        """The entity that is named or given, and the graph that its links lead into."""
        loaded = LoadedSource.of(kb) if kb is not None else self.known
        if isinstance(entity, str):
            if loaded is None:
                raise ConfigError(entity, "expected the knowledge base that this id is of, got none. Say kb=...")
            by_id = loaded.by_id if entity in loaded.by_id else loaded.by_own_id(self.schema)
            if entity not in by_id:
                raise no_id(loaded.name, entity, {**by_id, **loaded.by_id})
            entity = replace(by_id[entity], id=entity)
        elif not isinstance(entity, Entity):
            entity = LoadedSource.of([entity]).entities[0]
        return entity, None if loaded is None else self._graph_of(loaded)

    def link_questions(self, loaded: LoadedSource | None) -> LinkQuestions:
        """What answers questions about links, with the entities of a source; ConfigError where the model predicts none."""
        from kbdisk.completion.links import LinkQuestions

        if self._questions is None or self._questions[0] is not loaded:
            entities = () if loaded is None else loaded.entities
            self._questions = loaded, LinkQuestions(self.links, self.schema, entities)
        return self._questions[1]

    def _class_of(self, entity: Entity) -> str:
        schema_class = self.schema.class_of(entity)
        if schema_class is None:
            got, known = ", ".join(entity.classes) or "none", ", ".join(self.schema.classes)
            raise SchemaError(entity.id, f"expected a class of {known}, got {got}.")
        return schema_class.name

    def _graph_of(self, loaded: LoadedSource) -> Graph:
        if self._graph is None or self._graph[0] is not loaded:
            self._graph = loaded, loaded.graph(self.schema)
        return self._graph[1]


def _baseline_names(against: Iterable[str] | None) -> list[str]:
    """The names of baselines; a single string is one name, and None is no baseline."""
    from kbdisk.evaluation import refuse_unknown

    names = [against] if isinstance(against, str) else list(against or ())
    refuse_unknown(names)
    return names


def _with_baseline_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the scores of each baseline as columns: `gbdt`, `gbdt_rmse`; columns of the row itself stay as they are."""
    scores: dict[str, Any] = {}
    for name, cell in row.get("against", {}).items():
        scores[name] = cell and cell["theirs"]
        scores |= {f"{name}_{key}": cell and cell[key] for key in ("mae", "rmse", "error", "iou")}
    return scores | {key: value for key, value in row.items() if key != "against"}


# ---------------------------------------------------------------- links


def predict_links(
    model: Model,
    head: str | Iterable[str] | None,
    property: Path | str | None,
    tail: str | Iterable[str] | None,
    kb: Knowledge,
    k: int,
) -> list[Any]:
    """See `Model.predict_links`."""
    from kbdisk.completion.links import LinkQuery

    if (head is None) == (tail is None):
        raise ConfigError("head, tail", "expected one of both: the other is what is asked for.")
    if k < 1:
        raise ConfigError("k", f"expected at least 1, got {k}.")
    asked = tail if head is None else head
    assert asked is not None
    ids = [asked] if isinstance(asked, str) else list(asked)
    loaded = model.known if kb is None else LoadedSource.of(kb)
    questions = model.link_questions(loaded)
    paths = questions.paths() if property is None else [as_path(property)]
    queries = [LinkQuery(id, path, head is None) for id in ids for path in paths]
    answers = questions.ask(queries, k)
    by_entity = [
        [link for of_path in answers[start : start + len(paths)] for link in of_path]
        for start in range(0, len(answers), len(paths))
    ]
    best = [sorted(links, key=lambda link: -link.confidence)[:k] for links in by_entity]
    return best[0] if isinstance(asked, str) else best


# ---------------------------------------------------------------- beliefs and probabilities


def log_probs(
    trained: Trained, entities: Sequence[Entity], graph: Graph | None, *, orders: int = 4, seed: int = 0
) -> np.ndarray[Any, Any]:
    """(N,) in nats: exact for an entity with few values, else a lower bound, the mean over several orders.

    Of a model that draws in the schema's order it is exact in that order, the mean over the networks.
    """
    trained.refuse_links_alone()
    generator = torch.Generator(trained.device).manual_seed(seed)
    tokens = trained.encode(entities, graph=graph)
    if trained.run.hiding.is_in_order:
        by_network = [
            torch.stack([in_order(member.network, batch, tokens.layout.order) for member in trained.members])
            for _, batch in batches(tokens)
        ]
        means = [logs.logsumexp(0) - math.log(len(logs)) for logs in by_network]
        return np.concatenate([np.zeros(0), *(logs.cpu() for logs in means)])
    bounds = [
        log_prob(trained.networks_model, batch, orders=orders, generator=generator) for _, batch in batches(tokens)
    ]
    return np.concatenate([np.zeros(0), *(logs.exact.where(~logs.exact.isnan(), logs.bound).cpu() for logs in bounds)])


@torch.no_grad()
def embed(
    trained: Trained, entities: Sequence[Entity], graph: Graph | None = None, watch: CountCallback | None = None
) -> np.ndarray[Any, Any]:
    """(N, D) float32, in the order of the entities. Evidence comes over the links of the graph.

    A vector is the mean over an entity's class and known values of the rows from which the network's last layer takes its keys
    and values. It has the information by which the model would complete the entity, and nothing else: entities that would be
    completed similarly are near each other. It is deterministic. Of a model of links alone it is that of the factorisation.
    """
    if not trained.run.train.members:
        return _link_vectors(trained, entities)
    tokens = trained.encode(entities, graph=graph)
    batched: list[Tensor] = []
    for rows, batch in batches(tokens):
        batched.append(trained.network.embed(batch, batch.seen(batch.known)).float().cpu())
        if watch is not None:
            watch(rows.stop, len(entities))
    width = trained.network.config.width
    embedded: np.ndarray[Any, Any] = np.concatenate(
        [np.zeros((0, width), np.float32), *(vectors.numpy() for vectors in batched)]
    )
    return embedded


def _link_vectors(trained: Trained, entities: Sequence[Entity]) -> np.ndarray[Any, Any]:
    """(N, D) float32, those of a factorisation of links: real parts, then imaginary parts."""
    from kbdisk.completion.links import LinkQuestions

    predictor: LinkPredictor = trained.experts["link_factorization"]
    questions = LinkQuestions(predictor, trained.schema, entities)
    none = torch.zeros(predictor.factors.nodes.shape[1])  # of an entity that has nothing which training knows
    vectors = [none]
    for entity in entities:
        try:
            vectors.append(questions.vector(trained.schema.id_of(entity)))
        except ConfigError:
            vectors.append(none)
    stacked: np.ndarray[Any, Any] = torch.stack(vectors)[1:].numpy()
    return stacked


def leaf_at(trained: Trained, class_name: str, path: Path) -> Path:
    """The path of the one leaf that a path stands for: of a quantity its number. SchemaError where there is none, or several."""
    slots, table = trained.codec.slots, trained.codec.index.tables[class_name].slot
    by_path = {leaf: slots[number] for leaf, number in table.items()}
    for leaf in (path, (*path, "value")):
        if leaf in by_path:
            if by_path[leaf].fixed:
                raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
            return leaf
    below = [show(leaf) for leaf in by_path if leaf[: len(path)] == path]
    if below:
        raise SchemaError(show(path), f"expected the path of one value, got several. Say one of {', '.join(below)}.")
    why = trained.codec.left_out.get((class_name, path))
    if why is not None:
        raise SchemaError(show(path), f"nothing is believed of it: {why}.")
    raise SchemaError(show(path), unknown_to(trained.schema.classes[class_name], path, by_path))


@torch.no_grad()
def beliefs_of(
    trained: Trained, entity: Entity, graph: Graph | None, paths: Collection[Path] | None = None
) -> dict[Path, Belief]:
    """The beliefs about some leaves of an entity, or about all that its class has: each given all others.

    A given value is hidden while it is asked about, and all other known values are visible. The length of a list is asked
    about without the places of the list, which would reveal it.
    """
    trained.warn_of_order(": what it believes given what comes later is a guess.", stacklevel=3)
    known = trained.schema.leaves(entity)
    ask = "all" if paths is None else [path for path in paths if path not in known]
    batch = trained.encode([entity], ask or "nothing", graph).batch(torch.arange(1))
    slots = [trained.codec.slots[number] for number in batch.slot.tolist()]
    tokens = [token for token, slot in enumerate(slots) if not slot.fixed and (paths is None or slot.path in paths)]
    by_path: dict[Path, Belief] = {}
    class_name = trained.codec.classes[int(batch.classes[0])]
    for token, belief in _beliefs_by_token(trained, batch, slots, tokens):
        slot = slots[token]
        value = trained.codec.leaves(batch, torch.arange(len(batch)) == token)[0] if batch.known[token] else {}
        assert belief.presence is not None
        recorded = float(belief.presence["logits"][belief.presence["tokens"] == 0].sigmoid()[0])
        row = next(iter(belief.kinds.values())).belief
        given = known.get(slot.path, value.get(slot.path))
        unit = unit_of(trained.schema, class_name, slot.path)
        by_path[slot.path] = view_of(slot.kind)(entity.id, slot.path, slot, row, given, recorded, unit)
    order = {path: place for place, path in enumerate(trained.schema.classes[class_name].properties)}
    return dict(sorted(by_path.items(), key=lambda pair: _property_place(order, pair[0])))


def _property_place(order: Mapping[Path, int], leaf: Path) -> int:
    """The place of the property that a leaf is part of."""
    return next((order[leaf[:n]] for n in range(len(leaf), 0, -1) if leaf[:n] in order), len(order))


def _beliefs_by_token(
    trained: Trained, batch: Batch, slots: list[Slot], tokens: list[int]
) -> Iterator[tuple[int, Beliefs]]:
    """Each token with the belief about it, given all others. The batch of one entity is repeated, one token hidden in each."""
    size = max(CHUNK // max(len(batch), 1), 1)
    for start in range(0, len(tokens), size):
        chunk = tokens[start : start + size]
        repeated = batch.repeat(len(chunk))
        visible = batch.known[:, None].repeat(1, len(chunk))  # (T, R)
        asked = torch.zeros_like(visible)
        for case, token in enumerate(chunk):
            visible[_hidden_with(slots, token), case] = False
            asked[token, case] = True
        believed = beliefs(trained.full_model, repeated, asked.flatten(), visible.flatten())
        if trained.presence_trees is not None and believed.presence is not None:
            presence = trained.presence_trees.combined(repeated, visible.flatten(), believed.presence)
            believed = replace(believed, presence=presence)
        for case, token in enumerate(chunk):
            yield token, _belief_about(believed, torch.arange(len(repeated)) == token * len(chunk) + case)


def _hidden_with(slots: list[Slot], token: int) -> list[int]:
    """The tokens that are hidden with a token: itself, and with the length of a list its places."""
    path = slots[token].path
    if path[-1:] != COUNT:
        return [token]
    within = [n for n, slot in enumerate(slots) if slot.path[: len(path) - 1] == path[:-1]]
    listed = any(isinstance(key, int) for n in within for key in slots[n].path[len(path) - 1 : len(path)])
    return within if listed else [token]


def _belief_about(believed: Beliefs, token: Tensor) -> Beliefs:
    """The belief about one token (T,), and about its presence, whose number is 0."""
    picked = believed.pick(token)
    kinds = {kind: belief for kind, belief in picked.kinds.items() if len(belief.rows)}
    assert believed.presence is not None
    is_about = token[believed.presence["tokens"]]
    presence = {"tokens": is_about.nonzero()[:, 0] * 0, "logits": believed.presence["logits"][is_about]}
    return Beliefs(kinds, believed.length, presence)
