"""Sets of labels or links.

A set is embedded by the mean of its members' vectors and a vector for their number. It is predicted by

    ConditionalBernoulli   P(set) = P(size) P(set | size): independent Bernoullis conditioned on their number, so that
                           P(set | size) is in proportion to the product of the members' odds. Sums to 1 over all subsets
    IndependentBernoulli   a Bernoulli for each label, for slots with more labels than `counted` allows: the size follows
                           from them. A drawn set keeps the likeliest members, as many as the leaf allows. The likeliest
                           set has at least one member, unless training had an empty set

times the probability that there are members which training never had. All of these have one code, -2.

The log of the sum over the subsets of r labels, each weighted by the product of its labels' odds, is the log of an
elementary symmetric polynomial. It is computed by the last label of each subset, with sums of positive terms in logs, so
it is exact at any scale.

n rows   M members, at most   V labels of a slot, at most   K sizes of their own probability   C columns   D width
R members of a subset, at most
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting, check_choice
from kbdisk.leaves.belief import join_beliefs
from kbdisk.leaves.category import MIN_PROBABILITY, entropy_terms
from kbdisk.leaves.embeddings import LABEL_EMBEDDINGS, LABEL_SCORES, LearntScores, dense
from kbdisk.leaves.labels import Columns, Labels, distinct, with_placeholder
from kbdisk.leaves.layers import lookup_table, residual_blocks
from kbdisk.leaves.link import ids_of
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Label, Link, Set

PADDING, UNKNOWN_MEMBER = -1, -2  # codes


@dataclass(frozen=True)
class SetConfig:
    """The settings of sets."""

    labels: str = "learnt"  # or "text": labels are embedded by their text, and more can be added later
    counted: int = 1024  # labels of a slot, at most, to predict sets by their size first
    sizes: int = 16  # sizes that have a vector of their own; larger sets share one
    unread: float = 0.01  # the share of members that training replaces by the unknown one, so that its vector is learnt

    def __post_init__(self) -> None:
        check_choice("labels", self.labels, LABEL_EMBEDDINGS)
        if self.sizes < 1:
            raise ValueError(f"expected at least 1 for sizes, got {self.sizes}")
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of labels for unread, got {self.unread}")


@dataclass(frozen=True)
class SetCodec:
    """The labels of one slot: codes (n, M) are a row's members, ascending; -2 for unknown ones, padded with -1."""

    difference: ClassVar[str] = UNSEEN_LABEL
    labels: Labels
    links: bool  # whether members are links, and labels their ids
    most: int | None
    sizes: tuple[int, ...]  # how many of the training sets had 0, 1, 2, ... members

    @classmethod
    def fit(cls, leaf: Set, values: Sequence[Any], config: Any = None, tokenizer: Any = None) -> Self:
        """The labels that the leaf lists, those of the values where others are allowed, and the sizes of sets."""
        links = isinstance(leaf.of, Link)
        sets = [dict.fromkeys(_keys(value, links)) for value in values]
        open = not leaf.of.values if isinstance(leaf.of, Link) else not leaf.of.closed
        labels = Labels.fit(leaf.of.values, (label for members in sets for _, label in members), open)
        counts = Counter(map(len, sets))
        return cls(labels, links, leaf.most, tuple(counts[size] for size in range(max(counts, default=0) + 1)))

    def with_names(self, names: Mapping[str, str]) -> SetCodec:
        """The codec with the names of linked entities, by their ids."""
        return replace(self, labels=self.labels.with_names(names)) if self.links else self

    def extended(self, new_labels: Iterable[Label]) -> SetCodec:
        """The codec with labels that training never had; for a network whose labels are embedded by their text."""
        return replace(self, labels=self.labels.extended(new_labels))

    @property
    def unseen(self) -> float:
        """The probability of members that training never had: that of members that occur once (Good and Turing)."""
        return min((self.labels.counts.count(1) + 0.5) / (sum(self.sizes) + 1), 0.9) if self.labels.open else 0.0

    @property
    def largest(self) -> int:
        """The largest size with a probability of its own."""
        return min(len(self.labels), len(self.sizes) - 1 if self.most is None else self.most)

    @property
    def min_members(self) -> int:
        """The smallest size: 0 where training had an empty set, or none at all, else 1."""
        return int(self.sizes[:1] == (0,) and self.most != 0)

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n, M)"""
        sets = [_members(value, self.links) for value in values]
        rows = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
        labels = self.labels.encode(list(chain.from_iterable(sets)))
        labels = np.where(labels < 0, UNKNOWN_MEMBER, labels)
        span = len(self.labels) - UNKNOWN_MEMBER
        pairs = np.unique(rows * span + labels - UNKNOWN_MEMBER)  # each member once, in order
        rows, labels = pairs // span, pairs % span + UNKNOWN_MEMBER
        counts = np.bincount(rows, minlength=len(sets))
        if self.most is not None and (counts > self.most).any():
            raise ValueError(f"expected at most {self.most} values, got {counts.max()}")
        codes = np.full((len(sets), counts.max(initial=1)), PADDING, np.int64)
        codes[rows, np.arange(len(rows)) - (counts.cumsum() - counts)[rows]] = labels
        return torch.from_numpy(codes)

    def decode(self, codes: Tensor) -> list[list[Any]]:
        """Members in the order of the labels, without unknown ones."""
        values: Sequence[Any] = [LinkValue(str(id)) for id in self.labels.values] if self.links else self.labels.values
        return [[values[code] for code in row if 0 <= code < len(values)] for row in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The members that training never had."""
        return self.labels.unseen_values(_members(value, self.links))

    def p_values(self, value: Any) -> Sequence[float]:
        """For each member the probability that the next one is new to training; 1 for a member that training had."""
        return self.labels.p_values(_members(value, self.links))

    def learnt(self) -> dict[str, Any]:
        """How many labels training had."""
        return self.labels.learnt()

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data."""
        return {**self.labels.to_json(), "links": self.links, "most": self.most, "sizes": list(self.sizes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Any = None) -> Self:
        """The codec of plain data."""
        return cls(Labels.from_json(data), data["links"], data["most"], tuple(data["sizes"]))


def _members(value: Any, links: bool) -> Sequence[Any]:
    """The members of a set, links as their ids; a single value is a set with one member."""
    members = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not links:
        return list(members)
    return ids_of(members)


def _keys(value: Any, links: bool) -> list[tuple[bool, Any]]:
    """The members as keys of a dict that distinguishes booleans from numbers."""
    return [(isinstance(member, bool), member) for member in _members(value, links)]


class SetEncoder(nn.Module):
    """The mean of the members' vectors, a vector for their number, and the path, through the residual blocks."""

    groups: Tensor

    def __init__(self, codecs: Sequence[SetCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns = Columns(codecs)
        self.labels = LABEL_EMBEDDINGS[setting.config.labels]([codec.labels for codec in distinct(codecs)], setting)
        self.register_buffer("groups", torch.tensor(list(setting.groups)), persistent=False)  # (S,)
        self.sizes = setting.config.sizes
        self.count = lookup_table(setting.sets * (self.sizes + 1), setting.width)  # (G (sizes + 1), D)
        self.blocks = residual_blocks(setting)

    def replace_labels(self, codecs: Sequence[SetCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.labels.replace_labels([codec.labels for codec in distinct(codecs)])

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n, M) -> (n, D)"""
        row, place = (codes != PADDING).nonzero().unbind(1)  # (members,)
        member, counts = codes[row, place], (codes != PADDING).sum(1)  # (members,), (n,)
        if self.training and self.unread:
            is_unread = torch.rand(member.shape, generator=thread_generator(), device=member.device) < self.unread
            member = member.masked_fill(is_unread, UNKNOWN_MEMBER)
        vectors = self.labels(member, self.columns(rows.slot)[row])  # (members, D)
        pooled = vectors.new_zeros(len(codes), vectors.shape[1]).index_add(0, row, vectors)
        size = self.groups[rows.slot] * (self.sizes + 1) + counts.clamp(max=self.sizes)  # (n,)
        x: Tensor = pooled / counts.clamp(min=1)[:, None] + F.embedding(size, self.count) + rows.path  # (n, D)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class SetDecoder(nn.Module):
    """Scores of the labels and of the sizes, to a belief."""

    labels: Tensor
    largest: Tensor
    min_members: Tensor
    max_members: Tensor
    unseen: Tensor

    def __init__(self, codecs: Sequence[SetCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.counted = setting.config.counted
        self.blocks = residual_blocks(setting)
        bias = torch.cat([torch.zeros(0), *map(_log_odds, codecs)])
        self.scores = LABEL_SCORES[setting.config.labels](
            [with_placeholder(codec.labels) for codec in codecs], setting, bias
        )
        self.counts = LearntScores([_sizes_as_labels(codec) for codec in codecs], setting)
        self.register_buffer("largest", torch.tensor([codec.largest for codec in codecs]), persistent=False)  # (C,)
        self.register_buffer("unseen", torch.tensor([codec.unseen for codec in codecs]), persistent=False)  # (C,)
        max_members = [len(codec.labels) if codec.most is None else codec.most for codec in codecs]
        self.register_buffer("max_members", torch.tensor(max_members), persistent=False)  # (C,)
        self.register_buffer(
            "min_members", torch.tensor([codec.min_members for codec in codecs]), persistent=False
        )  # (C,)
        self.register_buffer("labels", torch.tensor([len(codec.labels) for codec in codecs]), persistent=False)  # (C,)

    def replace_labels(self, codecs: Sequence[SetCodec]) -> None:
        """Take codecs that have more labels than those of training; the sizes stay."""
        codecs = distinct(codecs)
        self.scores.replace_labels([with_placeholder(codec.labels) for codec in codecs])
        self.labels = torch.tensor([len(codec.labels) for codec in codecs], device=self.labels.device)

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> a ConditionalBernoulli, an IndependentBernoulli, or several joined where slots differ in their labels"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        counts = dense(self.counts(h, rows), len(rows)).log_softmax(1)  # (n, K)
        parts = []
        for part in self.scores(h, rows):
            has_few_labels = self.labels[rows.slot[part.rows]] <= self.counted
            for chosen, build in ((has_few_labels, self._conditional), (~has_few_labels, self._independent)):
                place = chosen.nonzero()[:, 0]
                if len(place):
                    rows_of_kind = part.rows[place]
                    parts.append(
                        (rows_of_kind, build(part.values[place], counts[rows_of_kind], rows.slot[rows_of_kind]))
                    )
        return join_beliefs(parts or [(rows.slot, self._independent(h[:, :1], counts, rows.slot))], order)

    def _conditional(self, logits: Tensor, counts: Tensor, column: Tensor) -> ConditionalBernoulli:
        return ConditionalBernoulli(logits, counts, self.largest[column], self.max_members[column], self.unseen[column])

    def _independent(self, logits: Tensor, counts: Tensor, column: Tensor) -> IndependentBernoulli:
        return IndependentBernoulli(logits, self.min_members[column], self.max_members[column], self.unseen[column])


def _sizes_as_labels(codec: SetCodec) -> Labels:
    """The sizes 0, 1, ... largest, and a label for larger sets where they are allowed, with their counts in training."""
    has_larger = codec.most is None and codec.largest < len(codec.labels)
    sizes = codec.sizes[: codec.largest + 1] + (0,) * (codec.largest + 1 - len(codec.sizes))
    return Labels(tuple(range(codec.largest + 1 + has_larger)), sizes + (0,) * has_larger)


def _log_odds(codec: SetCodec) -> Tensor:
    """(V,) the log odds of each label to be in a training set."""
    labels = with_placeholder(codec.labels)
    return ((torch.tensor(labels.counts) + 0.5) / (sum(codec.sizes) + 1)).clamp(max=0.99).logit()


# ---------------------------------------------------------------- beliefs

MIN_MASS = 1e-6  # of an expert's labels, and of all others together
MAX_MEMBERSHIP = 0.999  # the probability of a label with all of an expert's mass
ROUNDING = 1e-3  # of log probabilities
MAX_EXTRA_MEMBERS = 8  # beyond the largest size with a probability of its own, that are ever drawn


@dataclass(frozen=True)
class ConditionalBernoulli:
    """The size of a set, and given the size its members, in proportion to the product of their odds.

    Sizes up to `largest` have probabilities of their own; what is left for larger sets halves with each further member.
    """

    logits: Tensor  # (n, V) log odds, -inf where a row's slot has fewer labels
    counts: Tensor  # (n, K) log probabilities of the sizes 0, 1, ... largest and, where allowed, of larger sets
    largest: Tensor  # (n,)
    max_members: Tensor  # (n,) members that are allowed
    unseen: Tensor  # (n,) the probability of members that training never had

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def longest(self) -> int:
        """The largest size that is drawn."""
        if not len(self.largest):
            return 0
        allowed = torch.minimum(self.max_members, self._label_count)
        return int(torch.minimum(self.largest + MAX_EXTRA_MEMBERS, allowed).max())

    @property
    def _label_count(self) -> Tensor:
        return (self.logits > -torch.inf).sum(1)  # (n,)

    @cached_property
    def _sums(self) -> SubsetSums:
        return subset_sums(self.logits, self.longest)

    def sizes(self, max_size: int) -> Tensor:
        """(n, max_size + 1) log probabilities of the sizes 0, 1, ... max_size"""
        label_count, largest = self._label_count[:, None], self.largest[:, None]
        size = torch.arange(max_size + 1, device=self.counts.device)
        log_probs = F.pad(self.counts, (0, 1), value=-torch.inf)
        log_probs = log_probs.gather(
            1, size.clamp(max=log_probs.shape[1] - 1).expand(len(log_probs), -1)
        )  # (n, max_size + 1)
        larger = F.pad(self.counts, (0, 2), value=-torch.inf).gather(1, largest + 1)  # (n, 1)
        larger_sizes = (label_count - largest).clamp(min=1).double()
        tail = (larger - (size - largest) * math.log(2) - torch.log1p(-(0.5**larger_sizes))).to(log_probs.dtype)
        return torch.where(size <= largest, log_probs, tail.masked_fill(size > label_count, -torch.inf))

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        is_known = codes >= 0  # (n, M)
        odds = F.pad(self.logits, (0, 1)).gather(1, codes.where(is_known, self.logits.shape[1]))  # (n, M), 0 for none
        size = is_known.sum(1, keepdim=True)  # (n, 1)
        max_size = int(size.max()) if len(codes) else 0
        given_size = odds.sum(1) - log_symmetric_polynomial(self.logits, size[:, 0])
        return self.sizes(max_size).gather(1, size)[:, 0] + given_size + _log_unseen(self.unseen, codes)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, M)"""
        sizes, sums = self.sizes(self.longest), self._sums
        if temperature != 1:  # of sets, not of labels
            sums = subset_sums(self.logits / temperature, self.longest)
            sizes = (sizes - self._sums.total) / temperature + sums.total
        if len(sizes) == 0:
            return self.mode()
        size = torch.multinomial(sizes.softmax(1), 1, generator=generator)[:, 0]
        return codes_of(draw_subsets(sums, size, generator))

    def mode(self) -> Tensor:
        """(n, M)"""
        best, order = self.logits.sort(dim=1, descending=True)
        sizes = self._sizes_of_modes(best)  # (n, R + 1)
        largest = sizes.shape[1] - 1
        likeliest = F.pad(best[:, :largest].cumsum(1), (1, 0))  # (n, R + 1), the likeliest set of each size
        size = (sizes + likeliest - subset_totals(self.logits, largest)).argmax(1)
        rank = torch.arange(best.shape[1], device=best.device)
        chosen = torch.zeros_like(best, dtype=torch.bool).scatter(1, order, rank < size[:, None])
        return codes_of(chosen)

    def _sizes_of_modes(self, best: Tensor) -> Tensor:
        """(n, R + 1) log probabilities of the sizes that likeliest sets may have, given the log odds in order (n, V).

        A set is at most as likely as its size. So large sizes are left out that are less likely than the empty set, or than
        the likeliest single label.
        """
        sizes = self.sizes(self.longest)
        if sizes.shape[1] <= 2:
            return sizes
        single = sizes[:, 1] + best[:, 0] - best.logsumexp(1)
        smallest = torch.maximum(sizes[:, 0], single.nan_to_num(nan=-torch.inf))
        likely = (sizes >= smallest[:, None] - ROUNDING).any(0).nonzero()[:, 0].tolist()
        return sizes[:, : max(likely, default=0) + 1]

    def entropy(self) -> Tensor:
        """(n,) over the sets that are drawn"""
        probability = self.sizes(self.longest).log_softmax(1).exp()
        within = self._sums.total - expected_log_odds(self.logits, self._sums)  # (n, R + 1) the entropy given the size
        terms = entropy_terms(probability) + torch.where(probability > 0, probability * within, 0)
        return terms.sum(1) + _binary_entropy(self.unseen)

    @property
    def probs(self) -> Tensor:
        """(n, V) the probability of each label to be in the set"""
        return inclusion_probabilities(self.logits, self.sizes(self.longest).log_softmax(1))

    def probs_of(self, codes: Tensor) -> Tensor:
        """(n, M) the probability of each code to be in the set; 0 for what is no label.

        A subset of r labels that contains a label consists of it and r - 1 others. So sums over the others suffice.
        """
        row, place = (codes >= 0).nonzero().unbind(1)  # (p,)
        label = codes[row, place][:, None]
        others = subset_totals(self.logits[row].scatter(1, label, -torch.inf), self.longest)  # (p, R + 1)
        given_size = (self.logits[row].gather(1, label) + others[:, :-1] - others[:, 1:]).sigmoid()  # (p, R)
        sizes = self.sizes(self.longest).softmax(1)[row, 1:]
        return self.logits.new_zeros(codes.shape).index_put_((row, place), (sizes * given_size).sum(1))

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) log p of each member, if there is a single one; NaN for what is no label."""
        return _member_logs(self.logits.log_softmax(1), codes)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> ConditionalBernoulli:
        """The same sizes, with the odds of labels mixed with masses (n, K) of this weight (n,)."""
        probabilities, expert = self.logits.softmax(1), _completed(self.logits, codes, mass)
        return replace(self, logits=torch.lerp(probabilities, expert, weight[:, None].to(probabilities.dtype)).log())

    def pick(self, rows: Tensor) -> ConditionalBernoulli:
        """The beliefs about some of the rows."""
        return ConditionalBernoulli(
            self.logits[rows], self.counts[rows], self.largest[rows], self.max_members[rows], self.unseen[rows]
        )


@dataclass(frozen=True)
class IndependentBernoulli:
    """A Bernoulli for each label, independent of the others."""

    logits: Tensor  # (n, V) log odds, -inf where a row's slot has fewer labels
    min_members: Tensor  # (n,) members of the likeliest set
    max_members: Tensor  # (n,) members that are drawn
    unseen: Tensor  # (n,) the probability of members that training never had

    def __len__(self) -> int:
        return len(self.logits)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        odds = F.pad(self.logits, (0, 1)).gather(1, codes.where(codes >= 0, self.logits.shape[1]))  # (n, M), 0 for none
        return odds.sum(1) - F.softplus(self.logits).sum(1) + _log_unseen(self.unseen, codes)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, M)"""
        probs = (self.logits / temperature).sigmoid()
        drawn = torch.rand(probs.shape, generator=generator, device=probs.device, dtype=probs.dtype) < probs
        return codes_of(self._allowed(drawn))

    def mode(self) -> Tensor:
        """(n, M)"""
        return codes_of(self._allowed((self.logits > 0) | likeliest(self.logits, self.min_members)))

    def _allowed(self, chosen: Tensor) -> Tensor:
        """The likeliest of the chosen ones, as many as are allowed."""
        if not bool((chosen.sum(1) > self.max_members).any()):
            return chosen
        return chosen & likeliest(self.logits.masked_fill(~chosen, -torch.inf), self.max_members)

    def entropy(self) -> Tensor:
        """(n,)"""
        return _binary_entropy(self.probs).sum(1) + _binary_entropy(self.unseen)

    @property
    def probs(self) -> Tensor:
        """(n, V)"""
        return self.logits.sigmoid()

    def probs_of(self, codes: Tensor) -> Tensor:
        """(n, M) the probability of each code to be in the set; 0 for what is no label."""
        return self.probs.gather(1, codes.clamp(min=0)).masked_fill(codes < 0, 0)

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) log p of each member, if there is a single one; NaN for what is no label."""
        return _member_logs(F.logsigmoid(self.logits).log_softmax(1), codes)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> IndependentBernoulli:
        """The same mean size, with the probabilities of labels mixed with masses (n, K) of this weight (n,)."""
        probabilities = self.probs
        expert = _completed(F.logsigmoid(self.logits), codes, mass) * probabilities.sum(1, keepdim=True)
        blended = torch.lerp(probabilities, expert.clamp(max=MAX_MEMBERSHIP), weight[:, None].to(probabilities.dtype))
        return replace(self, logits=blended.logit())

    def pick(self, rows: Tensor) -> IndependentBernoulli:
        """The beliefs about some of the rows."""
        return IndependentBernoulli(
            self.logits[rows], self.min_members[rows], self.max_members[rows], self.unseen[rows]
        )


def _completed(logits: Tensor, codes: Tensor, mass: Tensor) -> Tensor:
    """(n, V) the masses (n, K) of labels; the other labels of each row share the remaining mass in proportion to their odds."""
    rest_of_mass = (1 - mass.sum(1, keepdim=True)).clamp(min=MIN_MASS).to(logits.dtype)
    odds = logits.scatter(1, codes, -torch.inf)
    rest_of_labels = odds.softmax(1).nan_to_num()  # a row may have no other label
    completed = (rest_of_mass * rest_of_labels).scatter_add(1, codes, mass.clamp(min=MIN_MASS).to(logits.dtype))
    return completed.masked_fill(logits == -torch.inf, 0)


def likeliest(logits: Tensor, count: Tensor) -> Tensor:
    """(n, V) whether each label is among the likeliest of its row, `count` (n,) of them; of equal ones the first."""
    most = min(max(int(count.max()), 1) if len(count) else 1, logits.shape[1])
    if most == 1:
        best = logits.argmax(1, keepdim=True)
    else:
        best = logits.sort(dim=1, descending=True, stable=True).indices[:, :most]
    is_counted = torch.arange(most, device=best.device) < count[:, None]
    return torch.zeros_like(logits, dtype=torch.bool).scatter(1, best, is_counted)


def _member_logs(logs: Tensor, codes: Tensor) -> Tensor:
    """(n, V), (n, M) -> (n, M)"""
    return logs.gather(1, codes.clamp(min=0)).masked_fill(codes < 0, torch.nan)


def codes_of(chosen: Tensor) -> Tensor:
    """(n, V) whether each label is a member -> (n, M) the members, padded"""
    counts = chosen.sum(1)
    row, label = chosen.nonzero().unbind(1)
    codes = label.new_full((len(chosen), max(int(counts.max()) if len(counts) else 0, 1)), PADDING)
    codes[row, torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]] = label
    return codes


def _log_unseen(probability: Tensor, codes: Tensor) -> Tensor:
    """(n,) the log probability of whether there are unknown members."""
    has_unknown = (codes == UNKNOWN_MEMBER).any(1)
    return torch.where(has_unknown, probability.clamp(min=MIN_PROBABILITY).log(), torch.log1p(-probability))


def _binary_entropy(probability: Tensor) -> Tensor:
    return entropy_terms(probability) + entropy_terms(1 - probability)


# ---------------------------------------------------------------- sums over subsets

LOG_ZERO = -1e30  # finite, so that gradients are
MAX_SHIFT = 300.0  # of a log, so that its exponential is far from overflow


class SubsetSums(NamedTuple):
    """Sums over the subsets of 0, 1, ... R labels."""

    total: Tensor  # (n, R + 1) log of the sum over all subsets of r labels; LOG_ZERO where there are not so many
    last: list[Tensor]  # R times (n, V): log of the sum over the subsets of r labels whose last label this is


def subset_sums(logits: Tensor, max_members: int) -> SubsetSums:
    """The sums over subsets of at most R = `max_members` labels with these log odds (n, V); -inf is no label."""
    logits = logits.clamp(min=LOG_ZERO)
    totals, last = [torch.zeros_like(logits[:, 0])], []
    before = torch.zeros_like(logits)  # over the subsets of r - 1 labels among those before each
    for _ in range(max_members):
        last.append(logits + before)
        cumulated = last[-1].logcumsumexp(1)
        totals.append(cumulated[:, -1])
        before = _shifted(cumulated)
    return SubsetSums(torch.stack(totals, 1), last)


def subset_totals(logits: Tensor, max_members: int) -> Tensor:
    """(n, R + 1) the log of the sum over all subsets of r labels with these log odds (n, V), finite or -inf; LOG_ZERO or less for fewer labels.

    The totals of `subset_sums` alone, several times as fast: sums of odds in double precision, not of their logs. Labels are
    sorted, the likeliest first, and the sums over subsets of r labels are divided by the total of r - 1 and by a unit, which
    is not much larger than the odds of the r-th label. So no total underflows, whatever the scale.
    """
    logs = F.pad(logits, (0, max(max_members - logits.shape[1], 0)), value=-torch.inf)
    logs = logs.double().clamp(min=LOG_ZERO).sort(dim=1, descending=True).values
    totals = [logs.new_zeros(len(logs), 1)]
    before = torch.ones_like(logs)  # (n, V - r + 1) by label: over subsets of those before it
    unit = logs[:, :1]
    odds = (logs - unit).exp()  # (n, V) in units
    for r in range(max_members):
        rth = logs[:, r : r + 1]
        if bool((unit - rth > MAX_SHIFT).any()):
            unit, odds = rth, (logs - rth).clamp(max=0).exp()
        cumulated = (odds[:, r:] * before).cumsum(1)  # (n, V - r) by the last label of a subset
        total = cumulated[:, -1:]
        totals.append(totals[-1] + unit + total.log())
        before = cumulated[:, :-1] / total
    return torch.cat(totals, 1).to(logits.dtype)


def log_symmetric_polynomial(logits: Tensor, degree: Tensor) -> Tensor:
    """(n,) the log of the elementary symmetric polynomial of some degree (n,) of odds, given their logs (n, V).

    LOG_ZERO where a row has fewer labels. Rows are sorted by degree, so that each turn computes only the rows and labels
    that still need it.
    """
    order = degree.argsort(descending=True, stable=True)
    logits, sorted_degree = logits[order], degree[order]
    place = torch.arange(1, logits.shape[1] + 1, device=logits.device)
    widths = torch.where(logits > -torch.inf, place, 0).amax(1).cummax(0).values.tolist() if logits.numel() else []
    rows = sorted_degree.bincount().flip(0).cumsum(0).flip(0).tolist()  # by r, how many have degree r or more
    logits = logits.clamp(min=LOG_ZERO)
    before, done = torch.zeros_like(logits), [logits.new_zeros(len(logits) - (rows[1] if len(rows) > 1 else 0))]
    for r in range(1, len(rows)):
        width = max(widths[rows[r] - 1], 1)
        cumulated = (logits[: rows[r], :width] + before[: rows[r], :width]).logcumsumexp(1)
        done.append(cumulated[rows[r + 1] if r + 1 < len(rows) else 0 :, -1])
        before = _shifted(cumulated)
    return torch.cat(done[::-1])[order.argsort()]


def expected_log_odds(logits: Tensor, sums: SubsetSums) -> Tensor:
    """(n, R + 1) the mean of the sum of the log odds of a subset's labels, by its size."""
    exists = logits > -torch.inf
    smallest = logits.masked_fill(~exists, torch.inf).amin(1, keepdim=True)  # (n, 1)
    above = (logits - smallest).masked_fill(~exists, 0).log().clamp(min=LOG_ZERO)  # (n, V)
    logits = logits.clamp(min=LOG_ZERO)
    means, before = [torch.zeros_like(logits[:, 0])], torch.full_like(logits, LOG_ZERO)
    for r, last in enumerate(sums.last, 1):
        cumulated = torch.logaddexp(last + above, logits + before).logcumsumexp(1)
        mean = (cumulated[:, -1] - sums.total[:, r]).exp() + r * smallest[:, 0]
        means.append(torch.where(sums.total[:, r] > LOG_ZERO / 2, mean, 0))
        before = _shifted(cumulated)
    return torch.stack(means, 1)


def inclusion_probabilities(logits: Tensor, sizes: Tensor) -> Tensor:
    """(n, V) the probability of each label to be in the subset, given the log probabilities of its sizes (n, R + 1).

    Of a given size it is the derivative of the log of the sum over its subsets by the label's log odds.
    """
    if sizes.shape[1] == 1:  # the empty subset alone
        return torch.zeros_like(logits)
    with torch.enable_grad():
        log_odds = logits.detach().requires_grad_()
        total = subset_totals(log_odds, sizes.shape[1] - 1)
        [probs] = torch.autograd.grad((sizes.detach().exp() * total).sum(), log_odds)
    return probs


def draw_subsets(sums: SubsetSums, sizes: Tensor, generator: torch.Generator | None) -> Tensor:
    """(n, V) whether each label is in a subset of this size (n,), drawn by its weight; the last member first."""
    chosen = torch.zeros_like(sums.last[0], dtype=torch.bool) if sums.last else sizes.new_zeros(len(sizes), 1).bool()
    bound = torch.full_like(sizes, chosen.shape[1])[:, None]
    place = torch.arange(chosen.shape[1], device=sizes.device)
    for r in range(len(sums.last), 0, -1):
        unfinished = (sizes >= r).nonzero()[:, 0]
        if len(unfinished):
            odds = sums.last[r - 1][unfinished].masked_fill(place >= bound[unfinished], 2 * LOG_ZERO)
            member = torch.multinomial(odds.softmax(1), 1, generator=generator)  # (o, 1)
            chosen[unfinished] = chosen[unfinished].scatter(1, member, True)
            bound[unfinished] = member
    return chosen


def _shifted(cumulated: Tensor) -> Tensor:
    """(n, V) the sums up to the label before each."""
    return F.pad(cumulated[:, :-1], (1, 0), value=LOG_ZERO)
