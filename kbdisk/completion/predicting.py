"""Predicting: the network and the experts predict values for the gaps of a plan, some hundred entities at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from kbdisk.completion.consistency import Consistency
from kbdisk.completion.filling import Filler, WhyNot
from kbdisk.completion.gaps import Gap
from kbdisk.completion.keys import Keys, Known, labels_of
from kbdisk.completion.plan import Plan, Planned
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.provenance import fingerprint
from kbdisk.data.dataset import CHUNK, batches
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph
from kbdisk.data.links import Evidence
from kbdisk.entity import Path, show
from kbdisk.schemas.schema import Schema

ENTITIES = 500  # in memory at once
GIVEN_COST = 0.25  # of a given token in a batch, beside 1 of a token that is asked for: beliefs take the most memory

Watch = Callable[[int, int], None]  # how many entities are done, of how many
RuledProperties = Callable[[Planned], Collection[Path]]  # the properties of an entity that rules give


class Predicting(Iterable[tuple[Planned, list[Prediction]]]):
    """The entities of a plan, each with the predictions for its gaps.

    A belief is restricted to what the constraints of the schema and of `shapes` leave beside the given values.
    """

    def __init__(
        self,
        plan: Plan,
        shapes: Schema | None = None,
        *,
        why_not: WhyNot | None = None,
        ruled: RuledProperties | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Every gap is predicted, but where `why_not` says of one, by its presence, why not, or where its property is `ruled`."""
        self.plan, self.shapes, self.why_not, self.ruled, self.watch = plan, shapes, why_not, ruled, watch
        self.trained, self.choices = plan.trained, plan.choices
        self.schema, self.codec = plan.schema, plan.codec

    def __iter__(self) -> Iterator[tuple[Planned, list[Prediction]]]:
        most = max((len({spot.path for spot in fields.spots}) for fields in self.plan.fields.values()), default=1)
        evidence = self._evidence()
        filler = Filler(self.trained, self.choices, most, Keys(self.codec, self._labels()), self.why_not)
        consistency = Consistency(self.schema, self.shapes, self.plan.entities)
        total = self.plan.total if self.watch is not None else 0
        rest, done, number = iter(self.plan), 0, 0
        while chunk := list(islice(rest, ENTITIES)):
            asked = [(planned, self._gaps(planned)) for planned in chunk if planned.is_completed]
            predicted, number = self._predicted(asked, filler, consistency, evidence, number)
            for planned in chunk:
                yield planned, predicted.get(planned.row, [])
            done += len(chunk)
            if self.watch is not None:
                self.watch(done, total)

    def _gaps(self, planned: Planned) -> list[Gap]:
        """The gaps of an entity that the network is asked for."""
        ruled = () if self.ruled is None else self.ruled(planned)
        return [gap for gap in planned.gaps if gap.of.top not in ruled]

    def _predicted(
        self,
        asked: Sequence[tuple[Planned, list[Gap]]],
        filler: Filler,
        consistency: Consistency,
        evidence: Evidence | None,
        number: int,
    ) -> tuple[dict[int, list[Prediction]], int]:
        """The predictions for a chunk of entities by their rows, and how many batches there were by now."""
        predicted: dict[int, list[Prediction]] = {}
        encoded: list[list[Gap]] = []
        encoding = Encoding(self.codec.index, lambda reading, table: _slots(encoded[-1]), evidence)
        for planned, gaps in asked:
            assert planned.reading is not None
            encoded.append(gaps)
            encoding.add(planned.reading)
        tokens = encoding.tokens().to(self.trained.device)
        size = max(CHUNK // (1 + self.choices.draws), CHUNK // 16)
        cost = torch.where(tokens.known, GIVEN_COST, 1.0)
        costs = cost.new_zeros(len(tokens)).index_add_(0, tokens.owner, cost)
        for places, batch in batches(tokens, size, costs=costs):
            some = [asked[place] for place in places]
            if not any(gaps for _, gaps in some):
                continue
            ids = [planned.reading.id for planned, _ in some if planned.reading is not None]
            all_gaps = [gaps for _, gaps in some]
            demands = consistency.demands
            restrictions = [consistency.restrictions(planned.entity, gaps) for planned, gaps in some] if demands else ()
            predictions = filler.fill(batch, ids, all_gaps, number, restrictions)
            number += 1
            predicted |= {planned.row: several for (planned, _), several in zip(some, predictions, strict=True)}
        return predicted, number

    def _evidence(self) -> Evidence | None:
        """What links bring, where the model looks at any."""
        if not self.codec.index.over:
            return None
        return self.codec.evidence(Graph.read(self.schema, self.plan.entities))

    def _labels(self) -> Iterator[Known]:
        """What keys are learnt from; no entity is read where there can be none."""
        wanted = labels_of(self.codec)
        for entity in self.plan.entities if wanted else ():
            of = self.schema.class_of(entity)
            if of is not None and of.name in wanted:
                labels = {path: leaf for path, leaf in self.schema.leaves(entity).items() if path in wanted[of.name]}
                yield Known(self.schema.id_of(entity), of.name, labels, entity.made or {})

    @property
    def covers_all_gaps(self) -> bool:
        """Whether all gaps are predicted, so that other thresholds need no new prediction."""
        return self.why_not is None and self.ruled is None

    def about(self) -> dict[str, Any]:
        """What the predictions depend on: the source, the model, the choices; and where not all gaps are asked, the thresholds."""
        choices = self.choices
        same = ("estimate", "order", "leap", "draws", "least", "seed")
        thresholds = {name: getattr(choices, name) for name in ("fill", "min_confidence", "precision")}
        return {
            "source": self.plan.digest,
            "model": fingerprint(self.trained),
            "shapes": None if self.shapes is None else hashlib.sha256(self.shapes.to_yaml().encode()).hexdigest(),
            "only": sorted(map(show, choices.only)),
            "classes": sorted(choices.classes),
            **{name: getattr(choices, name) for name in same},
            "thresholds": thresholds,
        }


def _slots(gaps: Iterable[Gap]) -> Iterator[int]:
    return (spot.slot for gap in gaps for spot in gap.spots)
