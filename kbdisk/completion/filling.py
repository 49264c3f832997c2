"""Filling the gaps of a batch, in passes of the network.

A first pass has the presence of each gap and the confidence of each value, from the given values alone. Then values are
predicted pass by pass. By default the first of these has all but the later parts of composites.

T tokens   S slots
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from kbdisk.completion.choices import PASSES, Choices
from kbdisk.completion.constraints import Restriction
from kbdisk.completion.fields import Field, Fields
from kbdisk.completion.gaps import Gap
from kbdisk.completion.keys import Keys
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.restricting import restrict
from kbdisk.completion.trusting import Trusting
from kbdisk.completion.units import settle_units
from kbdisk.data.batch import Batch
from kbdisk.data.slots import Slot
from kbdisk.diffusion import beliefs, reveal, revealing
from kbdisk.entity import Path
from kbdisk.estimates import Answer, answers, estimated, shortened
from kbdisk.evaluation.intervals import Levels
from kbdisk.network.beliefs import Beliefs
from kbdisk.rng import derive_seed
from kbdisk.schemas.composites.date import NUMBERS
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.quantity import VALUE
from kbdisk.training.trained import Trained

SALT = 1  # of the seeds: none is one of training's
MIN_PART_PRESENCE = 0.5  # from which on a month or a day is predicted with its year
HALF = 0.5  # of how often the fullest part of a thing in a list is there: as often as that, others are filled with it
LEAST = 0.5  # nats of a slot's entropy, in whose parts it is told how certain a belief is
NOT_LEARNT = "no such value to learn from"
EMPTY = "likeliest to be empty"
TAKEN = "every label that is known is taken: no two entities have the same pair of them"


WhyNot = Callable[[Gap, "float | None"], str]  # (gap, presence) -> a reason, or nothing


class Presence(NamedTuple):
    """The probability that an entity has a property."""

    chance: float
    parts: tuple[float, float] | None = None  # by the networks and by trees, where there are trees


class Filler:
    """A model that fills gaps as was chosen."""

    def __init__(
        self,
        trained: Trained,
        choices: Choices,
        most: int,
        keys: Keys,
        why_not: WhyNot | None = None,
        *,
        levels: Levels | None = None,
        has_truth: bool = False,
    ) -> None:
        """`why_not` says of a gap, by its presence, why nothing is predicted for it; None: a value is predicted for each.

        `levels` are those of intervals. With `has_truth` the batches have the values that are asked for.
        """
        self.levels, self.has_truth = levels or Levels(), has_truth
        self.codec, self.model, self.choices = trained.codec, trained.believer, choices
        self.presence_trees = trained.presence_trees
        self.trusting, self.keys, self.why_not = Trusting(trained), keys, why_not
        self.leap = choices.leap or max(1, -(-most // PASSES))
        entropies = torch.tensor([slot.entropy for slot in trained.codec.slots], device=trained.device)
        self.scale = entropies.clamp(min=LEAST)  # (S,)
        places = [_date_part(slot.path) for slot in trained.codec.slots]
        self.parts = torch.tensor(places, device=trained.device)  # (S,) a year is said before its month

    @torch.no_grad()
    def fill(
        self,
        batch: Batch,
        ids: Sequence[str],
        gaps: Sequence[Sequence[Gap]],
        number: int,
        restrictions: Sequence[Mapping[Path, Sequence[Restriction]]] = (),
    ) -> list[list[Prediction]]:
        """The gaps of each entity of a batch, which asks for all of their slots; batches are counted for their draws.

        `restrictions` of each entity are by gap: what its given values leave to be stated.
        """
        generator = Generator(batch.slot.device).manual_seed(derive_seed(self.choices.seed, number, SALT))
        token = {
            (entity, slot): place
            for place, (entity, slot, asked) in enumerate(
                zip(batch.entity.tolist(), batch.slot.tolist(), batch.asked.tolist(), strict=True)
            )
            if asked
        }
        given = beliefs(self.model, batch)
        present = self._presence(batch, given)
        found = [[Prediction(gap) for gap in several] for several in gaps]
        for entity, several in enumerate(found):
            for one in several:
                self._choose(one, partial(_at, token, entity), present)
        counted = self._counted(batch, given, found, generator)
        chosen = torch.zeros_like(batch.known)
        wanted = [place for several in found for one in several if not one.why_not for place in one.tokens.values()]
        chosen[wanted] = True
        if wanted:
            self._say(counted, ids, given, chosen, found, generator, restrictions, is_as_given=counted is batch)
        return found

    # ------------------------------------------------------------ which

    def _presence(self, batch: Batch, given: Beliefs) -> Mapping[int, Presence]:
        """How likely each asked token is recorded."""
        presence = given.presence
        if presence is None:
            return {}
        tokens = presence["tokens"].tolist()
        if self.presence_trees is None:
            return {token: Presence(chance) for token, chance in zip(tokens, _chances(presence["logits"]), strict=True)}
        presence = self.presence_trees.combined(batch, batch.known, presence)
        chances = (_chances(presence[name]) for name in ("logits", "network", "trees"))
        return {
            token: Presence(chance, None if math.isnan(trees) else (network, trees))
            for token, chance, network, trees in zip(tokens, *chances, strict=True)
        }

    def _choose(self, one: Prediction, token: Callable[[int], int | None], present: Mapping[int, Presence]) -> None:
        """The tokens of a gap; why it is left alone, where it is."""
        gap, slots = one.gap, self.codec.slots
        places = {spot.path: (spot.slot, place) for spot in gap.spots if (place := token(spot.slot)) is not None}
        lead = (*gap.path, *COUNT) if gap.of.is_list else _lead(places, slots)
        if lead not in places:
            one.why_not = NOT_LEARNT
            return
        if (presence := present.get(places[lead][1])) is not None:
            one.presence, one.presence_parts = presence
        if self.why_not is not None:
            one.why_not = self.why_not(gap, one.presence)
        wanted = {path: place for path, (_, place) in places.items()}
        if isinstance(gap.of.kind, DateKind) and not gap.parts:
            named = {spot.path for spot in gap.spots if spot.slot in gap.named} - {lead}
            counts = {path: slots[slot].count for path, (slot, _) in places.items()}
            absent = {
                path for path, place in wanted.items() if place in present and present[place].chance < MIN_PART_PRESENCE
            }
            wanted = {path: wanted[path] for path in _precise(gap, counts, absent - named)}
        one.tokens = wanted

    def _counted(self, batch: Batch, given: Beliefs, found: list[list[Prediction]], generator: Generator) -> Batch:
        """The batch with the lengths of lists that are to be filled; of these no more places are asked for."""
        lists = [one for several in found for one in several if one.gap.of.is_list and not one.why_not]
        if not lists:
            return batch
        counts = {one.tokens[(*one.gap.path, *COUNT)]: one for one in lists}
        wanted = torch.zeros_like(batch.known)
        wanted[list(counts)] = True
        picked = given.pick(wanted)
        said = estimated(picked, "sample" if self.choices.estimate == "sample" else "mode", generator)
        for answer in answers(self.codec, batch, picked, said=said):
            one = counts[answer.token]
            self._take_count(one, answer)
        for kind, codes in said.items():
            batch = batch.with_values(kind, picked.kinds[kind].rows, codes)
        return batch

    def _take_count(self, one: Prediction, answer: Answer) -> None:
        path = (*one.gap.path, *COUNT)
        count = int(answer.value)
        one.leaves[path], one.answers[path] = count, answer
        if count == 0:
            one.why_not = EMPTY
        slots = {spot.path: self.codec.slots[spot.slot] for spot in one.gap.spots}
        at = len(one.gap.path)
        fullest: dict[Any, float] = {}  # the share that has each place at all
        for spot in one.gap.spots:
            fullest[spot.path[at]] = max(fullest.get(spot.path[at], 0.0), slots[spot.path].fill)
        one.tokens = {
            leaf: place
            for leaf, place in one.tokens.items()
            if leaf != path
            and len(_places(leaf[at:])) == 1
            and _places(leaf[at:])[0] < count
            and slots[leaf].fill >= HALF * fullest[leaf[at]]
        }

    # ------------------------------------------------------------ what

    def _say(
        self,
        batch: Batch,
        ids: Sequence[str],
        given: Beliefs,
        chosen: Tensor,
        found: list[list[Prediction]],
        generator: Generator,
        restrictions: Sequence[Mapping[Path, Sequence[Restriction]]],
        *,
        is_as_given: bool,
    ) -> None:
        """Values for the chosen tokens (T,), and how sure each is given what is given alone.

        Where the batch is as it was given, the first pass takes the beliefs that are there.
        """
        kept, places = narrowed(batch, chosen)
        picked = given.pick(chosen)
        say = partial(self._estimated, kept, generator)
        turns = revealing(
            self.model,
            kept,
            order=self.choices.order,
            leap=self.leap,
            scale=self.scale,
            parts=self.parts,
            generator=generator,
            say=say,
            first=picked.moved_to(places, kept) if is_as_given else None,
        )
        done = reduce(lambda _, last: last, turns, kept)
        said = {kind: done.values[kind][places[one.tokens] - done.spans[kind][0]] for kind, one in picked.kinds.items()}
        said, settled = self.keys.settled(batch, ids, picked, said, self.trusting)
        predictions = [prediction for several in found for prediction in several if not prediction.why_not]
        said, of_units = settle_units(self.codec, self.trusting, batch, picked, said, predictions)
        sure = self.trusting.sure(picked, batch, said) | settled | of_units
        if any(restrictions):
            said, restricted = restrict(self.codec, self.trusting, batch, picked, said, found, restrictions)
            sure |= restricted
        in_lists = {
            token for prediction in predictions if prediction.gap.of.is_list for token in prediction.tokens.values()
        }
        for kind, one in picked.kinds.items():
            done = done.with_values(kind, places[one.tokens] - done.spans[kind][0], said[kind])
        told = {
            answer.token: replace(answer, confidence=sure.get(answer.token, answer.confidence))
            for answer in answers(
                self.codec,
                batch,
                picked,
                said=said,
                level=partial(self.levels.of_tokens, self.codec, batch, batch.known, in_lists=in_lists),
                has_truth=self.has_truth,
                generator=generator,
            )
        }
        values = self.codec.leaves(done, kept.asked)
        repeated = self._draws(kept, kept.asked, generator)
        for several, leaves, draws in zip(found, values, repeated, strict=True):
            for prediction in several:
                if not prediction.why_not:
                    self._take(prediction, told, leaves, draws)

    def _take(
        self,
        one: Prediction,
        told: Mapping[int, Answer],
        values: Mapping[Path, Any],
        draws: Sequence[Mapping[Path, Any]],
    ) -> None:
        """What was said for one gap, of all that was said of its entity."""
        if one.gap.bare is not None:  # the amount is given, and its unit is missing
            one.tokens = {path: token for path, token in one.tokens.items() if path[-1:] != VALUE}
        one.answers |= {path: told[token] for path, token in one.tokens.items()}
        if any(answer.confidence == 0 and answer.slot in self.keys.partners for answer in one.answers.values()):
            one.why_not = TAKEN
            return
        leaves = {path: values[path] for path in one.tokens if path in values}
        one.leaves |= {path: self._shortened(leaf, one.answers[path]) for path, leaf in leaves.items()}
        one.draws = [{path: each[path] for path in one.tokens if path in each} for each in draws]

    def _shortened(self, leaf: Any, answer: Answer) -> Any:
        """A value without digits that say nothing; one that occurs again and again is as it is."""
        between = answer.interval
        if between is None or type(leaf) is not float or leaf in self.codec.slots[answer.slot].codec.atoms:
            return leaf
        return shortened(leaf, between)

    def _estimated(self, batch: Batch, generator: Generator, beliefs: Beliefs) -> dict[str, Tensor]:
        """kind -> codes (q, ...) of what is said for each asked token of a batch."""
        said = estimated(beliefs, self.choices.estimate, generator)
        return said if self.choices.estimate == "sample" else self.trusting.said(batch, beliefs, said)

    def _draws(self, batch: Batch, asked: Tensor, generator: Generator) -> list[list[dict[Path, Any]]]:
        """So many times for each entity, all that is asked of it drawn together."""
        times = self.choices.draws
        if not times:
            return [[] for _ in range(batch.size)]
        drawn = reveal(self.model, batch.repeat(times), order="random", leap=self.leap, generator=generator)
        leaves = self.codec.leaves(drawn, asked.repeat_interleave(times))
        return [leaves[entity * times : (entity + 1) * times] for entity in range(batch.size)]


def narrowed(batch: Batch, chosen: Tensor) -> tuple[Batch, Tensor]:
    """The batch asking for the chosen tokens (T,) alone, and (T,) where each token stands in it."""
    keep = batch.known | chosen
    return batch.only(keep), keep.cumsum(0) - 1


def _chances(logits: Tensor) -> list[float]:
    return logits.sigmoid().tolist()


def leading_slots(fields: Mapping[str, Fields], slots: Sequence[Slot]) -> set[int]:
    """The slots whose presence is that of a property as a whole: that of every property that may be filled."""
    leading = set()
    for of_class in fields.values():
        places: dict[Field, dict[Path, tuple[int, int]]] = {}
        for spot in of_class.spots:
            if spot.field.path == spot.field.top and not spot.field.held:
                places.setdefault(spot.field, {})[spot.path] = spot.slot, 0
        for one, of_field in places.items():
            lead = (*one.path, *COUNT) if one.is_list else _lead(of_field, slots)
            leading |= {slot for path, (slot, _) in of_field.items() if path == lead}
    return leading


def _lead(places: Mapping[Path, tuple[int, int]], slots: Sequence[Any]) -> Path:
    """The part of a gap that most entities have; of several the first, as they are in a date: the year."""
    return max(places, key=lambda path: (slots[places[path][0]].fill, -_date_part(path)), default=())


def _date_part(path: Path) -> int:
    """The place of a part of a date: 0 for the year; whatever is no such part comes last."""
    return NUMBERS.index(str(path[-1])) if path[-1] in NUMBERS else len(NUMBERS)


def _precise(gap: Gap, counts: Mapping[Path, int], absent: set[Path]) -> list[Path]:
    """Which parts are predicted of a date: year, month and day, each where the one before it is, up to an absent one.

    Where no date of the training data ends with a part (`counts`), a new one does not: it might have no form to be in.
    """
    chosen: list[Path] = []
    for path in ((*gap.path, name) for name in NUMBERS if (*gap.path, name) in counts):
        ends = bool(chosen) and counts[path] < counts[chosen[-1]]
        if ends and path in absent:
            break
        chosen.append(path)
    return chosen + [path for path in counts if path[-1] not in NUMBERS]


def _places(path: Path) -> list[int]:
    return [key for key in path if isinstance(key, int)]


def _at(token: Mapping[tuple[int, int], int], entity: int, slot: int) -> int | None:
    return token.get((entity, slot))
