"""Categories: one label of a slot. Booleans are categories of two.

A label is embedded by a vector of its own, and predicted by the score of its vector against the row's; with
`labels = "text"` it has the vector of its text instead, so that labels can be added to a trained network
(`replace_labels`). Ordered labels may be predicted by a cumulative link model (`CumulativeScores`).
An open slot keeps some mass for labels that training never had: as much as labels that occur once had there (Good and
Turing), as nothing in training could teach it.

n rows   m rows of ordered labels   V labels of a slot, at most   C columns   O columns of ordered labels   D width
K neighbours
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting, check_choice
from kbdisk.leaves.belief import SingleStep, join_beliefs
from kbdisk.leaves.embeddings import LABEL_EMBEDDINGS, LABEL_SCORES
from kbdisk.leaves.labels import UNKNOWN_LABEL, Columns, Labels, distinct, with_placeholder
from kbdisk.leaves.layers import Readout, residual_blocks, score_table
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Category, Label

MIN_PROBABILITY = 1e-30  # of which a logarithm is taken
ORDERS = ("softmax", "cumulative")


@dataclass(frozen=True)
class CategoryConfig:
    """The settings of categories."""

    labels: str = "learnt"  # or "text": labels are embedded by their text, and more can be added later
    ordered: str = "softmax"  # or "cumulative": by what ordered labels are predicted
    unread: float = (
        0.01  # the share of labels that training replaces by the unknown label, so that its vector is learnt
    )

    def __post_init__(self) -> None:
        check_choice("labels", self.labels, LABEL_EMBEDDINGS)
        check_choice("ordered", self.ordered, ORDERS)
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of labels for unread, got {self.unread}")


@dataclass(frozen=True)
class CategoryCodec:
    """The labels of one slot: codes (n,) count them from 0, -1 is any other label."""

    difference: ClassVar[str] = UNSEEN_LABEL
    labels: Labels
    ordered: bool = False

    @classmethod
    def fit(cls, leaf: Category, values: Sequence[Any], config: Any = None, tokenizer: Any = None) -> Self:
        """The labels that the leaf lists, and those of the values where others are allowed."""
        return cls(Labels.fit(leaf.values, values, open=not leaf.closed, sort=leaf.ordered), leaf.ordered)

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n,)"""
        return torch.from_numpy(self.labels.encode(values))

    def decode(self, codes: Tensor) -> list[Any]:
        """The labels; None for the code of an unknown label."""
        values = self.labels.values
        return [values[code] if 0 <= code < len(values) else None for code in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The label, if training never had it."""
        return self.labels.unseen_values((value,))

    def p_values(self, value: Any) -> Sequence[float]:
        """The probability that the next label is one that training never had; 1 for a label that training had."""
        return self.labels.p_values((value,))

    def learnt(self) -> dict[str, Any]:
        """How many labels training had."""
        return self.labels.learnt()

    def extended(self, new_labels: Iterable[Label]) -> CategoryCodec:
        """The codec with labels that training never had; for a network whose labels are embedded by their text."""
        return replace(self, labels=self.labels.extended(new_labels))

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data."""
        return {**self.labels.to_json(), "ordered": self.ordered}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Any = None) -> Self:
        """The codec of plain data."""
        return cls(Labels.from_json(data), data["ordered"])


@dataclass(frozen=True)
class CategoryBelief(SingleStep):
    """A categorical distribution: the softmax of logits, scaled down by the mass of unseen labels."""

    logits: Tensor  # (n, V), -inf where a row's slot has fewer labels
    unseen: Tensor | None = None  # (n,) the mass kept for unseen labels, code -1
    kernels: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.logits.dtype in (torch.bfloat16, torch.float16):
            object.__setattr__(self, "logits", self.logits.float())

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def probs(self) -> Tensor:
        """(n, V); with the mass of unseen labels they sum to 1."""
        probs = self.logits.softmax(-1)
        return probs if self.unseen is None else probs * (1 - self.unseen)[:, None]

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        log_prob = -F.cross_entropy(self.logits, codes, ignore_index=-1, reduction="none")
        if self.unseen is None:
            return log_prob
        return torch.where(codes < 0, self.unseen.log(), log_prob + torch.log1p(-self.unseen))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n,) always a known label."""
        if len(self.logits) == 0:
            return self.mode()
        return torch.multinomial((self.logits / temperature).softmax(-1), 1, generator=generator)[:, 0]

    def mode(self) -> Tensor:
        """(n,)"""
        return self.logits.argmax(-1)

    def entropy(self) -> Tensor:
        """(n,) unseen labels count as a single one."""
        entropy = entropy_terms(self.logits.softmax(-1)).sum(-1)
        if self.unseen is None:
            return entropy
        return entropy * (1 - self.unseen) + entropy_terms(self.unseen) + entropy_terms(1 - self.unseen)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest labels, best first, and (n, k) their probabilities"""
        probs, codes = self.probs.topk(min(k, self.logits.shape[1]), 1)
        return codes.masked_fill(probs == 0, UNKNOWN_LABEL), probs

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the rank of each label among all of its slot, 1 the best"""
        return ranks(self.logits, codes)

    def interpolated(self, codes: Tensor, weights: Tensor, answer_weights: Tensor | None = None) -> CategoryBelief:
        """The belief with some of its mass at the labels of neighbours: codes (n, K), weights (n, 1, K)."""
        weights = weights[:, 0].float()
        network_mass = (1 - weights.sum(1)).clamp(min=0)  # (n,) sums are rounded
        probs = self.probs * network_mass[:, None]
        probs = probs.scatter_add(1, codes.clamp(min=0), weights.where(codes >= 0, 0))
        logits = probs.clamp(min=MIN_PROBABILITY).log().masked_fill(self.logits == -torch.inf, -torch.inf)
        if self.unseen is None:
            return CategoryBelief(logits)
        return CategoryBelief(logits, (self.unseen * network_mass + weights.where(codes < 0, 0).sum(1)).clamp(max=1))

    def averaged(self, others: Sequence[CategoryBelief]) -> CategoryBelief:
        """The mean of this belief and the others."""
        beliefs = [self, *others]
        probs = torch.stack([belief.probs for belief in beliefs]).mean(0)
        logits = probs.clamp(min=MIN_PROBABILITY).log().masked_fill(self.logits == -torch.inf, -torch.inf)
        unseen = [belief.unseen for belief in beliefs if belief.unseen is not None]
        return CategoryBelief(logits, torch.stack(unseen).mean(0) if unseen else None)

    def pick(self, rows: Tensor) -> CategoryBelief:
        """The beliefs about some of the rows."""
        return CategoryBelief(self.logits[rows], None if self.unseen is None else self.unseen[rows])


def entropy_terms(probability: Tensor) -> Tensor:
    """- p log p of each probability, 0 for 0."""
    terms: Tensor = torch.special.entr(probability)
    return terms


def ranks(scores: Tensor, codes: Tensor) -> Tensor:
    """(n, V) scores -> (n,) the rank of a code among all, 1 the best; ties share their mean, an unknown label is last."""
    score = scores.gather(1, codes.clamp(min=0)[:, None])  # (n, 1)
    rank = (scores > score).sum(1) + ((scores == score).sum(1) + 1) / 2
    return torch.where(codes == UNKNOWN_LABEL, (scores > -torch.inf).sum(1) + 1, rank)


class CategoryEncoder(nn.Module):
    """The vector of a label and its path, through the residual blocks."""

    def __init__(self, codecs: Sequence[CategoryCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns = Columns(codecs)
        self.labels = LABEL_EMBEDDINGS[setting.config.labels]([codec.labels for codec in distinct(codecs)], setting)
        self.blocks = residual_blocks(setting)

    def replace_labels(self, codecs: Sequence[CategoryCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.labels.replace_labels([codec.labels for codec in distinct(codecs)])

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)"""
        if self.training and self.unread:
            is_unread = torch.rand(codes.shape, generator=thread_generator(), device=codes.device) < self.unread
            codes = codes.masked_fill(is_unread, UNKNOWN_LABEL)
        x: Tensor = self.labels(codes, self.columns(rows.slot)) + rows.path  # (n, D)
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class CategoryDecoder(nn.Module):
    """Scores of the labels of each row's slot, to a belief."""

    unseen: Tensor
    ordered: Tensor

    def __init__(self, codecs: Sequence[CategoryCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        cumulative = setting.config.ordered == "cumulative"
        ordered = [codec.labels if cumulative and codec.ordered and len(codec.labels) > 1 else None for codec in codecs]
        is_ordered = torch.tensor([labels is not None for labels in ordered])
        self.register_buffer("ordered", is_ordered, persistent=False)  # (C,)
        self.register_buffer(
            "unseen", torch.tensor([codec.labels.unseen for codec in codecs]), persistent=False
        )  # (C,)
        self.open = any(codec.labels.open for codec in codecs)
        self.blocks = residual_blocks(setting)
        self.scores = LABEL_SCORES[setting.config.labels](self._scored(codecs), setting)
        self.cumulative = CumulativeScores(ordered, setting.width) if any(ordered) else None

    def _scored(self, codecs: Sequence[CategoryCodec]) -> list[Labels]:
        """The labels of each column that `scores` scores: none where `cumulative` does."""
        ordered = self.ordered.tolist()
        return [
            Labels((), ()) if is_ordered else with_placeholder(codec.labels)
            for is_ordered, codec in zip(ordered, codecs, strict=True)
        ]

    def replace_labels(self, codecs: Sequence[CategoryCodec]) -> None:
        """Take codecs that have more labels than those of training."""
        self.scores.replace_labels(self._scored(distinct(codecs)))

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> a CategoryBelief, or several joined where slots differ much in how many labels they have"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        parts = [(part.rows, self._belief(part.values, rows.slot[part.rows])) for part in self.scores(h, rows)]
        if self.cumulative is not None:
            ordered_rows = self.ordered[rows.slot].nonzero()[:, 0]
            parts.append(
                (
                    ordered_rows,
                    self._belief(self.cumulative(h[ordered_rows], rows.slot[ordered_rows]), rows.slot[ordered_rows]),
                )
            )
        return join_beliefs(parts or [(rows.slot, CategoryBelief(h[:, :1]))], order)

    def _belief(self, logits: Tensor, column: Tensor) -> CategoryBelief:
        return CategoryBelief(logits, self.unseen[column] if self.open else None)


# ---------------------------------------------------------------- ordered labels

MIN_GAP = 1e-3  # between two cuts, so that no label is ever impossible
MAX_LOG_SPREAD = 4.0


class CumulativeScores(Readout):
    """The log probabilities of ordered labels by a cumulative link model (proportional odds).

    The network gives the location of a row on the scale of its column, and the spread; cuts between the labels are learnt:

        P(label <= k) = sigmoid((cut k - location) / spread)

    Columns without ordered labels (None) have no weights here.
    """

    weight_names: ClassVar[tuple[str, ...]] = ("table",)
    sizes: Tensor
    number: Tensor
    starts: Tensor

    def __init__(self, labels: Sequence[Labels | None], width: int) -> None:
        super().__init__()
        ordered = [column_labels for column_labels in labels if column_labels is not None]
        sizes = torch.tensor([len(column_labels) for column_labels in ordered])  # (O,)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("starts", sizes.cumsum(0) - sizes, persistent=False)  # (O,)
        numbers = torch.tensor([column_labels is not None for column_labels in labels]).cumsum(0) - 1
        self.register_buffer("number", numbers, persistent=False)  # (C,) of each column among the ordered ones
        self.table = score_table(2 * len(ordered), width)  # (2 O, D): location, log of the spread
        self.cuts = nn.Parameter(
            torch.cat([_initial_cuts(column_labels) for column_labels in ordered])
        )  # (labels in all,)

    def forward(self, h: Tensor, slot: Tensor) -> Tensor:
        """(m, D) and their columns -> (m, V), -inf beyond the labels of a row's column"""
        number = self.number[slot]
        size = self.sizes[number][:, None]  # (m, 1)
        heads = F.embedding(torch.stack([2 * number, 2 * number + 1], 1), self.table)  # (m, 2, D)
        location, log_spread = torch.einsum("mkd,md->mk", heads, h).float().unbind(1)
        steepness = (-log_spread.clamp(-MAX_LOG_SPREAD, MAX_LOG_SPREAD)).exp()[:, None]  # (m, 1)
        k = torch.arange(int(size.max()) if len(size) else 1, device=h.device)  # (V,)
        cuts = self.cuts[self.starts[number][:, None] + torch.minimum(k, size - 1)].float()  # (m, V)
        gap = F.softplus(cuts) + MIN_GAP
        cut = cuts[:, :1] + F.pad(gap[:, 1:], (1, 0)).cumsum(1)  # (m, V); the last is used by no label
        upper = (cut - location[:, None]) * steepness
        lower, gap = F.pad(upper[:, :-1], (1, 0)), gap * steepness  # (m, V) of label k: cuts k - 1 and k, and between
        last = k == size - 1
        # sigmoid(u) - sigmoid(l) = sigmoid(u) sigmoid(-l) (1 - exp(l - u)), each factor exact however far out
        values = F.logsigmoid(upper).masked_fill(last, 0) + F.logsigmoid(-lower).masked_fill(k == 0, 0)
        values = values + (-torch.expm1(-gap)).log().masked_fill(last | (k == 0), 0)
        return values.masked_fill(k >= size, -torch.inf)


def _initial_cuts(labels: Labels) -> Tensor:
    """(V,) the first cut, and what softplus takes to the gaps to the next ones: at the labels' frequencies in training."""
    counts = torch.tensor(labels.counts, dtype=torch.float64) + 0.5
    cut = (counts.cumsum(0) / counts.sum())[:-1].logit()
    gaps = (cut.diff() - MIN_GAP).clamp(min=MIN_GAP).expm1().log()
    return torch.cat([cut[:1], gaps, torch.zeros(1)]).float()
