"""A trained model as its user meets it. Each method reads what it is given, and asks the part of kbdisk that knows."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.api.belief import KINDS, Belief
from kbdisk.api.source import Knowledge, LoadedSource, as_path
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import CHUNK, batches
from kbdisk.data.graph import Graph
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import ConfigError, KBDiskWarning, SchemaError
from kbdisk.metrics import unit_of
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import beliefs
from kbdisk.model.likelihood import in_order, log_prob
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.schema import Schema, unknown_to
from kbdisk.schemas.text.names import no_id
from kbdisk.store.folder import card, save
from kbdisk.training.trained import Record, Trained

if TYPE_CHECKING:
    import pandas

    from kbdisk.completion import Completing
    from kbdisk.completion.reasons import Why
    from kbdisk.evaluation.drift import Drift

Told = Callable[[int, int], None]  # how many are done, of how many


class Model:
    """What `train` makes and `open` finds: it completes, samples, scores and tells what it believes."""

    def __init__(self, trained: Trained, known: LoadedSource | None = None) -> None:
        self.trained = trained
        self.known = known  # what it was trained on, where that is at hand
        self._graph: tuple[Any, Graph] | None = None  # the latest that was asked for

    @property
    def schema(self) -> Schema:
        """What kind of value stands where."""
        return self.trained.schema

    @property
    def record(self) -> Record:
        """How it came about, and how good it is on what was held out."""
        return self.trained.record

    def is_of(self, loaded: LoadedSource) -> bool:
        """Whether it was trained on these very sources, as far as it knows: only then a row's number says which row it is."""
        return self.record.source.get("sha256") in (None, loaded.sha256)

    def __repr__(self) -> str:
        source, classes = self.record.source, ", ".join(filter(None, self.schema.classes))
        properties = sum(len(one.properties) for one in self.schema.classes.values())
        return f"<Model of {source.get('name', 'entities')}: {classes or 'one class'}, {properties} properties>"

    # ------------------------------------------------------------ asking

    def complete(self, kb: Knowledge, *, only: Iterable[Path | str] = (), **options: Any) -> Completing:
        """Each entity of a knowledge base with what it lacks filled in; see kbdisk.completion.CompletionConfig for options.

        `shapes` is a schema, such as `kbdisk.schemas.importers.read("shapes.ttl").schema`, whose constraints hold in what is written.

        `summary` of what comes back tells of those that came out by now, `drift` what in them is unlike what the model
        learnt from. Each completion of an entity that is unlike says why, in `unlike`.
        """
        from kbdisk.completion import complete

        return complete(self.trained, self._loaded(kb).entities, only=tuple(map(as_path, only)), **options)

    def belief(self, entity: Entity | Mapping[str, Any] | str, path: Path | str, kb: Knowledge = None) -> Belief:
        """What is believed of one property of an entity, given all its others; of a quantity, its number.

        An id needs the knowledge base that it is of, unless the model was trained on that just now.
        """
        one, graph = self._asked(entity, kb)
        wanted = leaf_at(self.trained, self._class_of(one), as_path(path))
        return beliefs_of(self.trained, one, graph, [wanted])[wanted]

    def beliefs(self, entity: Entity | Mapping[str, Any] | str, kb: Knowledge = None) -> dict[str, Belief]:
        """What is believed of every property that an entity's class has, each given all others, by path."""
        one, graph = self._asked(entity, kb)
        return {show(path): belief for path, belief in beliefs_of(self.trained, one, graph).items()}

    def why(
        self,
        entity: Entity | Mapping[str, Any] | str,
        path: Path | str,
        kb: Knowledge = None,
        *,
        watch: Told | None = None,
    ) -> Why:
        """Why a property of an entity was, or would be, filled in with its value; see kbdisk.completion.why.

        The confidence with its parts, the rule if one gives the value, what the network and the experts predict, similar
        entities, and the given properties that moved the answer most. A value that stands there is hidden for that.
        """
        from kbdisk.completion.why import why

        asked, graph = self._asked(entity, kb)
        loaded = LoadedSource.of(kb) if kb is not None else self.known
        return why(self.trained, asked, as_path(path), () if loaded is None else loaded.entities, graph, watch)

    def sample(
        self,
        n: int = 1,
        given: Mapping[str, Any] | None = None,
        *,
        of: str | None = None,
        seed: int = 0,
        leap: int = 1,
        text: bool = False,
        watch: Told | None = None,
    ) -> list[Entity]:
        """Entities that might be: drawn property by property, `leap` at a time, from what is given.

        In random order; in the schema's where that is what was learnt (the preset "synthetic").
        All are of the class `of`, if one is told; free text is drawn only with `text`.
        """
        from kbdisk.sampling import sample

        return list(sample(self.trained, n, given or {}, of=of, seed=seed, leap=leap, text=text, watch=watch))

    def log_prob(self, kb: Knowledge, *, orders: int = 4, seed: int = 0) -> np.ndarray[Any, Any]:
        """The log-probability of each entity's values in nats, or a lower bound where it has more than 8 of them."""
        loaded = self._loaded(kb)
        return log_probs(self.trained, loaded.entities, self._graph_of(loaded), orders=orders, seed=seed)

    def embed(self, kb: Knowledge) -> np.ndarray[Any, Any]:
        """A vector for each entity, of all that is known of it: (entities, width). Near ones are alike."""
        loaded = self._loaded(kb)
        return embed(self.trained, loaded.entities, self._graph_of(loaded))

    def evaluate(
        self,
        kb: Knowledge,
        *,
        given: float | None = None,
        against: Iterable[str] = (),
        watch: Told | None = None,
        **scope: Any,
    ) -> pandas.DataFrame:
        """How well each property is told from the others, beside the constant: a row for each; see evaluation.evaluate.Scope.

        Of a knowledge base that the model was trained on, only what was held out is asked, where anything was. Baselines
        (`against`, see kbdisk.evaluation) learn from the rest, and are asked the same: a column for each. What in the
        asked entities is unlike what the model learnt from stands in `attrs["drift"]`.
        """
        import pandas

        from kbdisk.evaluation.compare import FittedBaselines, training_entities
        from kbdisk.evaluation.drift import Drift
        from kbdisk.evaluation.evaluate import Scope, SourcePartition, evaluate

        names, loaded = _names(against), self._loaded(kb)
        sides = SourcePartition.of(self.trained, loaded.entities, self.is_of(loaded))
        if sides.trained_on and sides.fair is sides.trained_on:
            warnings.warn(f"{loaded.name}: the model was trained on all of these entities", KBDiskWarning, stacklevel=2)
        graph = self._graph_of(loaded)
        if "only" in scope:
            scope["only"] = tuple(map(as_path, scope["only"]))
        told = Scope(**scope)
        rivals = None
        if names:
            training = training_entities(self.trained, sides, loaded.name)
            rivals = FittedBaselines.fit(names, self.trained, training, sides.fair, told)
        rows = evaluate(self.trained, sides.fair, graph, told, given=given, against=rivals, watch=watch)
        scores = pandas.DataFrame(map(_flat, rows))
        scores.attrs["drift"] = Drift.of(self.trained.codec, sides.compared, told.classes).to_json()
        return scores

    def drift(self, kb: Knowledge, *, classes: Iterable[str] = ()) -> Drift:
        """What in a knowledge base is unlike what the model learnt from: `rows()`, `to_json()`; false where nothing is."""
        from kbdisk.evaluation.drift import Drift

        return Drift.of(self.trained.codec, self._loaded(kb).entities, classes)

    # ------------------------------------------------------------ keeping

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model folder."""
        save(self.trained, folder, force=force)

    @property
    def card(self) -> str:
        """What it is, what it was trained on and how good it is, as Markdown."""
        return card(self.trained)

    # ------------------------------------------------------------ what is asked about

    def _loaded(self, kb: Knowledge) -> LoadedSource:
        return LoadedSource.of([kb] if isinstance(kb, Entity | Mapping) else kb)

    def _asked(self, entity: Entity | Mapping[str, Any] | str, kb: Knowledge) -> tuple[Entity, Graph | None]:
        """The entity that is meant, and what its links lead to."""
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

    def _class_of(self, entity: Entity) -> str:
        found = self.schema.class_of(entity)
        if found is None:
            got, known = ", ".join(entity.classes) or "none", ", ".join(self.schema.classes)
            raise SchemaError(entity.id, f"expected a class of {known}, got {got}.")
        return found.name

    def _graph_of(self, loaded: LoadedSource) -> Graph:
        if self._graph is None or self._graph[0] is not loaded:
            self._graph = loaded, loaded.graph(self.schema)
        return self._graph[1]


def _names(against: Iterable[str]) -> list[str]:
    """The names of baselines; one alone is one."""
    from kbdisk.evaluation import refuse_unknown

    names = [against] if isinstance(against, str) else list(against)
    refuse_unknown(names)
    return names


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the scores of each rival as columns: `gbdt`, `gbdt_rmse`; one of a name that there is stays as it is."""
    scores: dict[str, Any] = {}
    for name, cell in row.get("against", {}).items():
        scores[name] = cell and cell["theirs"]
        scores |= {f"{name}_{key}": cell and cell[key] for key in ("mae", "rmse", "error", "iou")}
    return scores | {key: value for key, value in row.items() if key != "against"}


# ---------------------------------------------------------------- beliefs and probabilities


def log_probs(
    trained: Trained, entities: Sequence[Entity], graph: Graph | None, *, orders: int = 4, seed: int = 0
) -> np.ndarray[Any, Any]:
    """(N,) in nats: exact where an entity has few values, else a lower bound, a mean over so many orders.

    Of a model that draws in the schema's order: exact in that, as its networks draw, each its share.
    """
    generator = torch.Generator(trained.device).manual_seed(seed)
    tokens = trained.encode(entities, graph=graph)
    if trained.run.hiding.is_in_order:
        several = [
            torch.stack([in_order(one.network, batch, tokens.layout.order) for one in trained.members])
            for _, batch in batches(tokens)
        ]
        logs = [one.logsumexp(0) - math.log(len(one)) for one in several]
        return np.concatenate([np.zeros(0), *(one.cpu() for one in logs)])
    found = [log_prob(trained.maker, batch, orders=orders, generator=generator) for _, batch in batches(tokens)]
    return np.concatenate([np.zeros(0), *(one.exact.where(~one.exact.isnan(), one.bound).cpu() for one in found)])


def leaf_at(trained: Trained, of: str, path: Path) -> Path:
    """The path of the one value that is meant: of a quantity its number. SchemaError where there is none, or several."""
    slots, known = trained.codec.slots, trained.codec.index.tables[of].slot
    own = {one: slots[number] for one, number in known.items()}
    for one in (path, (*path, "value")):
        if one in own:
            if own[one].fixed:
                raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
            return one
    below = [show(one) for one in own if one[: len(path)] == path]
    if below:
        raise SchemaError(show(path), f"expected the path of one value, got several. Say one of {', '.join(below)}.")
    why = trained.codec.left_out.get((of, path))
    if why is not None:
        raise SchemaError(show(path), f"nothing is believed of it: {why}.")
    raise SchemaError(show(path), unknown_to(trained.schema.classes[of], path, own))


@torch.no_grad()
def beliefs_of(
    trained: Trained, entity: Entity, graph: Graph | None, paths: Collection[Path] | None = None
) -> dict[Path, Belief]:
    """What is believed of some leaves of an entity, or of all that its class has: each given all others."""
    trained.warn_of_order(": what it believes given what comes later is a guess.", stacklevel=3)
    known = trained.schema.leaves(entity)
    ask = "all" if paths is None else [path for path in paths if path not in known]
    batch = trained.encode([entity], ask or "nothing", graph).batch(torch.arange(1))
    slots = [trained.codec.slots[number] for number in batch.slot.tolist()]
    wanted = [token for token, slot in enumerate(slots) if not slot.fixed and (paths is None or slot.path in paths)]
    found: dict[Path, Belief] = {}
    of = trained.codec.classes[int(batch.classes[0])]
    for token, one in _asked(trained, batch, slots, wanted):
        slot = slots[token]
        value = trained.codec.leaves(batch, torch.arange(len(batch)) == token)[0] if batch.known[token] else {}
        assert one.presence is not None
        recorded = float(one.presence["logits"][one.presence["tokens"] == 0].sigmoid()[0])
        row = next(iter(one.kinds.values())).belief
        given = known.get(slot.path, value.get(slot.path))
        found[slot.path] = KINDS[slot.kind](
            entity.id, slot.path, slot, row, given, recorded, unit_of(trained.schema, of, slot.path)
        )
    order = {path: place for place, path in enumerate(trained.schema.classes[of].properties)}
    return dict(sorted(found.items(), key=lambda pair: _place(order, pair[0])))


def _place(order: Mapping[Path, int], leaf: Path) -> int:
    """The place of the property that a leaf is of."""
    return next((order[leaf[:n]] for n in range(len(leaf), 0, -1) if leaf[:n] in order), len(order))


def _asked(trained: Trained, batch: Batch, slots: list[Slot], wanted: list[int]) -> Iterator[tuple[int, Beliefs]]:
    """Each wanted token with a belief about it alone, so many at once as there is room for."""
    size = max(CHUNK // max(len(batch), 1), 1)
    for start in range(0, len(wanted), size):
        some = wanted[start : start + size]
        many = batch.repeat(len(some))
        visible = batch.known[:, None].repeat(1, len(some))  # (T, R)
        asked = torch.zeros_like(visible)
        for case, token in enumerate(some):
            visible[_hidden_with(slots, token), case] = False
            asked[token, case] = True
        told = beliefs(trained.believer, many, asked.flatten(), visible.flatten())
        if trained.presence_trees is not None and told.presence is not None:
            told = replace(told, presence=trained.presence_trees.combined(many, visible.flatten(), told.presence))
        for case, token in enumerate(some):
            place = torch.arange(len(many)) == token * len(some) + case
            yield token, _alone(told, place)


def _hidden_with(slots: list[Slot], token: int) -> list[int]:
    """The tokens that are hidden with one: itself, and with the length of a list its places."""
    path = slots[token].path
    if path[-1:] != COUNT:
        return [token]
    within = [n for n, slot in enumerate(slots) if slot.path[: len(path) - 1] == path[:-1]]
    listed = any(isinstance(key, int) for n in within for key in slots[n].path[len(path) - 1 : len(path)])
    return within if listed else [token]


def _alone(told: Beliefs, place: Tensor) -> Beliefs:
    """The belief about one token, and the one in its presence, its number being 0."""
    picked = told.pick(place)
    kinds = {kind: one for kind, one in picked.kinds.items() if len(one.rows)}
    assert told.presence is not None
    mine = place[told.presence["tokens"]]
    presence = {"tokens": mine.nonzero()[:, 0] * 0, "logits": told.presence["logits"][mine]}
    return Beliefs(kinds, told.length, presence)


@torch.no_grad()
def embed(trained: Trained, entities: Sequence[Entity], graph: Graph | None = None) -> np.ndarray[Any, Any]:
    """(N, D) float32, in the order of the entities; the graph is what their links bring."""
    tokens = trained.encode(entities, graph=graph)
    found = [trained.network.embed(batch, batch.seen(batch.known)).float().cpu() for _, batch in batches(tokens)]
    width = trained.network.config.width
    vectors: np.ndarray[Any, Any] = np.concatenate([np.zeros((0, width), np.float32), *(one.numpy() for one in found)])
    return vectors
