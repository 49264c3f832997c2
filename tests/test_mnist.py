"""The paper's digits: the same hide, loss and reveal draw images that a classifier can name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "mnist.py"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.timeout(3600)
def test_digits_drawn_pixel_by_pixel_are_what_was_asked_for(data, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    picture = tmp_path / "mnist.png"
    command = [sys.executable, str(EXAMPLE), "--data", str(data / "mnist"), "--out", str(picture), "--each", "20"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    shares = re.findall(r"names ([\d.]+)% right; ([\d.]+)% of ink is alone", done.stdout)
    real, single, at_once = [(float(named), float(alone)) for named, alone in shares]
    assert real[0] > 95
    assert single[0] >= 80
    assert single[1] < 2  # strokes,
    assert at_once[1] > 5 * single[1]  # where every pixel for itself makes noise
    assert picture.stat().st_size > 10_000
