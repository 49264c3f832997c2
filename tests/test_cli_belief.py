"""kbdisk belief: what it tells of a property, as text, as JSON and as a picture."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace

import pytest
from models import EXAMPLES

from kbdisk.cli.belief import bars, blocks, round_step
from kbdisk.cli.tables import number_text, percent

PHONES = str(EXAMPLES / "phones.jsonl")


@pytest.fixture
def told(tiny_folder, run):
    def told(*arguments, id="nokia-3310"):
        return run("belief", tiny_folder, PHONES, "--id", id, *arguments)

    return told


# ---------------------------------------------------------------- text


def test_a_number_is_told_with_its_bounds_and_a_chart(told):
    status, said, err = told("--path", "weight")
    assert (status, err) == (0, "")
    assert said.startswith("weight.value  of nokia-3310, number\n")
    for fact in (
        r"median +\d+ g, within [\d.]+ of the truth in",
        r"mean +[\d.]+ g",
        r"mode +\d+ g",
        r"50 % +[\d.]+ … [\d.]+ g",
        r"90 % +",
    ):
        assert re.search(f"^{fact}", said, re.MULTILINE), fact
    assert re.search(r"^given +133 g, above \d+ % of the distribution; its probability is", said, re.MULTILINE)
    [line] = [line for line in said.splitlines() if "█" in line and "given" in line]
    low, high = map(int, re.match(r"(\d+) … (\d+)", line).groups())
    assert low <= 133 <= high


def test_the_chart_of_a_number_holds_all_of_it(told):
    _, said, _ = told("--path", "launch.year")
    shares = [
        float(one)
        for one in re.findall(r"([\d.]+) %(?:  |$)", said.split("recorded")[1].split("\n\n")[1], re.MULTILINE)
    ]
    assert sum(shares) == pytest.approx(100, abs=4)


def test_labels_are_told_with_the_rank_of_the_given(told):
    status, said, _ = told("--path", "brand")
    assert status == 0
    assert re.search(r"^given +Nokia, number \d+ of all; its probability is [\d.]+ %$", said, re.MULTILINE)
    assert re.search(r"^Nokia +█.* +[\d.]+ %  given$", said, re.MULTILINE)


def test_what_has_no_value_is_told_too(told):
    status, said, _ = told("--path", "os")
    assert status == 0
    assert "given" not in said
    assert re.search(r"^recorded +of such an entity in [\d.]+ %$", said, re.MULTILINE)


def test_sets_and_texts_are_told(told):
    assert re.search(r"^GSM +█+.*given$", told("--path", "networks")[1], re.MULTILINE)
    assert told("--path", "name")[0] == 0


@pytest.mark.slow
def test_without_a_path_all_properties_are_a_table(told):
    status, said, _ = told()
    assert status == 0
    assert re.search(r"^brand +\w+ +[\d.]+ % +Nokia$", said, re.MULTILINE)
    assert re.search(r"^launch.year +\d+ +[\d.]+ % +\d+ … \d+ +2000$", said, re.MULTILINE)
    assert max(map(len, said.splitlines())) <= 80


# ---------------------------------------------------------------- JSON


def test_a_belief_is_json_where_it_is_wanted(told):
    found = json.loads(told("--path", "weight", "--json")[1])
    assert (found["id"], found["path"], found["kind"], found["unit"]) == ("nokia-3310", "weight.value", "number", "g")
    assert found["given"]["value"] == 133
    assert found["intervals"][0]["low"] < found["median"] < found["intervals"][0]["high"]


@pytest.mark.slow
def test_all_beliefs_are_json_where_that_is_wanted(told):
    found = json.loads(told("--json")[1])
    assert {one["path"] for one in found} >= {"brand", "networks", "launch.year"}
    networks = next(one for one in found if one["path"] == "networks")
    assert networks["given"]["value"] == ["GSM"]


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize(
    "path", ["weight", *(pytest.param(one, marks=pytest.mark.slow) for one in ("brand", "networks", "name", "os"))]
)
def test_a_belief_is_a_picture(told, tmp_path, path):
    file = tmp_path / "b.png"
    assert told("--path", path, "--plot", file)[0] == 0
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_picture_marks_what_is_given_and_said(told, tmp_path):
    file = tmp_path / "b.svg"
    told("--path", "weight", "--plot", file)
    drawn = file.read_text()
    for text in ("weight.value in g", "given 133", "median ", "mode ", "90 % interval", "50 % interval"):
        assert text in drawn


@pytest.mark.slow
def test_repeated_numbers_are_spikes(tmp_path):
    from models import tiny

    from kbdisk.api.belief import plot_belief
    from kbdisk.api.model import Model
    from kbdisk.entity import Entity
    from kbdisk.schemas.schema import Schema

    schema = Schema.read("kbdisk: 1\nclasses:\n  '':\n    properties: {a: number, b: category}\n")
    entities = [Entity(str(i), {"a": 36.5 if i % 2 else i * 1.37, "b": "xy"[i % 2]}) for i in range(80)]
    belief = Model(tiny(schema, entities)).belief({"b": "y"}, "a")
    assert next(iter(belief.atoms)) == 36.5
    plot_belief(belief, tmp_path / "a.svg")
    assert "spikes: 36.5 has " in (tmp_path / "a.svg").read_text()


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--path", "wieght"], "error: wieght: expected a property that the model knows. Did you mean 'weight'?"),
        (["--path", "size.unit"], "error: size.unit: expected a property that the model learnt, got one that its schema leaves out (role: ignore)."),
        (["--path", "id"], "error: id: expected a property that the model learnt, got the id of entities."),
        (["--path", "launch"], "error: launch: expected the path of one value, got several. Say one of launch.day, "),
        (["--path", "weight", "--plot", "b.doc"], "error: --plot: expected a name that ends in .png, .svg, .pdf, got 'b.doc'."),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(told, arguments, complaint):
    status, said, err = told(*arguments)
    assert (status, said) == (2, "")
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_an_entity_that_is_not_there_is_told(told):
    status, _, err = told("--path", "weight", id="wikipedia")
    assert (status, err) == (2, f"error: {PHONES}: no entity has the id 'wikipedia'.\n")
    assert told(id="nokia-331")[2] == f"error: {PHONES}: no entity has the id 'nokia-331'. Did you mean 'nokia-3310'?\n"


def test_an_id_by_its_last_word_alone_is_told_whole(tiny_folder, tmp_path, run):
    source = tmp_path / "phones.jsonl"
    ids = ["http://a.org/work8", "http://b.org#work8", "http://a.org/work80"]
    source.write_text("".join(f'{{"id": "{one}", "brand": "Nokia"}}\n' for one in ids))
    status, _, err = run("belief", tiny_folder, source, "--id", "work8")
    assert status == 2
    assert err.endswith("no entity has the id 'work8'. Did you mean 'http://a.org/work8' or 'http://b.org#work8'?\n")


def test_a_picture_needs_a_property(told):
    status, _, err = told("--plot", "b.png")
    assert status == 2
    assert "--plot needs a property: say --path." in err


@pytest.mark.slow
@pytest.mark.parametrize("path", [(), ("--path", "weight")])
def test_what_was_skipped_shows_in_the_status(path, tiny_folder, tmp_path, run):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "x", "brand": "Nokia"}\n{"id": "y", \n')
    of = ("belief", tiny_folder, broken, "--id", "x", *path)
    assert run(*of)[0] == 2
    status, said, _ = run(*of, "--skip-errors")
    assert (status, "Nokia" in said or "weight" in said) == (1, True)


def test_the_place_of_ids_can_be_told(tiny_folder, tmp_path, run):
    file = tmp_path / "phones.jsonl"
    file.write_text('{"meta": {"key": "p1"}, "brand": "Nokia"}\n')
    assert run("belief", tiny_folder, file, "--id", "p1", "--id-path", "meta.key", "--path", "brand")[0] == 0


# ---------------------------------------------------------------- charts


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.0312, "3.1 %"),
        (0.5, "50 %"),
        (0.955, "95.5 %"),
        (0.99999, ">99.9 %"),
        (1, "100 %"),
    ],
)
def test_shares_have_digits_where_they_matter(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(("step", "found"), [(0.3, 0.5), (1, 1), (1.1, 2), (7, 10), (130, 200), (0, 1), (math.nan, 1)])
def test_steps_are_round(step, found):
    assert round_step(step) == pytest.approx(found)
    assert round_step(step, is_whole=True) >= 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(12, "12"), (12.0, "12"), (0.123412, "0.1234"), (12345.6, "12346"), (3e12, "3e+12"), (-0.5, "-0.5")],
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text


def test_bars_are_as_long_as_their_share():
    assert blocks(1) == "█" * 30
    assert blocks(0.5) == "█" * 15
    assert blocks(0) == ""


def test_a_number_far_off_has_a_bar_all_the_same():
    flat = SimpleNamespace(
        kind="number",
        median=5.0,
        mode=5.0,
        given=1e6,
        quantile=lambda level: 10 * level,
        cdf=lambda x: min(max(x / 10, 0), 1),
    )
    *_, last = bars(flat)
    assert (last.is_given, last.mark) == (True, "given")
    assert last.label.startswith("from ")
