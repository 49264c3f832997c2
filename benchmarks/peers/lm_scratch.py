"""The decoder-only transformer of the DiSK paper, trained from scratch on entities as sequences of tokens. Our own code in torch.

A sequence has the items of an entity in random order, in another one in each pass: `key : value , key : value ;`. A key is its words
with dots between them. A label is one token, a number one for each digit, a text one for each character. The network learns to
predict each token from those before it. A cell gets what is decoded greedily after all other items of its entity and its key. What
does not parse as a value of the property is a parse error, and is left to the constant; settings have their share.

DIFF(paper): numbers have as many decimals as a hundredth of their spread needs, in place of two; those over decades have a mantissa
and an exponent. The learning rate warms up and decays, and gradients are clipped; the paper does not say how long it trains. With a time
limit the network is as wide as the time allows, batches are smaller, and the learning rate is higher; settings say which.

B sequences   T tokens   D width   H heads   V tokens of the vocabulary
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Self

import torch
import torch._dynamo  # which an optimizer imports first: seconds that are no part of the budget
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.masking import Property, Scalar
from benchmarks.peers.protocol import FILL, FIT, Budget, Filled, Imputation, Stopwatch
from benchmarks.peers.records import Item, Question, Records
from benchmarks.tasks import Answers, Scale
from kbdisk.entity import Path
from kbdisk.leaves.number.codec import deciles_of

TRAINING_SHARE = 0.6  # of the time, at least
FILLING_MARGIN = 2.0  # times as long as filling is estimated to take: training ends so long before the time is over
WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768)  # that are tried where time is limited
MIN_PASSES = 8  # over the entities, which a width must allow
MIN_BATCH, MAX_BATCH, RATE_BY_WIDTH = 4, 16, 0.4  # of limited time: the rate is this over the width
TRIAL = 16  # sequences by which time is estimated
BLOCK = 64  # prompts that are decoded at once
WARMUP = 0.05  # the share of training in which the learning rate grows
BUCKET = 8  # batches whose sequences are sorted by length


@dataclass(frozen=True)
class Settings:
    """The settings of network and training: the paper's, but for `passes` and `context`."""

    layers: int = 4
    heads: int = 2
    width: int = 768
    batch: int = 512
    rate: float = 1e-4
    decay: float = 1e-4
    passes: int = 200  # over all entities
    context: int = 256  # tokens of a sequence: items beyond are left out

    def within(self, width: int, entities: int) -> Settings:
        """Those of a limited time: a width, small batches, and a rate that suits both."""
        batch = max(MIN_BATCH, min(MAX_BATCH, entities // MAX_BATCH))
        return replace(self, width=width, batch=batch, rate=RATE_BY_WIDTH / width)


def fill(imputation: Imputation) -> Filled:
    """What the network decodes for each hidden cell."""
    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    with stopwatch.phase(FIT):
        records = Records.of(imputation)
        if budget.share(1) <= 0 or not records.questions:
            return Filled({})
        tokenizer = Tokenizer.of(records)
        model = _LanguageModel(records, tokenizer, Settings(), imputation.seed)
        filling = 0.0
        if imputation.seconds is not None:
            width, filling = model.affordable_width(budget)
            model.settings = model.settings.within(width, len(model.trainable))
        left = budget.share(1)
        passes = model.fit(max(TRAINING_SHARE * left, left - FILLING_MARGIN * filling), imputation.report)
    with stopwatch.phase(FILL):
        answers, asked, errors = model.answer(budget)
    settings = {
        "width": model.settings.width,
        "layers": model.settings.layers,
        "heads": model.settings.heads,
        "parameters": sum(parameter.numel() for parameter in model.network.parameters()),
        "batch": model.settings.batch,
        "learning_rate": model.settings.rate,
        "passes": round(passes, 2),
        "asked": asked,
        "parse_errors": errors,
        "parse_error_rate": round(errors / max(asked, 1), 4),
    }
    return Filled(answers, stopwatch.seconds, settings, stopwatch.usage)


# ---------------------------------------------------------------- tokens

Token = tuple[str, Scalar]  # the kind of a token: mark, word, label or character; and what it stands for
COMMA, COLON, DOT, END, UNKNOWN = (("mark", mark) for mark in (",", ":", ".", ";", "?"))
MARKS = (COMMA, COLON, DOT, END, UNKNOWN)
NUMBER_CHARACTERS = "0123456789.-e"
MAX_LABELS = 4096  # of all properties together, the commonest; others are unknown
MAX_CHARACTERS = 200  # of texts
MAX_TEXT = 40  # characters of a text
MAX_NUMBER = 24  # characters of a number
MAX_DECIMALS = 8
RESOLUTION = 100  # steps within the spread of a property's numbers, at least
MANTISSA = 2  # decimals of numbers over decades


class NumberFormat(NamedTuple):
    """How the numbers of a property are written."""

    decimals: int
    is_scientific: bool

    @classmethod
    def of(cls, known: Sequence[float]) -> Self:
        """The format that suits the known numbers."""
        scale = Scale.of(known)
        if scale.is_log and not scale.is_whole:
            return cls(MANTISSA, True)
        deciles = deciles_of(sorted(known))
        spread = deciles[-1] - deciles[0] or max(known) - min(known)
        if scale.is_whole or not spread:
            return cls(0 if scale.is_whole else MANTISSA, False)
        needed = math.log10(RESOLUTION) - math.log10(min(spread, sys.float_info.max))
        return cls(min(max(0, math.ceil(needed)), MAX_DECIMALS), False)

    def write(self, value: float) -> str:
        """A number as characters: 151.5, or 1.52e3."""
        if not self.is_scientific:
            return f"{value:.{self.decimals}f}"
        mantissa, _, exponent = f"{value:.{self.decimals}e}".partition("e")
        return f"{mantissa}e{int(exponent)}"


@dataclass(frozen=True)
class Tokenizer:
    """Items as tokens, and tokens as values."""

    tokens: Sequence[Token]  # by their id
    formats: dict[Property, NumberFormat]
    labels: dict[Property, frozenset[Scalar]]
    texts: frozenset[Property]

    @classmethod
    def of(cls, records: Records) -> Self:
        """The tokens of the entities that are learnt from, and of the keys that are asked for."""
        numbers: dict[Property, list[float]] = {}
        by_property: dict[Property, set[Scalar]] = {}
        words: Counter[str] = Counter(str(word) for question in records.questions for word in question.key)
        labels: Counter[Scalar] = Counter()
        characters: Counter[str] = Counter()
        for item in (item for items in records.entities[: records.train_count] for item in items):
            words.update(map(str, item.key))
            if item.of[2] == "number":
                numbers.setdefault(item.of, []).append(item.value)
            elif item.of in records.texts:
                characters.update(item.value[:MAX_TEXT])
            else:
                labels[item.value] += 1
                by_property.setdefault(item.of, set()).add(item.value)
        common = [label for label, _ in labels.most_common(MAX_LABELS)]
        alphabet = dict.fromkeys([*NUMBER_CHARACTERS, *(name for name, _ in characters.most_common(MAX_CHARACTERS))])
        tokens = [
            *MARKS,
            *(("word", word) for word in words),
            *(("label", label) for label in common),
            *(("character", character) for character in alphabet),
        ]
        return cls(
            tokens,
            {of: NumberFormat.of(known) for of, known in numbers.items()},
            {of: frozenset(known).intersection(common) for of, known in by_property.items()},
            records.texts,
        )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {token: place for place, token in enumerate(self.tokens)})

    def ids(self, tokens: Sequence[Token]) -> list[int]:
        """The ids of tokens."""
        known: dict[Token, int] = self._ids  # type: ignore[attr-defined]
        return [known.get(token, known[UNKNOWN]) for token in tokens]

    def key(self, key: Path) -> list[int]:
        """A key with its colon."""
        words = [token for word in key for token in (DOT, ("word", str(word)))][1:]
        return self.ids([*words, COLON])

    def value(self, of: Property, value: Scalar) -> list[int]:
        """A value; that of a property which no training entity has is unknown."""
        if of[2] == "number":
            written = self.formats[of].write(value) if of in self.formats else ""
            return self.ids([("character", character) for character in written] or [UNKNOWN])
        if of in self.texts:
            return self.ids([("character", character) for character in value[:MAX_TEXT]])
        return self.ids([("label", value)])

    def item(self, item: Item) -> list[int]:
        """An item, without the comma that follows."""
        return [*self.key(item.key), *self.value(item.of, item.value)]

    def parse(self, of: Property, ids: Sequence[int]) -> Scalar | None:
        """The value of a property that decoded tokens are; None where they are none."""
        tokens = [self.tokens[place] for place in ids]
        if of[2] == "label" and of not in self.texts:
            value = tokens[0][1] if len(tokens) == 1 and tokens[0][0] == "label" else None
            return value if value in self.labels.get(of, ()) else None
        if not tokens or any(kind != "character" for kind, _ in tokens):
            return None
        text = "".join(character for _, character in tokens)
        if of in self.texts:
            return text
        try:
            return float(text)
        except ValueError:
            return None

    def longest(self, of: Property) -> int:
        """The tokens that a value of a property has at most."""
        return MAX_NUMBER if of[2] == "number" else MAX_TEXT if of in self.texts else 1


# ---------------------------------------------------------------- network

KeysAndValues = tuple[Tensor, Tensor]  # of one layer, (B, H, T, D / H) each


class Attention(nn.Module):
    """Self-attention: causal, or by a mask (B, 1, T, T of all keys)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, past: KeysAndValues | None, mask: Tensor | None) -> tuple[Tensor, KeysAndValues]:
        B, T, D = x.shape
        query, key, value = self.inputs(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)
        return self.outputs(mixed.transpose(1, 2).reshape(B, T, D)), (key, value)


class Block(nn.Module):
    """A layer: attention, then an MLP of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, past: KeysAndValues | None, mask: Tensor | None) -> tuple[Tensor, KeysAndValues]:
        attended, kept = self.attention(self.norm(x), past, mask)
        x = x + attended
        return x + self.mlp(x), kept


class Transformer(nn.Module):
    """Tokens (B, T) to the logits of the next token (B, T, V).

    To decode, tokens follow those of `past`, of which each sequence has some (B,) on the left that are padding.
    """

    def __init__(self, vocabulary: int, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(settings.context + max(MAX_NUMBER, MAX_TEXT), width)
        self.blocks = nn.ModuleList(Block(width, settings.heads) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("outputs.weight", "mlp.3.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * settings.layers) if last else 0.02)

    def forward(
        self, tokens: Tensor, past: Sequence[KeysAndValues] | None = None, padding: Tensor | None = None
    ) -> tuple[Tensor, list[KeysAndValues]]:
        begin = 0 if past is None else past[0][0].shape[2]
        places = torch.arange(begin + tokens.shape[1])
        queries, mask = places[begin:], None
        if padding is not None:
            is_before = (places <= queries[:, None]) & (places >= padding[:, None, None])
            mask = (is_before | (places == queries[:, None]))[
                :, None
            ]  # padding sees itself: nothing at all would be NaN
            queries = (queries - padding[:, None]).clamp(min=0)
        x = self.tokens(tokens) + self.positions(queries)
        kept: list[KeysAndValues] = []
        for place, block in enumerate(self.blocks):
            x, of_layer = block(x, None if past is None else past[place], mask)
            kept.append(of_layer)
        return self.norm(x) @ self.tokens.weight.T, kept


PADDING = -100  # the target of a position that does not count


def next_token_loss(network: Transformer, sequences: Sequence[Sequence[int]]) -> Tensor:
    """The mean -log p of each token but the first, given those before it."""
    T = max(map(len, sequences))
    tokens = torch.zeros((len(sequences), T), dtype=torch.int64)
    targets = torch.full((len(sequences), T), PADDING)
    for row, sequence in enumerate(sequences):
        ids = torch.tensor(sequence)
        tokens[row, : len(ids)], targets[row, : len(ids) - 1] = ids, ids[1:]
    logits, _ = network(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)


@torch.no_grad()
def decode(
    network: Transformer, prompts: Sequence[Sequence[int]], longest: int, ends: Sequence[int]
) -> list[list[int]]:
    """What follows each of some prompts, greedily, up to an end; one token more than `longest` where none comes."""
    T = max(map(len, prompts))
    tokens = torch.tensor([[0] * (T - len(prompt)) + list(prompt) for prompt in prompts])
    padding = torch.tensor([T - len(prompt) for prompt in prompts])
    stops, is_done = torch.tensor(ends), torch.zeros(len(prompts), dtype=torch.bool)
    decoded: list[Tensor] = []
    past: list[KeysAndValues] | None = None
    while len(decoded) <= longest and not bool(is_done.all()):
        logits, past = network(tokens, past, padding)
        tokens = logits[:, -1].argmax(1, keepdim=True)
        decoded.append(tokens)
        is_done |= torch.isin(tokens[:, 0], stops)
    rows = torch.cat(decoded, 1).tolist()
    return [row[: next((place for place, token in enumerate(row) if token in ends), len(row))] for row in rows]


# ---------------------------------------------------------------- training and filling


class _LanguageModel:
    """A network that learns the sequences of entities, and completes prompts."""

    def __init__(self, records: Records, tokenizer: Tokenizer, settings: Settings, seed: int) -> None:
        self.records, self.tokenizer, self.settings, self.seed = records, tokenizer, settings, seed
        self.draw = random.Random(seed)
        self.items = [[tokenizer.item(item) for item in items] for items in records.entities]
        self.trainable = [place for place in range(records.train_count) if self.items[place]]
        self.comma, self.end = tokenizer.ids([COMMA, END])

    def _new_network(self, settings: Settings) -> Transformer:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return Transformer(len(self.tokenizer.tokens), settings)

    def sequence(self, entity: int, draw: random.Random, question: Path | None = None) -> list[int]:
        """The items of an entity in random order; with a question, its key in place of the end."""
        tail = [self.end] if question is None else self.tokenizer.key(question)
        room, tokens = self.settings.context - len(tail), list[int]()
        items = self.items[entity]
        for place in draw.sample(range(len(items)), len(items)):
            item = items[place]
            if len(tokens) + len(item) + 1 <= room:
                tokens += [*item, self.comma]
        if question is None and tokens:
            tokens.pop()
        return tokens + tail

    # ------------------------------------------------------------ training

    def affordable_width(self, budget: Budget) -> tuple[int, float]:
        """The greatest width with which entities are learnt often enough, and all prompts decoded, in what is left of the time.

        With it the seconds that decoding takes.
        """
        draw = random.Random(self.seed)
        places = [draw.choice(self.trainable) for _ in range(TRIAL)]
        sequences = [self.sequence(place, draw) for place in places]
        asked = [draw.choice(self.records.questions) for _ in range(TRIAL)]
        chosen, chosen_filling = WIDTHS[0], 0.0
        for width in WIDTHS:
            network = self._new_network(replace(self.settings, width=width))
            for _ in range(2):  # the first time is longer
                begun = budget.elapsed
                next_token_loss(network, sequences).backward()
                learning = (budget.elapsed - begun) / TRIAL * len(self.trainable) * MIN_PASSES
            begun = budget.elapsed
            prompts = [self.sequence(question.entity, draw, question.key) for question in asked]
            longest = math.ceil(sum(min(self.tokenizer.longest(question.of), 8) for question in asked) / TRIAL)
            decode(network, prompts, longest, ())
            filling = (budget.elapsed - begun) / TRIAL * len(self.records.questions)
            left = budget.share(1)
            if width > chosen and (learning > TRAINING_SHARE * left or filling > (1 - TRAINING_SHARE) * left):
                break
            chosen, chosen_filling = width, filling
        return chosen, chosen_filling

    def fit(self, seconds: float, report: Callable[[int, int], None]) -> float:
        """Train within some seconds; the passes over the entities."""
        settings = self.settings
        self.network = self._new_network(settings)
        optimizer = torch.optim.AdamW(self.network.parameters(), lr=settings.rate, weight_decay=settings.decay)
        budget = Budget(seconds)
        total, step, learnt = settings.passes * math.ceil(len(self.trainable) / settings.batch), 0, 0
        for batch in self._batches():
            elapsed = budget.elapsed
            if step >= total or elapsed >= seconds:
                break
            report(step, total)
            progress = max(step / total, elapsed / seconds if math.isfinite(seconds) else 0.0)
            optimizer.param_groups[0]["lr"] = settings.rate * min(1.0, progress / WARMUP, (1 - progress) / (1 - WARMUP))
            loss = next_token_loss(self.network, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            optimizer.step()
            step, learnt = step + 1, learnt + len(batch)
        self.network.eval()
        return learnt / len(self.trainable)

    def _batches(self) -> Iterator[list[list[int]]]:
        """Batches of sequences of like length, without end: every entity once in each pass."""
        size = self.settings.batch
        while True:
            order = self.draw.sample(self.trainable, len(self.trainable))
            for begin in range(0, len(order), BUCKET * size):
                bucket = [self.sequence(place, self.draw) for place in order[begin : begin + BUCKET * size]]
                bucket.sort(key=len)
                batches = [bucket[place : place + size] for place in range(0, len(bucket), size)]
                yield from self.draw.sample(batches, len(batches))

    # ------------------------------------------------------------ filling

    def answer(self, budget: Budget) -> tuple[Answers, int, int]:
        """The answers, how many cells were asked for while there was time, and how many answers did not parse."""
        prompts = [
            (self.sequence(question.entity, self.draw, question.key), question) for question in self.records.questions
        ]
        blocks = list(self._blocks(prompts))
        self.draw.shuffle(blocks)  # so that each property gets some answers where the time does not suffice
        answers: Answers = {}
        asked = errors = 0
        for block in blocks:
            if budget.share(1) <= 0:
                break
            longest = max(self.tokenizer.longest(question.of) for _, question in block)
            decoded = decode(self.network, [prompt for prompt, _ in block], longest, (self.comma, self.end))
            for (_, question), ids in zip(block, decoded, strict=True):
                value = self.tokenizer.parse(question.of, ids)
                asked, errors = asked + 1, errors + (value is None)
                if value is not None:
                    answers[question.cell] = value
        return answers, asked, errors

    def _blocks(self, prompts: Sequence[tuple[list[int], Question]]) -> Iterator[list[tuple[list[int], Question]]]:
        """Prompts of like length whose answers are of like length."""

        def longest(prompt: tuple[list[int], Question]) -> int:
            return self.tokenizer.longest(prompt[1].of)

        for _, group in groupby(sorted(prompts, key=longest), longest):
            alike = sorted(group, key=lambda prompt: len(prompt[0]))
            yield from (alike[begin : begin + BLOCK] for begin in range(0, len(alike), BLOCK))
