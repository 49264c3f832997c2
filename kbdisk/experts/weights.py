"""Weights of several predictors, fitted to what each has predicted of known values.

Likelihoods are combined by the weights of a mixture (EM), numbers by the weights with the least squares, or with the least
absolute errors, that are at least 0 and sum to 1. Properties of one kind share strength: the weights of each are drawn to the
best ones for all. Predictors beyond the first have a weight only where they are proven on entities that the weights were not
fitted to.

A predictor may lack a property: its predictions of it are NaN, and its weight is 0. The first predictor lacks none.

n values   E predictors
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key")
ByProperty: TypeAlias = Mapping[Key, Tensor]  # the predictions, or the weights, of each property

EM_STEPS = 100
RIDGE = 1e-9  # of the mean square, added so that a form is always definite
MAX_ERROR = 5.0  # root mean squared errors of the best predictor: larger errors count as this
MIN_LOG_LIKELIHOOD = -1e4  # nats below the best predictor
USUAL_ERRORS = 0.9  # the share of a predictor's errors that are no outliers
MOST_OF_USUAL = 2.0  # times the largest of these, at which the others are clamped
MOST_TIMES_BEST = 1000.0  # so that sums of squares stay exact enough
REQUIRED_ERRORS = 0.5  # standard errors that a gain has to be above 0
MAX_ABSOLUTE_ERROR = 10.0  # mean absolute errors of the best predictor: larger errors count as this
LEAST_ABSOLUTE = 0.01  # of the same: smaller errors are taken for squares
REWEIGHTINGS = 12  # steps of iteratively reweighted least squares
LEAST_COMMON = 1e-3  # of a predictor in the weights that all properties have in common
EPSILON = 1e-30


def relative_likelihoods(logs: Tensor) -> Tensor:
    """(n, E) log-likelihoods of each value -> (n, E) likelihoods, relative to the best predictor's."""
    lacking = logs.isnan()
    best = logs.masked_fill(lacking, -torch.inf).amax(1, keepdim=True)
    relative = (logs - best).clamp(min=MIN_LOG_LIKELIHOOD).nan_to_num().exp()
    return relative.masked_fill(lacking, torch.nan)


def mixture_weights(likelihoods: Tensor, prior: Tensor) -> Tensor:
    """(n, E) likelihoods of each value -> (E,) the weights of the mixture with the greatest likelihood, by EM.

    The prior (E,) counts as values for which each predictor alone is responsible. A value that a predictor lacks (NaN) has no
    influence on its weight: its responsibility is relative to its share among the predictors that have the value.
    """
    has = (~likelihoods.isnan()).to(prior.dtype)
    likelihoods = likelihoods.nan_to_num()
    weights = torch.full_like(prior, 1 / len(prior))
    for _ in range(EM_STEPS):
        shares = weights * has
        shares = shares / shares.sum(1, keepdim=True).clamp(min=EPSILON)
        joint = likelihoods * shares
        responsible = (joint / joint.sum(1, keepdim=True).clamp(min=EPSILON)).sum(0) + prior
        weights = weights * responsible / (shares.sum(0) + weights * prior.sum()).clamp(min=EPSILON)
        weights = weights / weights.sum()
    return weights


def squares(errors: Tensor) -> Tensor:
    """(n, E) errors -> (E, E) the quadratic form of a weighted mean's squared error."""
    return errors.T @ errors / max(len(errors), 1)


def limited(errors: Tensor) -> Tensor:
    """(n, E) errors relative to the root mean squared error of the best predictor, clamped."""
    return _clamped(errors, errors.square().mean(0).min().sqrt(), MAX_ERROR)


def without_outliers(errors: Tensor) -> Tensor:
    """(n, E) errors relative to the best predictor's, in which only outliers are clamped.

    A predictor whose errors are mostly larger keeps them: clamped like the best one's they would make it seem nearly as good.
    """
    return _clamped_by_own(errors, errors.square().mean(0).min().sqrt(), MAX_ERROR)


def _clamped(errors: Tensor, best: Tensor, most: float | Tensor) -> Tensor:
    """(n, E) errors relative to the size of the best predictor's (), clamped to a number, or to one (E,) for each predictor."""
    relative = errors / best.clamp(min=EPSILON)
    limit = torch.as_tensor(most, dtype=errors.dtype, device=errors.device)
    return torch.minimum(torch.maximum(relative, -limit), limit)


def _clamped_by_own(errors: Tensor, best: Tensor, most: float) -> Tensor:
    """(n, E) errors relative to the size of the best predictor's (). Each predictor's are clamped to `most`, or further out, to twice the bound of nine tenths of them."""
    if not len(errors):
        return errors
    own = MOST_OF_USUAL * errors.abs().quantile(USUAL_ERRORS, 0) / best.clamp(min=EPSILON)
    return _clamped(errors, best, own.clamp(most, most * MOST_TIMES_BEST))


def least_squares_weights(form: Tensor) -> Tensor:
    """(E, E) -> (E,) the weights with the least squared error; none is below 0, and they sum to 1.

    The weights above 0 solve the linear equations of their subset: all subsets are tried.
    """
    E = len(form)
    every = torch.arange(E, device=form.device)
    form = form + RIDGE * form.diagonal().mean().clamp(min=EPSILON) * torch.eye(E, dtype=form.dtype, device=form.device)
    subsets = (torch.arange(1, 1 << E, device=form.device)[:, None] >> every) & 1  # (2 ** E - 1, E)
    inside = subsets.to(form.dtype)
    equations = form * inside[:, :, None] * inside[:, None] + torch.diag_embed(1 - inside)
    weights = torch.linalg.solve(equations, inside[:, :, None])[:, :, 0]
    weights = weights / weights.sum(1, keepdim=True)
    cost = torch.einsum("se,ef,sf->s", weights, form, weights).masked_fill((weights < 0).any(1), torch.inf)
    best: Tensor = weights[cost.argmin()]
    return best


def each_mixture(
    likelihoods: ByProperty[Key], prior: float, entities: ByProperty[Key], required_errors: float = REQUIRED_ERRORS
) -> ByProperty[Key]:
    """`mixture_weights` of several properties, with (n, E) likelihoods each, shrunk to those that all have in common.

    Where they are not `proven` by so many standard errors, the first predictor has all of the weight.
    """

    present = {key: _present(of_key) for key, of_key in likelihoods.items()}

    def fit(some: ByProperty[Key]) -> ByProperty[Key]:
        every = torch.cat(list(some.values()))
        common = mixture_weights(every, every.new_ones(every.shape[1]))
        priors = {key: prior * _normalized(common * present[key]) for key in some}
        return {key: _normalized(mixture_weights(of_key, priors[key]) * present[key]) for key, of_key in some.items()}

    def cost(of_key: Tensor, weights: Tensor) -> Tensor:
        return -(of_key.nan_to_num() @ weights).clamp(min=EPSILON).log()

    return proven(likelihoods, entities, prior, fit, _first_alone, cost, required_errors)


def each_squares(
    errors: ByProperty[Key],
    prior: float,
    entities: ByProperty[Key],
    first: int = 1,
    required_errors: float = REQUIRED_ERRORS,
) -> ByProperty[Key]:
    """`least_squares_weights` of several properties, with (n, E) errors each, likewise; `first` predictors are the first."""

    present = {key: _present(of_key) for key, of_key in errors.items()}

    def fit(some: ByProperty[Key], predictors: slice = slice(None)) -> ByProperty[Key]:
        of_some = {key: torch.zeros_like(present[key]) for key in some}
        for key, is_present in of_some.items():
            is_present[predictors] = present[key][predictors]
        present_errors = {key: of_key[:, of_some[key]] for key, of_key in some.items()}
        limited_forms = {key: squares(limited(of_key)) for key, of_key in present_errors.items()}
        common = _common_form(limited_forms, of_some, {key: len(of_key) for key, of_key in some.items()})
        forms = {key: squares(without_outliers(of_key)) for key, of_key in present_errors.items()}
        return {
            key: _spread(least_squares_weights(len(some[key]) * form + prior * common[used][:, used]), used)
            for (key, form), used in zip(forms.items(), of_some.values(), strict=True)
        }

    def first_alone(some: ByProperty[Key]) -> ByProperty[Key]:
        return fit(some, slice(first))

    def cost(own: Tensor, weights: Tensor) -> Tensor:
        there = _present(own)
        return (without_outliers(own[:, there]) @ weights[there]).square()

    return proven(errors, entities, prior, fit, first_alone, cost, required_errors)


def each_absolute(
    errors: ByProperty[Key],
    prior: float,
    entities: ByProperty[Key],
    pull: float,
    required_errors: float = REQUIRED_ERRORS,
) -> ByProperty[Key]:
    """The weights with the least absolute deviations, of several properties with (n, E) errors each.

    They are at least 0 and sum to 1. A penalty on their squared distance draws them to the weights that all properties have
    in common: a distance of 1 costs as much as `pull` errors of the best predictor. Where they are not `proven`, the first
    predictor has all of the weight.
    """

    present = {key: _present(of_key) for key, of_key in errors.items()}

    def fit(some: ByProperty[Key]) -> ByProperty[Key]:
        present_errors = {key: of_key[:, present[key]] for key, of_key in some.items()}
        common = _common_absolute({key: _limited_absolute(of_key) for key, of_key in present_errors.items()}, present)
        return {
            key: _spread(
                _absolute_weights(_absolute_without_outliers(of_key), _normalized(common[present[key]]), pull),
                present[key],
            )
            for key, of_key in present_errors.items()
        }

    def cost(of_key: Tensor, weights: Tensor) -> Tensor:
        there = _present(of_key)
        return (_absolute_without_outliers(of_key[:, there]) @ weights[there]).abs()

    return proven(errors, entities, prior, fit, _first_alone, cost, required_errors)


def _first_alone(some: ByProperty[Key]) -> ByProperty[Key]:
    """All weight for the first predictor of each property."""
    return {
        key: torch.eye(of_key.shape[1], dtype=of_key.dtype, device=of_key.device)[0] for key, of_key in some.items()
    }


def _limited_absolute(errors: Tensor) -> Tensor:
    """(n, E) errors relative to the mean absolute error of the best predictor, clamped."""
    return _clamped(errors, _best_absolute(errors), MAX_ABSOLUTE_ERROR)


def _absolute_without_outliers(errors: Tensor) -> Tensor:
    """(n, E) errors relative to the mean absolute error of the best predictor, in which only outliers are clamped."""
    return _clamped_by_own(errors, _best_absolute(errors), MAX_ABSOLUTE_ERROR)


def _best_absolute(errors: Tensor) -> Tensor:
    return errors.abs().mean(0).min() if len(errors) else errors.new_ones(())


def _absolute_form(errors: Tensor, weights: Tensor) -> Tensor:
    """(E, E) the quadratic form of a weighted mean's absolute errors (n, E), near some weights (E,), divided by n."""
    sizes = (errors @ weights).abs().clamp(min=LEAST_ABSOLUTE)
    return errors.T @ (errors / (2 * sizes[:, None])) / max(len(errors), 1)


def _absolute_weights(errors: Tensor, common: Tensor, pull: float) -> Tensor:
    """(E,) the weights with the least absolute deviations, drawn to common ones, by iteratively reweighted least squares."""
    apart = torch.eye(len(common), dtype=common.dtype, device=common.device) - common[:, None]
    weights = common
    for _ in range(REWEIGHTINGS if len(common) > 1 else 0):
        weights = least_squares_weights(len(errors) * _absolute_form(errors, weights) + pull * apart.T @ apart)
    return weights


def _common_absolute(errors: ByProperty[Key], present: ByProperty[Key]) -> Tensor:
    """(E,) the weights with the least absolute deviations in all properties, each of which counts as one."""
    counts = {key: len(of_key) for key, of_key in errors.items()}
    common = next(iter(present.values())).to(torch.float64).fill_(1.0)
    for _ in range(REWEIGHTINGS):
        forms = {key: _absolute_form(of_key, _normalized(common[present[key]])) for key, of_key in errors.items()}
        common = least_squares_weights(_common_form(forms, present, counts))
        common = _normalized(common + LEAST_COMMON)  # so that a property which has only the others has weights, too
    return common


def _present(predictions: Tensor) -> Tensor:
    """(n, E) -> (E,) which predictors do not lack a property."""
    return ~predictions.isnan().any(0)


def _normalized(weights: Tensor) -> Tensor:
    return weights / weights.sum().clamp(min=EPSILON)


def _spread(weights: Tensor, there: Tensor) -> Tensor:
    """The weights of some predictors as weights (E,) of all."""
    return weights.new_zeros(len(there)).masked_scatter(there, weights)


def _common_form(forms: ByProperty[Key], present: ByProperty[Key], values: Mapping[Key, int]) -> Tensor:
    """(E, E) the mean of forms, each of the predictors that a property has, over the properties that have values.

    Two predictors that no property has both are taken for the same, and one that none has for as wrong as errors may be.
    """
    every = next(iter(present.values()))
    total = torch.zeros(len(every), len(every), dtype=torch.float64, device=every.device)
    count = torch.zeros_like(total)
    for key, form in forms.items():
        both = present[key][:, None] & present[key]
        if values[key]:
            total[both] += form.flatten()
            count += both
    size = torch.where(count.diagonal() > 0, (total.diagonal() / count.diagonal().clamp(min=1)).sqrt(), MAX_ERROR)
    return torch.where(count > 0, total / count.clamp(min=1), size[:, None] * size)


def proven(
    predictions: ByProperty[Key],
    entities: ByProperty[Key],
    prior: float,
    fit: Callable[[ByProperty[Key]], ByProperty[Key]],
    first_alone: Callable[[ByProperty[Key]], ByProperty[Key]],
    cost: Callable[[Tensor, Tensor], Tensor],
    required_errors: float = REQUIRED_ERRORS,
) -> ByProperty[Key]:
    """The fitted weights; those of the first predictors alone where the others do not gain enough on held-out entities.

    Weights are fitted to either half of the entities. On the other half they have to cost less than the first predictors by
    `required_errors` standard errors. The gain of all properties counts as some entities of each.
    """
    if not predictions:
        return {}
    gains: dict[Key, list[Tensor]] = {key: [] for key in predictions}
    for side in (0, 1):
        in_half = {key: numbers % 2 == side for key, numbers in entities.items()}
        half = {key: of_key[in_half[key]] for key, of_key in predictions.items()}
        fitted, alone = fit(half), first_alone(half)
        for key, of_key in predictions.items():
            rest, numbers = of_key[~in_half[key]], entities[key][~in_half[key]]
            gain = cost(rest, alone[key]) - cost(rest, fitted[key])
            gains[key].append(_sums_by_entity(gain, numbers))
    gains_of = {key: torch.cat(of_halves) for key, of_halves in gains.items()}
    common = _evidence(torch.cat([of_key / _size(of_key) for of_key in gains_of.values()]))
    fitted, alone = fit(predictions), first_alone(predictions)
    return {
        key: (fitted if _is_proven(of_key, common, prior, required_errors) else alone)[key]
        for key, of_key in gains_of.items()
    }


def _sums_by_entity(values: Tensor, entities: Tensor) -> Tensor:
    """(n,) -> (m,): an entity may have several values, which are not independent."""
    distinct, index = entities.unique(return_inverse=True)
    return values.new_zeros(len(distinct)).index_add_(0, index, values)


def _is_proven(gains: Tensor, common: float, prior: float, required_errors: float) -> bool:
    """Whether gains (m,) are above 0, together with `prior` more gains whose evidence is the common one."""
    count = len(gains) + prior
    return count > 0 and (_evidence(gains) * len(gains) + prior * common) / math.sqrt(count) > required_errors


def _size(gains: Tensor) -> Tensor:
    """() their root mean square."""
    return gains.square().mean().sqrt().clamp(min=EPSILON)


def _evidence(gains: Tensor) -> float:
    """The mean of gains (m,) relative to their size; times sqrt(m) it is about a number of standard errors."""
    return float(gains.mean() / _size(gains)) if len(gains) else 0.0
