"""What is told of a filled value beside the target."""

import io
import math

from hypothesis import assume, given
from hypothesis import strategies as st

from kbdisk import Completion, Entity, Filled
from kbdisk.completion.provenance import Provenance, line, rows, unwritten
from kbdisk.completion.summary import Row, Summary

ends = st.floats(-1e12, 1e12) | st.floats(allow_nan=False, allow_infinity=False)


def told(interval):
    """The interval in the row of a number."""
    belief = Provenance("C", ("x",), ("x",), interval=interval)
    completion = Completion(Entity("a"), {("x",): Filled(1.5, 0.5, belief)})
    return next(rows(completion, {}, ""))["interval"]


@given(ends, ends)
def test_an_interval_is_told_no_narrower_and_hardly_wider_than_it_is(one, other):
    low, high = sorted((one, other))
    assume(high - low < math.inf)
    wide = told((low, high))
    assert wide[0] <= low <= high <= wide[1]
    assert wide[1] - wide[0] <= (high - low) * 1.01 + math.ulp(max(abs(low), abs(high))) * 4


def test_an_interval_has_the_digits_that_its_width_gives_a_meaning():
    assert told((38412344.6, 38412351.2)) == [38412344.6, 38412351.2]
    assert told((1.23456789, 2.3456789)) == [1.234, 2.346]
    assert told({"latitude": (1.5, 2.0), "longitude": (0.1, 0.1)}) == {"latitude": [1.5, 2.0], "longitude": [0.1, 0.1]}
    assert told(None) is None


def test_what_a_target_has_no_place_for_is_no_gap_where_it_only_goes_with_another():
    amount, currency = ("price", "amount"), ("price", "currency")
    filled = {
        amount: Filled(1.5, 0.5, Provenance("C", amount, amount)),
        currency: Filled("EUR", 0.9, Provenance("C", currency, currency, estimate="shared")),
    }
    kept = io.BytesIO(b"".join(map(line, rows(Completion(Entity("a"), filled), {}, ""))))
    row = Row("C", amount, missing=2, filled=1, confidence_sum=0.5)
    summary, given = Summary(rows={("C", amount): row}), ("b", amount, "no column")
    assert unwritten(summary, kept, [("a", currency, "no column"), given]) == [given]
    assert (row.filled, row.confidence_sum) == (1, 0.5)
    assert unwritten(summary, kept, [("a", amount, "no column")]) == []
    assert (row.filled, row.confidence_sum, row.held_back) == (0, 0, {"no column": 1})


def test_rows_of_an_entity_that_is_unlike_training_say_so():
    filled = {("x",): Filled(1.5, 0.5, Provenance("C", ("x",), ("x",)))}
    reasons = ("year above 2012", "unseen maker")
    [row] = rows(Completion(Entity("a"), filled, unlike=reasons), {}, "")
    assert row["unlike"] == list(reasons)
    assert "unlike" not in next(rows(Completion(Entity("a"), filled), {}, ""))
