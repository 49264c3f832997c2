"""A trained model as its user meets it. Each method reads what it is given, and asks the part of kbdisk that knows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbdisk.api.asking import beliefs_of, leaf_at, log_probs
from kbdisk.api.beliefs import Belief
from kbdisk.api.reading import Knowledge, Reading, as_path
from kbdisk.data.graph import Graph
from kbdisk.entity import Entity, Path, show
from kbdisk.errors import ConfigError, KBDiskWarning, SchemaError
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import no_id
from kbdisk.store.folder import card, save
from kbdisk.training.trained import Record, Trained

if TYPE_CHECKING:
    import numpy as np
    import pandas

    from kbdisk.completion import Completing
    from kbdisk.completion.reasons import Why
    from kbdisk.evaluation.drift import Drift

Told = Callable[[int, int], None]  # how many are done, of how many


class Model:
    """What `train` makes and `open` finds: it completes, samples, scores and tells what it believes."""

    def __init__(self, trained: Trained, known: Reading | None = None) -> None:
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

    def is_of(self, reading: Reading) -> bool:
        """Whether it was trained on these very sources, as far as it knows: only then a row's number says which row it is."""
        return self.record.source.get("sha256") in (None, reading.sha256)

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

        return complete(self.trained, self._reading(kb).entities, only=tuple(map(as_path, only)), **options)

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
        reading = Reading.of(kb) if kb is not None else self.known
        return why(self.trained, asked, as_path(path), () if reading is None else reading.entities, graph, watch)

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
        reading = self._reading(kb)
        return log_probs(self.trained, reading.entities, self._graph_of(reading), orders=orders, seed=seed)

    def embed(self, kb: Knowledge) -> np.ndarray[Any, Any]:
        """A vector for each entity, of all that is known of it: (entities, width). Near ones are alike."""
        from kbdisk.embedding import embed

        reading = self._reading(kb)
        return embed(self.trained, reading.entities, self._graph_of(reading))

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

        names, reading = _names(against), self._reading(kb)
        sides = SourcePartition.of(self.trained, reading.entities, self.is_of(reading))
        if sides.trained_on and sides.fair is sides.trained_on:
            warnings.warn(
                f"{reading.name}: the model was trained on all of these entities", KBDiskWarning, stacklevel=2
            )
        graph = self._graph_of(reading)
        if "only" in scope:
            scope["only"] = tuple(map(as_path, scope["only"]))
        told = Scope(**scope)
        rivals = None
        if names:
            training = training_entities(self.trained, sides, reading.name)
            rivals = FittedBaselines.fit(names, self.trained, training, sides.fair, told)
        rows = evaluate(self.trained, sides.fair, graph, told, given=given, against=rivals, watch=watch)
        scores = pandas.DataFrame(map(_flat, rows))
        scores.attrs["drift"] = Drift.of(self.trained.codec, sides.compared, told.classes).to_json()
        return scores

    def drift(self, kb: Knowledge, *, classes: Iterable[str] = ()) -> Drift:
        """What in a knowledge base is unlike what the model learnt from: `rows()`, `to_json()`; false where nothing is."""
        from kbdisk.evaluation.drift import Drift

        return Drift.of(self.trained.codec, self._reading(kb).entities, classes)

    # ------------------------------------------------------------ keeping

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model folder."""
        save(self.trained, folder, force=force)

    @property
    def card(self) -> str:
        """What it is, what it was trained on and how good it is, as Markdown."""
        return card(self.trained)

    # ------------------------------------------------------------ what is asked about

    def _reading(self, kb: Knowledge) -> Reading:
        return Reading.of([kb] if isinstance(kb, Entity | Mapping) else kb)

    def _asked(self, entity: Entity | Mapping[str, Any] | str, kb: Knowledge) -> tuple[Entity, Graph | None]:
        """The entity that is meant, and what its links lead to."""
        reading = Reading.of(kb) if kb is not None else self.known
        if isinstance(entity, str):
            if reading is None:
                raise ConfigError(entity, "expected the knowledge base that this id is of, got none. Say kb=...")
            by_id = reading.by_id if entity in reading.by_id else reading.by_own_id(self.schema)
            if entity not in by_id:
                raise no_id(reading.name, entity, {**by_id, **reading.by_id})
            entity = replace(by_id[entity], id=entity)
        elif not isinstance(entity, Entity):
            entity = Reading.of([entity]).entities[0]
        return entity, None if reading is None else self._graph_of(reading)

    def _class_of(self, entity: Entity) -> str:
        found = self.schema.class_of(entity)
        if found is None:
            got, known = ", ".join(entity.classes) or "none", ", ".join(self.schema.classes)
            raise SchemaError(entity.id, f"expected a class of {known}, got {got}.")
        return found.name

    def _graph_of(self, reading: Reading) -> Graph:
        if self._graph is None or self._graph[0] is not reading:
            self._graph = reading, reading.graph(self.schema)
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
