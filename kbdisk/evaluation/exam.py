"""An exam: entities, the values of theirs that are asked for, and what a model says of each when it is hidden.

Values that have no code, such as labels that a schema does not allow, are wrong answers of the model and the constant.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import CHUNK, Tokens
from kbdisk.data.graph import Graph
from kbdisk.data.parse import Reading, read
from kbdisk.diffusion import beliefs
from kbdisk.entity import Entity, Path, without_places
from kbdisk.evaluation.intervals import Levels
from kbdisk.evaluation.questions import Choice, Posed, Question, askable, chosen, posed, questions
from kbdisk.metrics import Case, Constants, Marginals, collect_cases, score_rows
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.schema import Misfit
from kbdisk.training.trained import Trained

BLOCK = 1024  # questions that are asked by property, where the time is limited
ROOM = 16  # times as many tokens in a pass where there is an accelerator

Told = Callable[[int, int], None]  # how many questions are answered, of how many


@dataclass(frozen=True)
class Scope:
    """Which values are asked for."""

    only: tuple[Path, ...] = ()  # those at these paths or below
    classes: tuple[str, ...] = ()
    limit: int = 1000  # of each property, at most
    texts: int = 200  # of a text: saying one takes long
    texts_in_all: int | None = None  # of all properties together
    whole: bool = False  # the parts of a composite are hidden at once
    seed: int = 0  # of what is drawn where there are more, and of what is given in a curve

    def __post_init__(self) -> None:
        for name in ("limit", "texts", "texts_in_all"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"expected at least 1 for {name}, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Exam:
    """A model, and what it is asked."""

    trained: Trained
    readings: Sequence[Reading]
    tokens: Tokens
    choice: Choice
    scope: Scope

    @classmethod
    def of(
        cls,
        trained: Trained,
        entities: Collection[Entity],
        graph: Graph | None,
        scope: Scope,
        reserved: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> Exam:
        """Encode the entities that the schema has a class for, and choose among their values.

        Of an entity, by its id, that the model was trained on, the slots whose values were `reserved` are asked for alone.
        """
        trained.warn_of_order(": what comes after a value is not given with it.", stacklevel=4)
        codec, schema = trained.codec, trained.schema
        slots = askable(codec, scope.only, scope.classes)
        known = [(one, reading) for one in entities if (reading := read(schema, one)) is not None]
        graph = Graph.read(schema, entities) if graph is None else graph
        tokens, readings = trained.encode((one for one, _ in known), graph=graph), [reading for _, reading in known]
        misfits = [
            (number, slot) for number, (one, reading) in enumerate(known) for slot in _misfits(codec, one, reading)
        ]
        limits = {
            slot.kind: min(scope.texts, scope.limit) if slot.kind == "text" else scope.limit for slot in codec.slots
        }
        choice = chosen(codec, tokens, readings, misfits, slots, limits, scope.texts_in_all, scope.seed, reserved)
        return cls(trained, readings, tokens, choice, scope)

    @cached_property
    def questions(self) -> list[Question]:
        """All that are asked."""
        return questions(self.trained.codec, self.choice.values, whole=self.scope.whole)

    @cached_property
    def constants(self) -> Constants:
        """What training says is best said to everybody."""
        return Constants.from_json(self.trained.record.constants)

    @cached_property
    def levels(self) -> Levels:
        """The levels of the intervals of numbers; those that are stated where nothing is calibrated yet."""
        calibration = self.trained.record.calibration
        return Levels.from_json(calibration["levels"]) if calibration else Levels()

    @torch.no_grad()
    def cases(
        self, given: float | None = None, told: Told | None = None, seconds: float | None = None
    ) -> Iterator[Case]:
        """What is said of every value, given all others or a share of them; of a random part where the seconds end earlier."""
        codec, model, marginals = self.trained.codec, self.trained.fair, Marginals(self.trained.codec)
        begun, done = time.monotonic(), 0
        for one, visible in self.turns(given, in_blocks=seconds is not None):
            if seconds is not None and done and time.monotonic() - begun > seconds:
                break
            level = partial(self.levels.of_tokens, codec, one.batch, visible)
            found = collect_cases(codec, marginals, one.batch, beliefs(model, one.batch, one.asked, visible), level)
            yield from (self._true(one, case) for case in found)
            done += len(one.questions)
            if told is not None:
                told(done, len(self.questions))
        yield from self.unread(done / len(self.questions) if self.questions else 1.0)

    def turns(self, given: float | None = None, *, in_blocks: bool = False) -> Iterator[tuple[Posed, Tensor]]:
        """The questions some at a time, each time with what is visible (T,); `in_blocks`, each of which is drawn at random."""
        size = CHUNK if self.trained.device.type == "cpu" else CHUNK * ROOM
        order = self.tokens.layout.order if self.trained.only_draws else None
        blocks = [self.questions]
        if in_blocks:
            drawn = random.Random(self.scope.seed).sample(self.questions, len(self.questions))
            blocks = [drawn[start : start + BLOCK] for start in range(0, len(drawn), BLOCK)]
        each = (one for block in blocks for one in posed(self.tokens, block, size))
        for turn, one in enumerate(each):
            yield one, one.visible(given, self.scope.seed * 1_000_003 + turn, order)

    def unread(self, share: float = 1.0) -> Iterator[Case]:
        """What has no code, or a share of it, and cannot be asked for: wrong, whoever answers."""
        unread = self.choice.unread
        if share < 1:
            unread = random.Random(self.scope.seed).sample(unread, round(share * len(unread)))
        return (Case(entity, slot, self.value(entity, slot), None) for entity, slot in unread)

    def _true(self, one: Posed, case: Case) -> Case:
        """A case with the value as the entity has it, which a code may not tell to the last digit."""
        entity = one.questions[case.entity].entity
        return replace(case, entity=entity, truth=self.value(entity, case.slot))

    def value(self, entity: int, slot: int) -> Any:
        """A leaf as an entity has it."""
        return self.readings[entity].leaves.get(self.trained.codec.slots[slot].path)

    def rows(self, found: Collection[Case]) -> list[dict[str, Any]]:
        """The scores of each property, and how many values it would have had to be asked for."""
        totals = {(of, show_pattern(path)): total for (of, path), total in self.choice.totals.items()}
        rows = score_rows(self.trained.codec, self.constants, found)
        return [row | {"of": totals[row["class"], row["path"]]} for row in rows]


def _misfits(codec: Codec, entity: Entity, reading: Reading) -> Iterator[int]:
    """The slots that values have which do not fit the schema: of a composite its parts, of a list its length."""
    if reading.said:
        misfits: list[Misfit] = []
        for _ in codec.schema.applied(codec.schema.classes[reading.of], entity, misfits):
            pass
        table = codec.index.tables[reading.of]
        for one in misfits:
            paths = (path for path in table.under.get(one.path, ()) if without_places(path) == path)
            yield from (table.slot[path] for path in paths)
