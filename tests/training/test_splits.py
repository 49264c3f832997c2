"""What is held out: a share of each class, in groups that would give each other away, the same every time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.entity import Entity, Link
from kbdisk.schemas.kinds import Category, Number, Set, Text
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.training.split import MIN_SAMPLED, Split, split

THING = {
    ("name",): Property(Text()),
    ("code",): Property(Category(), unique=True),
    ("a",): Property(Number()),
    ("b",): Property(Number()),
    ("c",): Property(Category()),
    ("to",): Property(LinkLeaf("Thing")),
    ("all",): Property(Set(LinkLeaf("Thing"))),
}
SCHEMA = Schema({"Thing": Class("Thing", THING), "Rare": Class("Rare", {("a",): Property(Number())})})


def thing(number: int, **more) -> Entity:
    tree = {"name": f"thing {number}", "code": f"t{number}", "a": number, "b": number * 2, "c": "x", **more}
    return Entity(f"t{number}", tree, ("Thing",))


def sides(entities, share=0.2, seed=0) -> tuple[set[str], set[str]]:
    found = split(SCHEMA, entities, share, seed)
    return tuple({entities[place].id for place in side} for side in (found.training, found.validation))


def test_a_share_of_the_entities_is_held_out_and_each_stands_on_one_side():
    entities = [thing(number) for number in range(100)]
    training, validation = sides(entities)
    assert len(validation) == 20
    assert training | validation == {one.id for one in entities}
    assert not training & validation


def test_of_each_class_its_share_and_of_small_ones_nothing():
    rare = [Entity(f"r{number}", {"a": number}, ("Rare",)) for number in range(9)]
    _, validation = sides([*rare, *map(thing, range(50))])
    assert len(validation) == 10
    assert all(id.startswith("t") for id in validation)


def test_entities_of_no_class_of_the_schema_are_on_neither_side():
    training, validation = sides([*map(thing, range(20)), Entity("s", {"a": 1}, ("Strange",))])
    assert "s" not in training | validation


@pytest.mark.parametrize("seed", range(5))
def test_copies_but_for_name_and_code_stand_on_one_side(seed):
    entities = [thing(number // 2 * 2, name=f"n{number}", code=f"c{number}") for number in range(60)]
    entities = [Entity(f"e{number}", one.tree, one.classes) for number, one in enumerate(entities)]
    _, validation = sides(entities, seed=seed)
    assert validation
    for number in range(0, 60, 2):
        assert (f"e{number}" in validation) == (f"e{number + 1}" in validation)


@pytest.mark.parametrize("seed", range(5))
def test_copies_that_link_elsewhere_stand_on_one_side(seed):
    entities = [
        Entity(f"e{n}", thing(n // 2, to=Link(f"x{n}"), all=[Link(f"y{n}")]).tree | {"code": f"c{n}"}, ("Thing",))
        for n in range(60)
    ]
    _, validation = sides(entities, seed=seed)
    assert validation
    assert all((f"e{n}" in validation) == (f"e{n + 1}" in validation) for n in range(0, 60, 2))


def test_entities_whose_values_have_equal_hashes_are_no_copies():
    pairs = [thing(n, a=a, b=n // 2, code=f"c{n}") for n in range(100) for a in [-1 - n % 2]]  # hash(-1) == hash(-2)
    apart = [{f"t{n}", f"t{n + 1}"} for n in range(0, 100, 2)]
    training, validation = sides(pairs, share=0.5)
    assert any(not pair <= training and not pair <= validation for pair in apart)


def test_entities_that_say_too_little_are_no_copies():
    entities = [Entity(f"e{number}", {"a": 1, "b": 1}, ("Thing",)) for number in range(50)]
    training, validation = sides(entities)
    assert len(validation) == 10
    assert len(training) == 40


@pytest.mark.parametrize("seed", range(5))
def test_entities_that_link_to_each_other_stand_on_one_side(seed):
    entities = [thing(number, to=Link(f"t{number ^ 1}")) for number in range(100)]
    _, validation = sides(entities, seed=seed)
    assert len(validation) == 20
    assert all((f"t{n}" in validation) == (f"t{n + 1}" in validation) for n in range(0, 100, 2))


def test_links_that_are_not_answered_bind_nobody():
    entities = [thing(0), *(thing(number, to=Link("t0")) for number in range(1, 100))]
    _, validation = sides(entities)
    assert len(validation) == 20


def test_where_all_are_bound_by_links_some_are_held_out_all_the_same():
    entities = [thing(n, all=[Link(f"t{(n + 1) % 100}"), Link(f"t{(n - 1) % 100}")]) for n in range(100)]
    _, validation = sides(entities)
    assert len(validation) == 20


@pytest.mark.parametrize("seed", range(5))
def test_what_has_one_id_twice_stands_on_one_side(seed):
    entities = [*map(thing, range(30)), *(Entity(f"t{n}", {"a": -n, "b": n, "c": "y"}, ("Thing",)) for n in range(30))]
    training, validation = sides(entities, seed=seed)
    assert validation
    assert not training & validation


def test_another_seed_holds_out_others_and_the_same_the_same():
    entities = [thing(number) for number in range(100)]
    assert sides(entities, seed=1) == sides(entities, seed=1)
    assert sides(entities, seed=1) != sides(entities, seed=2)


def test_nothing_is_held_out_where_no_share_is():
    assert sides([thing(number) for number in range(100)], share=0.0)[1] == set()


@pytest.mark.slow
def test_the_split_is_the_same_in_every_process():
    code = "from training.test_splits import SCHEMA, thing, split; from kbdisk.entity import Link; print(split(SCHEMA, [thing(n // 2, to=Link(f't{n ^ 3}')) for n in range(200)], 0.1, 3).validation)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[1],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found != {"()\n"}


@pytest.mark.parametrize(("size", "held"), [(9, 0), (10, 2), (60, 12), (250, 50), (400, 50), (500, 50), (3000, 300)])
def test_of_few_entities_more_are_held_out_where_nobody_says_how_many(size, held):
    schema = of_one_class({("x",): Property(Number())})
    entities = [Entity(str(number), {"x": number}) for number in range(size)]
    assert len(split(schema, entities, None, 0).validation) == held


def sizes_by_class(found: Split, places: Sequence[int]) -> Counter[str]:
    return Counter(str(found.classes[place]) for place in places)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 200), st.integers(0, 3))
def test_a_sample_has_about_so_many_entities_and_few_of_a_small_class_are_left_out(sizes, most, seed):
    classes = [str(name) for name, size in enumerate(sizes) for _ in range(size)]
    places = range(len(classes))
    whole = Split(tuple(places[::2]), tuple(places[1::2]), classes, values=len(classes))
    sample = whole.sampled(most, seed)
    assert set(sample.training) <= set(whole.training)
    assert set(sample.validation) <= set(whole.validation)
    assert sample == whole.sampled(most, seed)
    if len(whole) <= most:
        assert sample == whole
    else:
        assert abs(len(sample) - most) <= 5 * max(most, 1) ** 0.5 + 1
    least = min(MIN_SAMPLED, most // (2 * len(sizes)))
    drawn = sizes_by_class(sample, [*sample.training, *sample.validation])
    assert all(drawn[name] == size for name, size in Counter(classes).items() if size <= least)


def test_a_large_class_has_the_same_share_of_both_sides_in_a_sample():
    classes = ["large"] * 100_000 + ["small"] * 1500
    places = range(len(classes))
    whole = Split(tuple(place for place in places if place % 10), tuple(places[::10]), classes, values=0)
    sample = whole.sampled(20_000, seed=0)
    training, validation = (sizes_by_class(sample, side) for side in (sample.training, sample.validation))
    assert training["large"] + validation["large"] == pytest.approx(19_000, rel=0.05)
    assert validation["large"] == pytest.approx(1900, rel=0.1)
    assert training["small"] + validation["small"] == pytest.approx(MIN_SAMPLED, rel=0.1)
