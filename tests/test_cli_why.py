"""kbdisk why: the reasons for a value on a screen, and as JSON."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from models import EXAMPLES

PHONES = str(EXAMPLES / "phones.jsonl")


@pytest.fixture
def why(tiny_folder, run):
    def why(*arguments, id="nokia-3310"):
        return run("why", PHONES, "--model", tiny_folder, "--id", id, *arguments)

    return why


def test_a_number_has_its_interval_the_parts_of_its_confidence_and_what_it_rests_on(why):
    status, screen, err = why("--path", "weight")
    assert (status, err) == (0, "")
    lines = screen.splitlines()
    assert lines[0] == "weight  of 3310  nokia-3310"
    for fact in (
        r"given +133 g; hidden for what follows",
        r"value +\S+ g, 90 % within \S+ … \S+",
        r"confidence +\S+ % = presence \S+ % x correctness \S+ %",
        r" +correct: within \S+ g of the truth",
        r"prediction by +weight +on its own",
        r"network +100 % +\S+ g",
        r"similar entity +similarity +its value",
    ):
        assert re.search(f"^{fact}", screen, re.MULTILINE), fact
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", ["brand", "networks", "launch", "size.height"])
def test_every_kind_fits_the_screen(why, path):
    status, screen, _ = why("--path", path)
    assert status == 0
    assert max(map(len, screen.splitlines())) <= 80


def test_a_missing_value_says_what_would_be_written(why):
    status, screen, _ = why("--path", "os")
    assert status == 0
    assert "given" not in screen.split("\n\n")[1]
    assert re.search(r"^value +\w+", screen, re.MULTILINE)


def test_json_has_the_same(why):
    found = json.loads(why("--path", "weight", "--json")[1])
    assert (found["id"], found["path"], found["kind"], found["unit"]) == ("nokia-3310", "weight", "quantity", "g")
    assert found["given"] == {"value": {"@quantity": 133, "@unit": "g"}, "by": "source", "hidden": True}
    assert found["confidence"] == found["presence"] * found["correctness"]
    assert found["interval"][0] < found["value"]["@quantity"] < found["interval"][1]
    assert found["predictors"][0]["weight"] == 1.0
    assert len(found["similar"]) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--path", "wieght"], "error: wieght: expected a property that the model knows. Did you mean 'weight'?"),
        (["--path", "size"], "error: size: expected one property, got several. Say one of size.height, "),
        (["--path", "id"], "error: id: expected a property that the model learnt, got the id of entities."),
        (["--path", "os", "--id", "palm-per"], "error: {}: no entity has the id 'palm-per'. Did you mean 'palm-pre'?"),
    ],
)
def test_mistakes_are_one_line(why, arguments, complaint):
    status, screen, err = why(*arguments)
    assert (status, screen) == (2, "")
    assert err.startswith(complaint.format(PHONES))
    assert err.count("\n") == 1


def test_the_model_beside_the_source_is_asked_or_that_by_which_it_was_completed(tiny_folder, tmp_path, run):
    source, completed = tmp_path / "phones.jsonl", tmp_path / "completed.jsonl"
    shutil.copy(PHONES, source)
    shutil.copy(PHONES, completed)
    status, _, err = run("why", source, "--id", "palm-pre", "--path", "os")
    assert status == 2
    assert "expected a model folder, as there is no phones.jsonl.kbdisk beside SOURCE. Say --model" in err
    shutil.copytree(tiny_folder, tmp_path / "phones.jsonl.kbdisk")
    row = {"id": "nokia-8110", "path": "launch.month", "value": 9, "model": {"name": "phones.jsonl.kbdisk"}}
    (tmp_path / "completed.jsonl.provenance.jsonl").write_text(json.dumps(row) + "\n")
    for file in (source, completed):
        assert run("why", file, "--id", "palm-pre", "--path", "os")[0] == 0


def test_what_was_filled_in_earlier_is_named(tiny_folder, tmp_path, run):
    target = tmp_path / "done.jsonl"
    assert (
        run("complete", PHONES, "--model", tiny_folder, "--out", target, "--fill", "all", "--only", "os", "-q")[0] == 0
    )
    row = json.loads((tmp_path / "done.jsonl.provenance.jsonl").read_text().splitlines()[0])
    status, screen, _ = run("why", target, "--model", tiny_folder, "--id", row["id"], "--path", "os")
    assert status == 0
    assert re.search(rf"^filled in +{row['value']}, by kbdisk earlier$", screen, re.MULTILINE)
    assert re.search(rf"^value +{row['value']}$", screen, re.MULTILINE)


def test_what_was_skipped_shows_in_the_status(tiny_folder, tmp_path, run):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "x", "brand": "Nokia"}\n{"id": "y", \n')
    asked = ("why", broken, "--model", tiny_folder, "--id", "x", "--path", "os")
    assert run(*asked)[0] == 2
    assert run(*asked, "--skip-errors")[0] == 1
