"""Densities: distributions over the code of a number, one for each of n rows. What each offers is `Density`.

    Mixture       K weighted Gaussians
    Binned        level within each of B bins, with exponential tails
    HeavyTailed   another density, with a millionth of the mass in a Student tail
    Blend         two densities, each with a share of the mass
    Shifted       another density, moved along the codes

A Gaussian far out costs the square of the distance: one number a million spreads away would dominate a mean over all
entities. So the network's densities are (1 - TAIL_MASS) of a mixture or of bins, and TAIL_MASS of a Student distribution
with two degrees of freedom, whose -log p grows with the logarithm of the distance. It has a mean, and all of it in closed
form: with t = (z - center) / scale,

    cdf (1 + t / r) / 2     pdf 1 / r^3     E[max(z - Z, 0)] (t + r) / 2,     r = sqrt(2 + t^2)

    DIFF(paper): log_mass is the mass of one step of the resolution, not the density, so that no repeated value drives it
    without bound (tests/leaves/test_number_beliefs.py); sigma has a floor of a quarter of a step besides.
    DIFF(paper): there log p is that of the Gaussians alone. The squared error (belief="mse") stays what it is called.

n rows   m points of each row   P knots of the map   K components   B bins   S slots
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from kbdisk.leaves.number.codec import NumberCodec, padded
from kbdisk.leaves.number.normal import log_mass, normalised

LOG_ZERO = -1e30  # finite, so that gradients are


class Density(Protocol):
    """A distribution over codes for each of n rows; all but log_mass in float64."""

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4); gradients flow."""

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m) the density at each code z."""

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]: all that the mean over a piecewise linear map needs."""

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is, to float64."""

    def sharpened(self, temperature: float) -> Density:
        """The density to the power 1 / temperature, or an approximation."""

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes, by levels (n, m) that are evenly spread and rise: their mean is near the expectation."""

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes where the density may be highest in original units; the map's knots are (n, P)."""

    def pick(self, rows: Tensor) -> Density:
        """The densities of some of the rows."""


def tensors_of(density: Any) -> Iterator[Tensor]:
    """The tensors of a density and of those that it consists of, each with n rows."""
    for part in vars(density).values():
        if isinstance(part, Tensor):
            yield part
        elif not isinstance(part, float):
            yield from tensors_of(part)


# ---------------------------------------------------------------- mixture of Gaussians

REACH_OF_GAUSSIAN = 39.0  # in standard deviations: float64's normal distribution ends there
MAX_TERMS = 2**17  # rows x points x components at a time, which fit the cache
MEAN_SHIFT_STEPS = 4  # from a component's mean towards a mode of the mixture
MEAN_SHIFT_STARTS = 8  # components from which a mode is sought
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Mixture:
    """K weighted Gaussians per row, in float32."""

    logits: Tensor  # (n, K)
    mean: Tensor  # (n, K)
    std: Tensor  # (n, K)

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4)."""
        return log_mass(self.logits, self.mean, self.std, codes)

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""
        return self._sum(z, lambda t, std: torch.special.ndtr(t))

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._sum(z, lambda t, std: _phi(t) / std)

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]."""
        return self._sum(z, lambda t, std: std * (t * torch.special.ndtr(t) + _phi(t)))

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""
        return (self.logits.double().softmax(1) * self.mean.double()).sum(1)

    def _sum(self, z: Tensor, term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """(n, m) the weighted sum over components of a function of (z - mean) / std and of std."""
        rows_at_once = max(1, MAX_TERMS // max(1, z.shape[1] * self.mean.shape[1]))
        chunks = torch.split(torch.arange(len(z), device=z.device), rows_at_once)
        return torch.cat([_weighted_sum(z[rows], self.pick(rows), term) for rows in chunks])

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is."""
        reach = REACH_OF_GAUSSIAN * self.std.double()
        return (self.mean - reach).amin(1), (self.mean + reach).amax(1)

    def sharpened(self, temperature: float) -> Mixture:
        """An approximation: components of weight ** (1 / temperature), narrower by its root."""
        return Mixture(self.logits / temperature, self.mean, self.std * math.sqrt(temperature))

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""
        shares = self.logits.softmax(1).cumsum(1)  # (n, K)
        uniform = torch.rand(len(shares), 1, generator=generator, device=shares.device)
        noise = torch.randn(len(shares), 1, generator=generator, device=shares.device)
        return self._at(shares, uniform, noise).squeeze(1)

    def _at(self, shares: Tensor, level: Tensor, noise: Tensor) -> Tensor:
        """(n, m) codes `noise` deviations from the mean of the component at each level of the cumulated shares."""
        component = torch.searchsorted(shares, level.contiguous()).clamp(max=shares.shape[1] - 1)  # (n, m)
        return (self.mean.gather(1, component) + noise * self.std.gather(1, component)).double()

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes."""
        noise = torch.special.ndtri((torch.arange(level.shape[1], device=level.device) + 0.5) * GOLDEN_RATIO % 1)
        return self._at(self.logits.softmax(1).cumsum(1), level.float(), noise.expand(level.shape))

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes near the modes, by mean shift from the highest components, and between the knots (n, P)."""
        starts = min(MEAN_SHIFT_STARTS, self.mean.shape[1])
        best = (self.logits - self.std.log()).topk(starts, dim=1).indices
        z = self.mean.gather(1, best)  # (n, m)
        means = z.double()
        for _ in range(MEAN_SHIFT_STEPS):
            height = (self.logits - self.std.log())[:, None]
            weight = (height - ((z[:, :, None] - self.mean[:, None]) / self.std[:, None]).square() / 2).softmax(2)
            weight = weight / self.std[:, None].square()
            z = (weight * self.mean[:, None]).sum(2) / weight.sum(2)
        return torch.cat([means, z.double(), (knots[:, 1:] + knots[:, :-1]) / 2], dim=1)

    def pick(self, rows: Tensor) -> Mixture:
        """The mixtures of some of the rows."""
        return Mixture(self.logits[rows], self.mean[rows], self.std[rows])


def _weighted_sum(z: Tensor, mixture: Mixture, term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    mean, std = mixture.mean.double()[:, None], mixture.std.double()[:, None]  # (n, 1, K)
    terms = term((z[:, :, None] - mean) / std, std)  # (n, m, K)
    return torch.matmul(terms, mixture.logits.double().softmax(1)[:, :, None]).squeeze(2)


def _phi(t: Tensor) -> Tensor:
    return torch.exp(-t * t / 2) / math.sqrt(2 * math.pi)


# ---------------------------------------------------------------- bins

TAIL_LENGTH = 0.1  # of the bins' total width: the length over which a tail falls to 1 / e
REACH_OF_EXPONENTIAL = 740.0  # in lengths of a tail: float64's exponential ends there
MIN_WIDTH_DIVISOR = 1e-320  # of widths and masses that are divided by
INTO_TAIL = 1e-3  # of a tail's length: where the density of a tail is read as its highest
TAILS = 2


class Bins(nn.Module):
    """The bins of each slot, and the share of the training values in each. All of it is in the codecs."""

    edges: Tensor  # (S, B + 1)
    inverse_width: Tensor  # (S, B)
    tail: Tensor  # (S,)
    prior: Tensor  # (S, 2 + B)

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        self.count = max((len(codec.weights) for codec in codecs), default=1)
        tail = [TAIL_LENGTH * (codec.edges[-1] - codec.edges[0]) for codec in codecs]
        shares = [[0.5 / (codec.count + 1)] * TAILS + list(codec.weights) for codec in codecs]
        edges = padded([codec.edges for codec in codecs]).float()
        widths = edges.diff(dim=1)
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("inverse_width", torch.where(widths > 0, 1 / widths, 0), persistent=False)
        self.register_buffer("tail", torch.tensor(tail, dtype=torch.float64), persistent=False)
        prior = padded(shares, fill=0.0).log().clamp(min=LOG_ZERO)
        self.register_buffer("prior", prior.float(), persistent=False)


class LogCoveredMass(torch.autograd.Function):
    """(n,) logsumexp(logits + log_shares) - logsumexp(logits): autograd would compute twice the exponentials."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, log_shares: Tensor) -> Any:
        covered_weight, covered = normalised(logits + log_shares)
        weight, total = normalised(logits)
        ctx.save_for_backward(covered_weight.sub_(weight))
        return covered - total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (derivative,) = ctx.saved_tensors
        return grad[:, None] * derivative, None


@dataclass(frozen=True)
class Binned:
    """A piecewise constant density with exponential tails below the first bin and above the last.

    Every number has mass, however far out. The share of a bin that a step covers does not depend on the logits, so
    log_mass is a difference of two logsumexps, and its gradient is as well-behaved as that of a categorical.
    Parts are ordered (lower tail, upper tail, bins...).
    """

    logits: Tensor  # (n, 2 + B), hugely negative where a row has fewer bins
    edges: Tensor  # (n, B + 1) float32, ascending, the last one repeated where there are fewer
    inverse_width: Tensor  # (n, B) 1 / width of each bin, or 0
    tail: Tensor  # (n,) float64, the length of the tails

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4)."""
        mass: Tensor = LogCoveredMass.apply(self.logits, self._log_covered(codes))  # type: ignore[no-untyped-call]
        return mass

    @torch.no_grad()
    def _log_covered(self, codes: Tensor) -> Tensor:
        """(n, 2 + B) the log of the share of each bin that a step covers.

        All distances are from z, so the parts of a step add up to it however narrow it is.
        """
        z, below, above = codes[:, :3, None].unbind(1)  # (n, 1) each
        distance = self.edges - z  # (n, B + 1)
        covered = torch.empty_like(self.logits)
        inner = torch.minimum(above, distance[:, 1:], out=covered[:, TAILS:])
        inner.sub_(torch.maximum(-below, distance[:, :-1])).mul_(self.inverse_width)
        inner.clamp_(0, 1).log_().clamp_(min=LOG_ZERO)
        first, last, below, above = (x.double() for x in (distance[:, :1], distance[:, -1:], below, above))
        covered[:, :1] = self._log_tail(
            first - torch.minimum(above, first), torch.minimum(below + above, first + below)
        )
        covered[:, 1:TAILS] = self._log_tail(
            torch.maximum(-below, last) - last, torch.minimum(below + above, above - last)
        )
        return covered

    def _log_tail(self, distance: Tensor, length: Tensor) -> Tensor:
        """(n, 1) the log of the share of a tail that is covered from this distance to its bin on, over this length."""
        log_mass = torch.log(-torch.expm1(-length.clamp(min=0) / self.tail[:, None]))
        return (log_mass - distance / self.tail[:, None]).clamp_(min=LOG_ZERO)

    @property
    def _edges(self) -> Tensor:
        """(n, B + 1) in float64."""
        return self.edges.double()

    @property
    def widths(self) -> Tensor:
        """(n, B) the widths of the bins in float64, 0 where there is none."""
        return self._edges.diff(dim=1)

    def _levels(self, bins: Tensor) -> Tensor:
        return bins / self.widths.clamp(min=MIN_WIDTH_DIVISOR)

    @property
    def masses(self) -> tuple[Tensor, Tensor, Tensor]:
        """The masses of the lower tail (n, 1), of the bins (n, B) and of the upper tail (n, 1), in float64."""
        masses = self.logits.double().softmax(1)
        return masses[:, :1], masses[:, TAILS:], masses[:, 1:TAILS]

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""
        lower, bins, upper = self.masses
        left, right, bin, offset = self._located(z)
        inner = _cumulated_before(bins).gather(1, bin) + self._levels(bins).gather(1, bin) * offset
        return lower * left.exp() + inner - upper * torch.expm1(right)

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        lower, bins, upper = self.masses
        left, right, bin, _ = self._located(z)
        tails = (lower * left.exp() * (left < 0) + upper * right.exp() * (right < 0)) / self.tail[:, None]
        return tails + self._levels(bins).gather(1, bin) * ((left == 0) & (right == 0))

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]."""
        lower, bins, upper = self.masses
        left, right, bin, offset = self._located(z)
        tail, start = self.tail[:, None], _cumulated_before(bins)
        complete = _cumulated_before((start + bins / 2) * self.widths).gather(1, bin)
        inner = complete + start.gather(1, bin) * offset + self._levels(bins).gather(1, bin) * offset.square() / 2
        low, high = (z - self._edges[:, :1]).clamp(min=0), -right * tail  # how far beyond the first and the last edge
        return (
            lower * (tail * left.exp() + low)
            + inner
            + bins.sum(1, True) * high
            + upper * (high + tail * torch.expm1(right))
        )

    def _located(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(n, m) each: minus the distances into the lower and the upper tail, in its lengths; the bin; the distance into it."""
        first, last = self._edges[:, :1], self._edges[:, -1:]
        left, right = (z - first).clamp(max=0), (last - z).clamp(max=0)
        inside = torch.minimum(torch.maximum(z, first), last).contiguous()
        bin = (torch.searchsorted(self._edges, inside, right=True) - 1).clamp(0, self._edges.shape[1] - 2)
        return left / self.tail[:, None], right / self.tail[:, None], bin, inside - self._edges.gather(1, bin)

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""
        lower, bins, upper = self.masses
        tails = lower * (self._edges[:, :1] - self.tail[:, None]) + upper * (self._edges[:, -1:] + self.tail[:, None])
        return tails.squeeze(1) + (bins * (self._edges[:, 1:] + self._edges[:, :-1]) / 2).sum(1)

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is."""
        reach = REACH_OF_EXPONENTIAL * self.tail
        return self._edges[:, 0] - reach, self._edges[:, -1] + reach

    def sharpened(self, temperature: float) -> Binned:
        """The density ** (1 / temperature)."""
        lengths = torch.cat([self.tail[:, None]] * TAILS + [self.widths.clamp(min=1e-9)], dim=1)
        logits = self.logits / temperature + (lengths.log() * (1 - 1 / temperature)).float()
        logits[:, :TAILS] += math.log(temperature)  # the tails get shorter
        return Binned(logits, self.edges, self.inverse_width, self.tail * temperature)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""
        level = torch.rand(len(self.logits), 1, generator=generator, device=self.logits.device)
        return self._inverse(level.double()).squeeze(1)

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes."""
        return self._inverse(level)

    def _inverse(self, level: Tensor) -> Tensor:
        """(n, m) the quantiles at these levels, in (0, 1)."""
        lower, bins, upper = self.masses
        ends = torch.cat([lower, lower + bins.cumsum(1)], dim=1)  # (n, B + 1) the mass below each edge
        bin = (torch.searchsorted(ends, level.contiguous()) - 1).clamp(0, bins.shape[1] - 1)
        offset = ((level - ends.gather(1, bin)) / bins.gather(1, bin).clamp(min=MIN_WIDTH_DIVISOR)).clamp(0, 1)
        inner = self._edges.gather(1, bin) + offset * self.widths.gather(1, bin)
        tail = self.tail[:, None]
        left = tail * (level.clamp(min=MIN_WIDTH_DIVISOR) / lower.clamp(min=MIN_WIDTH_DIVISOR)).log().clamp(
            -REACH_OF_EXPONENTIAL, 0
        )
        right = tail * ((1 - level).clamp(min=MIN_WIDTH_DIVISOR) / upper.clamp(min=MIN_WIDTH_DIVISOR)).log().clamp(
            -REACH_OF_EXPONENTIAL, 0
        )
        return inner + left - right

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes among which the mode is: the middles between all edges and knots, and where tails begin."""
        places = torch.cat([self._edges, knots], dim=1).sort(dim=1).values
        out = INTO_TAIL * self.tail[:, None]
        return torch.cat([(places[:, 1:] + places[:, :-1]) / 2, places[:, :1] - out, places[:, -1:] + out], dim=1)

    def pick(self, rows: Tensor) -> Binned:
        """The densities of some of the rows."""
        return Binned(self.logits[rows], self.edges[rows], self.inverse_width[rows], self.tail[rows])


def _cumulated_before(x: Tensor) -> Tensor:
    """(n, B) the sum of the entries before each."""
    return x.cumsum(1) - x


# ---------------------------------------------------------------- heavy tail

TAIL_MASS = 1e-6
REACH_OF_STUDENT = 3e5  # in scales: beyond is less of TAIL_MASS than float64 distinguishes from 0
MIN_LEVEL_OF_TAIL = 1e-12  # of the tail's mass: no draw is from beyond
MAX_SCALED = 1e100  # in scales; its square does not overflow
MIN_TAIL_MASS = 1e-300  # of which a logarithm is taken


class HeavyTails(nn.Module):
    """The center of the range of each slot's training codes, and half of its width. All of it is in the codecs."""

    center: Tensor
    scale: Tensor

    def __init__(self, codecs: Sequence[NumberCodec]) -> None:
        super().__init__()
        ends = torch.tensor([[codec.edges[0], codec.edges[-1]] for codec in codecs], dtype=torch.float64).reshape(-1, 2)
        self.register_buffer("center", ends.mean(1), persistent=False)  # (S,)
        self.register_buffer("scale", ends.diff(dim=1)[:, 0] / 2, persistent=False)

    def forward(self, density: Density, slot: Tensor) -> HeavyTailed:
        """The densities of rows of these slots (n,), with heavy tails."""
        return HeavyTailed(density, self.center[slot], self.scale[slot])


@dataclass(frozen=True)
class HeavyTailed:
    """A density for each row, with a Student tail for little of the mass."""

    density: Density
    center: Tensor  # (n,) float64
    scale: Tensor  # (n,)
    share: float = TAIL_MASS

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4)."""
        return torch.logaddexp(self.density.log_mass(codes) + math.log1p(-self.share), self._log_tail(codes))

    @torch.no_grad()
    def _log_tail(self, codes: Tensor) -> Tensor:
        """(n,) the log of the tail's part, which does not depend on anything learnt."""
        z, below, above = codes[:, :3].double().unbind(1)
        t = (z - self.center) / self.scale
        low, high, width = t - below / self.scale, t + above / self.scale, (below + above) / self.scale
        r, s = _root(low), _root(high)
        of_one_sign = width * (low + high) / (low * s + high * r) / (r * s)  # nothing cancels
        mass = torch.where(low * high > 0, of_one_sign, (high / s - low / r) / 2)
        return (mass.log() + math.log(self.share)).float()

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""
        t = self._scaled(z)
        return self._combined(self.density.cdf(z), (1 + t / _root(t)) / 2)

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._combined(self.density.pdf(z), _root(self._scaled(z)) ** -3 / self.scale[:, None])

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]."""
        t = self._scaled(z)
        tail = t.clamp(min=0) + 1 / (t.abs() + _root(t))  # (t + r) / 2, where t and r do not cancel
        return self._combined(self.density.integrated_cdf(z), tail * self.scale[:, None])

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""
        return self._combined(self.density.mean_code(), self.center)

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is."""
        low, high = self.density.support()
        reach = REACH_OF_STUDENT * self.scale
        return torch.minimum(low, self.center - reach), torch.maximum(high, self.center + reach)

    def sharpened(self, temperature: float) -> HeavyTailed:
        """The density sharpened; the masses of density and tail to the power 1 / temperature, too."""
        tail, body = self.share ** (1 / temperature), (1 - self.share) ** (1 / temperature)
        return replace(
            self, density=self.density.sharpened(temperature), share=max(tail / (tail + body), MIN_TAIL_MASS)
        )

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""
        drawn = self.density.draw(generator)
        level = torch.rand(len(drawn), dtype=torch.float64, generator=generator, device=drawn.device)
        even = (level / self.share).clamp(MIN_LEVEL_OF_TAIL, 1 - MIN_LEVEL_OF_TAIL)  # uniform given level < share
        tail = self.center + self.scale * (2 * even - 1) / (2 * even * (1 - even)).sqrt()
        return torch.where(level < self.share, tail, drawn)

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes: those of the density, as so few have no room for the tail."""
        return self.density.nodes(level)

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes near the modes: those of the density."""
        return self.density.peaks(knots)

    def pick(self, rows: Tensor) -> HeavyTailed:
        """The densities of some of the rows."""
        return HeavyTailed(self.density.pick(rows), self.center[rows], self.scale[rows], self.share)

    def _scaled(self, z: Tensor) -> Tensor:
        return ((z - self.center[:, None]) / self.scale[:, None]).clamp(-MAX_SCALED, MAX_SCALED)

    def _combined(self, of_density: Tensor, of_tail: Tensor) -> Tensor:
        return torch.lerp(of_density, of_tail, self.share)


def _root(t: Tensor) -> Tensor:
    return (2 + t * t).sqrt()


# ---------------------------------------------------------------- combinations

MIN_LEVEL = 1e-9  # of a node: no density ends there
MIN_SHARE = 1e-30  # of which a logarithm is taken


@dataclass(frozen=True)
class Blend:
    """Two densities as one, each with a share of the mass of every row."""

    first: Density
    second: Density
    share: Tensor  # (n,) float64, of the first

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4)."""
        first, second = (share.clamp(min=MIN_SHARE).log().float() for share in (self.share, 1 - self.share))
        return torch.logaddexp(first + self.first.log_mass(codes), second + self.second.log_mass(codes))

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""
        return self._combined(lambda density: density.cdf(z))

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self._combined(lambda density: density.pdf(z))

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]."""
        return self._combined(lambda density: density.integrated_cdf(z))

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""
        return torch.lerp(self.second.mean_code(), self.first.mean_code(), self.share)

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is."""
        (low, high), (second_low, greatest) = self.first.support(), self.second.support()
        return torch.minimum(low, second_low), torch.maximum(high, greatest)

    def sharpened(self, temperature: float) -> Blend:
        """An approximation: both sharpened, their shares, too."""
        first, second = self.share ** (1 / temperature), (1 - self.share) ** (1 / temperature)
        share = first / (first + second).clamp(min=MIN_SHARE)
        return Blend(self.first.sharpened(temperature), self.second.sharpened(temperature), share)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""
        level = torch.rand(len(self.share), generator=generator, device=self.share.device)
        return torch.where(level < self.share, self.first.draw(generator), self.second.draw(generator))

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes: of each density as many as its share of the mass."""
        share = self.share[:, None]
        first = level / share.clamp(min=MIN_SHARE)
        second = (level - share) / (1 - share).clamp(min=MIN_SHARE)
        of_first = self.first.nodes(first.clamp(MIN_LEVEL, 1 - MIN_LEVEL))
        return torch.where(level < share, of_first, self.second.nodes(second.clamp(MIN_LEVEL, 1 - MIN_LEVEL)))

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes near the modes of either."""
        return torch.cat([self.first.peaks(knots), self.second.peaks(knots)], dim=1)

    def pick(self, rows: Tensor) -> Blend:
        """The densities of some of the rows."""
        return Blend(self.first.pick(rows), self.second.pick(rows), self.share[rows])

    def _combined(self, ask: Callable[[Density], Tensor]) -> Tensor:
        return torch.lerp(ask(self.second), ask(self.first), self.share[:, None])


@dataclass(frozen=True)
class Shifted:
    """A density moved along the codes: what was at z is at z + distance."""

    density: Density
    distance: Tensor  # (n,) float64, in code

    def log_mass(self, codes: Tensor) -> Tensor:
        """(n,) log of the mass of the step around each code (n, 4)."""
        code = codes[:, :1] - self.distance[:, None]
        return self.density.log_mass(torch.cat([code.to(codes.dtype), codes[:, 1:]], 1))

    def cdf(self, z: Tensor) -> Tensor:
        """(n, m) the mass below each code z."""
        return self.density.cdf(self._back(z))

    def pdf(self, z: Tensor) -> Tensor:
        """(n, m), per unit of code."""
        return self.density.pdf(self._back(z))

    def integrated_cdf(self, z: Tensor) -> Tensor:
        """(n, m) E[max(z - Z, 0)]."""
        return self.density.integrated_cdf(self._back(z))

    def mean_code(self) -> Tensor:
        """(n,) E[Z]."""
        return self.density.mean_code() + self.distance

    def support(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the codes between which all mass is."""
        low, high = self.density.support()
        return low + self.distance, high + self.distance

    def sharpened(self, temperature: float) -> Shifted:
        """The density sharpened, at the same distance."""
        return Shifted(self.density.sharpened(temperature), self.distance)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """(n,) one code of each row."""
        return self.density.draw(generator) + self.distance

    def nodes(self, level: Tensor) -> Tensor:
        """(n, m) quadrature nodes."""
        return self.density.nodes(level) + self.distance[:, None]

    def peaks(self, knots: Tensor) -> Tensor:
        """(n, m) codes near the modes."""
        return self.density.peaks(self._back(knots)) + self.distance[:, None]

    def pick(self, rows: Tensor) -> Shifted:
        """The densities of some of the rows."""
        return Shifted(self.density.pick(rows), self.distance[rows])

    def _back(self, z: Tensor) -> Tensor:
        """(n, m) the codes before the shift."""
        return z - self.distance[:, None]
