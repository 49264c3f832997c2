"""TabDDPM: Gaussian diffusion of numbers and multinomial diffusion of labels, denoised together by an MLP. Our own code in torch.

Numbers pass a quantile transform to a normal distribution first. Rows are drawn with classes as often as in the table; a numeric
target is a column like the others. Hidden cells are filled by inpainting: at every step of the reverse process the given values
are replaced by themselves with the noise of that step, and the step is repeated some times, so that both agree. A cell gets the
median of several draws, or their most frequent label.

DIFF(paper): settings are fixed and not tuned, with 100 steps of diffusion in place of up to 1,000. Gaps, which the paper does
not have, enter training as the median and as equal chances of all labels, and do not count in the loss.

B rows   P numbers   K labels of all columns, one-hot   T steps of diffusion
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch._dynamo  # which an optimizer imports first: seconds that are no part of the budget
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional

from benchmarks.peers.entity_table import MISSING, EntityTable
from benchmarks.peers.protocol import FILL, FIT, Budget, Filled, Imputation, Sampled, Sampling, Stopwatch
from benchmarks.tasks import Answers

TRAINING_SHARE = 0.5  # of the time
DRAWS = 15  # of each hidden cell, at most
BLOCK = 4096  # rows that are drawn at once
SMALLEST = 1e-12  # chance whose logarithm is taken


@dataclass(frozen=True)
class Settings:
    """The settings of network and training."""

    steps: int = 5000
    batch: int = 512
    rate: float = 1e-3
    decay: float = 0.995  # of the moving average of the weights
    width: int = 256
    layers: int = 3
    diffusion: int = 100  # T
    repeats: int = 3  # of each reverse step where cells are filled


def sample(sampling: Sampling) -> Sampled:
    """Rows like those of a table."""
    budget, stopwatch, table = Budget(sampling.seconds), Stopwatch(), sampling.table
    train = table.train
    P, Q = train.numbers.shape[1], train.categories.shape[1]
    with stopwatch.phase(FIT):
        coded = [np.unique(train.categories[:, column], return_inverse=True) for column in range(Q)]
        numbers, codes = [train.numbers.astype(np.float64)], [codes for _, codes in coded]
        sizes = [len(known) for known, _ in coded]
        classes = np.zeros(len(train), dtype=np.int64) if table.is_regression else train.target.astype(np.int64)
        if table.is_regression:
            numbers.append(train.target.astype(np.float64)[:, None])
        matrix = np.concatenate(numbers, 1)
        stacked = np.stack(codes, 1) if codes else np.empty((len(train), 0), dtype=np.int64)
        columns = _Columns(matrix, stacked, sizes, len(train))
        diffusion = _Diffusion(columns, int(classes.max()) + 1, Settings(), sampling.seed)
        steps = diffusion.fit(columns.rows, torch.from_numpy(classes), budget, sampling.report)
    drawn, classes_drawn = [], []
    with stopwatch.phase(FILL):
        for begin in range(0, sampling.count, BLOCK):
            count = min(BLOCK, sampling.count - begin)
            picked = torch.from_numpy(classes)[torch.randint(len(classes), (count,), generator=diffusion.draw)]
            drawn.append(diffusion.sample(picked))
            classes_drawn.append(picked)
    values, labels = columns.restored(torch.cat(drawn))
    target = values[:, P] if table.is_regression else torch.cat(classes_drawn).numpy()
    categories = [known[labels[:, column]] for column, (known, _) in enumerate(coded)]
    rows = table.drawn_rows(
        values[:, :P], np.stack(categories, 1) if categories else np.empty((len(values), 0), dtype=str), target
    )
    return Sampled(rows, stopwatch.seconds, {"steps": steps}, stopwatch.usage)


def fill(imputation: Imputation) -> Filled:
    """The median of several draws of each hidden cell, or their most frequent label."""
    budget, stopwatch = Budget(imputation.seconds), Stopwatch()
    with stopwatch.phase(FIT):
        table = EntityTable.of(imputation)
        if budget.share(1) <= 0 or not table.tasks:
            return Filled({})
        N = table.train_count
        columns = _Columns(table.numbers, table.codes, [len(labels) for labels in table.categories], N)
        diffusion = _Diffusion(columns, 1, Settings(), imputation.seed)
        steps = diffusion.fit(columns.rows[:N], torch.zeros(N, dtype=torch.int64), budget, imputation.report)
    asked = sorted({cell.entity for cell in imputation.masked.cells})
    given = columns.rows[torch.tensor(asked)]
    numbers: list[NDArray[np.float64]] = []
    codes: list[NDArray[np.int64]] = []
    with stopwatch.phase(FILL):
        repeats = diffusion.affordable_repeats(given[:BLOCK], budget.share(1) * BLOCK / max(len(given), BLOCK))
        last = 0.0
        while len(numbers) < DRAWS and (not numbers or budget.share(1) >= last):
            before = budget.elapsed
            drawn = torch.cat([diffusion.inpaint(block, repeats) for block in given.split(BLOCK)])
            values, labels = columns.restored(drawn)
            numbers.append(values)
            codes.append(labels)
            last = budget.elapsed - before
    answers: Answers = {}
    P = table.numbers.shape[1]
    for column in table.tasks:
        filled = np.full(len(table.numbers), np.nan)
        if table.is_number(column):
            filled[asked] = np.median([values[:, column] for values in numbers], axis=0)
        else:
            filled[asked] = _most_frequent(np.stack([labels[:, column - P] for labels in codes], 1))
        answers.update(table.answers(imputation, column, filled.tolist()))
    settings = {"steps": steps, "draws": len(numbers), "repeats": repeats}
    return Filled(answers, stopwatch.seconds, settings, stopwatch.usage)


def _most_frequent(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(B,) the most frequent code of each row."""
    return np.array([np.bincount(row).argmax() for row in codes])


# ---------------------------------------------------------------- columns


class _Columns:
    """Numbers as quantiles of a normal distribution, labels one-hot, gaps as NaN: (B, P + K)."""

    def __init__(
        self, numbers: NDArray[np.float64], codes: NDArray[np.int64], sizes: Sequence[int], train_count: int
    ) -> None:
        self.P, self.sizes = numbers.shape[1], sizes
        self.known = [np.sort(column[~np.isnan(column)]) for column in numbers[:train_count].T]
        columns = [self._to_normal(place, column) for place, column in enumerate(numbers.T)]
        for column, size in zip(codes.T, sizes, strict=True):
            hot = np.eye(size)[np.maximum(column, 0)]
            hot[column == MISSING] = np.nan
            columns += list(hot.T)
        self.rows = torch.from_numpy(np.stack(columns, 1).astype(np.float32))

    def _to_normal(self, place: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as normal quantiles: of equal ones the middle of their ranks."""
        known = self.known[place]
        low, high = np.searchsorted(known, values, "left"), np.searchsorted(known, values, "right")
        share = torch.from_numpy((low + high) / 2 / max(len(known), 1))
        normal = math.sqrt(2) * torch.erfinv(2 * share.clamp(1e-4, 1 - 1e-4) - 1)
        return np.where(np.isnan(values), np.nan, normal.numpy())

    def restored(self, rows: Tensor) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Drawn rows (B, P + K) as numbers (B, P) and codes (B, Q)."""
        numbers = np.empty((len(rows), self.P))
        for place, known in enumerate(self.known):
            share = (1 + torch.erf(rows[:, place].double() / math.sqrt(2))).numpy() / 2
            numbers[:, place] = np.interp(share * len(known) - 0.5, np.arange(len(known)), known)
        parts = rows[:, self.P :].split(list(self.sizes), 1) if self.sizes else ()
        codes = [part.argmax(1).numpy() for part in parts]
        return numbers, np.stack(codes, 1) if codes else np.empty((len(rows), 0), dtype=np.int64)


# ---------------------------------------------------------------- diffusion


class _Denoiser(nn.Module):
    """An MLP of noisy rows, the step and the class: the noise of numbers, the logits of labels."""

    def __init__(self, size: int, classes: int, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        self.inputs, self.classes = nn.Linear(size, width), nn.Embedding(classes, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        layers: list[nn.Module] = []
        for _ in range(settings.layers):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, size))
        self.register_buffer("frequencies", torch.exp(-math.log(1e4) * torch.arange(width // 2) / (width // 2)))

    def forward(self, rows: Tensor, step: Tensor, classes: Tensor) -> Tensor:
        angles = step[:, None] * self.get_buffer("frequencies")
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        return torch.as_tensor(self.layers(self.inputs(rows) + time + self.classes(classes)))


class _Diffusion:
    """The forward and the reverse process of both kinds of columns."""

    def __init__(self, columns: _Columns, classes: int, settings: Settings, seed: int) -> None:
        self.P, self.sizes, self.settings = columns.P, list(columns.sizes), settings
        self.draw = Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = _Denoiser(columns.rows.shape[1], classes, settings)
        T = settings.diffusion
        angle = (torch.arange(T + 1) / T + 0.008) / 1.008 * math.pi / 2
        self.alpha_bar = (angle.cos() ** 2 / angle[0].cos() ** 2).clamp(min=1e-5)  # (T + 1,), 1 without noise
        self.alpha = (self.alpha_bar[1:] / self.alpha_bar[:-1]).clamp(min=1e-3)  # (T,)
        self.uniform = (
            torch.cat([torch.full((size,), 1 / size) for size in self.sizes]) if self.sizes else torch.empty(0)
        )

    def fit(self, rows: Tensor, classes: Tensor, budget: Budget, report: Callable[[int, int], None]) -> int:
        """Train within a share of the time; the number of steps."""
        settings = self.settings
        limit = TRAINING_SHARE * budget.share(1)
        optimizer = torch.optim.AdamW(self.network.parameters(), lr=settings.rate)
        mean = {name: value.clone() for name, value in self.network.state_dict().items()}
        step = 0
        while step < settings.steps and budget.elapsed < limit:
            report(step, settings.steps)
            progress = max(step / settings.steps, budget.elapsed / limit if math.isfinite(limit) else 0.0)
            optimizer.param_groups[0]["lr"] = settings.rate * (1 - progress)
            places = torch.randint(len(rows), (min(settings.batch, len(rows)),), generator=self.draw)
            loss = self._loss(rows[places], classes[places])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            decay = min(settings.decay, step / (step + 10))
            for name, value in self.network.state_dict().items():
                mean[name].lerp_(value, 1 - decay)
        self.network.load_state_dict(mean)
        self.network.eval()
        return step

    def _loss(self, rows: Tensor, classes: Tensor) -> Tensor:
        """The squared error of the noise, and the divergence of the labels one step back, each a mean over known values."""
        step = torch.randint(self.settings.diffusion, (len(rows),), generator=self.draw)
        is_known = ~rows.isnan()
        clean = torch.where(is_known, rows, self._neutral())
        noise = torch.randn((len(rows), self.P), generator=self.draw)
        noisy = self._noisy(clean, step, noise)
        output = self.network(noisy, step.float(), classes)
        known_numbers = is_known[:, : self.P]
        loss = (((output[:, : self.P] - noise) ** 2) * known_numbers).sum() / known_numbers.sum().clamp(min=1)
        parts = zip(
            *(
                part.split(self.sizes, 1)
                for part in (clean[:, self.P :], noisy[:, self.P :], output[:, self.P :], is_known[:, self.P :])
            ),
            strict=True,
        )
        for truth, noisy_label, logits, known in parts if self.sizes else ():
            true = self._one_step_back(noisy_label, truth, step)
            predicted = self._one_step_back(noisy_label, logits.softmax(1), step)
            divergence = (true * ((true + SMALLEST).log() - (predicted + SMALLEST).log())).sum(1)
            loss = loss + (divergence * known[:, 0]).sum() / known[:, 0].sum().clamp(min=1) / len(self.sizes)
        return torch.as_tensor(loss)

    def _neutral(self) -> Tensor:
        """(P + K) what stands for a gap: the median of numbers, equal chances of labels."""
        return torch.cat([torch.zeros(self.P), self.uniform])

    def _noisy(self, clean: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """Rows after so many steps of the forward process, from 0, which is one."""
        alpha_bar = self.alpha_bar[step + 1][:, None]
        numbers = alpha_bar.sqrt() * clean[:, : self.P] + (1 - alpha_bar).sqrt() * noise
        chances = alpha_bar * clean[:, self.P :] + (1 - alpha_bar) * self.uniform
        return torch.cat([numbers, self._drawn_labels(chances)], 1)

    def _drawn_labels(self, chances: Tensor) -> Tensor:
        """Labels one-hot, drawn by their chances (B, K)."""
        parts = chances.split(self.sizes, 1) if self.sizes else ()
        hot = [
            functional.one_hot(torch.multinomial(part, 1, generator=self.draw)[:, 0], part.shape[1]).float()
            for part in parts
        ]
        return torch.cat(hot, 1) if hot else chances

    def _one_step_back(self, noisy: Tensor, clean: Tensor, step: Tensor) -> Tensor:
        """The chances of a label column one step back, by its noisy label and the chances of the clean one."""
        K = noisy.shape[1]
        alpha, before = self.alpha[step][:, None], self.alpha_bar[step][:, None]
        chances = (alpha * noisy + (1 - alpha) / K) * (before * clean + (1 - before) / K)
        return chances / chances.sum(1, keepdim=True)

    def _back(self, noisy: Tensor, step: int, classes: Tensor) -> Tensor:
        """Rows one step back, drawn."""
        steps = torch.full((len(noisy),), step)
        output = self.network(noisy, steps.float(), classes)
        alpha, alpha_bar, before = self.alpha[step], self.alpha_bar[step + 1], self.alpha_bar[step]
        numbers = noisy[:, : self.P]
        clean = ((numbers - (1 - alpha_bar).sqrt() * output[:, : self.P]) / alpha_bar.sqrt()).clamp(-5, 5)
        mean = (before.sqrt() * (1 - alpha) * clean + alpha.sqrt() * (1 - before) * numbers) / (1 - alpha_bar)
        deviation = ((1 - before) / (1 - alpha_bar) * (1 - alpha)).sqrt()
        drawn = mean + deviation * torch.randn(numbers.shape, generator=self.draw)
        parts = (
            zip(noisy[:, self.P :].split(self.sizes, 1), output[:, self.P :].split(self.sizes, 1), strict=True)
            if self.sizes
            else ()
        )
        chances = [self._one_step_back(label, logits.softmax(1), steps) for label, logits in parts]
        labels = self._drawn_labels(torch.cat(chances, 1)) if chances else noisy[:, self.P :]
        return torch.cat([drawn, labels], 1)

    def _start(self, count: int) -> Tensor:
        """Rows of noise alone."""
        noise = torch.randn((count, self.P), generator=self.draw)
        return torch.cat([noise, self._drawn_labels(self.uniform.expand(count, -1))], 1)

    @torch.no_grad()
    def sample(self, classes: Tensor) -> Tensor:
        """Rows of some classes."""
        rows = self._start(len(classes))
        for step in reversed(range(self.settings.diffusion)):
            rows = self._back(rows, step, classes)
        return rows

    @torch.no_grad()
    def affordable_repeats(self, given: Tensor, seconds: float) -> int:
        """How often each reverse step is repeated so that rows are drawn within some seconds: once in any case."""
        budget, repeats = Budget(None), self.settings.repeats
        self._back(self._start(len(given)), 0, torch.zeros(len(given), dtype=torch.int64))
        return max(1, int(min(repeats, seconds / (3 * budget.elapsed * self.settings.diffusion))))

    @torch.no_grad()
    def inpaint(self, given: Tensor, repeats: int) -> Tensor:
        """Rows with their gaps (NaN) drawn and the rest as given."""
        is_known, clean = ~given.isnan(), torch.where(given.isnan(), self._neutral(), given)
        classes = torch.zeros(len(given), dtype=torch.int64)
        rows = self._start(len(given))
        for step in reversed(range(self.settings.diffusion)):
            for repeat in reversed(range(repeats)):
                noise = torch.randn((len(given), self.P), generator=self.draw)
                noisy = self._noisy(clean, torch.full((len(given),), step), noise)
                back = self._back(torch.where(is_known, noisy, rows), step, classes)
                rows = self._forward(back, step) if repeat else back
        return torch.where(is_known, clean, rows)

    def _forward(self, rows: Tensor, step: int) -> Tensor:
        """Rows one step forward."""
        alpha = self.alpha[step]
        noise = torch.randn((len(rows), self.P), generator=self.draw)
        numbers = alpha.sqrt() * rows[:, : self.P] + (1 - alpha).sqrt() * noise
        return torch.cat([numbers, self._drawn_labels(alpha * rows[:, self.P :] + (1 - alpha) * self.uniform)], 1)
