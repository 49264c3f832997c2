"""Links: filtered ranks in both directions, by property, and the calibration of the correctness of predicted links.

A link (head, property, tail) asks two questions: for its tail, and for its head. The rank of the right answer is that among all
entities, without other known answers; of entities with equal scores half come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbdisk.data.triples import Answers, Triples, links_of, with_inverses
from kbdisk.entity import Entity, show
from kbdisk.errors import SchemaError
from kbdisk.evaluation.calibration import Line
from kbdisk.experts.link_factorization import (
    MIN_CALIBRATED,
    Correctness,
    Fitted,
    HeldOut,
    LinkPredictor,
    ranks,
)
from kbdisk.schemas.schema import Schema

TAIL, HEAD, BOTH = "tail", "head", "both"  # what is asked for
CALIBRATION_RANGES = 10
MAX_CALIBRATED = 1000  # queries that correctness is calibrated on


@dataclass(frozen=True)
class LinkScore:
    """How well the links of a property are predicted in one direction, or in both."""

    property: str  # empty: all
    asked: str
    n: int
    mrr: float  # the mean reciprocal rank
    hits_1: float  # the share of right answers that come first
    hits_3: float
    hits_10: float

    def to_json(self) -> dict[str, Any]:
        """The score as plain data."""
        return asdict(self)


def link_scores(links: Tensor, ranks_of_links: Tensor, triples: Triples) -> list[LinkScore]:
    """The scores of links (m, 3) by their ranks (2m,), first those of tails: of all, and of each property, the most frequent first."""
    relation = links[:, 1]
    by_count = torch.bincount(relation, minlength=len(triples.relations))
    scores = list(_directions("", ranks_of_links.reshape(2, -1)))
    for number in by_count.argsort(descending=True, stable=True).tolist():
        if by_count[number]:
            name = show(triples.relations[number].path)
            scores.extend(_directions(name, ranks_of_links.reshape(2, -1)[:, relation == number]))
    return scores


def _directions(name: str, of_directions: Tensor) -> Iterator[LinkScore]:
    """The scores of ranks (2, m), of tails and of heads."""
    for asked, values in ((BOTH, of_directions.flatten()), (TAIL, of_directions[0]), (HEAD, of_directions[1])):
        values = values.double()
        hits = (float((values <= most).double().mean()) for most in (1, 3, 10))
        yield LinkScore(name, asked, len(values), float((1 / values).mean()), *hits)


def held_out_scores(predictor: LinkPredictor) -> list[LinkScore]:
    """The scores of the links that were held out, before they were learnt from."""
    return link_scores(predictor.held_out, predictor.held_out_ranks, predictor.triples)


def scores_of(predictor: LinkPredictor, links: Tensor) -> list[LinkScore]:
    """The scores of further links (m, 3). The predictor's own links, and these, are known answers."""
    relations = len(predictor.triples.relations)
    known = Answers(torch.cat([predictor.triples.links, links]), relations)
    asked = with_inverses(links, relations)
    return link_scores(
        links, ranks(predictor.factors, asked, known, len(predictor.triples.entities)), predictor.triples
    )


@dataclass(frozen=True)
class Classification:
    """How well links are told from false ones, of which there are as many."""

    n: int
    accuracy: float  # of the probability at .5
    calibration_error: float  # the mean difference of probability and truth, in ten ranges of the probability

    def to_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return asdict(self)


def classification(probability: Tensor, is_true: Tensor) -> Classification:
    """The accuracy and the calibration of the probabilities (m,) that triples are links."""
    is_true = is_true.double()
    place = (probability * CALIBRATION_RANGES).long().clamp(max=CALIBRATION_RANGES - 1)
    sums = torch.zeros(CALIBRATION_RANGES, dtype=torch.float64).index_add_(0, place, probability - is_true)
    accuracy = ((probability > 0.5).double() == is_true).double().mean()
    return Classification(len(is_true), float(accuracy), float(sums.abs().sum() / len(is_true)))


@dataclass(frozen=True)
class LinkEvaluation:
    """The scores of links: of all first, then of each property, the most frequent first."""

    scores: list[LinkScore]
    known: int  # links that the predictor knows: not scored
    left_out: int  # links of entities or properties that it does not know
    is_held_out: bool  # whether those are scored that were held out in training
    classified: Classification | None = None  # the links beside as many false ones, where these are stated


def evaluate_links(
    predictor: LinkPredictor, schema: Schema, entities: Iterable[Entity], false: Iterable[Entity] | None = None
) -> LinkEvaluation:
    """The scores of the links that a predictor does not know; of those held out in training where it knows all of them.

    With the `false` links of other entities also how well links that it does not know are told from these.
    """
    triples = Triples.of_links(list(links_of(schema, entities)))
    links = _known_links(predictor, triples)
    is_known = predictor.known.contains(links)
    left_out, new = len(triples) - len(links), links[~is_known]
    if len(new):
        classified = (
            None if false is None else _classified(predictor, new, Triples.of_links(list(links_of(schema, false))))
        )
        return LinkEvaluation(scores_of(predictor, new), int(is_known.sum()), left_out, False, classified)
    if false is not None:
        raise SchemaError("the links", "expected some that the model does not know beside the false ones, got none.")
    if left_out or not len(links):
        raise SchemaError(
            "the links", f"expected some among entities and properties of the model, got {left_out:,} others."
        )
    if not len(predictor.held_out):
        raise SchemaError(
            "the links", "expected some that the model does not know, got none. Say a source with others."
        )
    return LinkEvaluation(held_out_scores(predictor), int(is_known.sum()), left_out, True)


def _known_links(predictor: LinkPredictor, triples: Triples) -> Tensor:
    """(m, 3) the links among entities and properties that a predictor knows, by its numbers."""
    return predictor.triples.number(
        (triples.entities[head], triples.relations[relation].path, triples.entities[tail])
        for head, relation, tail in triples.numbered.tolist()
    )


def _classified(predictor: LinkPredictor, links: Tensor, false: Triples) -> Classification:
    """How well links (m, 3) are told from false ones; of more, as many are drawn."""
    numbered = _known_links(predictor, false)
    numbered = numbered[~predictor.known.contains(numbered)]
    if not len(numbered):
        raise SchemaError("the false links", "expected some among entities that the model knows, got none.")
    generator = torch.Generator().manual_seed(0)
    links, numbered = (
        rows[torch.randperm(len(rows), generator=generator)[: min(len(links), len(numbered))]]
        for rows in (links, numbered)
    )
    is_true = torch.arange(2 * len(links)) < len(links)
    return classification(predictor.probability(torch.cat([links, numbered])), is_true)


def calibrated(fitted: Fitted, triples: Triples) -> LinkPredictor:
    """The predictor of links, with a correctness that is calibrated on links that were held out.

    The likeliest answers to the questions of a held-out link are right where they are the link. So the correctness is that of an
    entity that has one more such link than is known.
    """
    held_out = fitted.held_out
    correctness = correctness_of(held_out, triples)
    return LinkPredictor(
        triples, fitted.factors, fitted.strength, correctness, held_out.classifier, held_out.links, held_out.ranks
    )


def correctness_of(held_out: HeldOut, triples: Triples) -> Correctness:
    """The line of correctness, with an offset for each property and direction as far as held-out links support it.

    Of fewer than MIN_CALIBRATED questions it is the line that changes nothing.
    """
    chosen = torch.randperm(len(held_out.relations), generator=torch.Generator().manual_seed(0))[:MAX_CALIBRATED]
    relations, is_right = held_out.relations[chosen], held_out.is_right[chosen]
    width = is_right.shape[1]
    keys = [(str(number), "") for number in relations.repeat_interleave(width).tolist()]
    probability = held_out.probability[chosen].double().flatten().numpy()
    truth = is_right.double().flatten().numpy()
    enough = len(held_out.relations) >= MIN_CALIBRATED
    line = Line.fit(keys, probability, truth, np.ones(len(keys))) if enough else Line()
    offsets = torch.zeros(2 * len(triples.relations), dtype=torch.float64)
    for (number, _), offset in line.offsets.items():
        offsets[int(number)] = offset
    slope, intercept = (torch.tensor(number, dtype=torch.float64) for number in (line.slope, line.intercept))
    return Correctness(slope, intercept, offsets)
