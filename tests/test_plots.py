"""Pictures are files of their kind, the same for the same figures; names stand apart and near to their lines."""

from __future__ import annotations

import random
import struct
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.api.plots import MAX_NAMED_LINES, plot_curve, refuse_plot, spread
from kbdisk.errors import ConfigError, WriteError
from kbdisk.evaluation.curve import SHARES, Curve, Line

KINDS = ["number", "category", "set", "text", "link", "boolean"]


def falling(count: int) -> Curve:
    draw = random.Random(2)
    lines = [
        Line("", f"property{n}", KINDS[n % 6], "MAE", 9, 4.0, [4 * (1 - share * draw.random()) for share in SHARES])
        for n in range(count)
    ]
    return Curve(list(SHARES), lines)


@pytest.mark.slow
@for_each(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_picture_is_of_the_kind_that_its_name_says(tmp_path, suffix, begins):
    file = tmp_path / f"curve{suffix}"
    plot_curve(falling(3), file, "Phones")
    assert file.read_bytes().startswith(begins)


@pytest.mark.slow
def test_the_same_figures_make_the_same_file(tmp_path):
    for name in ("one.svg", "two.svg", "one.png", "two.png"):
        plot_curve(falling(2), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_every_line_has_its_name_unless_there_are_too_many(tmp_path):
    for count in (MAX_NAMED_LINES, MAX_NAMED_LINES + 1):
        plot_curve(falling(count), tmp_path / "curve.svg", "How good it is")
        text = (tmp_path / "curve.svg").read_text()
        named = sum(f">property{number}<" in text for number in range(count))
        assert named == (count if count <= MAX_NAMED_LINES else 0)
        for word in ("How good it is", f"mean of {count}", "best constant", "number", "link", "100 %"):
            assert word in text


def test_a_picture_is_large_enough_to_read(tmp_path):
    plot_curve(falling(3), tmp_path / "curve.png")
    width, height = struct.unpack(">II", (tmp_path / "curve.png").read_bytes()[16:24])
    assert width >= 1200
    assert height >= 700


def test_one_share_alone_and_ends_far_beyond_the_constant_can_be_drawn(tmp_path):
    lines = [Line("", "x", "number", "MAE", 9, 1.0, [50.0]), Line("", "y", "number", "MAE", 9, 1.0, [0.0])]
    plot_curve(Curve([1.0], lines), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").exists()


def test_what_cannot_be_drawn_is_refused_with_the_reason(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"--plot: expected a name that ends in .png, .svg, .pdf, got 'curve.gif'"):
        refuse_plot("curve.gif")
    with pytest.raises(ConfigError, match="nothing to draw"):
        plot_curve(Curve([1.0], []), tmp_path / "curve.png")
    with pytest.raises(WriteError, match=r"curve.png: cannot be written: no such file"):
        plot_curve(falling(1), tmp_path / "nowhere" / "curve.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs matplotlib, which is not there. pip install 'kbdisk\[plots\]'"):
        refuse_plot("curve.png")


def test_a_picture_is_drawn_anew_and_what_is_none_stays(tmp_path):
    picture, notes = tmp_path / "curve.png", tmp_path / "notes.png"
    plot_curve(falling(1), picture)
    before = picture.read_bytes()
    plot_curve(falling(1), picture)
    assert picture.read_bytes() == before
    notes.write_text("three years of work")
    with pytest.raises(ConfigError, match="is no picture, and stays as it is"):
        plot_curve(falling(1), notes)
    assert notes.read_text() == "three years of work"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["curve.png", "notes.png"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.001, 0.2))
def test_names_stand_apart_in_order_and_within_the_picture_where_they_fit(wanted, gap):
    wanted = sorted(wanted)
    places = spread(wanted, gap, 0.0, 1.0)
    assert all(b - a >= gap * (1 - 1e-6) - 1e-9 for a, b in pairwise(places))
    assert places[0] >= 0
    if gap * (len(wanted) - 1) <= 1:
        assert places[-1] <= 1 + 1e-9


def test_names_that_do_not_touch_stay_where_they_are():
    assert spread([0.1, 0.5, 0.9], 0.1, 0.0, 1.0) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5, 0.5], 0.1, 0.0, 1.0) == pytest.approx([0.4, 0.5, 0.6])
