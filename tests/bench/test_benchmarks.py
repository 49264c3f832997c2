"""The scripts in `benchmarks`: what they hide, store, and make of stored results. What they train is tested elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kbdisk.bench.results import Result, Row
from kbdisk.entity import Date, Entity, at
from kbdisk.training.run import STACKED

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


def result(method: str, numbers: float, labels: float, **changes) -> Result:
    rows = [Row("size", numbers, 30), Row("colour", labels, 30), Row("rare", 5.0, 3)]
    details = {"kind": {"size": "number", "colour": "label", "rare": "number"}, "budget": 10.0}
    return Result("frontier", method, rows, **{"setting": "kb", "details": details, "seconds": 9.0} | changes)


def test_a_run_goes_on_with_its_own_results_alone(tmp_path):
    from common import Kept

    first = Kept(tmp_path, "frontier", ("kb", "10s", 0), "source one")
    first.add(result("ours", 0.5, 0.4))
    again = Kept(tmp_path, "frontier", ("kb", "10s", 0), "source one")
    assert [one.values for one in again.results] == [{"size": 0.5, "colour": 0.4, "rare": 5.0}]
    assert not Kept(tmp_path, "frontier", ("kb", "10s", 0), "source two").results
    again.end()
    assert not Kept(tmp_path, "frontier", ("kb", "10s", 0), "source one").results
    assert len((tmp_path / "frontier.jsonl").read_text().splitlines()) == 1


def test_the_frontier_shows_numbers_and_labels_apart_and_draws_them(tmp_path):
    from frontier import picture, table

    results = [result("ours", 0.5, 0.4), result("catboost", 0.6, 0.3), result("iterative", 0.4, 0.5)]
    results.append(result("ours", 0.7, 0.4, seed=1))
    (shown,) = table(results)
    assert shown.rows[0] == ["kb", "10 s", "ours", "0.500", "0.600", "0.400", "9", "2"]
    assert shown.notes == [
        "10 s: ours, numbers 0.600, the better of the others 0.400 (1 sources); "
        "labels 0.400, the better of the others 0.300 (1 sources)."
    ]
    assert picture(results, tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 0


def test_only_test_rows_of_an_untouched_table_have_hidden_cells():
    from untouched import masked_rows

    entities = [Entity(f"row{n}", {"a": n % 7, "b": "xy"[n % 2], "c": n / 3}) for n in range(400)]
    masked, is_test = masked_rows(entities, 0)
    assert 70 <= sum(is_test) <= 130
    assert all(is_test[cell.entity] for cell in masked.cells)
    assert 0.2 < len(masked.cells) / (3 * sum(is_test)) < 0.4
    assert all(at(masked.entities[cell.entity].tree, cell.path) is None for cell in masked.cells)
    rest = [(one, two) for one, two, test in zip(entities, masked.entities, is_test, strict=True) if not test]
    assert all(one == two for one, two in rest)


def test_the_ablation_leaves_out_each_expert_and_asks_each_alone():
    from ablation import CODE, lines_of_code, subsets, tables

    found = dict(subsets(["knn", "given_only"]))
    assert found == {
        "everything": ["knn", "given_only"], "without knn": ["given_only"], "without given_only": ["knn"],
        "network + knn": ["knn"], "network + given_only": ["given_only"], "network alone": [],
    }  # fmt: skip
    assert CODE.keys() == {*STACKED, "latent_knn", "second network"}
    assert all(lines_of_code(name) > 20 for name in CODE)
    details = {"nats": {"size": 2.0, "colour": 1.0, "rare": 9.0}, "fit": {"knn": 3.0}}
    several = [
        result("ours", error, error, setting=f"kb: {label}", details=details)
        for label, error in (("everything", 0.5), ("without knn", 0.6))
    ]
    (shown,) = tables(several)
    assert shown.rows[1][:6] == ["without knn", "0.600", "+0.100", "1.500", "+0.000", "3"]


@pytest.mark.slow
def test_an_ablation_of_a_small_table_scores_every_subset(tmp_path):
    rows = [f"{n % 7},{'xyz'[n % 3]},{n % 7 * 2 + n % 3}\n" for n in range(120)]
    (tmp_path / "t.csv").write_text("a,b,c\n" + "".join(rows))
    command = [sys.executable, SCRIPTS / "ablation.py", "t.csv", "--budget", "3s", "--values", "30", "--weighing", "1"]
    done = subprocess.run([*command, "--out", "r", "--quiet"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "everything" in done.stdout
    assert "network alone" in done.stdout
    assert not list((tmp_path / "r").glob("*unfinished*"))


def test_a_wrong_name_is_one_line(tmp_path, monkeypatch, capsys):
    from common import command_line
    from frontier import main

    monkeypatch.setattr(sys, "argv", ["frontier.py", "nothing.csv", "--out", str(tmp_path), "--quiet"])
    with pytest.raises(SystemExit) as ended:
        command_line(main)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: nothing.csv: ")
    assert said.count("\n") == 1


def test_absences_are_properties_that_entities_cannot_have_and_lack(monkeypatch, tmp_path):
    import precision

    monkeypatch.setattr(precision, "ABSENCES", tmp_path)
    (tmp_path / "kb.yaml").write_text(
        "- classes: [Island]\n  lack: [spouse, area]\n- where: {gender: org}\n  lack: [born]\n"
    )
    entities = [
        Entity("a", {"area": 3}, ("http://ex.org/Island",)),
        Entity("b", {"gender": "org"}),
        Entity("c", {"gender": "female"}, ("Person",)),
    ]
    assert set(precision.absences_of("kb", entities, 9, 0)) == {(0, ("spouse",)), (1, ("born",))}
    assert len(precision.absences_of("kb", entities, 1, 0)) == 1
    assert precision.absences_of("other", entities, 9, 0) == []


def test_right_is_the_same_label_the_stated_parts_of_a_date_and_a_number_near_enough():
    import precision

    from kbdisk.bench.imputers import Task
    from kbdisk.bench.masking import Cell, Values

    entities = [Entity(str(n), {"n": float(n), "d": Date(1900 + n), "c": "x"}) for n in range(40)]
    values = Values(entities)
    number, label = (("n",), "", "number"), (("c",), "", "label")
    task = Task(number, [], [float(n) for n in range(40)])

    def is_right(value, truth, of=number, task=task):
        return precision.is_right(task, Cell(0, of[0], of, truth), value, truth, values)

    assert is_right(11.9, 10.0)  # a tenth of the range of the middle half
    assert not is_right(12.1, 10.0)
    assert is_right("x", "x", label)
    assert not is_right("y", "x", label)
    assert is_right(Date(1912), Date(1912, 4, 15))
    assert not is_right(Date(1912, 5), Date(1912, 4, 15))
    assert is_right("1912-04", "1912-04-15")
    assert not is_right("1912-05-15", "1912-04-15")


def test_reliability_and_yield_are_those_of_the_statements():
    from precision import Statement, reliability, yield_at

    statements = [Statement(0.95, True, "label")] * 6 + [Statement(0.55, False, "label")] * 4
    assert yield_at(statements, 0.9) == 6
    assert yield_at(statements[::-1], 0.5) == 6
    assert reliability(statements) == pytest.approx(0.6 * 0.05 + 0.4 * 0.55)


@pytest.mark.slow
def test_the_precision_of_a_small_source_is_measured_beside_catboost(tmp_path, monkeypatch, capsys):
    import precision

    rows = [
        f'{{"id": "e{n}", "a": {n % 10}, "b": {2 * (n % 10) + 1}, "c": "{"xyz"[n % 3]}", "d": {n % 3}}}'
        for n in range(120)
    ]
    (tmp_path / "kb.jsonl").write_text("\n".join(rows) + "\n")
    options = ["--budget", "5s", "--quiet", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["precision.py", str(tmp_path / "kb.jsonl"), *options])
    precision.main()
    assert "Precision of what is written" in capsys.readouterr().out
    [found] = [json.loads(line) for line in (tmp_path / "precision.jsonl").read_text().splitlines()]
    figures = {row["name"]: row["value"] for row in found["rows"]}
    assert figures["hidden"] > 30
    assert figures["right"] <= figures["written"]


def test_a_shifted_split_trains_on_what_is_up_to_the_bound_and_holds_some_of_it_out():
    from shift import split

    entities = [Entity(f"e{n}", {"launch": {"year": 2000 + n % 20}}) for n in range(400)]
    entities += [Entity("d", {"launch": Date(2019)}), Entity("none", {"x": 1}), Entity("text", {"launch": "soon"})]
    training, like, shifted = split(entities, ("launch", "year"), 2009, 0)
    assert len(training) + len(like) == 200 == len(shifted)
    assert 5 <= len(like) <= 40
    assert all(entity.tree["launch"]["year"] <= 2009 for entity in (*training, *like))
    assert split(entities, ("launch",), 2009, 0)[2] == [entities[400]]


def test_a_statement_about_hidden_values_is_right_within_the_tolerance_beside_it():
    from precision import by_place
    from shift import statements_of

    from kbdisk.bench.imputers import tasks_of
    from kbdisk.bench.masking import Values, mask
    from kbdisk.completion.placing import Told
    from kbdisk.entity import Completion, Filled

    entities = [Entity(f"e{n}", {"a": float(n), "b": n % 3, "c": 1}) for n in range(100)]
    masked = mask(entities, 0.3, "test 0")
    values = Values(masked.entities)
    hidden = by_place(masked, tasks_of(masked, values))
    number = next(number for number, path in hidden if path == ("a",))
    other = next(number for number in range(100) if (number, ("a",)) not in hidden)

    def statement(number: int, error: float, paths: tuple[str, ...] = ("a",)) -> list:
        belief = Told("", ("a",), ("a",), interval=(-1.0, 200.0), within=2.0)
        filled = {(path,): Filled(number + error, 0.7, belief) for path in paths}
        completions = [Completion(entity) for entity in masked.entities]
        completions[number] = Completion(masked.entities[number], filled)
        return list(statements_of(completions, range(100), hidden, values, entities))

    [(place, close)], [(_, off)] = statement(number, 1.9), statement(number, -2.1)
    assert place == (number, ("a",))
    assert (close.right, close.confidence, close.covered) == (True, 0.7, True)
    assert not off.right
    assert not statement(other, 0.0)  # the value was not hidden
    assert not statement(number, 0.0, ("a", "z"))  # nor was all of this


@pytest.mark.slow
def test_the_confidence_beyond_a_bound_is_measured_on_a_small_source(tmp_path, monkeypatch, capsys):
    import shift

    rows = [
        f'{{"id": "e{n}", "year": {1980 + n % 40}, "a": {n % 40 + n % 3}, "b": {2 * (n % 40) + 1}, "c": "{"xyz"[n % 3]}"}}'
        for n in range(480)
    ]
    (tmp_path / "kb.jsonl").write_text("\n".join(rows) + "\n")
    options = ["--by", "year", "--until", "2009", "--budget", "5s", "--quiet", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["shift.py", str(tmp_path / "kb.jsonl"), *options])
    shift.main()
    assert "Confidence on entities unlike those of training" in capsys.readouterr().out
    [found] = [json.loads(line) for line in (tmp_path / "shift.jsonl").read_text().splitlines()]
    figures = {row["name"]: row["value"] for row in found["rows"]}
    assert figures["shifted entities"] == 120
    assert figures["shifted flagged"] > 60
    assert figures["like flagged"] <= 3
    assert figures["shifted right"] <= figures["shifted written"] <= figures["shifted hidden"]


def test_the_sources_of_one_value_have_it_where_they_say():
    from same_value import LABELS, PROPERTY, RARE, TOLD_APART, figures_of, generated, hidden

    rare, told_apart = generated(RARE, 3000, 0), generated(TOLD_APART, 3000, 0)
    assert sum(PROPERTY in entity.tree for entity in rare) == pytest.approx(120, abs=35)
    assert all((PROPERTY in entity.tree) == (entity.tree["colour"] in LABELS[:3]) for entity in told_apart)
    given = hidden(told_apart, 0)
    having = [PROPERTY in entity.tree for entity in told_apart]
    figures = figures_of(
        told_apart,
        given,
        [is_there and PROPERTY not in rest.tree for is_there, rest in zip(having, given, strict=True)],
    )
    assert figures["hidden"] == figures["found"] == figures["written"] == pytest.approx(0.15 * sum(having), abs=50)
    assert figures["precision"] == 1
    assert figures_of(told_apart, given, [False] * 3000)["written"] == 0


@pytest.mark.slow
def test_a_property_of_one_value_is_measured_on_small_sources(tmp_path, monkeypatch, capsys):
    import same_value

    options = ["--entities", "200", "--budget", "3s", "--quiet", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["same_value.py", *options])
    same_value.main()
    out = capsys.readouterr().out
    assert "told apart" in out
    assert "rare" in out
