"""The paper's figure: a mixture draws both moons, one Gaussian cannot."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks import two_moons


@pytest.mark.slow
def test_the_classifier_tells_what_can_be_told_and_no_more():
    generator = torch.Generator().manual_seed(0)
    one, other = (two_moons.points(two_moons.moons(1000, generator)) for _ in range(2))
    assert two_moons.classifier_accuracy(one, other) < 0.6
    assert two_moons.classifier_accuracy(one, torch.randn(1000, 2)) > 0.75


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_mixture_draws_both_moons_and_one_gaussian_cannot(tmp_path, run):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    (tmp_path / "run.toml").write_text("[train]\nsteps = 1000\n")
    options = ("--out", tmp_path, "--config", tmp_path / "run.toml", "--seeds", 1)
    status, _, err = run("two-moons", *options)
    assert status == 0, err
    found = json.loads((tmp_path / "two-moons.jsonl").read_text())
    many, one = (row["value"] for row in found["rows"])
    assert many < 0.6
    assert one > 0.75
    assert (tmp_path / "two-moons.png").stat().st_size > 10_000
