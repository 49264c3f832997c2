"""One property's numbers and codes: how fine they are, what comes back, and which values are atoms."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.leaves.number import NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import BELIEF_NAMES, CODE_NAMES, EMBEDDING_NAMES, MAX_CODE, OPEN_WIDTH
from kbdisk.leaves.number.decoder import HEADS
from kbdisk.leaves.number.encoder import EMBEDDINGS
from kbdisk.leaves.number.transforms import CODE_MAPS
from kbdisk.schemas.kinds import Number

ANY = st.floats(-1e300, 1e300) | st.integers(-(10**20), 10**20) | st.decimals(-1000, 1000, places=2)


def fitted(values, leaf: Number = Number(), **choices) -> NumberCodec:
    return NumberCodec.fit(leaf, values, NumberConfig(**choices), None)


@for_each(
    ("values", "decimals"),
    [
        ([1, 2, 2010], 0),
        ([1.0, 2.0], 0),
        ([0.1, 0.2, 0.30000000000000004], 1),
        ([13.1, 13.100000000000023, 5.000000000000003], 1),
        ([Decimal("1.50"), Decimal("2.25")], 2),
        ([133.0, 194, Decimal("80.55")], 2),
        ([1.5] * 300 + [1.23456789], 1),
        ([1.5] * 30 + [0.1234567890123456], 1),
        ([2e-19, 1.6e-19], 20),
        ([1e299, 2.5e299], -284),
        ([0.0, 0.0], 0),
    ],
)
def test_the_resolution_is_the_decimals_seen(values, decimals):
    assert fitted(values).decimals == decimals


def test_where_values_have_full_precision_the_resolution_is_a_millionth_of_their_spread():
    values = np.random.default_rng(0).normal(5, 300, size=500).tolist()
    assert fitted(values).step == pytest.approx(1e-4)


def test_the_leaf_knows_better():
    assert fitted([0.1, 0.25], Number(decimals=1)).decimals == 1
    assert fitted([1, 2], Number(decimals=2)).decode(torch.zeros(1, 4))[0] == pytest.approx(1, abs=2)
    assert isinstance(fitted([1, 2], Number(decimals=2)).decode(torch.zeros(1, 4))[0], float)
    assert isinstance(fitted([1.0, 2.0], Number(integer=True)).decode(torch.zeros(1, 4))[0], int)


@for_each("code", CODE_NAMES)
@settings(max_examples=examples(30))
@given(values=st.lists(ANY, min_size=1, max_size=40), atoms=st.sampled_from([0, 3]))
def test_values_come_back_within_what_codes_tell_apart(code, values, atoms):
    codec = fitted(values, code=code, atoms=atoms, atom_count=2)
    codes = codec.encode(values)
    assert torch.isfinite(codes).all()
    assert (codes[:, 1:3] > 0).all()
    z = codes[:, 0].double().numpy()
    slack = 2 * np.spacing(np.abs(codes[:, 0].numpy()))  # a code's own last bits
    numbers = np.array([float(value) for value in values])
    back = np.array([float(value) for value in codec.decode(codes)])
    least, most = codec.map.inverse(z - slack) - codec.step / 2, codec.map.inverse(z + slack) + codec.step / 2
    x, _, _ = codec.map.knots
    left = np.maximum(np.searchsorted(x, numbers) - 1, 0)
    rounding = np.maximum(np.abs(numbers), np.abs(back)) * 1e-12 + np.abs(x[left]) * 1e-15
    near = np.abs(z) < MAX_CODE  # beyond, all is one
    assert ((least - rounding <= numbers) & (numbers <= most + rounding))[near].all()
    atom = codes[:, 3].numpy() >= 0
    assert ((least - rounding <= back) & (back <= most + rounding))[near & ~atom].all()
    assert (np.abs(numbers - back) <= codec.step / 2)[atom].all()


@given(values=st.lists(st.integers(-9999, 9999).map(lambda cents: cents / 100), min_size=2, max_size=60))
def test_numbers_of_everyday_size_come_back_to_the_digit(values):
    codec = fitted(values)
    assert codec.decode(codec.encode(values)) == values


@given(values=st.lists(st.integers(-(10**5), 10**5), min_size=1, max_size=60))
def test_whole_numbers_come_back_whole(values):
    codec = fitted(values)
    back = codec.decode(codec.encode(values))
    assert back == values
    assert all(type(value) is int for value in back)


@for_each("code", sorted(CODE_MAPS))
@given(values=st.lists(st.integers(-9999, 9999).map(lambda cents: cents / 100), min_size=1, max_size=60))
def test_the_least_and_the_greatest_are_known(code, values):
    codec = fitted(values, code=code)
    assert [round(one, codec.decimals) for one in codec.training_range] == [min(values), max(values)]


def test_atoms_come_back_exactly_however_fine():
    values = [1 / 3] * 20 + [2.0**0.5] * 30 + np.random.default_rng(0).normal(size=50).tolist()
    codec = fitted(values)
    assert codec.atoms == (1 / 3, 2.0**0.5)
    assert codec.shares == pytest.approx((0.2, 0.3))
    assert codec.decode(codec.encode([1 / 3, 2.0**0.5])) == [1 / 3, 2.0**0.5]


def test_an_atom_with_noise_of_floats_is_that_atom():
    codec = fitted([0.3] * 20 + [0.1, 0.2, 0.5, 0.7])
    assert codec.encode([0.1 + 0.2, 0.3, 0.2])[:, 3].tolist() == [0, 0, -1]


def test_atoms_are_those_that_recur_often_enough_and_no_more_than_asked():
    values = [*[1] * 50, *[2] * 40, *[3] * 30, *[4] * 9, *range(100, 1000)]
    assert fitted(values).atoms == (1, 2, 3)
    assert fitted(values, atoms=2).atoms == (1, 2)
    assert fitted(values, atoms=0).atoms == ()
    assert fitted(values, atom_count=1, atom_share=0.0).atoms == (*range(1, 5), *range(100, 128))
    assert fitted(values, atom_share=0.04).atoms == (1,)


def test_an_end_where_others_were_counted_as_it_is_an_atom_though_it_is_rare():
    within = [n / 7 for n in range(1, 5000)]
    assert fitted(within + [800.0] * 12).atoms == (800.0,)
    assert fitted(within + [-1.0] * 12 + [800.0] * 9).atoms == (-1.0,)  # nine may be chance
    assert fitted(within + [-1.0] * 12 + [0.0] * 900).atoms == (-1.0, 0.0)
    assert fitted(within + [300.0] * 12).atoms == ()  # in the middle a curve is as good
    assert fitted([n for n in range(100) for _ in range(40)]).atoms == ()  # no oftener than its neighbours
    assert fitted([1.0] * 12 + [2.0, 3.0] * 400, atom_share=0.9).atoms == ()  # too few to tell


def test_huge_tiny_and_whole_numbers_beyond_floats_work():
    for values in ([1e300, -1e300, 1e-300, 0.0], [2**60 + k for k in range(100)], [1e-300, 2e-300, 5e-324], [10**300]):
        codec = fitted(values)
        codes = codec.encode(values)
        assert torch.isfinite(codes).all()
        back = codec.decode(codes)
        assert np.allclose(
            [float(value) for value in back], [float(value) for value in values], rtol=1e-5, atol=codec.step
        )
    assert all(isinstance(value, int) for value in fitted([2**60, 2**61]).decode(torch.randn(5, 4)))


@for_each("values", [[], [7], [7.5] * 40, [1, 2]])
@for_each("code", CODE_NAMES)
def test_few_values_are_enough(values, code):
    codec = fitted(values, code=code)
    codes = codec.encode([*values, 3, -(10**6)])
    assert torch.isfinite(codes).all()
    assert codec.decode(codes)[: len(values)] == values


def test_what_is_decoded_stays_within_the_bounds():
    z = torch.tensor([[-1e6, 1, 1, -1.0], [1e6, 1, 1, -1], [0.001, 1, 1, -1]])
    cases = [
        (Number(minimum=0, maximum=10), [1.5, 2.5], 0, 10),
        (Number(above=0, below=1), [0.25, 0.5], 0.01, 0.99),
        (Number(integer=True, minimum=1, maximum=12), [3, 7], 1, 12),
        (Number(minimum=0.005, maximum=0.995), [0.25, 0.5], 0.01, 0.99),
        (Number(minimum=0.29, maximum=1.1, decimals=2), [0.5], 0.29, 1.1),
        (Number(minimum=0.4, maximum=0.6, decimals=0), [0.5], 0.4, 0.4),
    ]
    for leaf, values, least, most in cases:
        low, high, _ = fitted(values, leaf).decode(z)
        assert (low, high) == (least, most)


def test_steps_at_bounds_have_no_end():
    codes = fitted([1, 2, 3], Number(minimum=1, maximum=3)).encode([1, 2, 3])
    assert (codes[:, 1:3] >= OPEN_WIDTH).tolist() == [[True, False], [False, False], [False, True]]


def test_steps_are_seen_in_float64():
    values = [0.5, 1.0, 999_999.5]
    codes = fitted(values, code="minmax").encode(values)
    assert codes[:, 1:3].flatten().tolist() == pytest.approx([0.1 / 1e6 / 1] * 6, rel=1e-5)


@for_each(
    ("value", "complaint"),
    [
        ("heavy", "expected a number, got 'heavy'"),
        ("1.5", "expected a number, got '1.5'"),
        (True, "expected a number, got True"),
        (None, "expected a number, got None"),
        (math.nan, "expected a number, got nan"),
        (Decimal("inf"), "expected a number, got Decimal"),
        (10**400, "expected a number from -1e.300 to 1e.300, got one of 401 digits"),
        (-1, "expected a number of at least 0, got -1"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(value, complaint):
    codec = fitted([1, 2.5, 3], Number(minimum=0))
    with pytest.raises(ValueError, match=complaint):
        codec.encode([1, value, 2])


@for_each("code", CODE_NAMES)
@for_each("values", [[], [5], [0.25, 0.5, 7], [1] * 20 + [2, 3, 4], [1e300, 2e-300, Decimal("1.5")]])
def test_a_codec_is_plain_data(code, values):
    codec = fitted(values, Number(minimum=0, transform="log"), code=code)
    again = NumberCodec.from_json(json.loads(json.dumps(codec.to_json(), allow_nan=False)), None)
    assert again == codec
    assert torch.equal(again.encode(values), codec.encode(values))


def test_the_schema_advises_the_code_where_the_config_leaves_it_open():
    values = [1.0, 10.0, 100.0, 1000.0]
    by_code = {code: fitted(values, code=code).map for code in CODE_NAMES}
    assert by_code["auto"] == by_code["quantile"]
    advised = {
        advice: fitted(values, Number(transform=advice)).map for advice in ("none", "log", "quantile", "standard")
    }
    assert advised == {"none": by_code["minmax"], **{code: by_code[code] for code in ("log", "quantile", "standard")}}
    assert fitted(values, Number(transform="log"), code="minmax").map == by_code["minmax"]


def test_a_blank_row_is_decoded_to_something():
    for values in ([1, 2], [5.5] * 20):
        assert len(fitted(values).decode(torch.zeros(2, 4))) == 2
        assert len(fitted(values).decode(torch.full((2, 4), -1.0))) == 2
    assert fitted([1, 2]).encode([]).shape == (0, 4)


def test_choices_have_names_that_are_checked():
    assert set(CODE_NAMES) == {"auto", *CODE_MAPS}
    assert set(EMBEDDING_NAMES) == set(EMBEDDINGS)
    assert set(BELIEF_NAMES) == set(HEADS)
    with pytest.raises(ValueError, match="code: expected one of auto, quantile, standard, minmax, log, got 'rank'"):
        NumberConfig(code="rank")
    with pytest.raises(ValueError, match="components: expected at least 1, got 0"):
        NumberConfig(components=0)


def test_a_number_beside_an_atom_is_that_atom_on_either_side_of_it():
    codec = fitted([1.5] * 200 + [2.5] * 200 + [float(n) for n in range(3, 40)], Number(decimals=1))
    first, second = (codec.atoms.index(atom) for atom in (1.5, 2.5))
    near = codec.encode([1.4999999, 1.5, 1.5000001, 2.4999999, 2.5000001, 2.0])[:, 3]
    assert near.tolist() == [first, first, first, second, second, -1]
