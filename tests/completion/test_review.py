"""A review is a table of what was proposed; what people decide in it is written, and remembered."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from completed import complete, rows
from hypothesis import given as examples
from hypothesis import strategies as st
from reviews import ACCEPT, NOTHING, REJECT, cells, correct, decide, propose

import kbdisk
from kbdisk.completion.answers import REJECTED, Answer, Answers, answers_in_blocks, answers_of
from kbdisk.completion.apply import corrected_value
from kbdisk.completion.review import Reviewed, ReviewRow, read_review, write_review
from kbdisk.completion.sidecar import given_entities
from kbdisk.entity import Coordinate, Date, Entity, Filled, Link, Quantity, Text, show

PHONES = Path(__file__).parents[2] / "examples" / "phones.jsonl"
E = "http://ex.org/"
TURTLE = f"""@prefix : <{E}> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:size rdfs:label "how large" .
:France rdfs:label "France" .
:a a :Thing ; rdfs:label "Thing A" ; :size 1 ; :born "1990"^^xsd:gYear ; :in :France .
:b a :Thing ; rdfs:label "Thing B" .
:c a :Thing .
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---------------------------------------------------------------- the file


def test_a_row_tells_people_what_is_proposed_with_labels_beside_ids():
    Path("kb.ttl").write_text(TURTLE)
    propose("kb.ttl", "review.csv", {E + "b": {"size": 7, "in": Link(E + "France")}})
    size, place = cells("review.csv")
    told = ("id", "label", "class", "path", "property", "value", "confidence", "low", "high", "within", "reason")
    expected = [E + "b", "Thing B", E + "Thing", "size", "how large", "7", "0.75", "0.5", "12.25", "0.5", "written"]
    assert [size[name] for name in told] == expected
    assert (place["value"], place["value_label"]) == (E + "France", "France")
    assert (size["source"], size["decision"], size["correction"]) == ("kb.ttl", "", "")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=9)


@examples(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3), st.sampled_from(["csv", "tsv", "jsonl"]))
def test_what_is_written_is_read_again_whatever_the_texts(tmp_path_factory, texts, suffix):
    name = str(tmp_path_factory.mktemp("review") / f"r.{suffix}")
    told = [
        ReviewRow(
            id,
            "x",
            value,
            decision="accept",
            correction=text,
            fingerprint="x1",
            row={"id": id, "path": "x", "value": value},
        )
        for id, value, text in texts
    ]
    with Path(name).open("wb") as stream:
        assert write_review(stream, name, told, Reviewed("kb.csv", "0" * 64)) == len(told)
    about, found = read_review(name)
    assert about == Reviewed("kb.csv", "0" * 64)
    assert [(one.id, one.row["value"], one.value, one.correction) for one in found] == [
        (one.id, one.value, one.value, one.correction) for one in told
    ]


def test_no_cell_of_a_review_is_run_by_a_spreadsheet():
    Path("kb.jsonl").write_text('{"id": "=1+1", "x": "y"}\n{"id": "b", "x": null}\n')
    propose("kb.jsonl", "review.csv", {"=1+1": {"note": "@SUM(A1)"}, "b": {"n": -5}})
    risky, plain = cells("review.csv")
    assert (risky["id"], risky["value"], plain["value"]) == ("'=1+1", "'@SUM(A1)", "-5")
    assert [one.row["value"] for one in read_review("review.csv")[1]] == ["@SUM(A1)", -5]


SAVED = [
    {},
    {"delimiter": ";", "lineterminator": "\r\n"},
    {"delimiter": "\t", "encoding": "utf-16"},
    {"delimiter": ";", "encoding": "cp1252", "quoting": csv.QUOTE_ALL},
    {"lineterminator": "\n", "encoding": "utf-8"},
]


@pytest.mark.parametrize("how", SAVED)
def test_a_review_survives_what_spreadsheets_do_when_they_save_it(run, how):
    Path("kb.csv").write_text("sku;größe;farbe\n00123;;rot\n00124;2;grün\n")
    propose("kb.csv", "review.csv", {"00123": {"größe": 3}, "00124": {"note": "weiß"}}, id="sku")
    decide("review.csv", {"id": "123", "value": "3,0", **ACCEPT}, NOTHING, **how)
    assert run("apply", "review.csv", "--out", "done.csv")[0] == 0
    assert Path("done.csv").read_text() == "sku;größe;farbe\n00123;3;rot\n00124;2;grün\n"


# ---------------------------------------------------------------- deciding


def test_accepted_and_corrected_values_are_written_and_the_rest_is_not(run):
    Path("kb.jsonl").write_text('{"id": "a", "n": null, "s": ""}\n{"id": "b", "n": 2.5}\n{"id": "c", "n": 1}\n')
    values = {"a": {"n": 7, "t": "x"}, "b": {"part.m": 3, "t": "y"}}
    propose("kb.jsonl", "review.csv", values)
    decide("review.csv", correct("8,5"), REJECT, ACCEPT, NOTHING)
    status, out, err = run("apply", "review.csv", "--out", "done.jsonl")
    assert (status, out) == (0, "")
    assert err == (
        "wrote done.jsonl: 1 accepted, 1 corrected, 1 rejected; 1 row undecided\n"
        "answers are remembered in kb.jsonl.reviewed.jsonl\n"
    )
    after = '{"id": "a", "n": 8.5, "s": ""}\n{"id": "b", "n": 2.5, "part": {"m": 3}}\n{"id": "c", "n": 1}\n'
    assert Path("done.jsonl").read_text() == after
    corrected, accepted = rows("done.jsonl")
    assert (corrected["path"], corrected["value"], corrected["reviewed"]) == ("n", 8.5, "corrected")
    assert "confidence" not in corrected
    assert (accepted["path"], accepted["value"], accepted["reviewed"]) == ("part.m", 3, "accepted")
    remembered = [json.loads(line) for line in Path("kb.jsonl.reviewed.jsonl").read_text().splitlines()]
    assert [(one["path"], one["value"], one["answer"]) for one in remembered] == [
        ("n", 7, "corrected"),
        ("t", "x", "rejected"),
        ("part.m", 3, "accepted"),
    ]
    assert Path("done.jsonl.reviewed.jsonl").read_bytes() == Path("kb.jsonl.reviewed.jsonl").read_bytes()


@pytest.mark.parametrize("source", ["kb.ttl", "kb.jsonl"])
def test_a_corrected_value_is_given_from_then_on_and_no_retraction_takes_it(run, source):
    Path("kb.ttl").write_text(TURTLE)
    Path("kb.jsonl").write_text(f'{{"id": "{E}b", "size": null}}\n{{"id": "{E}a", "size": 1}}\n')
    before = Path(source).read_bytes()
    propose(source, "review.csv", {E + "b": {"size": 7}, E + "a": {"in": "x"} if source == "kb.jsonl" else {"age": 3}})
    decide("review.csv", *([correct("9"), NOTHING] if source == "kb.jsonl" else [NOTHING, correct("9")]))
    assert run("apply", "review.csv", "--in-place")[0] == 0
    entity = next(one for one in given_entities(kbdisk.load(source)) if one.id == E + "b")
    assert (entity.tree["size"], entity.made) == (9, None)
    assert Path(f"{source}.before").read_bytes() == before
    after = Path(source).read_bytes()
    assert run("retract", source)[:2] == (0, "")
    assert Path(source).read_bytes() == after
    assert [row["reviewed"] for row in rows(source)] == ["corrected"]


def test_an_accepted_value_is_taken_out_by_a_retraction_as_kbdisk_filled_it_in(run):
    Path("kb.ttl").write_text(TURTLE)
    propose("kb.ttl", "review.csv", {E + "b": {"size": 7}, E + "c": {"size": 8}})
    decide("review.csv", ACCEPT, correct("9"))
    assert run("apply", "review.csv", "--out", "done.ttl")[0] == 0
    assert run("retract", "done.ttl") == (0, "", "took 1 value out of done.ttl\n")
    left = {one.id: one for one in given_entities(kbdisk.load("done.ttl"))}
    assert ("size" in left[E + "b"].tree, left[E + "c"].tree["size"]) == (False, 9)


def test_the_target_of_the_completion_is_that_of_the_review(run):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5}}, target="done.csv")
    decide("review.csv", ACCEPT)
    assert run("apply", "review.csv")[0] == 0
    assert Path("done.csv").read_text() == "id,x\na,5\nb,2\n"
    status, _, err = run("apply", "review.csv")
    assert (status, err) == (2, "error: done.csv: exists already. Say --force to replace it.\n")
    assert run("apply", "review.csv", "--force")[0] == 0


def test_a_review_is_applied_once_however_often_it_is_asked_for(run):
    Path("kb.csv").write_text("id,x,y\na,,\nb,2,3\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5, "y": 6}})
    decide("review.csv", ACCEPT, NOTHING)
    assert run("apply", "review.csv", "--in-place")[0] == 0
    after = Path("kb.csv").read_bytes()
    decide("review.csv", ACCEPT, correct("7"))
    assert run("apply", "review.csv", "--in-place")[0] == 0
    assert Path("kb.csv").read_bytes() == after.replace(b"a,5,", b"a,5,7")
    assert run("apply", "review.csv", "--in-place", "-q") == (0, "", "")


def test_only_rejections_change_no_file_but_what_is_remembered(run):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5}})
    decide("review.csv", REJECT)
    status, _, err = run("apply", "review.csv")
    assert (status, err.splitlines()[0]) == (0, "1 rejected: nothing to write")
    assert [one.answer for one in answers_of("kb.csv").rows.values()] == [REJECTED]
    assert Path("kb.csv").read_text() == "id,x\na,\nb,2\n"


def test_the_rest_of_the_source_may_change_but_not_the_place_of_a_value(run):
    Path("kb.csv").write_text("id,x,y\na,,1\nb,2,\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5}, "b": {"y": 6}})
    decide("review.csv", ACCEPT, NOTHING)
    Path("kb.csv").write_text("id,y,x\nb,3,20\nnew,7,8\na,1,\n")
    assert run("apply", "review.csv", "--out", "done.csv")[0] == 0
    assert Path("done.csv").read_text() == "id,y,x\nb,3,20\nnew,7,8\na,1,5\n"
    decide("review.csv", ACCEPT, ACCEPT)
    status, out, err = run("apply", "review.csv", "--out", "other.csv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        "error: review.csv, row 3: expected y of b as it was when this was proposed, got another value"
    )
    assert not Path("other.csv").exists()


# ---------------------------------------------------------------- corrections

PROPOSED = [
    (7, {"kind": "number"}, "8", 8),
    (7, {"kind": "number"}, "8,25", 8.25),
    (True, {"kind": "boolean"}, "No", False),
    (Date(1990), {}, "1912-11-28", Date(1912, 11, 28)),
    (Date(1990), {}, "3.4.1999", Date(1999, 4, 3)),
    ("1990-01-02", {"kind": "date"}, "3.4.1999", "1999-04-03"),
    (Quantity(5, "kg"), {"kind": "quantity"}, "6.5", Quantity(6.5, "kg")),
    (Quantity(5, "kg"), {"kind": "quantity"}, "600 g", Quantity(600, "g")),
    ("5 kg", {"kind": "quantity"}, "600 g", "600 g"),
    (Coordinate(1, 2), {}, "52.5, 13.4", Coordinate(52.5, 13.4)),
    (Link("x"), {"kind": "link"}, "y", Link("y")),
    ("x", {"kind": "link"}, "y", "y"),
    (Text("word", "de"), {}, "Wort", Text("Wort", "de")),
    ("red", {"kind": "category", "values": ["red", "blue"], "closed": True}, "blue", "blue"),
    (["a"], {}, '["b", "c"]', ["b", "c"]),
]
WRONG = [
    (7, {"kind": "number"}, "abc", "expected a number, got 'abc'"),
    (7, {"kind": "number", "integer": True}, "1.5", "expected a whole number, got 1.5"),
    (7, {"kind": "number", "maximum": 12}, "13", "expected a number of at most 12, got 13"),
    (True, {}, "maybe", "expected true or false, got 'maybe'"),
    (Date(1990), {}, "31 May", "expected a date such as 1912-11-28, 1912-11 or 1912, got '31 May'"),
    ("1990", {"kind": "date"}, "1999-13-01", "expected a date such as 1912-11-28, 1912-11 or 1912, got '1999-13-01'"),
    (Quantity(5, "kg"), {"kind": "quantity"}, "heavy", "expected a number with a unit such as 5 kg, got 'heavy'"),
    (Link("x"), {"kind": "link"}, "z", "expected the id of an entity such as x, got 'z'"),
    (
        "red",
        {"kind": "category", "values": ["red", "blue"], "closed": True},
        "tall",
        "expected one of red, blue, got 'tall'",
    ),
    (["a"], {}, "b", "expected a list in JSON, got 'b'"),
]


@pytest.mark.parametrize(("proposed", "expected", "text", "value"), PROPOSED)
def test_a_correction_is_read_as_the_kind_of_the_property(proposed, expected, text, value):
    assert corrected_value(text, proposed, expected, lambda: {"x", "y"}) == value


@pytest.mark.parametrize(("proposed", "expected", "text", "told"), WRONG)
def test_a_correction_that_is_none_is_told_in_a_sentence(proposed, expected, text, told):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        corrected_value(text, proposed, expected, lambda: {"x", "y"})
    assert str(raised.value) == told


BAD = [
    ([correct("abc"), NOTHING], "review.csv, row 2: expected a number, got 'abc'. Mend the cell, or empty it."),
    (
        [NOTHING, {"decision": "ok"}],
        "review.csv, row 3: expected accept, reject or nothing as decision, got 'ok'. Mend the cell, or empty it.",
    ),
    (
        [{**REJECT, **correct("3")}, ACCEPT],
        "review.csv, row 2: expected no correction beside reject, got '3'. Leave one out.",
    ),
    (
        [{"row": "{}"}, ACCEPT],
        "review.csv, row 2: expected the content that kbdisk wrote in the column 'row', got something else. Take it from the review as"
        " it was written.",
    ),
]


@pytest.mark.parametrize(("decisions", "told"), BAD)
def test_a_row_that_makes_no_sense_gets_one_line_and_nothing_is_written(run, decisions, told):
    Path("kb.csv").write_text("id,x\na,\nb,2\nc,\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5}, "c": {"x": 6}})
    decide("review.csv", *decisions)
    files = set(Path().iterdir())
    assert run("apply", "review.csv", "--in-place") == (2, "", f"error: {told}\n")
    assert set(Path().iterdir()) == files
    assert Path("kb.csv").read_text() == "id,x\na,\nb,2\nc,\n"


def test_a_file_that_is_no_review_and_a_source_that_is_gone_are_told(run):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    status, _, err = run("apply", "kb.csv", "--in-place")
    assert (status, err.count("\n")) == (2, 1)
    assert "expected a review that kbdisk complete --review wrote, got a file without the column 'decision'" in err
    propose("kb.csv", "review.csv", {"a": {"x": 5}})
    decide("review.csv", ACCEPT)
    Path("kb.csv").rename("moved.csv")
    status, _, err = run("apply", "review.csv", "--in-place")
    assert (status, "expected its source kb.csv there" in err) == (2, True)
    assert run("apply", "review.csv", "--in-place", "--source", "moved.csv")[0] == 0
    assert Path("moved.csv").read_text() == "id,x\na,5\nb,2\n"


# ---------------------------------------------------------------- with a model


@pytest.fixture
def phones(run, tiny_folder) -> Callable:
    """Complete a few phones with a model of them."""
    lines = PHONES.read_text().splitlines(keepends=True)
    Path("phones.jsonl").write_text("".join(lines[:12]))
    shutil.copytree(tiny_folder, "phones.kbdisk")
    return partial(run, "complete", "phones.jsonl", "--model", "phones.kbdisk")


def test_a_review_with_all_accepted_comes_to_what_completing_writes(run, phones):
    assert phones("--out", "done.jsonl")[0] == 0
    status, out, err = phones("--review", "review.csv")
    assert (status, out) == (0, "")
    assert "nothing was written but review.csv" in err
    every = cells("review.csv")
    proposed = [row for row in every if row["reason"] == "written"]
    assert [(row["id"], row["path"]) for row in proposed] == [(row["id"], row["path"]) for row in rows("done.jsonl")]
    decide("review.csv", *(ACCEPT if row["reason"] == "written" else NOTHING for row in every))
    assert run("apply", "review.csv", "--out", "applied.jsonl")[0] == 0
    assert Path("applied.jsonl").read_bytes() == Path("done.jsonl").read_bytes()


def test_what_is_held_back_stands_in_the_review_with_its_reason_the_surest_first_and_may_be_accepted(run, phones):
    confidences = [row["confidence"] for row in cells_of(phones)]
    middle = sorted(map(float, confidences))[len(confidences) // 2]
    assert phones("--review", "some.csv", "--min-confidence", middle)[0] == 0
    every = cells("some.csv")
    held_back = [row for row in every if row["reason"] != "written"]
    assert f"confidence below {middle:g}" in {row["reason"] for row in held_back}
    assert len(held_back) < len(every)
    sure = [float(row["confidence"]) for row in held_back]
    assert sure == sorted(sure, reverse=True)
    assert all(
        float(row["presence"]) * float(row["correctness"]) == pytest.approx(float(row["confidence"]), rel=1e-4)
        for row in every
    )
    decide("some.csv", *(ACCEPT if row is held_back[0] else NOTHING for row in every))
    assert run("apply", "some.csv", "--out", "applied.jsonl")[0] == 0
    [row] = rows("applied.jsonl")
    assert (row["id"], row["path"], row["reviewed"]) == (held_back[0]["id"], held_back[0]["path"], "accepted")


def cells_of(phones: Callable) -> list[dict[str, str]]:
    """All that would be written of some phones."""
    assert phones("--review", "all.csv")[0] == 0
    return [row for row in cells("all.csv") if row["reason"] == "written"]


def test_a_rejected_value_is_held_back_from_then_on_and_the_summary_says_why(run, phones):
    phones("--review", "review.jsonl")
    lines = [json.loads(line) for line in Path("review.jsonl").read_text().splitlines()]
    rejected = [(one["id"], one["path"]) for one in lines[:5]]
    text = "".join(json.dumps(one | {"decision": "reject" if n < 5 else ""}) + "\n" for n, one in enumerate(lines))
    Path("review.jsonl").write_text(text)
    assert run("apply", "review.jsonl")[0] == 0
    status, out, _ = phones("--dry-run", "--json")
    assert status == 0
    told = json.loads(out)
    assert not {(row["id"], row["path"]) for row in told["values"]} & set(rejected)
    assert sum(one["held_back"].get("rejected in review", 0) for one in told["properties"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--review", "r.xlsx"], "error: --review: expected a name that ends in .csv, .tsv, .jsonl, got 'r.xlsx'."),
        (["--review", "r.csv", "--in-place"], "error: --in-place: changes SOURCE before it is reviewed."),
        (["--review", "no/r.csv"], "error: no/r.csv: cannot be written: no such directory"),
        (["--review", "there.csv"], "error: there.csv: exists already, with what was decided in it."),
    ],
)
def test_a_review_that_cannot_be_is_refused_before_any_work(phones, options, told):
    Path("there.csv").write_text("decided")
    status, out, err = phones(*options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(told)
    assert Path("there.csv").read_text() == "decided"


# ---------------------------------------------------------------- answers in blocks


def in_blocks(edit: Callable[[str], str]) -> Sequence[tuple[str, str]]:
    """What is answered by an edit of a completed file: the paths, each with the answer."""
    Path("kb.ttl").write_text(TURTLE)
    values = {E + "b": {"size": 7, "born": Date(2001), "in": Link(E + "France")}, E + "c": {"size": 8}}
    complete("kb.ttl", "done.ttl", values)
    Path("done.ttl").write_text(edit(Path("done.ttl").read_text()))
    answers = answers_in_blocks(kbdisk.load("done.ttl"), "now")
    return [(show(one.path), one.answer) for one in answers.values()]


def test_what_is_moved_out_of_a_block_is_accepted_and_what_is_deleted_from_it_rejected():
    assert in_blocks(lambda text: text) == []
    moved = f"<{E}b> <{E}size> 7 .\n"
    assert in_blocks(
        lambda text: text.replace(":size 7 ;", "").replace("# kbdisk: begin", f"{moved}# kbdisk: begin")
    ) == [("size", "accepted")]
    assert in_blocks(lambda text: text.replace(":size 7 ;", "")) == [("size", "rejected")]


def test_what_is_changed_in_a_block_or_stands_in_another_file_of_its_name_answers_nothing():
    assert in_blocks(lambda text: text.replace(":size 7 ;", ":size 70 ;")) == []
    assert in_blocks(lambda text: TURTLE) == []


def test_the_next_completion_remembers_what_was_deleted_from_a_block(run, tmp_path):
    lines = [f":t{n} a :Thing ; :n {n} ; :twice {2 * n} ." for n in range(40)]
    Path("kb.ttl").write_text(
        f"@prefix : <{E}> .\n" + "\n".join(lines) + "\n:u a :Thing ; :n 5 .\n:v a :Thing ; :n 6 .\n"
    )
    complete("kb.ttl", "kb.ttl", {E + "u": {"twice": 10}, E + "v": {"twice": 12}}, in_place=True)
    Path("kb.ttl").write_text(
        "".join(line for line in Path("kb.ttl").read_text().splitlines(True) if ":twice 12" not in line)
    )
    status, _, err = run("complete", "kb.ttl", "--in-place", "--preset", "fast", "--budget", "0.3s", "--json")
    assert status == 0, err
    assert [(one.id, one.answer) for one in answers_of("kb.ttl").rows.values()] == [(E + "v", REJECTED)]
    assert E + "v" not in {row["id"] for row in rows("kb.ttl")}
    assert ":v :twice 12" not in Path("kb.ttl").read_text()


# ---------------------------------------------------------------- what counts as rejected


@pytest.mark.parametrize(
    ("value", "within", "other", "is_held"),
    [
        (5, None, 5.0, True),
        (5, 0.5, 5.4, True),
        (5, 0.5, 5.6, False),
        (Quantity(5, "kg"), 1.0, Quantity(5.5, "kg"), True),
        (Quantity(5, "kg"), 1.0, Quantity(5.5, "g"), False),
        (Date(1990), 2.0, Date(1991), True),
        (Date(1990, 5), 2.0, Date(1991, 5), False),
        ("a", None, "b", False),
        (Link("a"), None, Link("a"), True),
        (1, None, True, False),
    ],
)
def test_a_value_counts_as_rejected_where_it_would_count_as_the_same(value, within, other, is_held):
    answers = Answers()
    answers.add([Answer("e", ("x",), value, REJECTED, within)])
    try:
        answers.refuse_rejected(Entity("e"), {("x",): Filled(other)})
        held = False
    except ValueError as error:
        held = str(error) == "rejected in review"
    assert held is is_held
    answers.refuse_rejected(Entity("f"), {("x",): Filled(value)})


def test_a_broken_file_of_answers_is_named_with_its_line(run, phones):
    Path("phones.jsonl.reviewed.jsonl").write_text('{"id": "a", "path": "x", "value": 1, "answer": "maybe"}\n')
    status, _, err = phones("--dry-run")
    assert (status, err.splitlines()[-1][:36]) == (2, "error: phones.jsonl.reviewed.jsonl:1")


def test_the_summary_for_programs_counts_the_answers(run):
    Path("kb.csv").write_text("id,x,y\na,,\nb,2,3\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5, "y": 6, "z": 7}})
    decide("review.csv", ACCEPT, correct("7"), ACCEPT)
    status, out, _ = run("apply", "review.csv", "--out", "done.csv", "--json")
    told = json.loads(out)
    assert (status, told["written"], told["accepted"], told["corrected"], told["rejected"]) == (1, 2, 2, 1, 0)
    assert [(one["id"], one["path"]) for one in told["unwritable"]] == [("a", "z")]


def test_options_that_are_none_of_reading_are_not_taken_from_a_review(run):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    propose("kb.csv", "review.csv", {"a": {"x": 5}})
    decide("review.csv", ACCEPT | {"options": '{"in_place": true}'})
    status, _, err = run("apply", "review.csv", "--out", "done.csv")
    assert (status, "expected options that kbdisk wrote, got 'in_place'" in err) == (2, True)
