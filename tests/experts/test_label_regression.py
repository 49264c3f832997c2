"""Logistic regression beside networks: it tells labels that they have had no time to learn."""

from __future__ import annotations

import random

import guided
import pytest
import safetensors.torch
import torch
from guided import held_out
from models import tiny_run
from torch import Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.experts import label_regression, serialize
from kbdisk.experts.base import Inputs, Sides, Stacked
from kbdisk.experts.config import LabelRegressionConfig
from kbdisk.experts.label_cooccurrence import Evidence
from kbdisk.experts.label_regression import (
    CELLS_OF_SLOT,
    CELLS_PER_SECOND,
    LABELS,
    LARGER,
    LINKED,
    NUMBERS,
    Coefficients,
    Design,
    Fit,
    FittingTime,
    InputMatrix,
    LabelRegression,
    PenaltySearch,
)
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.run import Run
from kbdisk.training.train import train
from kbdisk.training.trained import Trained

CPU = torch.device("cpu")
TOWNS = [f"town {number}" for number in range(24)]


def people(n: int = 500) -> tuple[Schema, list[Entity]]:
    """The town tells the country; the year is near what it usually is there."""
    draw, known = random.Random(0), []
    for number in range(n):
        place = draw.randrange(len(TOWNS))
        tree = {"town": TOWNS[place], "country": f"land {place // 4}", "year": 1900 + 10 * (place // 4) + draw.random()}
        tree["tongues"] = [f"tongue {place // 8}", *(["latin"] if number % 3 else [])]
        if number % 5 == 0:
            del tree["country"]
        known.append(Entity(f"p{number}", tree))
    leaves = {
        ("town",): Category(),
        ("country",): Category(),
        ("year",): Number(),
        ("tongues",): Set(Category()),
    }
    return of_one_class({path: Property(leaf) for path, leaf in leaves.items()}), known


def run(**choices) -> Run:
    config = LabelRegressionConfig(share=0.5, **choices)
    return tiny_run(steps=5, batch=64, validation=0.3).with_experts(label_regression=config)


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*people(), run(), CPU, lambda progress: None)


def nats(model: Trained, believer, name: str) -> float:
    """Of the held-out values of a property, each hidden with all else visible."""
    return guided.nats(believer, *held_out(model, people()[1], name))


def test_it_tells_labels_that_networks_have_not_learnt(model):
    assert nats(model, model.network, "country") > 1.5
    assert nats(model, model.full_model, "country") < 0.3
    paths = {model.codec.slots[slot].path for slot in model.experts["label_regression"].slots}
    assert {("country",), ("tongues",)} <= paths <= {("town",), ("country",), ("tongues",)}


def test_experts_of_sets_are_stacked_on_each_other(model):
    once = Stacked(model.network, [model.experts["label_regression"]])
    assert nats(model, once, "tongues") < nats(model, model.network, "tongues")
    assert nats(model, Stacked(once, [model.experts["label_regression"]] * 2), "tongues") < nats(
        model, model.network, "tongues"
    )


def test_what_is_kept_says_the_same_again(model, tmp_path):
    save(model, tmp_path / "model")
    again = open_folder(tmp_path / "model", CPU)
    for place, weighted in model.experts["label_regression"].experts.items():
        seen = Inputs(torch.rand(3, len(model.experts["label_regression"].featurizer)), torch.arange(3))
        told, as_kept = (
            weighted.expert.predict(seen),
            again.experts["label_regression"].experts[place].expert.predict(seen),
        )
        assert torch.equal(told.mass, as_kept.mass)
        assert torch.equal(told.codes, as_kept.codes)


@pytest.mark.parametrize("name", ["coefficients", "deviation", "columns", "numbers", "entry_label"])
def test_a_file_that_makes_no_sense_is_refused(model, tmp_path, name):
    save(model, tmp_path / "model")
    file = tmp_path / "model" / "label_regression.safetensors"
    tensors = safetensors.torch.load_file(file)
    key = next(key for key in tensors if key.endswith(f".{name}"))
    sound = tensors[key]
    if name == "coefficients":
        tensors[key] = torch.full_like(sound, torch.nan)
    elif name == "deviation":
        tensors[key] = torch.zeros_like(sound)
    else:
        tensors[key] = sound + 99_999
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(ValueError, match=name):
        serialize.read(serialize.LABEL_REGRESSION, file, model.codec, CPU)


def examples_of_a_fit(density: float) -> tuple[InputMatrix, Tensor, Tensor, Tensor]:
    """Inputs, evidence, targets and weights."""
    draw = torch.Generator().manual_seed(0)
    inputs, target = torch.rand(60, 4, generator=draw), torch.randint(3, (60,), generator=draw)
    inputs *= torch.rand(60, 4, generator=draw) < density
    evidence = torch.rand(2, 60, 3, generator=draw) + F.one_hot(target, 3)
    return InputMatrix.of(inputs.split(25)), evidence, target, torch.rand(60, generator=draw)


DENSITIES = pytest.mark.parametrize("density", [1.0, 0.05])


@DENSITIES
def test_the_gradient_of_a_fit_is_that_of_its_nats(density):
    inputs, evidence, target, weights = examples_of_a_fit(density)
    assert isinstance(inputs.rows, Tensor) == (density == 1.0)
    draw = torch.Generator().manual_seed(1)
    coefficients = Coefficients(*(torch.randn(shape, generator=draw) for shape in ((3, 4), (3,), (2,))))
    nats, gradient = Fit(inputs, evidence, target, weights).nats_and_gradient(coefficients)
    dense = inputs.rows if isinstance(inputs.rows, Tensor) else torch.from_numpy(inputs.rows.toarray())
    expected = Coefficients(*(part.double().requires_grad_() for part in coefficients))
    scores = dense.double() @ expected.weight.T + expected.bias
    scores = scores + torch.einsum("jnk,j->nk", evidence.double(), F.softplus(expected.evidence))
    cost = F.cross_entropy(scores, target, reduction="none") @ weights.double()
    cost.backward()
    torch.testing.assert_close(nats.double(), cost.detach(), rtol=1e-5, atol=0)
    for part, of_part in zip(gradient, expected, strict=True):
        torch.testing.assert_close(part.double(), of_part.grad, rtol=1e-4, atol=1e-4)


@DENSITIES
def test_weights_are_where_the_penalized_likelihood_is_highest(density):
    inputs, evidence, target, weights = examples_of_a_fit(density)
    fit = Fit(inputs, evidence, target, weights)
    penalties = torch.tensor([1.0, 1.0, 5.0, 0.5])
    fitted = fit.fitted(3, penalties)
    _, (weight, bias, of_evidence) = fit.nats_and_gradient(fitted)
    assert (weight + penalties * fitted.weight).abs().max() < 2e-2
    assert bias.abs().max() < 2e-2
    assert (of_evidence + fitted.evidence.sigmoid()).abs().max() < 2e-2


@pytest.mark.parametrize("noise", [NUMBERS, LINKED])
def test_a_group_of_inputs_that_tells_nothing_has_the_larger_penalty(noise):
    draw = torch.Generator().manual_seed(0)
    target = torch.randint(2, (100,), generator=draw)
    labels = F.one_hot(target, 2).float()
    rows = torch.cat([labels, torch.randint(2, (100, 50), generator=draw).float()], 1)
    is_training = torch.arange(100) < 60
    none, weights = torch.zeros(0, 100, 2), torch.ones(100)
    training, validation = (
        Fit(InputMatrix.of([rows[some]]), none[:, some], target[some], weights[some])
        for some in (is_training, ~is_training)
    )
    groups = torch.tensor([LABELS] * 2 + [noise] * 50)
    search = PenaltySearch([(training, validation)], groups, 2)
    penalties = search.best()
    assert penalties[noise] == LARGER * penalties[LABELS]
    together = training.fitted(2, penalties[LABELS].expand(52))
    assert validation.nats(search.start) < validation.nats(together)


def test_without_a_fold_that_can_be_predicted_there_is_no_start():
    draw, none = torch.Generator().manual_seed(0), torch.zeros(0, 10, 2)
    fit = Fit(InputMatrix.of([torch.rand(10, 1, generator=draw)]), none, torch.arange(10) % 2, torch.ones(10))
    lost = fit._replace(weights=torch.full((10,), torch.nan))
    for folds in ([], [(fit, lost)]):
        search = PenaltySearch(folds, torch.tensor([LABELS]), 2)
        assert search.best().isfinite().all()
        assert search.start is None


def test_what_is_unknown_counts_as_zero_and_numbers_say_whether_they_are_known():
    features = torch.tensor([[1.0, 2.0], [0.0, 4.0], [torch.nan, torch.nan]])
    design = Design.of(features[:, 1:], torch.tensor([0, 1]), torch.tensor([False, True]))
    assert design(features).tolist() == [[1, -1, 1], [0, 1, 1], [0, 0, 0]]
    none = Evidence.of([], [], None)
    labels, share = torch.tensor([4, 7]), torch.tensor(0.8).double()
    expert = LabelRegression(design, none, torch.zeros(2, 3), torch.zeros(2), labels, share)
    told = expert.predict(Inputs(features, torch.arange(3)))
    assert told.codes.tolist() == [[4, 7]] * 3
    assert told.mass.allclose(torch.full((3, 2), 0.4).double())


def members(n: int = 400) -> tuple[Schema, list[Entity]]:
    """The club tells the country, and each club has few members."""
    draw, known = random.Random(1), []
    for number in range(n):
        club = draw.randrange(n // 3)
        tree = {"club": f"club {club}", "country": f"land {club % 6}"}
        if number % 4 == 0:
            del tree["country"]
        known.append(Entity(f"p{number}", tree))
    return of_one_class({("club",): Property(Category()), ("country",): Property(Category())}), known


def test_a_value_that_few_entities_have_tells_a_label():
    schema, known = members()
    model = train(schema, known, run(), CPU, lambda progress: None)
    (weighted,) = (
        expert
        for (slot, _), expert in model.experts["label_regression"].experts.items()
        if model.codec.slots[slot].path == ("country",)
    )
    assert len(weighted.expert.evidence.of_columns) == 1
    country = held_out(model, known, "country")
    assert (
        guided.nats(model.full_model, *country) < 0.8
    )  # log 6 is 1.8; half of the clubs have one or two members known


@pytest.mark.parametrize("processes", [1, 3])
def test_each_slot_learns_from_the_share_of_its_values_that_the_measured_speed_allows(processes):
    now, cells = [0.0], float(CELLS_OF_SLOT)
    # For three slots of eight times as many cells together:
    seconds = 13 * cells / CELLS_PER_SECOND / processes
    fitting_time = FittingTime(seconds, [cells, 2 * cells, 5 * cells], processes, lambda: now[0])
    assert fitting_time.share(0) == 1.0
    now[0] = 4 / 13 * seconds
    fitting_time.took(0, 1.0)  # two parts of 13 in 4/13 of the time: half the planned speed of one process
    expected = (4.5 - 2) / 7 if processes == 1 else min((2 * 4.5 - 2) / 7, 1.0)
    assert fitting_time.share(1) == pytest.approx(expected)
    now[0] = seconds
    fitting_time.took(1, 0.5)
    assert fitting_time.share(2) == 0.0


def test_without_a_limit_all_values_are_learnt_from():
    fitting_time = FittingTime(None, [1e12], 1, lambda: 0.0)
    assert fitting_time.share(0) == 1.0


def test_several_processes_fit_the_same_regressions(monkeypatch):
    schema, known = people()
    codec = Codec.fit(schema, known)
    tokens = codec.encode(known)
    config, fitted = LabelRegressionConfig(), []
    for processes in (1, 2):
        monkeypatch.setattr(label_regression, "usable_processes", lambda device, count=processes: count)
        candidates = label_regression.fit(codec, Sides(tokens, tokens), config=config, seed=0)
        fitted.append([candidates.group, candidates.refitted(candidates.group)])
    for alone, divided in zip(*fitted, strict=True):
        assert alone.experts.keys() == divided.experts.keys()
        for key, weighted in alone.experts.items():
            other = divided.experts[key].expert  # rounding makes steps of L-BFGS differ a little
            torch.testing.assert_close(weighted.expert.coefficients, other.coefficients, rtol=0, atol=0.02)


def test_regressions_that_no_time_is_left_for_are_not_fitted_again():
    schema, known = people()
    codec = Codec.fit(schema, known)
    tokens = codec.encode(known)
    candidates = label_regression.fit(codec, Sides(tokens, tokens), config=LabelRegressionConfig(), seed=0)
    group = candidates.group
    assert candidates.refitted(group, 0.0).experts == group.experts
    again = candidates.refitted(group).experts
    assert again.keys() == group.experts.keys()
    assert all(again[key].expert is not group.experts[key].expert for key in again)
