"""Columns of extreme numbers: their codes and all that is believed of them are finite, and answers stay within what was seen."""

from __future__ import annotations

import csv
import json
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import run_file
from tables import examples

from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import CODE_NAMES, CodecTables
from kbdisk.leaves.number.densities import Mixture
from kbdisk.schemas.kinds import MAX_NUMBER, Number

NUMBERS = (
    st.floats(-MAX_NUMBER, MAX_NUMBER)
    | st.integers(-323, 300).map(lambda power: float(f"1e{power}"))
    | st.integers(-(10**299), 10**299)
    | st.sampled_from([5e-324, -5e-324, MAX_NUMBER, -MAX_NUMBER, 0, 1])
)


@settings(max_examples=examples(8))
@given(st.lists(NUMBERS, min_size=1, max_size=12), st.sampled_from(CODE_NAMES[1:]))
def test_any_column_has_finite_codes_and_answers_within_what_was_seen(values, code):
    codec = NumberCodec.fit(Number(), values, NumberConfig(code=code), None)
    codes = codec.encode(values)
    assert codes.dtype == torch.float32
    assert codes.isfinite().all()
    ends = codes[:, 0].min(), codes[:, 0].max()
    middle = ((ends[0] + ends[1]) / 2).reshape(1, 1)
    slot, shares = torch.zeros(1, dtype=torch.long), torch.zeros(1, 1 + len(codec.atoms)).log_softmax(1)
    belief = NumberBelief(
        Mixture(torch.zeros(1, 1), middle, torch.full((1, 1), 1e-3)), shares, slot, CodecTables([codec])
    )
    answers = torch.stack([belief.median(), belief.expected(), *belief.interval(0.9)])
    assert answers.isfinite().all()
    assert belief.log_prob(codes[:1]).isfinite().all()
    [answer] = codec.decode(belief.codes(belief.median()))
    low, high = float(min(values)), float(max(values))
    assert math.isfinite(answer)
    assert low <= answer <= high or ends[1] - ends[0] < 0.01  # there the belief itself reaches further


def test_numbers_of_three_hundred_orders_of_magnitude_are_not_rounded_to_nothing():
    values = [10.0**power for power in range(5, 298)]
    codec = NumberCodec.fit(Number(minimum=0, transform="log"), values, NumberConfig(), None)
    answers = codec.decode(codec.encode([1e50, 1e150, 1e290]))
    assert all(abs(math.log10(answer) - power) < 0.01 for answer, power in zip(answers, (50, 150, 290), strict=True))


def table(gen: random.Random) -> list[dict[str, str]]:
    """A column that follows from another, and beside these columns of extreme numbers."""
    rows = []
    for row in range(60):
        n = gen.randint(1, 50)
        rows.append(
            {
                "id": f"e{row}",
                "n": str(n),
                "triple": "" if row % 6 == 0 else str(3 * n),
                "huge": "" if row % 7 == 0 else gen.choice(["1e308", "1.5e308", "-1.7e308"]),
                "wide": "" if row % 5 == 0 else gen.choice(["1e300", "1e-320", "-1e300", "1", "2.5"]),
                "digits": "" if row % 9 == 0 else str(gen.randint(0, 10**300)),
            }
        )
    return rows


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """The rows of a table before and after it was completed, and what was told."""
    from click.testing import CliRunner

    from kbdisk.cli import main

    folder = tmp_path_factory.mktemp("extreme")
    rows = table(random.Random(0))
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    (folder / "run.toml").write_text(run_file(5, experts=("label_regression", "boosted_trees", "presence_trees")))
    training = ["train", "a.csv", "--out", "m", "--config", "run.toml"]
    completing = ["complete", "a.csv", "--out", "b.csv", "--model", "m", "--fill", "all", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = [CliRunner().invoke(main, arguments) for arguments in (training, completing)]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    with (folder / "b.csv").open(newline="") as file:
        return rows, list(csv.DictReader(file)), results


def test_extreme_columns_stop_no_other(completed):
    before, after, _ = completed
    assert all(row["triple"] for row in after)
    assert all(old["triple"] in ("", new["triple"]) for old, new in zip(before, after, strict=True))


def test_what_is_filled_of_extreme_columns_is_finite_and_within_what_was_seen(completed):
    before, after, _ = completed
    for column in ("wide", "digits"):
        seen = [float(row[column]) for row in before if row[column]]
        filled = [float(new[column]) for old, new in zip(before, after, strict=True) if not old[column] and new[column]]
        assert filled
        assert all(min(seen) <= value <= max(seen) for value in filled)


def test_a_column_beyond_what_can_be_computed_with_is_left_out_by_name(completed):
    _, after, (trained, told) = completed
    assert "51 values of huge do not fit the schema (expected a number from -1e+300 to 1e+300)" in trained.stderr
    assert any(not row["huge"] for row in after)
    assert json.loads(told.stdout, parse_constant=pytest.fail)
