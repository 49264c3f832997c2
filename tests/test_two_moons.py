"""The paper's figure: a mixture draws both moons, one Gaussian cannot."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples" / "two_moons.py"


def moons():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("two_moons", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_classifier_tells_what_can_be_told_and_no_more():
    example, generator = moons(), torch.Generator().manual_seed(0)
    one, other = (example.points(example.moons(1000, generator)) for _ in range(2))
    assert example.told_apart(one, other) < 0.6
    assert example.told_apart(one, torch.randn(1000, 2)) > 0.75


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_mixture_draws_both_moons_and_one_gaussian_cannot(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra bench")
    picture = tmp_path / "moons.png"
    command = [sys.executable, str(EXAMPLE), "--out", str(picture), "--steps", "1000", "--points", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    many, one = (float(share) for share in re.findall(r"from data ([\d.]+)% of the time", done.stdout))
    assert many < 60
    assert one > 75
    assert picture.stat().st_size > 10_000
