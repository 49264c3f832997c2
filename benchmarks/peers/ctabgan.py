"""CTAB-GAN: a conditional generative adversarial network of rows, with convolutions. Our own code in torch, after Zhao et al. (2021).

A number is the mode of a Gaussian mixture that it is of, and its distance from that mode's mean. Values that many rows repeat, such
as 0, are modes of their own (mixed columns); numbers with a long tail are taken by their logarithm. Rows become square images, which
a generator makes and a discriminator judges. Each drawn row has a condition: one label or mode that it must have, drawn in training
by the logarithm of its frequency. Besides the discriminator the generator learns from the condition (cross-entropy), from the means
and deviations of the discriminator's features (information loss), and from a classifier of the target (downstream loss).

`ctabgan_plus` is the same with the changes of CTAB-GAN+.

DIFF(paper): which columns are mixed, simple or have a long tail is not stated by hand but found by rules: `_special_values`,
`encode_simple_or_by_modes` and `_log_shift`. Batches have half of the rows.
Networks have a quarter of the channels, for CPUs. Training ends after a share of the time, where there is a limit. There is no
differential privacy.

N rows of train   B rows of a batch   D width of an encoded row   C width of a condition   S side of an image   K modes or labels
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
import torch._dynamo  # which an optimizer imports first: seconds that are no part of the budget
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peers.protocol import FILL, FIT, Budget, PeerError, Sampled, Sampling, Stopwatch

TRAINING_SHARE = 0.8  # of the time
BLOCK = 4096  # rows that are drawn at once
MIN_ROWS = 10  # of train
MAX_MIXTURE_ROWS = 2_000  # by which a mixture is fitted
MIN_WEIGHT = 0.005  # of a mode of a mixture
SPECIAL_SHARE = 0.1  # of the rows: a value that so many have is a mode of its own
MIN_DISTINCT = 32  # values of a column, from which on it may have such values
DEVIATIONS = 4  # of a mode, within which its numbers are
LONG_TAIL = 2.0  # skewness, from which on the logarithm is tried
NEARLY_NORMAL = 1.0  # skewness and excess kurtosis, up to which a number is simple
TEMPERATURE = 0.2  # of the Gumbel-softmax
PENALTY = 10.0  # weight of the gradient penalty
SMALLEST_SIDE = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """The settings of networks and training."""

    steps: int = 5000  # of the generator
    batch: int = 256
    rate: float = 2e-4
    decay: float = 1e-5  # of weights
    noise: int = 100  # width
    channels: int = 16  # of the largest images; the smallest have more
    width: int = 256  # of the classifier
    modes: int = 10  # of a mixture, at most
    critic_steps: int = 1  # of the discriminator for each of the generator


@dataclass(frozen=True)
class Method:
    """How CTAB-GAN and CTAB-GAN+ differ."""

    encode_number: Callable[[Floats, Settings, int], Column]
    adversarial: type[Adversarial]
    predicts_numbers: bool  # whether a numeric target has a downstream loss
    settings: Settings


def sample(sampling: Sampling) -> Sampled:
    """Rows drawn from a CTAB-GAN."""
    return sample_by(Method(encode_by_modes, BinaryLoss, predicts_numbers=False, settings=Settings()), sampling)


def sample_by(method: Method, sampling: Sampling) -> Sampled:
    """Rows drawn from a network of a method, trained for as many steps as the time suffices for."""
    from sklearn.mixture import BayesianGaussianMixture  # noqa: F401  # seconds that are no part of the budget

    budget, stopwatch, table = Budget(sampling.seconds), Stopwatch(), sampling.table
    if budget.share(1) <= 0:
        raise PeerError("budget", "expected time to train, got none. Give it a longer budget.")
    if len(table.train) < MIN_ROWS:
        raise PeerError(table.name, f"expected {MIN_ROWS} rows or more to learn from, got {len(table.train)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(sampling.seed)
        with stopwatch.phase(FIT):
            columns = _columns(sampling, method)
            networks = Networks(columns, method, budget, sampling)
            steps = networks.fit()
        with stopwatch.phase(FILL):
            blocks = [networks.draw(min(BLOCK, sampling.count - begin)) for begin in range(0, sampling.count, BLOCK)]
            decoded = [
                column.decode(part) for column, part in zip(columns, _split(torch.cat(blocks), columns), strict=True)
            ]
    P = table.train.numbers.shape[1]
    *features, target = decoded
    empty = np.empty((sampling.count, 0))
    numbers, labels = features[:P], features[P:]
    rows = table.drawn_rows(
        np.stack(numbers, 1) if numbers else empty, np.stack(labels, 1) if labels else empty.astype(str), target
    )
    settings = {"steps": steps, "channels": method.settings.channels, "width": method.settings.width}
    return Sampled(rows, stopwatch.seconds, settings, stopwatch.usage)


# ---------------------------------------------------------------- columns


@dataclass(frozen=True)
class Span:
    """A part of an encoded row: a number from -1 to 1, or a label one-hot."""

    width: int
    is_label: bool


class Column(Protocol):
    """The code of one column."""

    spans: Sequence[Span]

    def encode(self) -> Floats:
        """(N, width) the column of train."""

    def decode(self, part: Tensor) -> Any:
        """(B,) values of a drawn part (B, width)."""

    def predicted(self, part: Tensor) -> Tensor:
        """(B,) what the downstream model predicts, of a part (B, width): the label's number, or a number on a scale of about 1."""


class _Label:
    """A label, one-hot."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.known, self.codes = np.unique(values, return_inverse=True)
        self.spans: Sequence[Span] = (Span(len(self.known), True),)

    def encode(self) -> Floats:
        return np.eye(len(self.known))[self.codes]

    def decode(self, part: Tensor) -> Any:
        return self.known[part.argmax(1).numpy()]

    def predicted(self, part: Tensor) -> Tensor:
        return part.argmax(1)


class _Number:
    """A number as it is learnt: by its logarithm where its tail is long, then with mean 0 and deviation 1."""

    def __init__(self, values: Floats) -> None:
        self.low, self.high = float(values.min()), float(values.max())
        self.is_whole = bool((values == np.rint(values)).all())
        self.shift = _log_shift(values)
        learnt = values if self.shift is None else np.log(values + self.shift)
        self.mean, self.deviation = float(learnt.mean()), float(learnt.std()) or 1.0
        self.learnt = (learnt - self.mean) / self.deviation

    def restored(self, learnt: Floats) -> Floats:
        """(B,) values of learnt numbers, within the range of train; whole where all of train's are."""
        values = learnt * self.deviation + self.mean
        values = (
            values if self.shift is None else np.exp(np.minimum(values, math.log(self.high + self.shift))) - self.shift
        )
        values = values.clip(self.low, self.high)
        return np.rint(values) if self.is_whole else values


def _log_shift(values: Floats) -> float | None:
    """What is added before the logarithm of a column with a long tail; None where its logarithms are no less skewed."""
    span = float(np.ptp(values))
    if _skewness(values) < LONG_TAIL:
        return None
    low = float(values.min())
    shift = 0.0 if low > 0 else span / len(values) - low
    return shift if abs(_skewness(np.log(values + shift))) < _skewness(values) else None


def _skewness(values: Floats) -> float:
    deviation = values.std()
    return float((((values - values.mean()) / deviation) ** 3).mean()) if deviation > 0 else 0.0


class _Modes:
    """Mode-specific normalisation: the distance from a mode's mean over its deviations, and the mode one-hot.

    In a column of many values those that a tenth of the rows have are modes of their own, without a distance.
    """

    def __init__(self, number: _Number, special: Floats, mixture: tuple[Floats, Floats, Floats]) -> None:
        self.number, self.special = number, special
        _, self.means, self.deviations = mixture  # (K,) each
        self.weights = mixture[0]
        self.spans: Sequence[Span] = (Span(1, False), Span(len(special) + len(self.means), True))

    def encode(self) -> Floats:
        learnt = self.number.learnt
        distance = (learnt[:, None] - self.means) / self.deviations  # (N, K)
        log_density = np.log(self.weights / self.deviations) - distance**2 / 2
        noise = torch.rand(distance.shape, dtype=torch.float64).clamp(1e-12).numpy()
        mode = (log_density - np.log(-np.log(noise))).argmax(1)  # drawn by the probabilities of the modes
        scalar = np.take_along_axis(distance, mode[:, None], 1)[:, 0] / DEVIATIONS
        option = mode + len(self.special)
        for place, value in enumerate(self.special):
            scalar, option = np.where(learnt == value, 0, scalar), np.where(learnt == value, place, option)
        return np.concatenate([scalar.clip(-1, 1)[:, None], np.eye(self.spans[1].width)[option]], 1)

    def decode(self, part: Tensor) -> Any:
        scalar, option = part[:, 0].double().numpy(), part[:, 1:].argmax(1).numpy()
        means = np.concatenate([self.special, self.means])
        widths = np.concatenate([np.zeros(len(self.special)), self.deviations]) * DEVIATIONS
        return self.number.restored(means[option] + widths[option] * scalar)

    def predicted(self, part: Tensor) -> Tensor:
        means = part.new_tensor(np.concatenate([self.special, self.means]))
        widths = part.new_tensor(np.concatenate([np.zeros(len(self.special)), self.deviations]) * DEVIATIONS)
        return (part[:, 1:] * (means + widths * part[:, :1])).sum(1)


class _Scaled:
    """General transform: a number as its place between the least and the greatest, from -1 to 1."""

    def __init__(self, number: _Number) -> None:
        self.number = number
        self.spans: Sequence[Span] = (Span(1, False),)
        self.low, self.range = float(number.learnt.min()), float(np.ptp(number.learnt)) or 1.0

    def encode(self) -> Floats:
        return (2 * (self.number.learnt - self.low) / self.range - 1)[:, None]

    def decode(self, part: Tensor) -> Any:
        return self.number.restored((part[:, 0].double().numpy() + 1) / 2 * self.range + self.low)

    def predicted(self, part: Tensor) -> Tensor:
        return (part[:, 0] + 1) / 2 * self.range + self.low


def encode_by_modes(values: Floats, settings: Settings, seed: int) -> Column:
    """CTAB-GAN: every number by its modes."""
    number = _Number(values)
    special = _special_values(number.learnt)
    return _Modes(number, special, _mixture(number.learnt[~np.isin(number.learnt, special)], settings, seed))


def encode_simple_or_by_modes(values: Floats, settings: Settings, seed: int) -> Column:
    """CTAB-GAN+: a number that is nearly normal and has no special values by the general transform, others by their modes."""
    number = _Number(values)
    kurtosis = float((number.learnt**4).mean()) - 3
    is_simple = max(abs(_skewness(number.learnt)), abs(kurtosis)) <= NEARLY_NORMAL
    if is_simple and not len(_special_values(number.learnt)):
        return _Scaled(number)
    return encode_by_modes(values, settings, seed)


def _special_values(learnt: Floats) -> Floats:
    """Values that many rows repeat in a column of many values."""
    known, counts = np.unique(learnt, return_counts=True)
    if len(known) < MIN_DISTINCT:
        return np.empty(0)
    return np.asarray(known[counts >= SPECIAL_SHARE * len(learnt)])


def _mixture(learnt: Floats, settings: Settings, seed: int) -> tuple[Floats, Floats, Floats]:
    """Weights, means and deviations (K,) of a variational Gaussian mixture, without modes of little weight."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    some = np.random.default_rng(seed).permutation(learnt)[:MAX_MIXTURE_ROWS]
    mixture = BayesianGaussianMixture(
        n_components=min(settings.modes, len(np.unique(some))),
        weight_concentration_prior=1e-3,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(some[:, None])
    kept = mixture.weights_ >= MIN_WEIGHT
    return mixture.weights_[kept], mixture.means_[kept, 0], np.sqrt(mixture.covariances_[kept, 0, 0])


def _columns(sampling: Sampling, method: Method) -> list[Column]:
    """The codes of numbers, of labels, and of the target."""
    train, settings, seed = sampling.table.train, method.settings, sampling.seed
    numbers = [method.encode_number(values, settings, seed) for values in train.numbers.T.astype(np.float64)]
    labels: list[Column] = [_Label(values) for values in train.categories.T]
    if sampling.table.is_regression:
        return [*numbers, *labels, method.encode_number(train.target.astype(np.float64), settings, seed)]
    return [*numbers, *labels, _Label(train.target.astype(np.int64))]


def _width(column: Column) -> int:
    return sum(span.width for span in column.spans)


def _split(rows: Tensor, columns: Sequence[Column]) -> tuple[Tensor, ...]:
    """The part of each column of encoded rows (B, D)."""
    return tuple(rows.split([_width(column) for column in columns], 1))


# ---------------------------------------------------------------- conditions


class _Conditions:
    """One label or mode for each row, one-hot among all of them (B, C)."""

    def __init__(self, rows: Tensor, columns: Sequence[Column]) -> None:
        self.rows = rows
        spans = [span for column in columns for span in column.spans]
        ends = np.cumsum([span.width for span in spans]).tolist()
        self.parts = [slice(end - span.width, end) for span, end in zip(spans, ends, strict=True) if span.is_label]
        self.options = [rows[:, part].argmax(1) for part in self.parts]  # (N,) of each part
        counts = [rows[:, part].sum(0) for part in self.parts]
        self.counts = [count.long() for count in counts]
        self.log_frequencies = [(1 + count).log() for count in counts]
        self.orders = [options.argsort(stable=True) for options in self.options]  # rows with equal options side by side
        self.offsets = [0, *np.cumsum([part.stop - part.start for part in self.parts]).tolist()]

    @property
    def width(self) -> int:
        """C."""
        return int(self.offsets[-1])

    def balanced(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Conditions (B, C) by log-frequency, their parts and options (B,), and a row of train (B, D) that meets each."""
        places = torch.randint(len(self.rows), (count,))
        part, option = torch.randint(max(len(self.parts), 1), (count,)), torch.zeros(count, dtype=torch.int64)
        for number, weights in enumerate(self.log_frequencies):
            chosen = (part == number).nonzero()[:, 0]
            if len(chosen):
                option[chosen] = torch.multinomial(weights * (self.counts[number] > 0), len(chosen), replacement=True)
                size = self.counts[number]
                first = (size.cumsum(0) - size)[option[chosen]]
                offset = (torch.rand(len(chosen)) * size[option[chosen]]).long()
                places[chosen] = self.orders[number][first + offset]
        return self._one_hot(part, option), part, option, self.rows[places]

    def as_in_train(self, count: int) -> Tensor:
        """(B, C) conditions by their frequency."""
        places, part = torch.randint(len(self.rows), (count,)), torch.randint(max(len(self.parts), 1), (count,))
        option = torch.stack(self.options, 1)[places, part] if self.parts else torch.zeros(count, dtype=torch.int64)
        return self._one_hot(part, option)

    def _one_hot(self, part: Tensor, option: Tensor) -> Tensor:
        if not self.parts:
            return torch.zeros((len(part), 0))
        return functional.one_hot(torch.tensor(self.offsets)[part] + option, self.width).float()

    def loss(self, logits: Tensor, part: Tensor, option: Tensor) -> Tensor:
        """The cross-entropy of the conditions under drawn logits (B, D)."""
        total = logits.new_zeros(())
        for number, where in enumerate(self.parts):
            chosen = part == number
            if chosen.any():
                total = total + functional.cross_entropy(logits[chosen, where], option[chosen], reduction="sum")
        return total / len(logits)


# ---------------------------------------------------------------- networks


def _side(width: int) -> int:
    """S, a power of two, of the smallest image that has room for a vector."""
    side = SMALLEST_SIDE
    while side * side < width:
        side *= 2
    return side


def _image(vectors: Tensor, side: int) -> Tensor:
    """Vectors (B, width) as images (B, 1, S, S), with zeros at the end."""
    padded = functional.pad(vectors, (0, side * side - vectors.shape[1]))
    return padded.view(-1, 1, side, side)


class _Generator(nn.Module):
    """Noise and condition (B, noise + C) as logits of encoded rows (B, D): transposed convolutions."""

    def __init__(self, width: int, condition: int, settings: Settings) -> None:
        super().__init__()
        self.width = width
        doublings = int(math.log2(_side(width) // SMALLEST_SIDE))
        channels = [settings.channels * 2**n for n in reversed(range(doublings + 1))]
        inputs, outputs = settings.noise + condition, channels[0] * SMALLEST_SIDE**2
        layers: list[nn.Module] = [
            nn.Linear(inputs, outputs),
            nn.Unflatten(1, (channels[0], SMALLEST_SIDE, SMALLEST_SIDE)),
        ]
        for before, after in pairwise(channels):
            layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.ConvTranspose2d(before, after, 4, 2, 1)]
        layers += [nn.BatchNorm2d(channels[-1]), nn.ReLU(), nn.Conv2d(channels[-1], 1, 3, padding=1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, noise: Tensor, condition: Tensor) -> Tensor:
        images = self.layers(torch.cat([noise, condition], 1))
        return torch.as_tensor(images.flatten(1)[:, : self.width])


class _Discriminator(nn.Module):
    """Encoded rows and conditions (B, D + C) as one score (B,), and the features before it: convolutions."""

    def __init__(self, width: int, norm: Callable[[int, int], nn.Module], settings: Settings) -> None:
        super().__init__()
        self.side = _side(width)
        side, channels = self.side // 2, settings.channels
        layers: list[nn.Module] = [nn.Conv2d(1, channels, 4, 2, 1), nn.LeakyReLU(0.2)]
        while side > 2:
            side //= 2
            layers += [nn.Conv2d(channels, 2 * channels, 4, 2, 1), norm(2 * channels, side), nn.LeakyReLU(0.2)]
            channels *= 2
        self.layers, self.score = nn.Sequential(*layers), nn.Linear(channels * side * side, 1)

    def features(self, rows: Tensor) -> Tensor:
        return torch.as_tensor(self.layers(_image(rows, self.side)).flatten(1))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.as_tensor(self.score(self.features(rows))[:, 0])


class Adversarial(Protocol):
    """What discriminator and generator minimise, and how the discriminator's layers are normalised."""

    @staticmethod
    def norm(channels: int, side: int) -> nn.Module:
        """A layer for images (B, channels, side, side)."""

    @staticmethod
    def of_discriminator(discriminator: _Discriminator, real: Tensor, drawn: Tensor) -> Tensor:
        """The discriminator's loss."""

    @staticmethod
    def of_generator(discriminator: _Discriminator, drawn: Tensor) -> Tensor:
        """The generator's loss."""


class BinaryLoss:
    """The loss of the first generative adversarial networks: cross-entropy of real and drawn."""

    @staticmethod
    def norm(channels: int, side: int) -> nn.Module:
        return nn.BatchNorm2d(channels)

    @staticmethod
    def of_discriminator(discriminator: _Discriminator, real: Tensor, drawn: Tensor) -> Tensor:
        return functional.softplus(-discriminator(real)).mean() + functional.softplus(discriminator(drawn)).mean()

    @staticmethod
    def of_generator(discriminator: _Discriminator, drawn: Tensor) -> Tensor:
        return functional.softplus(-discriminator(drawn)).mean()


class WassersteinLoss:
    """The Wasserstein loss with gradient penalty."""

    @staticmethod
    def norm(channels: int, side: int) -> nn.Module:
        return nn.LayerNorm([channels, side, side])

    @staticmethod
    def of_discriminator(discriminator: _Discriminator, real: Tensor, drawn: Tensor) -> Tensor:
        between = torch.lerp(real, drawn, torch.rand((len(real), 1))).requires_grad_()
        (gradient,) = torch.autograd.grad(discriminator(between).sum(), between, create_graph=True)
        penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
        return torch.as_tensor(discriminator(drawn).mean() - discriminator(real).mean() + PENALTY * penalty)

    @staticmethod
    def of_generator(discriminator: _Discriminator, drawn: Tensor) -> Tensor:
        return torch.as_tensor(-discriminator(drawn).mean())


class _Downstream(nn.Module):
    """An MLP that predicts the target from the other columns (B, D - width of the target)."""

    def __init__(self, column: Column, inputs: int, settings: Settings) -> None:
        super().__init__()
        self.column, self.is_label = column, isinstance(column, _Label)
        layers: list[nn.Module] = []
        for width in (settings.width,) * 3:
            layers += [nn.Linear(inputs, width), nn.LeakyReLU(0.2), nn.Dropout(0.5)]
            inputs = width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, _width(column) if self.is_label else 1))

    def loss(self, rows: Tensor) -> Tensor:
        """How wrong the prediction is for the targets that rows have."""
        size = _width(self.column)
        predicted, target = self.layers(rows[:, :-size]), self.column.predicted(rows[:, -size:])
        if self.is_label:
            return functional.cross_entropy(predicted, target)
        return functional.smooth_l1_loss(predicted[:, 0], target)


class Networks:
    """Generator, discriminator and downstream model, and their training."""

    def __init__(self, columns: Sequence[Column], method: Method, budget: Budget, sampling: Sampling) -> None:
        self.columns, self.method, self.budget, self.sampling = columns, method, budget, sampling
        settings = method.settings
        encoded = np.concatenate([column.encode() for column in columns], 1).astype(np.float32)
        self.rows = torch.from_numpy(encoded)  # (N, D)
        self.conditions = _Conditions(self.rows, columns)
        D, C = self.rows.shape[1], self.conditions.width
        self.generator = _Generator(D, C, settings)
        self.discriminator = _Discriminator(D + C, method.adversarial.norm, settings)
        target = columns[-1]
        is_predicted = _width(target) < D and (isinstance(target, _Label) or method.predicts_numbers)
        self.downstream = _Downstream(target, D - _width(target), settings) if is_predicted else None

    def fit(self) -> int:
        """Train all within a share of the time; the number of steps of the generator."""
        settings = self.method.settings
        batch = max(2, min(settings.batch, len(self.rows)))
        total = settings.steps
        limit = TRAINING_SHARE * self.budget.share(1)
        of_generator, of_discriminator = self._optimizer(self.generator), self._optimizer(self.discriminator)
        of_downstream = self._optimizer(self.downstream) if self.downstream is not None else None
        step = 0
        while step < total and (step == 0 or self.budget.elapsed < limit):
            self.sampling.report(step, total)
            for _ in range(settings.critic_steps):
                self._step(of_discriminator, self._discriminator_loss(batch))
            if self.downstream is not None and of_downstream is not None:
                self._step(of_downstream, self.downstream.loss(self.rows[torch.randint(len(self.rows), (batch,))]))
            self._step(of_generator, self._generator_loss(batch))
            step += 1
        self.generator.eval()
        return step

    def _optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        settings = self.method.settings
        return torch.optim.Adam(
            network.parameters(), lr=settings.rate, betas=(0.5, 0.9), eps=1e-3, weight_decay=settings.decay
        )

    @staticmethod
    def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def _discriminator_loss(self, batch: int) -> Tensor:
        condition, _, _, real = self.conditions.balanced(batch)
        with torch.no_grad():
            drawn = self._activated(self._logits(condition))
        both = [torch.cat([rows, condition], 1) for rows in (real, drawn)]
        return self.method.adversarial.of_discriminator(self.discriminator, *both)

    def _generator_loss(self, batch: int) -> Tensor:
        condition, part, option, real = self.conditions.balanced(batch)
        logits = self._logits(condition)
        rows = self._activated(logits)
        drawn = torch.cat([rows, condition], 1)
        loss = self.method.adversarial.of_generator(self.discriminator, drawn)
        loss = loss + self.conditions.loss(logits, part, option)
        features = [self.discriminator.features(both) for both in (torch.cat([real, condition], 1), drawn)]
        for statistic in (torch.mean, torch.std):
            of_real, of_drawn = (statistic(values, dim=0) for values in features)
            loss = loss + (of_real - of_drawn).norm()
        return loss + self.downstream.loss(rows) if self.downstream is not None else loss

    def _logits(self, condition: Tensor) -> Tensor:
        return torch.as_tensor(self.generator(torch.randn((len(condition), self.method.settings.noise)), condition))

    def _activated(self, logits: Tensor) -> Tensor:
        """Logits (B, D) as encoded rows: tanh of numbers, Gumbel-softmax of labels."""
        spans = [span for column in self.columns for span in column.spans]
        parts = zip(logits.split([span.width for span in spans], 1), spans, strict=True)
        return torch.cat(
            [functional.gumbel_softmax(part, TEMPERATURE) if span.is_label else part.tanh() for part, span in parts], 1
        )

    @torch.no_grad()
    def draw(self, count: int) -> Tensor:
        """(B, D) encoded rows, with conditions as often as in train."""
        return self._activated(self._logits(self.conditions.as_in_train(count)))
