"""Links by factorisation: ComplEx with N3 regularisation and relation prediction, for links in both directions.

A node has a complex vector, and so has a relation and its inverse. A query (node, relation) is the product of both vectors, and
its answers are scored by their real inner products with it: (Trouillon et al. 2016; Lacroix et al. 2018, N3; Chen et al. 2021,
relation prediction). Values are nodes too, so that what an entity has helps to place it (see kbdisk.data.triples).

The loss of a triple is the cross-entropy of its tail among all nodes. Triples with the same query share a score of each node:
the loss of a query with k answers is k times its log-normalisation, less the answers' scores. This is the sum over its triples,
at the price of one; the gradient is written out, as it is two products of matrices. Of many nodes a part is drawn at each step.

A complex vector is stored as its real parts, then its imaginary parts.

n triples   q queries   N nodes   P relations   2R numbers of a vector
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import IO, NamedTuple

import torch
from torch import Tensor

from kbdisk.data.scratch import disk_errors, scratch_file
from kbdisk.data.triples import Answers, Triples, held_out_links, with_inverses
from kbdisk.experts.base import Report, ignored
from kbdisk.experts.config import LinkFactorizationConfig
from kbdisk.model.optimizers import LBFGS, adagrad, has_native_bfloat16

STRENGTHS = (0.005, 0.01, 0.02, 0.05)  # of N3, of which the best for held-out links is taken
DEFAULT_STRENGTH = 0.01  # where too few links are held out
TRIAL_SHARE = 0.05  # of the time, for each of them
FINAL_SHARE = 0.1  # of the time, with the held-out links
HELD_OUT_SHARE, MAX_HELD_OUT = 0.03, 2000  # links that are held out
HELD_OUT_A_SECOND, FEWEST_HELD_OUT = 200, 200  # in a short time, as ranking a link among all nodes takes a while
MIN_HELD_OUT = 20  # of these, from which on the strength is chosen by them
MIN_SECONDS_COMPARED = 10.0  # in which strengths are compared
RATE, INITIAL_SCALE, EPSILON = 0.1, 0.1, 1e-10  # of Adagrad
TRIALS, MAIN, FINAL = (1.0, 1.0), (1.0, 0.3), (0.3, 0.02)  # the first and the last rate of a phase, in RATE
RELATION_WEIGHT = 0.5  # of the prediction of relations in the loss
PLACING_STEPS, PLACING_RATE = 60, 0.3  # of a new node
APPROXIMATE_STEPS = 8  # of many new nodes at once
MAX_SCORES = 1 << 24  # that are computed at once
LINKS_AT_ONCE = 256  # whose known answers are listed at once
RANKED_AT_ONCE = 1024  # queries, for which the vectors of all nodes are converted once
ROUNDING = 1e-6  # of a score, relatively
MIN_LOG_SHARE = (
    -80.0
)  # of an entity's share to the largest one: smaller exponentials are subnormal, and take several times as long
SPARE = 32  # candidates that are kept in half precision, beside twice as many as are wanted
MAX_NODES = 1 << 15  # whose vectors are in single precision at once
MIN_CALIBRATED = 10  # questions about held-out links, from which on correctness is calibrated
CALIBRATED = 10  # answers to a held-out query that correctness is calibrated on
MIN_PROBABILITY = 1e-9
MOST_LIKE = 30  # entities that say whether one like them has a link at all
CLASSIFIER_PRIOR = 1.0  # precision of the weights that tell links from false ones
MIN_SECONDS = 1e-9
UNLIMITED_EPOCHS = 60  # where there is no time limit
DEFAULT_RANK = 200  # without a time limit
SMALLEST_RANK = 50  # with a time limit, however short
LARGER_RANKS = {  # epochs that the smallest rank has time for, from which on a larger rank is better
    100: 10,
    200: 40,
    400: 160,
    800: 430,
}
MAX_NUMBERS = 1 << 25  # of the vectors of all nodes at a rank above the default
MIN_NUMBERS_SET_ASIDE = 1 << 23  # of these vectors, from which on those of a trial are in a file while another one runs
MEASURED_STEPS = 7  # of each side, whose time says how many epochs there are


def times(x: Tensor, y: Tensor) -> Tensor:
    """(n, 2R) the complex product."""
    (a, b), (c, d) = x.chunk(2, 1), y.chunk(2, 1)
    return torch.cat([a * c - b * d, a * d + b * c], 1)


def times_conjugate(x: Tensor, y: Tensor) -> Tensor:
    """(n, 2R) the complex product of x with the conjugate of y."""
    (a, b), (c, d) = x.chunk(2, 1), y.chunk(2, 1)
    return torch.cat([a * c + b * d, b * c - a * d], 1)


def cubes(x: Tensor) -> Tensor:
    """(n,) the sum of the cubes of the moduli: N3."""
    real, imaginary = x.chunk(2, 1)
    return (real * real + imaginary * imaginary).pow(1.5).sum(1)


def gradient_of_cubes(x: Tensor) -> Tensor:
    """(n, 2R)"""
    real, imaginary = x.chunk(2, 1)
    modulus = 3 * (real * real + imaginary * imaginary).sqrt()
    return torch.cat([modulus * real, modulus * imaginary], 1)


@dataclass(frozen=True)
class Factors:
    """The vectors of nodes (N, 2R), and of relations and their inverses (2P, 2R)."""

    nodes: Tensor
    relations: Tensor

    @property
    def rank(self) -> int:
        """The complex numbers of a vector."""
        return self.nodes.shape[1] // 2

    def rounded(self) -> Factors:
        """The factors in half precision, as they are stored and asked; all is computed in single precision."""
        return Factors(self.nodes.half(), self.relations.half())

    def node_vectors(self, nodes: slice | Tensor) -> Tensor:
        """(n, 2R) in single precision."""
        return self.nodes[nodes].float()

    def parts(self, entities: int, rows: int, precision: torch.dtype = torch.float32) -> Iterator[tuple[int, Tensor]]:
        """The first `entities` nodes in parts: the first node of each part, and its vectors, which the next part overwrites.

        A part is as large as `rows` of scores of it may be.
        """
        size = max(min(MAX_SCORES // max(rows, 1), MAX_NODES, entities), 1)
        converted = torch.empty((size, self.nodes.shape[1]), dtype=precision)
        for start in range(0, entities, size):
            end = min(start + size, entities)
            yield start, converted[: end - start].copy_(self.nodes[start:end])

    def relation_vectors(self, relations: Tensor) -> Tensor:
        """(n, 2R) in single precision."""
        return self.relations[relations].float()

    def queries(self, nodes: Tensor, relations: Tensor) -> Tensor:
        """(q, 2R)"""
        return times(self.node_vectors(nodes), self.relation_vectors(relations))

    def scores(self, queries: Tensor, candidates: slice | Tensor) -> Tensor:
        """(q, C) the score of each candidate node."""
        return queries @ self.node_vectors(candidates).T

    def place(self, sides: Sequence[tuple[Tensor, Tensor, slice]], strength: float) -> Tensor:
        """(2R,) the vector of a new node, by its triples: those with entities, and those with values.

        A side has relations (n,), those of inverses included, the nodes at their ends (n,), and the nodes among which these are
        predicted. As all else stays, the loss is convex in the vector.
        """
        sides = [side for side in sides if len(side[0])]
        total = sum(len(relations) for relations, _, _ in sides)
        tasks = []
        for relations, answers, candidates in sides:
            distinct, place = relations.unique(return_inverse=True)
            matrix, vectors = self.relation_vectors(distinct), self.node_vectors(candidates)
            wanted = torch.zeros_like(matrix).index_add_(0, place, self.node_vectors(answers))  # (d, 2R)
            tasks.append((matrix, vectors, wanted, torch.bincount(place).float()[:, None]))
        vector, squares = torch.zeros(1, self.nodes.shape[1]), torch.zeros(1, self.nodes.shape[1])
        for step in range(PLACING_STEPS):
            gradient = strength * gradient_of_cubes(vector)
            for matrix, vectors, wanted, counts in tasks:
                queries = times(vector.expand_as(matrix), matrix)
                expected = counts * ((queries @ vectors.T).softmax(1) @ vectors)
                gradient += times_conjugate(expected - wanted, matrix).sum(0, keepdim=True) / total
            squares += gradient * gradient
            rate = PLACING_RATE * (1 - step / PLACING_STEPS)
            vector = vector - rate * gradient / (squares.sqrt() + EPSILON)
        return vector[0]

    def place_all(
        self, sides: Sequence[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]], count: int, strength: float
    ) -> Tensor:
        """(count, 2R) the vectors of many new nodes at once, approximately: answers are told from some candidates alone.

        A side has owners (n,), relations (n,) and answers (n,), and candidates (C,) with the logarithms (C,) of how many
        nodes each stands for.
        """
        sides = [side for side in sides if len(side[0])]
        owners = torch.cat([side[0] for side in sides]) if sides else torch.zeros(0, dtype=torch.long)
        total = torch.bincount(owners, minlength=count).clamp(min=1)[:, None].to(self.nodes.device)
        tasks = [
            (
                owner,
                self.relation_vectors(relations),
                self.node_vectors(answers),
                self.node_vectors(candidates),
                log_weights + torch.where(answers[:, None] == candidates, -torch.inf, 0.0),
            )
            for owner, relations, answers, candidates, log_weights in sides
        ]
        vectors = self.nodes.new_zeros((count, self.nodes.shape[1]), dtype=torch.float32)
        squares = torch.zeros_like(vectors)
        for step in range(APPROXIMATE_STEPS):
            gradient = strength * gradient_of_cubes(vectors)
            for owner, relation, answer, candidates, log_weights in tasks:
                queries = times(vectors[owner], relation)
                own = (queries * answer).sum(1, keepdim=True)
                probabilities = torch.cat([own, queries @ candidates.T + log_weights], 1).softmax(1)
                apart = (probabilities[:, :1] - 1) * answer + probabilities[:, 1:] @ candidates
                gradient.index_add_(0, owner, times_conjugate(apart, relation) / total[owner])
            squares += gradient * gradient
            rate = PLACING_RATE * (1 - step / APPROXIMATE_STEPS)
            vectors = vectors - rate * gradient / (squares.sqrt() + EPSILON)
        return vectors


# ---------------------------------------------------------------- training


class FactorTrainer:
    """The training of factors by Adagrad, in epochs over all queries, resumable at any step."""

    def __init__(self, triples: Triples, config: LinkFactorizationConfig, strength: float, seed: int) -> None:
        self.config, self.strength = config, strength
        self.entities, self.relations_count = len(triples.entities), len(triples.relations)
        self.generator = torch.Generator().manual_seed(seed)
        self._shape = triples.nodes, 2 * config.rank
        self._file: IO[bytes] | None = None  # of what is set aside
        self.nodes = torch.randn(self._shape, generator=self.generator).mul_(INITIAL_SCALE)
        self.relations = (
            torch.randn((2 * self.relations_count, 2 * config.rank), generator=self.generator) * INITIAL_SCALE
        )
        self.node_squares, self.relation_squares = torch.zeros_like(self.nodes), torch.zeros_like(self.relations)
        self.precision = torch.bfloat16 if has_native_bfloat16(self.nodes.device) else torch.float32
        self.rate = RATE
        self.epochs = 0
        self.learn_from(triples)

    @property
    def factors(self) -> Factors:
        """The factors as they are now; later steps change them."""
        return Factors(self.nodes, self.relations)

    def set_aside(self) -> None:
        """Keep large vectors and their squares in a scratch file, until they are taken back."""
        if self.nodes.numel() >= MIN_NUMBERS_SET_ASIDE and self._file is None:
            self._file = scratch_file(None)
            weakref.finalize(self, self._file.close)
            with disk_errors(None):
                for vectors in (self.nodes, self.node_squares):
                    self._file.write(vectors.numpy().data)
            self.nodes, self.node_squares = (vectors.new_empty(0) for vectors in (self.nodes, self.node_squares))

    def take_back(self) -> None:
        """Have the vectors in memory again."""
        if self._file is not None:
            self._file.seek(0)
            self.nodes, self.node_squares = torch.empty(self._shape), torch.empty(self._shape)
            with disk_errors(None):
                for vectors in (self.nodes, self.node_squares):
                    self._file.readinto(vectors.numpy().data)  # type: ignore[attr-defined] # buffered files have it
            self._file.close()
            self._file = None

    def learn_from(self, triples: Triples) -> None:
        """Learn from these triples of the same nodes from now on."""
        self.sides: list[_Queries] = []  # earlier sides are dropped before new ones take memory
        self._steps: Iterator[tuple[_Queries, Tensor]] = iter(())
        width, answers = 2 * self.relations_count, self.config.answers
        links = int(triples.is_link[triples.numbered[:, 1]].sum())
        if links:
            both = with_inverses(triples.links, self.relations_count)
            self.sides.append(_Queries(both, slice(0, self.entities), width, answers))
            del both
        if links < len(triples):
            self.sides.append(_Queries(triples.value_triples, slice(self.entities, triples.nodes), width, answers))

    def run(
        self,
        seconds: float | None,
        epochs: int = UNLIMITED_EPOCHS,
        report: Callable[[float], None] | None = None,
        rates: tuple[float, float] = (1.0, 1.0),
        steps: int | None = None,
    ) -> None:
        """Take steps for some seconds, or so many, or else for some epochs, at a rate that goes from the first of `rates` to the last, in RATE."""
        start, first, taken = time.monotonic(), self.epochs, 0
        while True:
            done = 0.0 if seconds is None else (time.monotonic() - start) / max(seconds, MIN_SECONDS)
            done = done if steps is None else max(done, taken / steps)
            done = (self.epochs - first) / epochs if seconds is None and steps is None else done
            if done >= 1:
                return
            self.rate = RATE * (rates[0] + (rates[1] - rates[0]) * done)
            if report is not None:
                report(done)
            step = next(self._steps, None)
            if step is None:
                self._steps = self.epoch()
                self.epochs += 1
                step = next(self._steps, None)
                if step is None:
                    return
            self.step(*step)
            taken += 1

    def seconds_of_epoch(self) -> float:
        """The seconds of an epoch, estimated by taking a few steps of each side."""
        seconds = 0.0
        for side in self.sides:
            steps, times_of_steps = self._steps_of(side), []
            for pieces in steps[:MEASURED_STEPS]:
                start = time.monotonic()
                self.step(side, pieces)
                times_of_steps.append(time.monotonic() - start)
            seconds += median(times_of_steps) * len(steps)
        return seconds

    def epoch(self) -> Iterator[tuple[_Queries, Tensor]]:
        """The steps of one epoch: each its side, and pieces of queries."""
        steps = []
        for side in self.sides:
            side.shuffle(self.generator)
            steps += [(side, pieces) for pieces in self._steps_of(side)]
        for place in torch.randperm(len(steps), generator=self.generator).tolist():
            yield steps[place]

    def _steps_of(self, side: _Queries) -> Sequence[Tensor]:
        """The pieces that each step of an epoch learns from, in random order."""
        order = torch.randperm(len(side.counts), generator=self.generator)
        steps: Sequence[Tensor] = order.split(self.config.queries)
        return steps

    def step(self, side: _Queries, pieces: Tensor) -> None:
        """One step by some pieces of a side's queries."""
        head, relation, rows, tail, counts = side.take(pieces)
        candidates, column, log_weight = self._candidates(side.candidates, tail)
        total = float(len(tail))
        x, r = self.nodes[head], self.relations[relation]
        queries = times(x, r).to(self.precision)
        candidate_vectors = self.nodes[candidates].to(self.precision)
        probabilities = queries @ candidate_vectors.T
        if log_weight is not None:
            probabilities += log_weight.to(self.precision)
        probabilities = probabilities.softmax(1).mul_((counts[:, None] / total).to(self.precision))
        slots = rows * probabilities.shape[1] + column
        probabilities.view(-1).index_add_(0, slots, torch.full_like(slots, -1 / total, dtype=self.precision))
        of_candidates = probabilities.T @ queries
        of_queries = (probabilities @ candidate_vectors).float()
        of_heads, of_relations = times_conjugate(of_queries, r), times_conjugate(of_queries, x)
        weight = self.strength * counts[:, None] / total
        of_heads += weight * gradient_of_cubes(x)
        of_relations += weight * gradient_of_cubes(r)
        of_tails = self.strength / total * gradient_of_cubes(self.nodes[tail])
        relations_gradient = torch.zeros_like(self.relations).index_add_(0, relation, of_relations)
        parts = [(head, of_heads), (tail, of_tails)]
        parts += self._relation_prediction(head[rows], relation[rows], tail, total, relations_gradient)
        self._descend_nodes(candidates, of_candidates, parts)
        adagrad(self.relations, self.relation_squares, relations_gradient, self.rate)

    def _relation_prediction(
        self, head: Tensor, relation: Tensor, tail: Tensor, total: float, gradient: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """The gradient of predicting the relation of a head and a tail: added to that of relations, and those of nodes."""
        is_forward = relation < self.relations_count
        head, relation, tail = head[is_forward], relation[is_forward], tail[is_forward]
        if not len(head):
            return []
        x, y, r = self.nodes[head], self.nodes[tail], self.relations[: self.relations_count]
        queries = times_conjugate(y, x)  # the score is the real part of x r conj(y), the inner product of r with this
        probabilities = (queries @ r.T).softmax(1)
        probabilities[torch.arange(len(head)), relation] -= 1
        probabilities *= RELATION_WEIGHT / total
        gradient[: self.relations_count] += probabilities.T @ queries
        of_queries = probabilities @ r
        return [(tail, times(of_queries, x)), (head, times_conjugate(y, of_queries))]

    def _candidates(self, of_side: slice, tails: Tensor) -> tuple[slice | Tensor, Tensor, Tensor | None]:
        """The nodes that are scored, the columns of the tails, and the logarithm of the nodes that each stands for."""
        size = of_side.stop - of_side.start
        if size <= self.config.max_scored:
            return of_side, tails - of_side.start, None
        own = tails.unique()
        drawn = torch.randint(of_side.start, of_side.stop, (self.config.max_scored,), generator=self.generator)
        drawn = drawn[~torch.isin(drawn, own)].unique()
        candidates = torch.cat([own, drawn])
        log_weight = torch.zeros(len(candidates))
        log_weight[len(own) :] = torch.tensor((size - len(own)) / max(len(drawn), 1)).log()
        return candidates, torch.searchsorted(own, tails), log_weight

    def _descend_nodes(
        self, candidates: slice | Tensor, of_candidates: Tensor, parts: list[tuple[Tensor, Tensor]]
    ) -> None:
        """One step of Adagrad of the nodes that have a gradient."""
        if isinstance(candidates, slice) and len(self.nodes) <= self.config.max_scored:
            gradient = self._gradient
            gradient[: candidates.start], gradient[candidates.stop :] = 0.0, 0.0
            gradient[candidates] = of_candidates
            for nodes, of_nodes in parts:
                gradient.index_add_(0, nodes, of_nodes)
            adagrad(self.nodes, self.node_squares, gradient, self.rate)
            return
        if isinstance(candidates, slice):
            candidates = torch.arange(candidates.start, candidates.stop)
        changed, place = torch.cat([candidates, *(nodes for nodes, _ in parts)]).unique(return_inverse=True)
        gradient = torch.zeros(len(changed), self.nodes.shape[1])
        gradient.index_add_(0, place, torch.cat([of_candidates.float(), *(of_nodes for _, of_nodes in parts)]))
        values, squares = self.nodes[changed], self.node_squares[changed]
        adagrad(values, squares, gradient, self.rate)
        self.nodes[changed], self.node_squares[changed] = values, squares

    @cached_property
    def _gradient(self) -> Tensor:
        """(N, 2R) written anew at each step: memory that is asked for at each step costs as much as the step itself."""
        return torch.empty_like(self.nodes)


class _Queries:
    """Triples by their queries, in pieces of some answers at most. Triples and pieces are numbered by 32 bits, as there are millions."""

    def __init__(self, numbered: Tensor, candidates: slice, width: int, answers_at_once: int) -> None:
        self.candidates = candidates
        keys = numbered[:, 0].long() * width + numbered[:, 1]
        keys, order = keys.sort(stable=True)
        self.numbered = numbered[order]
        del numbered, order
        _, answers = keys.unique_consecutive(return_counts=True)
        del keys
        pieces = (answers + answers_at_once - 1).div(answers_at_once, rounding_mode="floor")
        counts = torch.full((int(pieces.sum()),), answers_at_once, dtype=torch.int)
        counts[pieces.cumsum(0) - 1] = (answers - (pieces - 1) * answers_at_once).int()
        self.counts = counts  # (pieces,)
        self.starts = (counts.cumsum(0) - counts).int()
        # of queries with several pieces: for each triple the query, and its row
        has_several = pieces > 1
        first_rows, answers = (answers.cumsum(0) - answers)[has_several], answers[has_several]
        self.divided_queries = torch.repeat_interleave(answers)
        before = (answers.cumsum(0) - answers)[self.divided_queries]
        self.divided_rows = first_rows[self.divided_queries] + torch.arange(len(self.divided_queries)) - before

    def shuffle(self, generator: torch.Generator) -> None:
        """Draw anew which answers of a query are in the same piece."""
        order = torch.randperm(len(self.divided_rows), generator=generator)
        order = order[self.divided_queries[order].argsort(stable=True)]
        self.numbered[self.divided_rows] = self.numbered[self.divided_rows[order]]

    def take(self, pieces: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The heads and relations (q,) of some pieces; the rows and tails (n,) of their answers; how many each has (q,)."""
        counts, starts = self.counts[pieces].long(), self.starts[pieces].long()
        rows = torch.arange(len(pieces)).repeat_interleave(counts)
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
        tail = self.numbered[starts[rows] + within, 2].long()
        first = self.numbered[starts].long()
        return first[:, 0], first[:, 1], rows, tail, counts.float()


# ---------------------------------------------------------------- ranks


class _Excluded:
    """Nodes (m,) that are no answers in some rows (m,) of queries."""

    def __init__(self, rows: Tensor, nodes: Tensor) -> None:
        order = nodes.argsort()
        self.rows, self.nodes = rows[order], nodes[order]

    def remove_from(self, scores: Tensor, start: int) -> None:
        """Write minus infinity for them into scores (q, n) of nodes from `start` on."""
        first, last = torch.searchsorted(self.nodes, torch.tensor([start, start + scores.shape[1]])).tolist()
        scores[self.rows[first:last], self.nodes[first:last] - start] = -torch.inf


def ranks(factors: Factors, asked: Tensor, known: Answers, entities: int) -> Tensor:
    """(m,) the filtered rank of the tail of each triple (m, 3) among entities: other known answers are left out.

    Of nodes with equal scores half come first, which is the mean over random orders. Scores are equal that differ by rounding.
    """
    ranked = []
    for triples in asked.split(RANKED_AT_ONCE):
        queries = factors.queries(triples[:, 0], triples[:, 1])
        own = (queries * factors.node_vectors(triples[:, 2])).sum(1, keepdim=True)
        tolerance = ROUNDING * own.abs()
        rows, answers = known.of(triples[:, 0], triples[:, 1])
        excluded = _Excluded(torch.cat([rows, torch.arange(len(triples))]), torch.cat([answers, triples[:, 2]]))
        above, equal = torch.zeros(len(triples)), torch.zeros(len(triples))
        for start, vectors in factors.parts(entities, len(triples)):
            scores = queries @ vectors.T
            excluded.remove_from(scores, start)
            above_or_equal = (scores >= own - tolerance).sum(1)
            above_part = (scores > own + tolerance).sum(1)
            above += above_part
            equal += above_or_equal - above_part
        ranked.append(1 + above + equal / 2)
    return torch.cat([torch.zeros(0), *ranked])


def mean_reciprocal_rank(factors: Factors, held_out: Tensor, known: Answers, triples: Triples) -> float:
    """That of held-out links (m, 3), of both directions."""
    asked = with_inverses(held_out, len(triples.relations))
    return float((1 / ranks(factors, asked, known, len(triples.entities))).mean()) if len(asked) else 0.0


# ---------------------------------------------------------------- predictions


FEATURES = 4  # of a link


def link_features(factors: Factors, links: Tensor, entities: int, relations: int) -> Tensor:
    """(m, 4) by which links (m, 3) are told from false ones: the log-probabilities of tail, head and relation, and the score."""
    parts = []
    for of_part in links.split(RANKED_AT_ONCE):
        both = with_inverses(of_part, relations)
        queries = factors.queries(both[:, 0], both[:, 1])
        own = (queries * factors.node_vectors(both[:, 2])).sum(1)
        log_total = torch.full((len(queries),), -torch.inf)
        for _, vectors in factors.parts(entities, len(queries)):
            log_total = torch.logaddexp(log_total, (queries @ vectors.T).logsumexp(1))
        of_tails, of_heads = (own - log_total).chunk(2)
        products = times_conjugate(factors.node_vectors(of_part[:, 2]), factors.node_vectors(of_part[:, 0]))
        of_relations = (
            (products @ factors.relation_vectors(torch.arange(relations)).T)
            .log_softmax(1)
            .gather(1, of_part[:, 1:2])[:, 0]
        )
        parts.append(torch.stack([of_tails, of_heads, of_relations, own[: len(of_part)]], 1).double())
    return torch.cat([torch.zeros(0, FEATURES, dtype=torch.float64), *parts])


@dataclass(frozen=True)
class LinkClassifier:
    """Logistic regression that tells links from false ones that look like them, half of either."""

    weights: Tensor  # (5,) of the features, and a constant
    offsets: Tensor  # (P,) of each relation

    @classmethod
    def fit(cls, features: Tensor, relation: Tensor, is_true: Tensor, relations: int) -> LinkClassifier:
        """By the features (m, 4) and relations (m,) of links and false ones (m,), with a ridge prior."""
        weights = torch.zeros(FEATURES + 1, dtype=torch.float64, requires_grad=True)
        offsets = torch.zeros(relations, dtype=torch.float64, requires_grad=True)
        optimizer = LBFGS([weights, offsets], max_iter=200, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            odds = features @ weights[:FEATURES] + weights[FEATURES] + offsets[relation]
            entropy = torch.nn.functional.binary_cross_entropy_with_logits(odds, is_true.double(), reduction="sum")
            value = entropy + CLASSIFIER_PRIOR * (weights[:FEATURES].square().sum() + offsets.square().sum()) / 2
            value.backward()
            return value

        if len(features):
            optimizer.step(loss)  # type: ignore[no-untyped-call]
        return cls(weights.detach(), offsets.detach())

    def __call__(self, features: Tensor, relation: Tensor) -> Tensor:
        """(m,) the probability that each is a link."""
        return (features @ self.weights[:FEATURES] + self.weights[FEATURES] + self.offsets[relation]).sigmoid()


class Candidates(NamedTuple):
    """The likeliest answers to queries, best first. Where a query has fewer than k, the rest are -1 with probability 0."""

    nodes: Tensor  # (q, k)
    probability: Tensor  # (q, k) among all entities, but for the known answers

    @classmethod
    def of(cls, found: Nearest) -> Candidates:
        """Those of a search."""
        return cls(found.nodes, (found.scores - found.log_total[:, None]).exp().nan_to_num(0.0))


class Search(NamedTuple):
    """Vectors for which the entities with the largest inner products are wanted."""

    vectors: Tensor  # (m, 2R)
    excluded: tuple[Tensor, Tensor]  # rows (e,) of vectors, and nodes (e,) that are not wanted in them
    k: int
    norms: Tensor | None = None  # (E,) of the entities, by which products are divided


class Nearest(NamedTuple):
    """The entities with the largest scores, best first; -1 where there are fewer than k."""

    nodes: Tensor  # (m, k)
    scores: Tensor  # (m, k)
    log_total: Tensor  # (m,) the logarithm of the sum of the exponentials of the scores of all entities, but for the excluded ones


def nearest(factors: Factors, entities: int, searches: Sequence[Search]) -> list[Nearest]:
    """The results of searches, by one pass over the vectors of the entities.

    Entities are scored in parts, so that what is kept does not grow with their number. On a processor that multiplies bfloat16
    faster, more than k are kept by such scores, and are then scored in single precision.
    """
    is_rounded = has_native_bfloat16(factors.nodes.device)
    precision = torch.bfloat16 if is_rounded else torch.float32
    vectors = torch.cat([search.vectors for search in searches]).to(precision)
    sizes = [len(search.vectors) for search in searches]
    kept = [_Kept(search, 2 * search.k + SPARE if is_rounded else search.k) for search in searches]
    for start, part in factors.parts(entities, len(vectors), precision):
        scores = (vectors @ part.T).float()
        for of_search, scores_of_search in zip(kept, scores.split(sizes), strict=True):
            of_search.add(scores_of_search, start)
    return [of_search.nearest(factors if is_rounded else None) for of_search in kept]


class _Kept:
    """The largest scores of a search so far."""

    def __init__(self, search: Search, width: int) -> None:
        self.search, self.width = search, width
        self.excluded = _Excluded(*search.excluded)
        rows = len(search.vectors)
        self.scores, self.nodes = torch.zeros(rows, 0), torch.zeros((rows, 0), dtype=torch.long)
        self.log_total = torch.full((rows,), -torch.inf)

    def add(self, scores: Tensor, start: int) -> None:
        """Take in the scores (m, n) of entities from `start` on, which are changed."""
        if self.search.norms is not None:
            scores /= self.search.norms[start : start + scores.shape[1]]
        self.excluded.remove_from(scores, start)
        of_part = scores.topk(min(self.width, scores.shape[1]), 1)
        largest = of_part.values[:, :1].nan_to_num(neginf=0.0)
        shares = scores.sub_(largest).clamp_(min=MIN_LOG_SHARE).exp_()
        self.log_total = torch.logaddexp(self.log_total, largest[:, 0] + shares.sum(1).log())
        scores = torch.cat([self.scores, of_part.values], 1)
        self.scores, places = scores.topk(min(self.width, scores.shape[1]), 1)
        self.nodes = torch.cat([self.nodes, of_part.indices + start], 1).gather(1, places)

    def nearest(self, factors: Factors | None) -> Nearest:
        """The result; with `factors` after the entities that were kept are scored in single precision."""
        scores, nodes, log_total = self.scores, self.nodes, self.log_total
        if factors is not None and nodes.numel():
            scores = self._exact(factors)
            largest = torch.maximum(scores, self.scores).amax(1).nan_to_num(neginf=0.0)
            rounded, exact = ((of_kept - largest[:, None]).exp().sum(1) for of_kept in (self.scores, scores))
            rest = ((log_total - largest).exp() - rounded).clamp(min=0.0)
            log_total = largest + (rest + exact).log()
            scores, places = scores.topk(min(self.search.k, scores.shape[1]), 1)
            nodes = nodes.gather(1, places)
        return Nearest(nodes.masked_fill(scores == -torch.inf, -1), scores, log_total)

    def _exact(self, factors: Factors) -> Tensor:
        """(m, width) the scores in single precision of the entities that were kept."""
        at_once = max(MAX_SCORES // max(self.nodes.shape[1] * factors.nodes.shape[1], 1), 1)
        parts = zip(self.search.vectors.split(at_once), self.nodes.split(at_once), strict=True)
        products = torch.cat([(factors.node_vectors(nodes) @ vectors[:, :, None])[:, :, 0] for vectors, nodes in parts])
        if self.search.norms is not None:
            products /= self.search.norms[self.nodes]
        return products.masked_fill(self.scores == -torch.inf, -torch.inf)


def candidates(factors: Factors, queries: Tensor, known: tuple[Tensor, Tensor], entities: int, k: int) -> Candidates:
    """The k likeliest answers to queries (q, 2R), without `known` answers: their rows (m,) and nodes (m,)."""
    return Candidates.of(*nearest(factors, entities, [Search(queries, known, k)]))


@dataclass(frozen=True)
class Correctness:
    """The line from the log odds of a candidate to those of being right, with an offset for each relation and its inverse."""

    slope: Tensor  # ()
    intercept: Tensor  # ()
    offsets: Tensor  # (2P,)

    def __call__(self, relations: Tensor, probability: Tensor) -> Tensor:
        """(q, k) of candidates (q, k) for queries with these relations (q,)."""
        odds = probability.double().clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).logit()
        return (self.intercept + self.slope * odds + self.offsets[relations][:, None]).sigmoid()


class PredictedAnswers(NamedTuple):
    """The likeliest answers to queries, best first; -1 where there are fewer than k."""

    nodes: Tensor  # (q, k)
    correctness: Tensor  # (q, k) the probability that an answer is right, if there is one more
    presence: Tensor  # (q,) the probability that there is one more


@dataclass(frozen=True, eq=False)
class LinkPredictor:
    """Factors of the triples of a knowledge base, by which links are predicted."""

    triples: Triples
    factors: Factors
    strength: float  # of the regularisation
    correctness: Correctness
    classifier: LinkClassifier
    held_out: Tensor  # (m, 3) links
    held_out_ranks: Tensor  # (2m,) in both directions, before they were learnt from

    def __len__(self) -> int:
        """How many properties have links."""
        return int(self.triples.is_link.sum())

    @property
    def is_calibrated(self) -> bool:
        """Whether enough links were held out to calibrate correctness; else it is the share of the score."""
        return 2 * len(self.held_out) >= MIN_CALIBRATED

    @cached_property
    def known(self) -> Answers:
        """The known answers to all queries."""
        return Answers(self.triples.links, len(self.triples.relations))

    def to(self, device: torch.device) -> LinkPredictor:
        """Itself: links are predicted on the CPU."""
        return self

    @cached_property
    def _norms(self) -> Tensor:
        """(E,) the lengths of the vectors of entities."""
        parts = self.factors.nodes[: len(self.triples.entities)].split(MAX_NODES)
        return torch.cat([torch.zeros(0), *(part.float().norm(dim=1) for part in parts)]).clamp(min=EPSILON)

    @cached_property
    def _counts(self) -> list[Tensor]:
        """For each relation and each inverse, in order, how many answers each entity has that has any."""
        relations = len(self.triples.relations)
        keys, counts = self.known.keys.unique_consecutive(return_counts=True)
        of_relation = keys % (2 * relations)
        order = (of_relation * (int(counts.max()) + 1 if len(counts) else 1) + counts).argsort()
        sizes = torch.bincount(of_relation, minlength=2 * relations).tolist()
        return list(counts[order].split(sizes))

    def predict(
        self, nodes: Tensor, vectors: Tensor, relations: Tensor, known: tuple[Tensor, Tensor], counts: Tensor, k: int
    ) -> PredictedAnswers:
        """The k likeliest answers of entities, by their nodes (q,), -1 for a new one, and vectors (q, 2R), for relations (q,).

        `known` are the rows (m,) and nodes (m,) that are no answers, `counts` (q,) how many links of the relation an entity has.
        """
        entities = len(self.triples.entities)
        queries = times(vectors, self.factors.relation_vectors(relations))
        rows = (counts == 0).nonzero()[:, 0]  # whose presence goes by the entities most like them
        own = (nodes[rows] >= 0).nonzero()[:, 0]
        others = Search(vectors[rows], (own, nodes[rows][own]), min(MOST_LIKE, max(entities - 1, 1)), self._norms)
        found, alike = nearest(self.factors, entities, [Search(queries, known, k), others])
        answers = Candidates.of(found)
        presence = self._presence(relations, counts, rows, alike.nodes)
        return PredictedAnswers(answers.nodes, self.correctness(relations, answers.probability), presence)

    def _presence(self, relations: Tensor, known: Tensor, rows: Tensor, alike: Tensor) -> Tensor:
        """(q,) the probability that there is one more link than are `known` (q,), by what is recorded of others.

        Of an entity with some links: the share of those with at least as many that have more. Of those without, the `rows` (m,): the
        share of the entities most `alike` (m, k) that have one.
        """
        more, as_many = torch.zeros(len(known), dtype=torch.float64), torch.zeros(len(known), dtype=torch.float64)
        for relation in relations[known > 0].unique().tolist():
            of_relation = ((relations == relation) & (known > 0)).nonzero()[:, 0]
            counts, of_rows = self._counts[relation], known[of_relation].contiguous()
            as_many[of_relation] = (len(counts) - torch.searchsorted(counts, of_rows)).double()
            more[of_relation] = (len(counts) - torch.searchsorted(counts, of_rows, right=True)).double()
        answered, _ = self.known.of(alike.flatten(), relations[rows, None].expand_as(alike).flatten())
        has_any = torch.zeros(alike.numel(), dtype=torch.float64).index_fill(0, answered, 1.0)
        more[rows], as_many[rows] = has_any.reshape(alike.shape).sum(1), float(alike.shape[1])
        return (more + 0.5) / (as_many + 1)

    def probability(self, links: Tensor) -> Tensor:
        """(m,) the probability that each of some triples is a link, where as many are false ones that look like links."""
        features = link_features(self.factors, links, len(self.triples.entities), len(self.triples.relations))
        return self.classifier(features, links[:, 1])

    def place(self, relations: Tensor, answers: Tensor) -> Tensor:
        """(2R,) the vector of an entity that training did not know, by its triples (n,) with known nodes."""
        return self.factors.place(sides_of(self.triples, relations, answers), self.strength)

    def similar(self, nodes: Tensor, relations: Tensor, answers: Tensor, k: int) -> list[list[int]]:
        """For each link of nodes (m,) by relations to answers (m,): the k entities most like the node that have the same link."""
        nodes_of, relations_of, answers_of = (side.split(LINKS_AT_ONCE) for side in (nodes, relations, answers))
        parts = zip(nodes_of, relations_of, answers_of, strict=True)
        return [found for of_part in parts for found in self._similar(of_part[0], of_part[1], of_part[2], k)]

    def _similar(self, nodes: Tensor, relations: Tensor, answers: Tensor, k: int) -> list[list[int]]:
        count = len(self.triples.relations)
        rows, others = self.known.of(answers, torch.where(relations < count, relations + count, relations - count))
        is_other = others != nodes[rows]
        rows, others = rows[is_other], others[is_other]
        width = self.factors.nodes.shape[1]
        pieces = zip(*(side.split(max(MAX_SCORES // width, 1)) for side in (rows, others)), strict=True)
        similarity = [
            (self.factors.node_vectors(nodes[of_part]) * self.factors.node_vectors(other)).sum(1) / self._norms[other]
            for of_part, other in pieces
        ]
        order = torch.cat([torch.zeros(0), *similarity]).argsort(descending=True)
        order = order[rows[order].argsort(stable=True)]
        sizes = torch.bincount(rows, minlength=len(nodes)).tolist()
        return [of_link[:k].tolist() for of_link in others[order].split(sizes)]


def sides_of(triples: Triples, relations: Tensor, answers: Tensor) -> list[tuple[Tensor, Tensor, slice]]:
    """The triples (n,) of one node as `Factors.place` takes them: by relations, those of inverses included, and other ends."""
    is_link = triples.is_link[relations % len(triples.relations)]
    nodes = slice(0, len(triples.entities)), slice(len(triples.entities), triples.nodes)
    return [
        (relations[of_side], answers[of_side], candidates)
        for of_side, candidates in zip((is_link, ~is_link), nodes, strict=True)
    ]


# ---------------------------------------------------------------- fit


class HeldOut(NamedTuple):
    """Links that were held out, and what was predicted of them before they were learnt from."""

    links: Tensor  # (m, 3)
    ranks: Tensor  # (2m,) in both directions
    relations: Tensor  # (2m,) those of inverses included
    probability: Tensor  # (2m, k) of the likeliest answers
    is_right: Tensor  # (2m, k) whether they are the held-out one
    classifier: LinkClassifier  # fitted to the links, and to false ones that the factors find likely


class Fitted(NamedTuple):
    """Factors, the strength of their regularisation, and what they predicted of held-out links."""

    factors: Factors
    strength: float
    held_out: HeldOut
    epochs: int


def rank_of(triples: Triples, config: LinkFactorizationConfig, seed: int, seconds: float | None) -> int:
    """The rank of the configuration; where that is 0 one that suits the number of nodes and the time, as measured by a few steps."""
    if config.rank or seconds is None:
        return config.rank or DEFAULT_RANK
    trainer = FactorTrainer(triples, replace(config, rank=SMALLEST_RANK), DEFAULT_STRENGTH, seed)
    return suitable_rank(seconds / max(trainer.seconds_of_epoch(), MIN_SECONDS), triples.nodes)


def suitable_rank(epochs: float, nodes: int) -> int:
    """The best rank for a number of nodes, and of epochs that the smallest rank has time for."""
    ranks = [rank for rank, least in LARGER_RANKS.items() if epochs >= least]
    return max([SMALLEST_RANK, *(rank for rank in ranks if rank <= DEFAULT_RANK or 2 * rank * nodes <= MAX_NUMBERS)])


def fit(
    triples: Triples,
    config: LinkFactorizationConfig,
    seed: int = 0,
    seconds: float | None = None,
    report: Report = ignored,
    steps: int | None = None,
) -> Fitted:
    """The factors of triples, within some seconds or steps, whichever ends first; without either by UNLIMITED_EPOCHS epochs.

    A part of the links is held out. Each strength of the regularisation is tried on the rest for a while, unless the time is short;
    the best one goes on at a falling rate, and at the end the held-out links are learnt too.
    """
    config = replace(config, rank=rank_of(triples, config, seed, seconds))
    most = MAX_HELD_OUT if seconds is None else int(HELD_OUT_A_SECOND * seconds)
    learnt, held_out = held_out_links(triples, HELD_OUT_SHARE, min(max(most, FEWEST_HELD_OUT), MAX_HELD_OUT), seed)
    known = Answers(triples.links, len(triples.relations))
    is_short = seconds is not None and seconds < MIN_SECONDS_COMPARED
    strengths = STRENGTHS if len(held_out) >= MIN_HELD_OUT and not is_short else (DEFAULT_STRENGTH,)
    done = 0.0

    def train(trainer: FactorTrainer, share: float, rates: tuple[float, float]) -> None:
        def of_part(fraction: float) -> None:
            report(int(1000 * (done + share * min(fraction, 1.0))), 1000)

        nonlocal done
        epochs = max(round(share * UNLIMITED_EPOCHS), 1)
        trainer.run(
            None if seconds is None else share * seconds,
            epochs,
            of_part,
            rates,
            None if steps is None else max(round(share * steps), 1),
        )
        done += share

    best, highest = FactorTrainer(learnt, config, strengths[0], seed), -1.0
    for strength in strengths if len(strengths) > 1 else ():  # one after the other, so that only one is in memory
        best.set_aside()
        trainer = FactorTrainer(learnt, config, strength, seed)
        train(trainer, TRIAL_SHARE, TRIALS)
        mean_rank = mean_reciprocal_rank(trainer.factors, held_out, known, triples)
        if mean_rank > highest:
            best, highest = trainer, mean_rank
        del trainer
    best.take_back()
    train(best, 1 - done - FINAL_SHARE, MAIN)
    predicted = _predicted(best.factors, held_out, known, triples)
    del learnt
    best.learn_from(triples)
    train(best, FINAL_SHARE, FINAL)
    return Fitted(best.factors.rounded(), best.strength, predicted, best.epochs)


def _predicted(factors: Factors, held_out: Tensor, known: Answers, triples: Triples) -> HeldOut:
    """The ranks of held-out links, and the likeliest answers in their places."""
    asked = with_inverses(held_out, len(triples.relations))
    entities = len(triples.entities)
    parts = []
    for of_part in asked.split(LINKS_AT_ONCE):
        rows, answers = known.of(of_part[:, 0], of_part[:, 1])
        is_other = answers != of_part[rows, 2]
        queries = factors.queries(of_part[:, 0], of_part[:, 1])
        parts.append(candidates(factors, queries, (rows[is_other], answers[is_other]), entities, CALIBRATED))
    width = min(CALIBRATED, entities)
    empty = Candidates(torch.zeros(0, width, dtype=torch.long), torch.zeros(0, width))
    found = Candidates(*(torch.cat(sides) for sides in zip(empty, *parts, strict=True)))
    is_right = found.nodes == asked[:, 2:]
    classifier = _fitted_classifier(factors, asked, found, is_right, triples)
    held_out_ranks = ranks(factors, asked, known, entities)
    return HeldOut(held_out, held_out_ranks, asked[:, 1], found.probability, is_right, classifier)


def _fitted_classifier(
    factors: Factors, asked: Tensor, found: Candidates, is_right: Tensor, triples: Triples
) -> LinkClassifier:
    """A classifier of held-out links, and of one false link for each: one end is a random one of the likeliest others."""
    relations = len(triples.relations)
    generator = torch.Generator().manual_seed(0)
    is_asked = torch.rand(len(asked) // 2, generator=generator) < 0.5  # for its tail; else for its head
    chosen = torch.arange(len(asked) // 2) + (len(asked) // 2) * ~is_asked
    may_be_drawn = (~is_right & (found.nodes >= 0))[chosen]
    chosen, may_be_drawn = chosen[may_be_drawn.any(1)], may_be_drawn[may_be_drawn.any(1)]
    links = asked[chosen]
    if not len(links):
        return LinkClassifier.fit(torch.zeros(0, FEATURES, dtype=torch.float64), links[:, 1], links[:, 1], relations)
    place = torch.multinomial(may_be_drawn.double(), 1, generator=generator)
    false = torch.cat([links[:, :2], found.nodes[chosen].gather(1, place)], 1)
    both = torch.cat([links, false])
    is_inverse = both[:, 1] >= relations
    forward = torch.stack([both[:, 2], both[:, 1] - relations, both[:, 0]], 1)
    both = torch.where(is_inverse[:, None], forward, both)
    is_true = torch.arange(len(both)) < len(links)
    features = link_features(factors, both, len(triples.entities), relations)
    return LinkClassifier.fit(features, both[:, 1], is_true, relations)
