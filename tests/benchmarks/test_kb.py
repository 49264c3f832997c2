"""`python -m benchmarks kb`: what is hidden, how answers are scored, and that a stopped run goes on."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import rich_click as click

import kbdisk
from benchmarks.cli import main
from benchmarks.features import Features
from benchmarks.kb import KBOptions, identity, interval, masked_entities, run, score, tables
from benchmarks.masking import Cell, Masked, Values, mask, property_name, read_hidden, without
from benchmarks.progress import Progress
from benchmarks.results import Result, Row, Unfinished
from benchmarks.tasks import Scale, Task
from kbdisk.entity import Coordinate, Date, Entity, Link, Quantity, at, walk
from kbdisk.training import loop


def towns(count: int = 60) -> list[Entity]:
    """Towns with a name, a number, a length in metres, a date, a place, a country and symmetric links to a twin."""
    entities = []
    for n in range(count):
        tree = {
            "name": f"Town {n}",
            "people": 10 ** (2 + n % 4),
            "height": Quantity(n % 7, "m"),
            "founded": Date(1900 + n % 50),
            "at": Coordinate(n % 9, n % 5),
            "country": Link(f"country/{n % 3}"),
            "twin": Link(f"town/{n ^ 1}"),
            "mayors": [{"since": Date(2000 + n % 9)}, {"since": Date(2010)}],
            "colours": ["red", "blue"],
        }
        entities.append(Entity(f"town/{n}", tree, ("Town",), label=f"Town {n}"))
    return entities


def test_what_is_hidden_is_gone_with_its_inverse_and_nothing_else_is():
    entities = towns()
    masked = mask(entities, 0.3, "test 0")
    gone = {(cell.entity, cell.path) for cell in masked.cells}
    twins = {(place ^ 1, path) for place, path in gone if path == ("twin",)}
    assert {property_name(cell.property) for cell in masked.cells} == {
        "people", "height", "founded", "at (latitude)", "at (longitude)", "country", "mayors[].since"
    }  # fmt: skip
    for place, (before, after) in enumerate(zip(entities, masked.entities, strict=True)):
        left = dict(walk(after.tree))
        for path, value in walk(before.tree):
            if (place, path) not in gone | twins:
                assert left.pop(path) == value
            elif isinstance(value, Quantity):
                assert left.pop(path) == Quantity(None, "m")
        assert not left
    assert 0.2 < len(gone) / (60 * 7) < 0.4


def test_a_hidden_link_takes_the_link_back_with_it():
    entities = towns()
    left = without(entities, [Cell(4, ("twin",), (("twin",), "", "label"), "town/5")])
    assert [place for place, one in enumerate(left) if "twin" not in one.tree] == [4, 5]
    country = Entity("country/0", {"capital": Link("town/4")})
    left = without([*entities, country], [Cell(4, ("country",), (("country",), "", "label"), "country/0")])
    assert "capital" in left[-1].tree  # which says something else than the country of every town


def test_a_mask_is_the_same_whatever_else_there_is_and_another_seed_is_another_mask():
    def drawn(entities, seed):
        return {(entities[cell.entity].id, cell.path) for cell in mask(entities, 0.2, seed).cells}

    entities = towns()
    assert drawn(entities, "a") == drawn(entities[::-1], "a") != drawn(entities, "b")


def test_validation_never_asks_for_what_test_hides():
    kb = kbdisk.load(towns())
    test = masked_entities(kb, towns(), KBOptions(), 0)
    validation = masked_entities(kb, towns(), KBOptions(validation=True), 0)
    scored, hidden = ({(cell.entity, cell.path) for cell in one.cells} for one in (validation, test))
    assert scored
    assert scored.isdisjoint(hidden)
    assert all(
        path not in dict(walk(validation.entities[place].tree))
        for place, path in hidden - {(p, ("height",)) for p in range(60)}
    )


def test_blank_strings_are_gaps_and_no_values():
    entities = [Entity(f"e{n}", {"group": "xy "[n % 3].strip()}) for n in range(90)]
    assert {cell.truth for cell in mask(entities, 0.5, "0").cells} == {"x", "y"}


def test_in_a_table_a_hidden_value_leaves_a_blank_cell(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,y\n" + "".join(f"{n},{n % 4},{n % 3}\n" for n in range(40)))
    kb = kbdisk.load(tmp_path / "t.csv")
    masked = masked_entities(kb, list(kb), KBOptions(share=0.5), 0)
    assert masked.cells
    assert all(at(masked.entities[cell.entity].tree, cell.path) is None for cell in masked.cells)


def test_strings_that_read_as_numbers_or_dates_are_scored_as_such():
    values = Values([Entity("a", {"born": "1850-07-01", "year": "1902", "city": "Bonn", "died": "0000-00-00"})])
    found = {
        property_name(of): (of[2], scalar)
        for _, of, scalar in values.of(
            Entity("a", {"born": "1850-07-01", "year": "1902", "city": "Bonn", "died": "0000-00-00"})
        )
    }
    assert found == {"born": ("number", 1850.5), "year": ("number", 1902.0), "city": ("label", "Bonn")}


# ---------------------------------------------------------------- scores


def test_errors_are_over_the_constants_and_what_is_empty_is_answered_by_the_constant():
    number, label = (("x",), "", "number"), (("y",), "", "label")
    cells = [Cell(0, ("x",), number, truth) for truth in (2.0, 6.0)] + [
        Cell(1, ("y",), label, truth) for truth in "aab"
    ]
    tasks = [
        Task(number, [], [3.0, 4.0, 9.0], [0, 1], Scale()),  # constant 4: off by 2 and by 2
        Task(label, [], ["a", "a", "b"], [2, 3, 4]),  # constant a: wrong once
    ]
    scored = score(Masked([], cells), tasks, {0: 3.0, 2: "b", 3: "a", 4: "b"})
    assert scored["x"] == ([1.0, 2.0], [2.0, 2.0], 1, "number")
    assert scored["x"].ratio == 0.75
    assert scored["y"] == ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], 3, "label")
    assert scored["y"].ratio == 1.0


@pytest.mark.parametrize(
    ("known", "is_log"),
    [
        ([1, 2, 3, 300], True),
        ([0, *[1] * 10, *[100] * 9], True),
        ([0, 1, 1000], False),
        ([-1, 1, 1000], False),
        ([5, 6, 40], False),
    ],
)
def test_values_over_more_than_a_decade_are_compared_by_their_logarithm(known, is_log):
    scale = Scale.of([float(one) for one in known])
    assert scale.is_log is is_log
    assert scale.to(10.0) == (math.log(10) if is_log else 10)
    assert scale.back(scale.to(37.0)) == 37


def test_the_interval_of_a_difference_tells_what_chance_would_not():
    assert interval([1.0] * 30) == (1.0, 1.0)
    low, high = interval([1.0, -1.0] * 30)
    assert low < 0 < high


def test_a_table_compares_ours_with_catboost_over_all_masks():
    def result(method, seed, error):
        details = {"errors": {"x": [error] * 50}, "constant": {"x": [2.0] * 50}, "filled": {"x": 40}}
        return Result("kb", method, [Row("x", error / 2, 50)], seed=seed, setting="s", preset="default" if method == "ours" else "", details=details)  # fmt: skip

    (table,) = tables(
        [result("ours", 0, 1.0), result("catboost", 0, 0.5), result("ours", 1, 0.0), result("catboost", 1, 1.0)]
    )
    assert table.header == ["property", "hidden", "filled", "ours, default", "catboost", "beside catboost"]
    assert table.rows == [["x", "50", "40", "0.25", "0.38", "better"]]
    assert "ours, default: mean over the 1 properties with 20 hidden values or more 0.250" in table.notes[0]
    assert "At or below catboost in 1 of 1" in table.notes[2]


# ---------------------------------------------------------------- the command


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"e{n}", "x": n % 10, "y": "ab"[n % 2]}) for n in range(60)]
    (tmp_path / "kb.jsonl").write_text("\n".join(lines))
    (tmp_path / "gone.tsv").write_text('e1\tx\t77\ne2\ty\t"a"\nelsewhere\tx\t1\n')
    return tmp_path / "kb.jsonl"


CALL = ("kb", "kb.jsonl", "--not-ours", "--against", "constant", "--out", "r", "-q")


def stored() -> list[dict]:
    return [json.loads(line) for line in Path("r/kb.jsonl").read_text().splitlines()]


def test_a_run_that_was_stopped_goes_on_with_the_results_that_it_has(source, run):
    options = KBOptions(against=("constant",), ours=False, masks=(0, 1))
    unfinished = Unfinished(Path("r/kb.kb.jsonl.unfinished.jsonl"), identity(kbdisk.load("kb.jsonl"), options), [])
    details = {"errors": {"x": [1.0]}, "constant": {"x": [1.0]}, "filled": {"x": 0}}
    unfinished.add(
        Result("kb", "constant", [Row("x", 0.123, 1)], seed=0, setting="kb.jsonl", split="0.15 hidden", details=details)
    )
    with unfinished.file.open("a") as stream:
        stream.write('{"bench": "k')  # cut short
    status, out, err = run(*CALL, "--mask", 0, "--mask", 1, "--json")
    assert status == 0, err
    assert [(one["mask"]) for one in json.loads(out)["runs"]] == [0, 1]
    assert json.loads(out)["properties"]["x"]["ratio"]["constant"] == (0.123 + 1) / 2
    assert [one["seed"] for one in stored()] == [1]
    assert not unfinished.file.exists()


def test_a_run_of_another_source_or_of_other_options_is_not_gone_on_with(source):
    one = Unfinished(Path("u.jsonl"), "a", [])
    one.add(Result("kb", "constant", []))
    assert len(Unfinished.of(Path("u.jsonl"), "a").results) == 1
    assert Unfinished.of(Path("u.jsonl"), "b").results == []
    kb = kbdisk.load("kb.jsonl")
    assert identity(kb, KBOptions()) != identity(kb, KBOptions(share=0.3))
    assert identity(kb, KBOptions(masks=(0,))) == identity(kb, KBOptions(masks=(1, 2)))


def test_a_file_of_hidden_values_is_read_in_the_words_of_the_source(tmp_path, source):
    turtle = "@prefix ex: <http://example.org/> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    (tmp_path / "kb.ttl").write_text(turtle + "ex:a ex:born 3 . ex:b ex:in ex:c .\n")
    (tmp_path / "gone.tsv").write_text('b\tex:born\t"1999"^^xsd:gYear\na\tex:in\tex:d\nz\tex:in\tex:d\n')
    kb = kbdisk.load("kb.ttl")
    entities = list(kb)
    cells = {
        (entities[cell.entity].id[-1], cell.path, cell.truth)
        for cell in read_hidden(tmp_path / "gone.tsv", kb, entities)
    }
    assert cells == {("b", ("born",), 1999.0), ("a", ("in",), "http://example.org/d")}


ROWS = [  # the option, arguments beside those of CALL, what is seen then of (status, out, err)
    ("--share", ("--share", "0.5"), lambda outcome: stored()[0]["rows"][0]["n"] > 20),
    ("--mask", ("--mask", "3", "--mask", "5"), lambda outcome: [one["seed"] for one in stored()] == [3, 5]),
    ("--hidden", ("--hidden", "gone.tsv"), lambda outcome: [row["n"] for row in stored()[0]["rows"]] == [1, 1]),
    ("--validation", ("--validation",), lambda outcome: stored()[0]["part"] == "validation"),
    ("--against", ("--against", "catbost"), lambda outcome: (outcome[0], "got 'catbost'. Did you mean 'catboost'?" in outcome[2]) == (2, True)),
    ("--not-ours", (), lambda outcome: [one["method"] for one in stored()] == ["constant"]),
    ("--budget", ("--budget", "9s"), lambda outcome: stored()[0]["told"] == " + 9s"),
    ("--out", ("--out", "elsewhere"), lambda outcome: Path("elsewhere/kb.jsonl").exists()),
    ("--json", ("--json",), lambda outcome: json.loads(outcome[1])["mean"] == {"constant": None}),
    ("--from", ("--from", "json"), lambda outcome: outcome[0] == 2),
    ("--quiet", (), lambda outcome: (outcome[0], outcome[2]) == (0, "")),
]  # fmt: skip
OF_OURS = {"--preset", "--device", "--verbose"}  # in the slow test below


@pytest.mark.parametrize(("option", "arguments", "is_seen"), ROWS, ids=[one[0] for one in ROWS])
def test_an_option_does_what_it_says(option, arguments, is_seen, source, run):
    outcome = run(*CALL, *arguments)
    assert is_seen(outcome), outcome


@pytest.mark.slow
def test_ours_is_completed_and_compared(source, run, monkeypatch):
    monkeypatch.setattr(loop, "MIN_STEPS", 1)  # the network is validated, however slow its steps are
    ours = ("kb", "kb.jsonl", "--against", "constant", "--out", "r", "--budget", "12s")
    status, out, err = run(*ours, "--preset", "fast", "--verbose")
    assert status == 0, err
    assert [(one["method"], one["preset"]) for one in stored()] == [("ours", "fast"), ("constant", "")]
    assert sum(stored()[0]["details"]["filled"].values()) > 0
    assert "ours, fast" in out.splitlines()[1]
    assert any(line.startswith("step ") for line in err.splitlines())
    assert not Path("r/kb.kb.jsonl.unfinished.kbdisk").exists()
    assert run(*ours, "--device", "tpu")[0] == 2


def test_every_option_has_a_row():
    from kbdisk.cli.options import SOURCE_OPTIONS

    reading = {name for option in SOURCE_OPTIONS for name in option(lambda: None).__click_params__[0].opts}
    own = {max(one.opts, key=len) for one in main.commands["kb"].params if isinstance(one, click.Option)}
    assert own - reading - OF_OURS == {option for option, *_ in ROWS} - reading


def test_a_source_without_anything_to_hide_is_refused(tmp_path, run):
    (tmp_path / "kb.jsonl").write_text('{"id": "a", "name": "A"}\n{"id": "b", "name": "B"}\n')
    status, _, err = run("kb", tmp_path / "kb.jsonl", "--not-ours", "--against", "constant", "--out", tmp_path)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "expected single values that can be hidden" in err


def test_results_that_are_done_are_not_measured_again(source):
    kb = kbdisk.load("kb.jsonl")
    options = KBOptions(against=("constant",), ours=False)
    (result,) = run(kb, options, lambda entities, seed: None, [], Progress())
    assert list(run(kb, options, lambda entities, seed: None, [result], Progress())) == []
    again = list(run(kb, replace(options, masks=(0, 1)), lambda entities, seed: None, [result], Progress()))
    assert [one.seed for one in again] == [1]


def test_features_are_values_classes_members_and_the_rest_of_a_part_but_no_id_or_text():
    entities = []
    for n, town in enumerate(towns(40)):
        tree = {**town.tree, "key": str(n), "story": f"{n} " + "long " * 20}
        entities.append(replace(town, id=str(n), tree=tree, classes=("Town", f"C{n % 2}")))
    features = Features(entities, Values(entities))
    table = features.table([(n, ("people",)) for n in range(40)], ("people",), 40)
    assert {"founded", "at (latitude)", "country, label", "= C0", "mayors[].since"} <= set(table)
    assert {"people", "key", "story, label"}.isdisjoint(table)
    part = [{**one.tree, "mayors": [{"since": n, "party": "ab"[n % 2]} for n in range(3)]} for one in entities]
    entities = [replace(one, tree=tree) for one, tree in zip(entities, part, strict=True)]
    places = [(n, ("mayors", k, "since")) for n in range(40) for k in range(3)]
    table = Features(entities, Values(entities)).table(places, ("mayors", "[]", "since"), 120)
    assert list(table["here: mayors[].party, label"][:3]) == ["='a'", "='b'", "='a'"]
    assert not [name for name in table if "since" in name]
