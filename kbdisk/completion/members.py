"""Further members of sets that have some, and further classes of entities, by a linear autoencoder of the source at hand.

The autoencoder (experts/linear_autoencoder.py) scores an entity by the weights of all others. So its trial needs no data that is
kept from it. It compares the scores of two kinds of pairs of a set and a member:

    known      a member of a set that has several, hidden while it is scored: positive
    proposed   the likeliest members that a set does not have: unlabelled, as the source may lack them

Presence, the probability that an entity has a member, is learnt from positive and unlabelled pairs. Known members show that a member
fits, and not that it is missing. So this needs to know how many members are missing for each recorded one: `missing_per_recorded`
estimates it. The same trial says of which properties writing further members is a gain (decide.py).

Classes are the members of such a set, too. An entity without any surely has one: then presence is 1, and correctness is calibrated
on entities whose only class is hidden. Classes that an entity has already by the hierarchy are not proposed, nor those that exclude
its own (`ClassRelations`).

n sets   C members of a property
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from kbdisk.completion.gaps import Gap
from kbdisk.data.codec import Codec
from kbdisk.data.parse import Reading
from kbdisk.data.superclasses import ClassRelations
from kbdisk.data.triples import Relation, Triples
from kbdisk.entity import CLASSES, Link, Path, show
from kbdisk.evaluation.calibration import Calibration, Outcome, UnlabelledPresence
from kbdisk.evaluation.intervals import Key
from kbdisk.experts.linear_autoencoder import LinearAutoencoder

MAX_SETS_TRIED, MAX_MEMBERS_TRIED = 500, 1000  # of a property
MAX_RANK_TRIED = 3  # of a member among those that a set does not have: further down there are too many to try
SETS_AT_ONCE = 4096  # whose members are scored
MAX_PROPOSED = 5  # for one set: the likeliest that no person has rejected is taken
MIN_SCORE = 0.02  # of what is proposed
MIN_CHANCE, MAX_CHANCE = 0.01, 0.97  # that a score stands for: further out there are too few to calibrate them
COPY_SHARE = 0.9  # of the links of a property that are classes, too, from which on classes are a copy of them
MAX_MISSING = 0.25  # members for each recorded one
BEST_SHARE, EXCEPTIONS = 0.25, 0.03  # of known members: those that fit best; the exceptions among these
PRIOR_ENTITIES = 4.0  # imagined entities with one member, of which as many are missing as there may be
PRIOR_ENTITIES_OF_CLASS = 10.0  # imagined entities of a class, of which as many are missing as of all classes
SPECIFIC_SHARE = 0.5  # of the score of a class that one of its subclasses needs to be proposed in its place


def member_key(codec: Codec, class_name: str, path: Path) -> Key:
    """The property that further members of a set of a class are learnt as."""
    return ("", show(CLASSES)) if path == CLASSES else codec.learnt_as(class_name, path)


class SetToExtend(NamedTuple):
    """A set of an entity, and the gap of a further member."""

    id: str  # of the entity
    class_name: str
    gap: Gap


class Proposed(NamedTuple):
    """A member that is proposed for a set."""

    member: Any
    chance: float  # by its score, before it is calibrated


@dataclass(frozen=True)
class FurtherMembers:
    """The members that are proposed for sets, and the calibration of their confidence."""

    proposed: Mapping[tuple[str, Path], Sequence[Proposed]] = field(default_factory=dict)  # by entity and property
    calibration: Calibration = Calibration()
    triples: Triples | None = None  # of the source; None where there is no set
    autoencoder: LinearAutoencoder | None = None

    @classmethod
    def of(
        cls,
        codec: Codec,
        readings: Sequence[Reading],
        sets: Iterable[SetToExtend],
        class_relations: ClassRelations,
        seed: int,
    ) -> Self:
        """The further members of sets of some entities; `readings` are all of their source."""
        by_path: dict[Path, list[SetToExtend]] = defaultdict(list)
        for to_extend in sets:
            by_path[to_extend.gap.path].append(to_extend)
        if not by_path:
            return cls()
        triples = without_copied_classes(Triples.of(codec.schema, readings))
        autoencoder = LinearAutoencoder.fit(triples)
        proposed: dict[tuple[str, Path], Sequence[Proposed]] = {}
        outcomes: list[Outcome] = []
        for path, of_path in by_path.items():
            relation = relation_at(triples, path)
            if relation is None or not autoencoder.has_members(relation):
                continue
            sets_of_property = SetsOfProperty(
                triples, autoencoder, relation, of_path, readings, class_relations if path == CLASSES else None
            )
            proposed |= sets_of_property.proposed()
            outcomes += sets_of_property.outcomes(codec, random.Random(f"{seed} {path}"))
        calibration = Calibration.fit(outcomes, UnlabelledPresence) if outcomes else Calibration()
        return cls(proposed, calibration, triples, autoencoder)

    def best(self, id: str, path: Path, rejected: Sequence[Any] = ()) -> Proposed | None:
        """The likeliest further member of a set that no person has rejected."""
        return next((other for other in self.proposed.get((id, path), ()) if other.member not in rejected), None)


def relation_at(triples: Triples, path: Path) -> int | None:
    """The number of the relation of a set; None where no entity has several members."""
    numbers = (triples.relation_of.get(Relation(path, is_link)) for is_link in (True, False))
    number = next((number for number in numbers if number is not None), None)
    is_learnt = number is not None and (path == CLASSES or bool(triples.is_set[number]))
    return number if is_learnt else None


def without_copied_classes(triples: Triples) -> Triples:
    """The triples without classes, where these are a copy of a property, as in Wikidata: they would tell its hidden members."""
    of_classes = triples.relation_of.get(Relation(CLASSES, False))
    if of_classes is None:
        return triples
    is_class = triples.numbered[:, 1] == of_classes
    names = [str(triples.values[node - len(triples.entities)][1]) for node in triples.numbered[is_class, 2].tolist()]
    classes = set(zip(triples.numbered[is_class, 0].tolist(), names, strict=True))
    links = triples.links
    is_copy = torch.tensor([(head, triples.entities[tail]) in classes for head, _, tail in links.tolist()])
    copies, counts = (torch.bincount(relations) for relations in (links[is_copy.bool(), 1], links[:, 1]))
    share = copies / counts[: len(copies)].clamp(min=1)
    return triples.only(~is_class) if bool((share >= COPY_SHARE).any()) else triples


def missing_per_recorded(sizes: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """How many members are missing for each recorded one, of each class, from the number of recorded members of each of its entities.

    If each member is recorded with the same probability r, independently, this is (1 - r) / r. Of entities with a single member, as
    many are recorded without any for each one that is recorded with it. So entities without any, beside those with one, are a bound.
    They may have no member at all. Classes with few of either go by all classes, and these by the bound of all.
    """
    without = {name: sum(size == 0 for size in of_class) for name, of_class in sizes.items()}
    with_one = {name: sum(size == 1 for size in of_class) for name, of_class in sizes.items()}
    overall = (sum(without.values()) + MAX_MISSING * PRIOR_ENTITIES) / (sum(with_one.values()) + PRIOR_ENTITIES)
    prior = PRIOR_ENTITIES_OF_CLASS * min(overall, MAX_MISSING)
    return {
        name: min((without[name] + prior) / (with_one[name] + PRIOR_ENTITIES_OF_CLASS), MAX_MISSING) for name in sizes
    }


def missing_by_scores(known: Sequence[float], proposed: Sequence[float], stands_for: float) -> float:
    """How many members are missing for each recorded one, at most, by the scores of known members, each hidden, and of proposed ones.

    Among the members that fit best, missing ones are as frequent as everywhere. So there are no more of them than proposed members
    with such scores, without the exceptions that every source has: Norway is no member of the European Union.
    """
    if not known:
        return 0.0
    least = float(np.quantile(known, 1 - BEST_SHARE))
    count = sum(score >= least for score in proposed)
    return max(count / (stands_for * sum(score >= least for score in known)) - EXCEPTIONS, 0.0)


class SetsOfProperty:
    """The sets of one property, or the classes of entities."""

    def __init__(
        self,
        triples: Triples,
        autoencoder: LinearAutoencoder,
        relation: int,
        sets: Sequence[SetToExtend],
        readings: Sequence[Reading],
        class_relations: ClassRelations | None,
    ) -> None:
        """`readings` are all of the source, `class_relations` those between classes, where these are the members."""
        self.triples, self.autoencoder, self.relation, self.sets = triples, autoencoder, relation, sets
        self.heads = torch.tensor([triples.number_of[to_extend.id] for to_extend in sets], dtype=torch.long)
        of_relation = triples.numbered[triples.numbered[:, 1] == relation]
        self.counts = torch.bincount(of_relation[:, 2], minlength=triples.nodes)
        self.known: dict[int, list[int]] = defaultdict(list)  # members by entity
        for head, _, tail in of_relation.tolist():
            self.known[head].append(tail)
        self.class_relations = class_relations
        self.missing = self._missing(readings)  # members for each recorded one, by class

    def _missing(self, readings: Iterable[Reading]) -> Mapping[str, float]:
        """How many members are missing for each recorded one, by class."""
        names = {to_extend.class_name for to_extend in self.sets}
        if self.class_relations is not None:  # most sources state one class, however many an entity has
            return {"": MAX_MISSING}
        sizes: dict[str, list[int]] = defaultdict(list)
        for reading in readings:
            if reading.class_name in names:
                sizes[reading.class_name].append(len(self.known.get(self.triples.number_of[reading.id], ())))
        return missing_per_recorded(sizes)

    def proposed(self) -> Iterator[tuple[tuple[str, Path], Sequence[Proposed]]]:
        """For each set its likeliest further members."""
        for start in range(0, len(self.sets), SETS_AT_ONCE):
            yield from self._proposed(range(start, min(start + SETS_AT_ONCE, len(self.sets))))

    def _proposed(self, places: range) -> Iterator[tuple[tuple[str, Path], Sequence[Proposed]]]:
        heads, sets = self.heads[places.start : places.stop], self.sets[places.start : places.stop]
        members, scores = self._scores(heads, list(map(self._visible, places)))
        best = scores.topk(min(MAX_PROPOSED, len(members)), 1)
        for (id, _, gap), values, nodes in zip(sets, best.values.tolist(), best.indices.tolist(), strict=True):
            found = [
                Proposed(self._member(int(members[node]), gap), chance_of(value))
                for value, node in zip(values, nodes, strict=True)
                if value > -torch.inf
            ]
            yield (id, gap.path), found

    def _member(self, node: int, gap: Gap) -> Any:
        """A node as a member, of the type that the other members have."""
        if node >= len(self.triples.entities):
            label = self.triples.values[node - len(self.triples.entities)][1]
            return Link(str(label)) if gap.path == CLASSES else label
        id = self.triples.entities[node]
        return id if isinstance(gap.members[0], str) else Link(id)

    def _scores(
        self, heads: Tensor, visible: Sequence[Sequence[str]], hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(C,) members, and (n, C) their scores; -inf for those that cannot be proposed. `visible` are those of each entity."""
        members, score, is_known = self.autoencoder.scores(self.relation, heads, hidden)
        score = score.masked_fill(is_known | (members == heads[:, None]) | (score < MIN_SCORE), -torch.inf)
        if self.class_relations is not None:
            self._restrict_to_classes(members, score, visible)
        return members, score

    def _visible(self, place: int, hidden: int | None = None) -> list[str]:
        """The members of a set, by their names, without a hidden one: a rare one, too, of which nothing is learnt."""
        names = [member.id if isinstance(member, Link) else str(member) for member in self.sets[place].gap.members]
        return names if hidden is None else [name for name in names if name != self._name(hidden)]

    def _restrict_to_classes(self, members: Tensor, score: Tensor, visible: Sequence[Sequence[str]]) -> None:
        """Leave out the classes that do not go with the visible ones, and prefer specific ones, in place."""
        assert self.class_relations is not None
        names = [self._name(node) for node in members.tolist()]
        excluded: dict[tuple[str, ...], Tensor] = {}
        for row, of_entity in enumerate(visible):
            key = tuple(sorted(of_entity))
            if key not in excluded:
                excluded[key] = torch.tensor([self.class_relations.excludes(name, key) for name in names])
            score[row].masked_fill_(excluded[key].bool(), -torch.inf)
        below = self.class_relations.below(names)
        for row, best in enumerate(score.argmax(1).tolist() if len(names) else ()):
            lower = [place for place in below[best] if score[row, place] >= SPECIFIC_SHARE * score[row, best]]
            if lower and score[row, best] > -torch.inf:
                chosen = max(lower, key=lambda place: float(score[row, place]))
                score[row, chosen], score[row, best] = score[row, best].clone(), -torch.inf

    def _name(self, node: int) -> str:
        count = len(self.triples.entities)
        return self.triples.entities[node] if node < count else str(self.triples.values[node - count][1])

    # ------------------------------------------------------------ the trial

    def outcomes(self, codec: Codec, generator: random.Random) -> Iterator[Outcome]:
        """The outcomes of the trial: of members that sets do not have, and of those that they have, each hidden."""
        places = [place for place in range(len(self.sets)) if self.known[int(self.heads[place])]]
        if len(places) > MAX_SETS_TRIED:
            places = sorted(generator.sample(places, MAX_SETS_TRIED))
        known = [(place, node) for place in places for node in self._hideable(place)]
        tried = sorted(generator.sample(known, min(len(known), MAX_MEMBERS_TRIED)))
        stands_for = len(known) / max(len(tried), 1)
        proposed, positive = list(self._proposed_outcomes(codec, places)), list(self._known_outcomes(codec, tried))
        yield from proposed
        bound = MAX_MISSING
        if self.class_relations is None:
            bound = missing_by_scores(_presences(positive), _presences(proposed), stands_for)
        for outcome in positive:
            missing = min(self.missing[outcome.class_name], bound)
            yield outcome if outcome.presence is None else outcome._replace(weight=missing * stands_for)

    def _hideable(self, place: int) -> list[int]:
        """The members of a set that may be hidden: those of several; of classes each that the others do not imply."""
        known = self.known[int(self.heads[place])]
        if self.class_relations is None:
            return known if len(known) > 1 else []
        by_name = {self._name(node): node for node in known}
        specific = self.class_relations.specific(self._visible(place))
        return [by_name[name] for name in specific if name in by_name]

    def _proposed_outcomes(self, codec: Codec, places: Sequence[int]) -> Iterator[Outcome]:
        """The outcomes of the likeliest members that some sets do not have."""
        members, scores = self._scores(self.heads[places], [self._visible(place) for place in places])
        for place, of_set in zip(
            places, scores.topk(min(MAX_RANK_TRIED, len(members)), 1).values.tolist(), strict=True
        ):
            for score in of_set:
                if score > -torch.inf:
                    yield self._outcome(codec, place, chance_of(score), 1.0)

    def _known_outcomes(self, codec: Codec, known: Sequence[tuple[int, int]]) -> Iterator[Outcome]:
        """The outcomes of known members, by the place of their set and their node."""
        if not known:
            return
        nodes = torch.tensor([node for _, node in known])
        visible = [self._visible(place, node) for place, node in known]
        members, scores = self._scores(self.heads[[place for place, _ in known]], visible, nodes)
        own = scores.where(members == nodes[:, None], -torch.inf).amax(1)  # -inf: nothing is learnt of a rare one
        ranks = (scores > own[:, None]).sum(1)
        best, usual = scores.max(1), self.counts[members].where(scores > -torch.inf, -1).argmax(1)
        for (place, node), of_set, score, rank, best_score, best_member, constant in zip(
            known,
            visible,
            own.tolist(),
            ranks.tolist(),
            best.values.tolist(),
            members[best.indices].tolist(),
            members[usual].tolist(),
            strict=True,
        ):
            is_constant = float(constant == node)
            if not of_set:
                stated = chance_of(best_score) if best_score > -torch.inf else None
                yield self._outcome(codec, place, None, stated, float(best_member == node), is_constant)
            elif score > -torch.inf and rank < MAX_RANK_TRIED:
                yield self._outcome(codec, place, chance_of(score), 1.0, 1.0, is_constant)

    def _outcome(
        self,
        codec: Codec,
        place: int,
        presence: float | None,
        correctness: float | None,
        right: float | None = None,
        constant: float | None = None,
    ) -> Outcome:
        _, class_name, gap = self.sets[place]
        key = member_key(codec, class_name, gap.path)
        class_counted = "" if gap.path == CLASSES else class_name
        return Outcome(key, presence, correctness, right, constant, class_name=class_counted)


def _presences(outcomes: Iterable[Outcome]) -> list[float]:
    return [outcome.presence for outcome in outcomes if outcome.presence is not None]


def chance_of(score: float) -> float:
    """The probability that a score stands for, before it is calibrated."""
    return min(max(score, MIN_CHANCE), MAX_CHANCE)
