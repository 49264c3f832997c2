"""What is stored and what is made of it: figures over seeds, tables, pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.base import Table
from benchmarks.render import BEGIN, END, markdown, render
from benchmarks.results import Figure, Result, Row, append, figures, latest, read, stamped
from benchmarks.splits import VALIDATION_SHARE, drawn, grouped, published, sides_of
from benchmarks.tables import Measure, compared, dates_and_commits, decimals, decimals_by_name
from kbdisk.errors import ConfigError, LoadError


def result(seed: int = 0, method: str = "ours", **values: float) -> Result:
    rows = [Row(name, value, 10) for name, value in values.items()]
    return Result("gsm", method, rows, seed=seed, split="paper", preset="default" if method == "ours" else "")


# ---------------------------------------------------------------- stored


def test_a_result_is_read_as_it_was_stored(tmp_path):
    one = stamped(result(3, weight=18.5))
    append(tmp_path / "r" / "gsm.jsonl", one)
    append(tmp_path / "r" / "gsm.jsonl", replace(one, seed=4))
    assert read(tmp_path / "r" / "gsm.jsonl") == [one, replace(one, seed=4)]
    assert read(tmp_path / "r" / "other.jsonl") == []


def test_a_line_that_is_no_result_is_said_to_be_none(tmp_path):
    (tmp_path / "gsm.jsonl").write_text('{"bench": "gsm", "years": 3}\n')
    with pytest.raises(LoadError, match=r"gsm\.jsonl:1: expected a result"):
        read(tmp_path / "gsm.jsonl")
    (tmp_path / "gsm.jsonl").write_bytes(b'{"bench": "\xff"}\n')
    with pytest.raises(LoadError, match=r"gsm\.jsonl:1: expected a result"):
        read(tmp_path / "gsm.jsonl")


def test_of_two_results_of_one_seed_the_later_counts():
    one, other, again = result(0, a=1.0), result(1, a=3.0), result(0, a=2.0)
    assert latest([one, other, again]) == [again, other]


def test_a_figure_is_the_mean_over_seeds_with_its_spread():
    assert figures([result(0, a=1.0), result(1, a=3.0)]) == {"a": Figure(2.0, pytest.approx(2**0.5))}
    assert figures([result(0, a=1.0)]) == {"a": Figure(1.0, None)}


# ---------------------------------------------------------------- shown


def test_a_table_has_ours_first_then_what_was_measured_what_is_published_and_the_bar():
    measure = Measure("GSM", ["weight", "day"], {"paper": {"weight": 20.8}}, {"weight": 18.5, "day": 9.0})
    table = compared(
        measure,
        [result(0, "gbdt", weight=18.0, day=9.5), result(0, weight=19.0, day=8.0), result(1, weight=21.0, day=8.0)],
    )
    assert table.header == ["property", "ours, default", "gbdt", "paper", "the bar"]
    assert table.rows[0] == ["weight", "20.0 ± 1.4", "18.0", "20.8", "18.5"]
    assert table.rows[1] == ["day", "8.00 ± 0.00", "9.50", "", "9.00"]
    assert "ours, default: at or below the bar in 1 of 2 (not weight)." in table.notes
    assert "ours, default: at or below gbdt in 1 of 2; more than 5% above it in weight." in table.notes


def test_a_bar_counts_with_the_digits_that_it_is_told_with():
    names = ["stability", "depth", "radius"]
    measure = Measure("Nuclei", names, {}, decimals_by_name(names, ".008 1.40 .0110"))
    table = compared(measure, [result(0, stability=0.00806, depth=1.404, radius=0.01106)])
    assert "ours, default: at or below the bar in 2 of 3 (not radius)." in table.notes
    assert [row[-1] for row in table.rows] == ["0.008", "1.40", "0.0110"]


def test_of_several_commits_it_is_told_which_seeds_are_by_which():
    def by(seed, commit, day):
        return replace(result(seed, a=1.0), facts={"date": f"2026-11-{day}T10:00:00", "commit": commit})

    assert dates_and_commits([by(1, "b", 23), by(0, "b", 23)]) == "2026-11-23, b"
    text = dates_and_commits([by(2, "a", 22), by(1, "b", 23), by(0, "b", 23)])
    assert text == "2026-11-22, 2026-11-23, b (seed 0, 1), a (seed 2)"


def test_a_row_has_the_digits_that_its_smallest_figure_needs():
    assert [decimals([one, 1e6]) for one in (250.0, 18.5, 1.4, 0.22, 0.0138)] == [0, 1, 2, 3, 4]


def test_a_page_keeps_what_is_written_by_hand(tmp_path):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(f"# By hand\n\n{BEGIN}\nold\n{END}\n\n## Also by hand\n")
    append(tmp_path / "r" / "gsm.jsonl", result(weight=18.25))
    assert render(tmp_path / "r", page) == ["gsm"]
    text = page.read_text()
    assert text.startswith(f"# By hand\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\n## Also by hand\n")
    assert "\nold\n" not in text
    assert "| weight | 18.2 |" in text
    assert "![gsm](../r/gsm.png)" in text
    assert (tmp_path / "r" / "gsm.png").read_bytes().startswith(b"\x89PNG")
    render(tmp_path / "r", page)
    assert page.read_text() == text


def test_a_page_is_left_alone_where_nothing_is_stored(tmp_path):
    (tmp_path / "page.md").write_text(f"{BEGIN}\nold\n{END}\n")
    with pytest.raises(ConfigError, match=r"--out: expected results in .*nowhere, got none"):
        render(tmp_path / "nowhere", tmp_path / "page.md")
    assert "old" in (tmp_path / "page.md").read_text()


def test_a_page_without_a_place_for_tables_is_left_alone(tmp_path):
    (tmp_path / "page.md").write_text("# Mine\n")
    with pytest.raises(ConfigError, match="Put them where tables belong"):
        render(tmp_path, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == "# Mine\n"


def test_a_bar_in_a_cell_does_not_end_it():
    assert "| a \\| b |" in list(markdown(Table("T", ["x"], [["a | b"]])))


# ---------------------------------------------------------------- splits


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"train": [0, 1], "val": [4]}', "expected numbers of the 4 rows, got 4: it is of other data."),
        ('{"train": [0, 1]}', "expected the rows of train and val, got something else: KeyError"),
        ("version https://git-lfs.github.com/spec/v1", "expected the rows of train and val"),
    ],
)
def test_a_published_split_of_other_data_is_refused(text, complaint, tmp_path):
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(LoadError, match=complaint):
        published(tmp_path, "split.json", "somebody", 4)


def test_a_draw_takes_about_its_share_and_is_the_same_again():
    names = range(4000)
    out = drawn(names, VALIDATION_SHARE, 7)
    assert abs(len(out) - 400) < 4 * 19  # four standard deviations of a binomial
    assert out == drawn(names, VALIDATION_SHARE, 7) != drawn(names, VALIDATION_SHARE, 8)


def test_a_draw_does_not_depend_on_what_else_there_is():
    assert drawn(range(100), 0.5, 0) == {place for place in drawn(range(200), 0.5, 0) if place < 100}


def test_what_shares_any_key_is_in_one_group():
    assert grouped([("a", 1), ("b", 2), ("c", 1), ("b", 3), ("d", 3), ("e", 4)]) == [0, 1, 0, 1, 1, 5]


def test_sides_are_whole_and_apart():
    assert sides_of(range(5), {3, 1}) == ([0, 2, 4], [1, 3])
