"""Numbers from links: what is given, what is asked, and what is seen of neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchdata import RUN, write_kb

from benchmarks import kb_numeric
from benchmarks.base import Options
from benchmarks.progress import Progress
from kbdisk.entity import Link

LATITUDE = "location.geocode.latitude"


@pytest.fixture
def options(tmp_path) -> Options:
    (tmp_path / "run.toml").write_text(RUN)
    return Options(write_kb(tmp_path), preset="fast", config=str(tmp_path / "run.toml"), seeds=(0,))


def test_a_relation_with_one_link_each_is_a_link_and_another_a_set(options):
    task = kb_numeric.task(options, kb_numeric.read_links(options.data), 0)
    town = next(one for one in task.train if one.id == "t4")
    assert town.tree == {
        "/town/country": Link("north"),
        "/town/near": [Link("t6"), Link("t8")],
        LATITUDE: 60.1,
        "location.location.area": 4.0,
    }


def test_numbers_of_dev_are_asked_one_by_one_and_are_known_of_nobody_else(options):
    task = kb_numeric.task(options, kb_numeric.read_links(options.data), 0)
    asked = {id for id, _, _ in task.numbers}
    assert {"t3", "t7"} < asked
    assert not asked & {one.id for one in task.train if LATITUDE in one.tree}
    assert [one.id for one in task.scored] == [id for id, _, _ in task.numbers]


def test_validation_is_of_train(options):
    links = kb_numeric.read_links(options.data)
    whole, held = (kb_numeric.task(one, links, 0) for one in (options, replace(options, validation=True)))
    dev = set(kb_numeric.read_numbers(options.data, "dev"))
    known = set(kb_numeric.read_numbers(options.data, "train_100"))
    assert set(whole.numbers) == dev
    assert set(held.numbers) < known
    seen = {(one.id, key, value) for one in held.train for key, value in one.tree.items() if isinstance(value, float)}
    assert seen == known - set(held.numbers)


def test_a_run_measures_ours_beside_the_constant_and_what_is_published(options, tmp_path):
    ours, constant = kb_numeric.run(replace(options, budget="5s"), Progress())
    assert (ours.method, constant.method) == ("ours", "constant")
    assert [row.name for row in ours.rows] == [row.name for row in constant.rows] == ["lat", "area"]
    (table,) = kb_numeric.tables([ours, constant])
    assert table.header == ["attribute", "ours, fast + 5s + run.toml", "constant", "MrAP"]
    assert table.rows[0][-1] == "1.50"
    assert "Fewer than 100 values were asked for of lat, area." in table.notes
    assert kb_numeric.figure([ours, constant], tmp_path / "kb.png")


def test_the_error_is_the_mean_of_how_far_answers_are_off():
    numbers = [("a", LATITUDE, 1.0), ("b", LATITUDE, 5.0), ("c", "location.location.area", 2.0)]
    rows = {row.name: (row.value, row.n) for row in kb_numeric.scores(numbers, [2.0, 8.0, None])}
    assert rows == {"lat": (2.0, 2)}
