"""An ensemble: its beliefs are the mean of its networks' beliefs."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pytest
import torch
from models import tiny_run

from kbdisk.api.model import log_probs
from kbdisk.entity import Entity
from kbdisk.errors import CheckpointError
from kbdisk.experts.base import Ensemble, mean_of
from kbdisk.leaves.category import CategoryBelief
from kbdisk.leaves.number import NumberBelief
from kbdisk.model.diffusion import beliefs, reveal
from kbdisk.model.likelihood import log_prob
from kbdisk.sampling import sample
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training import checkpoint
from kbdisk.training.train import additional_run, network_runs, train
from kbdisk.training.trained import Trained
from kbdisk.training.validation import Progress

CPU = torch.device("cpu")
THREE = tiny_run(members=3, nearest=8, steps=12, batch=64)


def points() -> tuple[Schema, list[Entity]]:
    """Families of four: the mark tells the size to the last digit, so that it is worth remembering; some lack their kind."""
    draw, known = random.Random(0), []
    families = [(draw.uniform(0, 1000), round(draw.uniform(1, 9), 3)) for _ in range(100)]
    for n in range(400):
        mark, size = families[n % 100]
        tree = {"mark": round(mark + draw.uniform(0, 0.01), 3), "size": size, "kind": "abcde"[n % 5]}
        known.append(Entity(f"p{n}", tree if n % 7 else {"mark": tree["mark"], "size": size}))
    leaves = {("mark",): Number(), ("size",): Number(), ("kind",): Category()}
    return of_one_class({path: Property(leaf) for path, leaf in leaves.items()}), known


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*points(), THREE, CPU, lambda progress: None)


@pytest.fixture(scope="module")
def batch(model):
    tokens = model.encode(points()[1][:8])
    return tokens.batch(torch.arange(8))


@pytest.fixture(scope="module")
def each(model, batch):
    asked = batch.known & (batch.entity % 2 == 0)
    with torch.no_grad():
        return [beliefs(one.model, batch, asked, batch.known & ~asked) for one in model.members]


def test_all_networks_sample_entities_and_score_them(model):
    """By themselves, without what they remember: those are not to be copies."""
    known = points()[1][:3]
    networks = [one.network for one in model.members]
    assert [one.latent_knn is None for one in model.members] == [False] * 3
    batch = model.encode(known).batch(torch.arange(3))
    asked = batch.known & (batch.entity % 2 == 0)
    told, wanted = (
        beliefs(one, batch, asked, batch.known & ~asked) for one in (model.networks_model, Ensemble(networks))
    )
    assert torch.equal(told.log_prob(batch), wanted.log_prob(batch))
    scores = log_probs(model, known, None)
    tokens = model.encode(known)
    generator = torch.Generator().manual_seed(0)
    found = log_prob(Ensemble(networks), tokens.batch(torch.arange(3)), orders=4, generator=generator)
    assert scores.tolist() == pytest.approx(found.exact.where(~found.exact.isnan(), found.bound).tolist())
    one, same, first = (
        [each.tree for each in sample(which, 5, seed=1)] for which in (model, model, replace(model, others=()))
    )
    assert one == same != first


def test_there_are_as_many_networks_as_wanted_and_no_two_are_the_same(model):
    weights = [one.network.query for one in model.members]
    assert len(weights) == 3
    assert not any(torch.equal(weights[a], weights[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert model.record.facts["parameters"] == 3 * sum(one.numel() for one in model.network.parameters())


def test_probabilities_of_labels_and_numbers_are_means(batch, each):
    told = mean_of(each)
    for kind in ("number", "category"):
        one = told.kinds[kind]
        codes = batch.values[kind][one.rows]
        wanted = torch.stack([some.kinds[kind].belief.log_prob(codes).double().exp() for some in each]).mean(0)
        torch.testing.assert_close(one.belief.log_prob(codes).double().exp(), wanted, rtol=1e-4, atol=1e-7)
    assert isinstance(told.kinds["number"].belief, NumberBelief)
    assert isinstance(told.kinds["category"].belief, CategoryBelief)


def test_expected_values_and_answers_are_means(each):
    told = mean_of(each).kinds["number"].belief
    all_of_them = [one.kinds["number"].belief for one in each]
    torch.testing.assert_close(
        told.mean(), torch.stack([one.mean() for one in all_of_them]).mean(0), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(told.expected(), torch.stack([one.expected() for one in all_of_them]).mean(0))
    at = told.median()
    wanted = torch.stack([one.cdf(at) for one in all_of_them]).mean(0)
    torch.testing.assert_close(told.cdf(at), wanted, rtol=1e-5, atol=1e-6)


def test_probabilities_of_presence_are_means(each):
    chance = mean_of(each).presence["logits"].sigmoid()
    torch.testing.assert_close(chance, torch.stack([one.presence["logits"].sigmoid() for one in each]).mean(0))


def test_the_mean_of_one_is_itself(each):
    (one,) = (mean_of(each[:1]),)
    assert torch.equal(one.kinds["category"].belief.mode(), each[0].kinds["category"].belief.mode())


def test_all_networks_see_what_is_revealed(model, batch):
    gaps = replace(batch, known=batch.known & (batch.entity > 3))
    with torch.no_grad():
        drawn = reveal(model.full_model, gaps, generator=torch.Generator().manual_seed(0))
    assert drawn.known.all()


def test_all_networks_are_saved_and_opened_again(model, batch, tmp_path):
    save(model, tmp_path / "three.kbdisk")
    again = open_folder(tmp_path / "three.kbdisk", CPU)
    assert len(again.members) == 3
    asked = batch.known & (batch.entity % 2 == 0)
    with torch.no_grad():
        one, other = (beliefs(of.full_model, batch, asked, batch.known & ~asked) for of in (model, again))
    assert torch.equal(one.log_prob(batch), other.log_prob(batch))
    (tmp_path / "three.kbdisk" / "model-3.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-3.safetensors: expected a file, got none"):
        open_folder(tmp_path / "three.kbdisk", CPU)


def test_each_network_has_its_part_of_the_time_and_a_seed_of_its_own():
    runs = network_runs(tiny_run(members=4, seconds=1000.0))
    assert [run.train.seconds for run in runs] == [250.0] * 4
    assert [run.train.seconds for run in network_runs(tiny_run(members=4, seconds=300.0))] == [150.0] * 2
    assert [run.train.seconds for run in network_runs(tiny_run(members=4, seconds=30.0))] == [30.0]
    assert len({run.seed for run in runs}) == 4
    assert network_runs(tiny_run(seed=7))[0].seed == 7


def test_where_networks_finish_early_there_are_more():
    run = tiny_run(members=2, more=2, seconds=1000.0)
    third = additional_run(run, [100.0, 120.0])
    assert third.train.seconds == 500.0
    assert third.seed not in {one.seed for one in network_runs(run)}
    assert additional_run(run, [100.0, 120.0, 90.0]).train.seconds == 500.0
    assert additional_run(run, [100.0, 120.0, 90.0, 80.0]) is None  # as many as there may be
    assert additional_run(run, [450.0, 60.0]) is None  # there is no time for a whole one
    assert additional_run(run, [450.0, 60.0], kept=True).train.seconds == 500.0  # but it was begun
    assert additional_run(tiny_run(members=2, more=2), [1.0, 1.0]) is None  # no budget, of which anything could be left
    assert additional_run(tiny_run(members=4, seconds=150.0), [1.0]) is None  # fewer for want of time, and no more
    assert additional_run(tiny_run(members=8, more=4, seconds=9000.0), [1.0] * 8) is None


def test_more_networks_are_trained_as_long_as_there_is_time():
    seen: list[tuple[int, int]] = []
    run = tiny_run(members=2, more=1, seconds=400.0, steps=3)
    made = train(*points(), run, CPU, lambda progress: seen.append(progress.member))
    assert len(made.members) == 3
    assert list(dict.fromkeys(seen)) == [(1, 2), (2, 2), (3, 3)]
    assert not torch.equal(made.members[1].network.query, made.members[2].network.query)


@pytest.mark.slow
def test_a_run_that_is_cut_short_in_the_second_network_goes_on_there(model, tmp_path):
    folder = tmp_path / "m.training"

    def stop(progress: Progress) -> None:
        if progress.member == (2, 3) and progress.step == 3:
            raise KeyboardInterrupt

    run = THREE
    with pytest.raises(KeyboardInterrupt):
        train(*points(), run, CPU, stop, checkpoint=folder)
    seen: list[tuple[int, int]] = []

    def watch(progress: Progress) -> None:
        if progress.final_task is None:
            seen.append((progress.member[0], progress.step))

    again = train(*points(), run, CPU, watch, checkpoint=folder, resume=True)
    assert 1 not in {number for number, _ in seen}
    assert seen[-1] == (3, THREE.train.steps)
    for one, other in zip(again.members, model.members, strict=True):
        assert torch.equal(one.network.query, other.network.query)
    checkpoint.remove(folder)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_that_is_cut_short_in_a_further_network_goes_on_there(tmp_path):
    folder, run = tmp_path / "m.training", tiny_run(members=2, more=1, seconds=400.0, steps=4)

    def stop(progress: Progress) -> None:
        if progress.member == (3, 3) and progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(*points(), run, CPU, stop, checkpoint=folder)
    seen: list[tuple[tuple[int, int], int]] = []
    made = train(
        *points(), run, CPU, lambda told: seen.append((told.member, told.step)), checkpoint=folder, resume=True
    )
    assert len(made.members) == made.record.facts["networks"] == 3
    assert max(seen) == ((3, 3), 4)
    unbroken = train(*points(), run, CPU, lambda progress: None)
    for one, other in zip(made.members, unbroken.members, strict=True):
        assert torch.equal(one.network.query, other.network.query)


def test_more_networks_than_a_folder_has_files_for_are_refused():
    with pytest.raises(ValueError, match="members: expected at most 8, got 9"):
        tiny_run(members=9)


def test_a_folder_of_fewer_files_than_it_lists_is_refused(model, tmp_path):
    save(model, tmp_path / "m.kbdisk")
    shutil.copy(tmp_path / "m.kbdisk" / "model.safetensors", tmp_path / "m.kbdisk" / "model-2.safetensors")
    with pytest.raises(CheckpointError, match=r"model-2.safetensors: expected the content"):
        open_folder(tmp_path / "m.kbdisk", CPU)
