"""Benchmarks with a command line of their own: what they hide, store, and make of stored results. What they train is tested elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import SCRIPTS
from benchmarks.results import Result, Row, append
from kbdisk.entity import NOVALUE, Date, Entity, Quantity, at
from kbdisk.experts import experts_of

CHECKOUT = Path(__file__).parents[2]


def result(method: str, numbers: float, labels: float, **changes) -> Result:
    rows = [Row("size", numbers, 30), Row("colour", labels, 30), Row("rare", 5.0, 3)]
    kinds = {"size": "number", "colour": "label", "rare": "number"}
    details = {
        "kind": kinds, "budget": 10.0, "filled": {"size": 30, "colour": 15, "rare": 0}, "took": {"fit": 7.0, "fill": 2.0}
    }  # fmt: skip
    return Result("comparison", method, rows, **{"setting": "kb", "details": details, "seconds": 9.0} | changes)


def test_a_run_goes_on_with_its_own_results_alone(tmp_path):
    from benchmarks.results import StoredRun

    first = StoredRun.of(tmp_path, "comparison", ("kb", "10s", 0), "source one")
    first.add(result("ours", 0.5, 0.4))
    again = StoredRun.of(tmp_path, "comparison", ("kb", "10s", 0), "source one")
    assert [one.values for one in again.results] == [{"size": 0.5, "colour": 0.4, "rare": 5.0}]
    assert not StoredRun.of(tmp_path, "comparison", ("kb", "10s", 0), "source two").results
    again.end()
    assert not StoredRun.of(tmp_path, "comparison", ("kb", "10s", 0), "source one").results
    assert len((tmp_path / "comparison.jsonl").read_text().splitlines()) == 1


def test_the_comparison_shows_what_methods_used_and_how_many_numbers_are_within_their_intervals():
    from benchmarks.comparison import tables

    old = result("catboost", 0.6, 0.3)
    took = {"fit": 7.0, "fill": 2.0, "cpu": {"fit": 6.5, "fill": 1.25}, "memory": {"fit": 812.4, "fill": 900.0}}
    new = result("ours", 0.5, 0.4, details={**old.details, "took": took, "intervals": {"of": 200, "covered": 177}})
    errors, uses, *_ = tables([old, new])
    assert [row[6] for row in errors.rows] == ["88% of 200", ""]
    assert uses.header == ["source", "budget", "method", "fit, CPU s", "fill, CPU s", "fit, MB", "fill, MB"]
    assert uses.rows == [["kb", "10 s", "ours", "6.5", "1.2", "812", "900"], ["kb", "10 s", "catboost", "", "", "", ""]]


def test_the_comparison_shows_numbers_and_labels_apart_and_draws_them(tmp_path):
    from benchmarks.comparison import plot, tables

    results = [result("ours", 0.5, 0.4), result("catboost", 0.6, 0.3), result("iterative", 0.4, 0.5)]
    results.append(result("ours", 0.7, 0.4, seed=1))
    details = {"kind": {}, "filled": {}, "budget": 10.0, "took": {"cannot": "expected time, got none."}}
    results.append(Result("comparison", "tabularargn", [], setting="kb", details=details, seconds=13.0))
    errors, abilities, methods = tables(results)
    assert errors.rows[0] == ["kb", "10 s", "ours", "0.500", "0.600", "0.400", "7.0", "2.0", "9", "2"]
    assert errors.notes == [
        "10 s: ours, numbers 0.600, the best of the others 0.400 (1 sources); "
        "labels 0.400, the best of the others 0.300 (1 sources).",
        "kb: tabularargn took 13 s of its 10 s.",
        "kb: tabularargn cannot: expected time, got none.",
    ]
    assert abilities.rows[1] == ["catboost", "91%", "50%", ""]
    assert [row[0] for row in methods.rows] == ["ours", "catboost", "iterative", "tabularargn"]
    assert plot([*results, result("lm-scratch", 1e23, 0.4)], tmp_path / "comparison.png")
    assert tables([result("lm-scratch", 1e23, 0.4)])[0].rows[0][3:5] == ["5.0e+22", "1.0e+23"]
    assert (tmp_path / "comparison.png").stat().st_size > 0


def test_the_page_has_the_papers_tables_where_peers_were_measured(tmp_path):
    from benchmarks.comparison import predicted_beside_peers, tables_of_others

    def of_phones(method: str, told: str) -> Result:
        return Result("gsm", method, [Row("weight", 20.0, 30)], split="paper", told=told)

    longer, ours, baseline = of_phones("ours", ""), of_phones("ours", " + 1m"), of_phones("constant", "")
    assert predicted_beside_peers([longer, ours, baseline]) == []
    peer = of_phones("tabddpm", " + 1m")
    elsewhere = replace(baseline, split="names")
    assert predicted_beside_peers([longer, ours, baseline, elsewhere, peer]) == [ours, baseline, peer]
    assert tables_of_others(tmp_path) == []
    for stored in (longer, ours, baseline, peer):
        append(tmp_path / "gsm.jsonl", stored)
    (table,) = tables_of_others(tmp_path)
    assert table.title == "GSM, the paper's split"
    assert ["tabddpm" in name for name in table.header].count(True) == 1


def test_a_comparison_stores_each_method_goes_on_where_it_was_and_fills_its_page(tmp_path, run, monkeypatch):
    from benchmarks.peers import registry
    from benchmarks.peers.protocol import PeerError
    from benchmarks.render import markers

    rows = [f'{{"id": "e{n}", "a": {n % 10}, "b": {2 * (n % 10)}, "c": "{"xyz"[n % 10 // 4]}"}}\n' for n in range(150)]
    (tmp_path / "kb.jsonl").write_text("".join(rows))
    page = tmp_path / "page.md"
    page.write_text("\n".join(["# By hand", *markers("comparison"), "Also by hand", ""]))
    ranks = [Row(name, 0.5, 9) for name in ("MRR", "tail MRR", "head MRR", "Hits@1", "Hits@3", "Hits@10")]
    for method, seed in (("ours", 0), ("ours", 1), ("pykeen", 1)):
        changes = {"setting": "codex-s", "told": "60s", "seed": seed, "details": {"epochs": seed}, "seconds": 60.0}
        append(tmp_path / "links.jsonl", Result("links", method, ranks, **changes))
    fill, filled = registry.fill, []

    def failing(name, imputation):
        filled.append(name)
        if filled == ["constant", "neighbours"]:
            raise KeyboardInterrupt
        if name == "neighbours":
            raise PeerError(name, "expected labels, got none.")
        return fill(name, imputation)

    monkeypatch.setattr(registry, "fill", failing)
    call = ("comparison", tmp_path / "kb.jsonl", "--out", tmp_path, "--budget", "60s", "--quiet")
    assert run(*call, "--only", "constant,neighbours")[0] != 0
    status, out, err = run(*call, "--only", "constant,neighbours", "--page", page)
    assert (status, err) == (0, "")
    assert filled == ["constant", "neighbours", "neighbours"]
    stored = [json.loads(line) for line in (tmp_path / "comparison.jsonl").read_text().splitlines()]
    assert [line["method"] for line in stored] == ["constant", "neighbours"]
    assert stored[1]["rows"] == []
    assert "kb.jsonl: neighbours cannot: expected labels, got none." in out
    text = page.read_text()
    assert "| kb.jsonl | 60 s | constant | 1.000 | 1.000 |" in text
    assert "![comparison](comparison.png)" in text
    ours = next(line for line in text.splitlines() if "codex-s | 60s | ours" in line)
    assert ours.endswith("| 60 | 1 | 1 |")  # of the seed that the peer has, too
    assert text.endswith("Also by hand\n")


@pytest.mark.parametrize(
    ("only", "problem"),
    [("ours,catbost", "got 'catbost'"), ("smote", "expected some of constant, catboost"), ("", "nowhere.jsonl: ")],
)
def test_a_comparison_refuses_what_it_cannot_measure(only, problem, tmp_path, run):
    (tmp_path / "kb.jsonl").write_text('{"id": "a", "x": 1}\n')
    source = tmp_path / "kb.jsonl" if only else "nowhere.jsonl"
    status, _, err = run("comparison", source, "--out", tmp_path, "--only", only, "--quiet")
    assert (status, len(err.splitlines())) == (2, 1)
    assert problem in err


def test_only_test_rows_of_an_untouched_table_have_hidden_cells():
    from benchmarks.untouched import masked_rows

    entities = [Entity(f"row{n}", {"a": n % 7, "b": "xy"[n % 2], "c": n / 3}) for n in range(400)]
    masked, is_test = masked_rows(entities, 0)
    assert 70 <= sum(is_test) <= 130
    assert all(is_test[cell.entity] for cell in masked.cells)
    assert 0.2 < len(masked.cells) / (3 * sum(is_test)) < 0.4
    assert all(at(masked.entities[cell.entity].tree, cell.path) is None for cell in masked.cells)
    rest = [(one, two) for one, two, test in zip(entities, masked.entities, is_test, strict=True) if not test]
    assert all(one == two for one, two in rest)


def test_the_ablation_leaves_out_each_expert_and_asks_each_alone():
    from benchmarks.experts import CODE, lines_of_code, subsets, tables

    found = dict(subsets(["knn", "given_only"]))
    assert found == {
        "everything": ["knn", "given_only"], "without knn": ["given_only"], "without given_only": ["knn"],
        "network + knn": ["knn"], "network + given_only": ["given_only"], "network alone": [],
    }  # fmt: skip
    assert CODE.keys() == {*experts_of("network", "stack", "answer"), "second network"}
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
    options = ("--budget", "3s", "--values", "30", "--weighing", "1")
    shown = script("experts", tmp_path / "t.csv", *options, folder=tmp_path)
    assert "everything" in shown
    assert "network alone" in shown
    assert not list(tmp_path.glob("*unfinished*"))


def test_a_wrong_name_is_one_line(tmp_path, run):
    status, _, error = run("comparison", "nothing.csv", "--out", tmp_path, "--quiet")
    assert status == 2
    assert error.startswith("error: nothing.csv: ")
    assert error.count("\n") == 1


def test_every_script_is_a_command_with_help_of_its_own(run):
    status, out, _ = run("--help")
    assert status == 0
    for name in SCRIPTS:
        assert name in out
        status, of_script, _ = run(name, "--help")
        assert status == 0
        assert of_script.startswith(f"usage: python -m benchmarks {name}")


@pytest.mark.slow
def test_what_is_measured_in_processes_of_their_own_is_measured(tmp_path):
    from benchmarks import infer, io, train

    file = tmp_path / "phones.jsonl"
    file.write_text("".join(io.phones(500)))
    assert io.measured("ours", file)["count"] == 500
    assert infer.measured("infer", file)["seconds"] > 0
    *_, last = train.memory(1)
    assert last.startswith("| 512 of which one has 1,000 properties |")


def test_absences_are_properties_that_entities_cannot_have_and_lack(monkeypatch, tmp_path):
    from benchmarks import precision

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


def test_absences_are_by_patterns_by_what_entities_have_and_of_each_property_alike(monkeypatch, tmp_path):
    from benchmarks import precision

    monkeypatch.setattr(precision, "ABSENCES", tmp_path)
    (tmp_path / "kb.yaml").write_text("- lack: [languages.*]\n- has: [founded]\n  not: [Colony]\n  lack: [owner]\n")
    entities = [Entity(str(n), {"languages": {f"l{n}": "x"}, "founded": n}) for n in range(5)]
    entities += [Entity("5", {"languages": {}, "owner": ""}), Entity("6", {"founded": 1}, ("Colony",))]
    found = precision.absences_of("kb", entities, 99, 0)
    assert {place for place, path in found if path == ("owner",)} == {0, 1, 2, 3, 4}
    assert (0, ("languages", "l1")) in found
    assert (1, ("languages", "l1")) not in found
    assert len(found) == 5 + 5 * 4 + 2 * 5
    assert sum(path == ("owner",) for _, path in found[:8]) == 4


def test_absences_of_a_generated_source_are_what_it_lacks_in_truth(tmp_path):
    from benchmarks import precision

    truth = tmp_path / "made.jsonl.truth.json"
    truth.write_text(json.dumps({"values": {"a": {"x": 1, "y": 2}, "b": {"x": 3}}}))
    entities = [Entity("a", {"x": 1}), Entity("b", {})]
    assert precision.absences_of("made", entities, 9, 0, truth) == [(1, ("y",))]


def test_values_that_a_source_declares_not_to_exist_are_hidden_and_scored():
    from benchmarks import precision
    from benchmarks.masking import Masked

    entities = [Entity(str(n), {"spouse": NOVALUE, "age": n}) for n in range(200)]
    masked, places = precision.hide_novalues(entities, Masked(entities, []), 0, 0.3)
    assert 40 < len(places) < 80
    hidden = {place for place, _ in places}
    assert all(("spouse" in one.tree) == (n not in hidden) for n, one in enumerate(masked.entities))
    assert not masked.cells


def test_right_is_the_same_label_the_stated_parts_of_a_date_and_a_number_near_enough():
    from benchmarks import precision
    from benchmarks.masking import Cell, Values
    from benchmarks.tasks import Task

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
    from benchmarks.precision import Statement, reliability, yield_at

    statements = [Statement(0.95, True, "label")] * 6 + [Statement(0.55, False, "label")] * 4
    assert yield_at(statements, 0.9) == 6
    assert yield_at(statements[::-1], 0.5) == 6
    tied = [Statement(0.95, True, "label"), Statement(0.95, False, "label")]
    assert yield_at(tied, 0.9) == 0  # a threshold lets both in
    assert reliability(statements) == pytest.approx(0.6 * 0.05 + 0.4 * 0.55)


def test_a_truth_on_the_end_of_an_interval_counts_with_the_share_of_its_atom_that_is_inside():
    from benchmarks.precision import share_of_atom

    assert share_of_atom(0.3, 0.0) == 1.0  # no atom
    assert share_of_atom(0.10, 0.20) == pytest.approx(0.25)  # the low end: .05 of .20 is above the 5 % quantile
    assert share_of_atom(1.0, 0.20) == pytest.approx(0.75)  # the high end: .15 of .20 is below the 95 % quantile
    assert share_of_atom(1.0, 1.0) == pytest.approx(0.9)  # both
    assert share_of_atom(0.05, 0.05) == pytest.approx(0.0)


def test_the_mass_of_an_interval_is_90_per_cent_with_its_ends_at_atoms():
    from benchmarks.precision import share_of_atom

    masses = [0.02, 0.13, 0.4, 0.3, 0.15]
    up_to = [sum(masses[: n + 1]) for n in range(5)]
    low, high = (next(n for n in range(5) if up_to[n] >= level) for level in (0.05, 0.95))
    inside = sum(masses[low + 1 : high])
    ends = [masses[n] * share_of_atom(up_to[n], masses[n]) for n in (low, high)]
    assert inside + sum(ends) == pytest.approx(0.9)


def test_coverage_is_of_all_and_of_thirds_by_how_much_is_given():
    from benchmarks.precision import Statement, coverage

    statements = [Statement(0.5, True, "number", float(n >= 3), n / 10) for n in range(9)]
    statements.append(Statement(0.5, True, "label"))
    assert coverage(statements) == pytest.approx([6 / 9, 0, 1, 1])


def test_how_much_is_given_is_a_share_of_what_entities_of_the_class_have():
    from benchmarks.precision import given_shares

    entities = [
        Entity("a", {"x": 1, "y": {"z": 2}}, ("C",)),
        Entity("b", {"x": 1, "y": None}, ("C",)),
        Entity("c", {"x": 1}, ("D",)),
    ]
    assert given_shares(entities) == [1.0, 0.5, 1.0]


def test_masks_and_sources_are_pooled_statement_by_statement():
    from benchmarks.precision import table

    def of(source, seed, right, wrong):
        written = [[0.9, 1, "label", None, 0.5]] * right + [[0.9, 0, "absence", None, 0.0]] * wrong
        details = {"all": written, "written": {"default": written, "0.95": written[:right]}, "catboost": written}
        rows = [Row("hidden", 10.0), Row("absences", 5.0)]
        return Result("precision", "ours", rows, seed=seed, setting=source, split="default, 0.95", details=details)

    (shown,) = table([of("a.ttl", 0, 8, 2), of("a.ttl", 1, 10, 0), of("b.ttl", 0, 2, 8)])
    assert [row[:9] for row in shown.rows] == [
        ["a.ttl", "2", "20", "10", "20", "18", "0.900", "2", "18"],
        ["b.ttl", "1", "10", "5", "10", "2", "0.200", "8", "2"],
        ["pooled", "3", "30", "15", "30", "20", "0.667", "10", "20"],
    ]
    assert shown.rows[2][9:14] == ["20", "20", "1.000", "0", "0"]
    assert shown.rows[0][14:] == ["0.000", "", "", "", ""]


def test_the_generated_source_satisfies_its_shapes_and_a_wrong_value_does_not(tmp_path):
    from benchmarks.consistency import SHAPES as FOLDER
    from benchmarks.consistency import generated, turtle, violations
    from kbdisk.schemas import importers

    file, shapes = tmp_path / "made.ttl", FOLDER / "generated.ttl"
    entities = generated(60)
    file.write_text("\n".join(turtle(entities)))
    assert not violations(file, shapes)
    person = entities[0]
    person.tree |= {"grade": 12, "born": Date(2025, 1, 1), "hired": Date(2024, 1, 1)}
    person.tree.pop("left", None)
    file.write_text("\n".join(turtle(entities)))
    assert violations(file, shapes) == {"MaxInclusive of grade": 1, "LessThan of born": 1}
    kinds = {one.kind for of in importers.read(shapes).schema.classes.values() for one in of.constraints}
    assert kinds >= {
        "less_than", "less_than_or_equals", "equals", "disjoint", "count", "has_value", "unique_language", "values", "closed",
    }  # fmt: skip


def test_half_made_objects_and_lists_of_a_wrong_length_are_found():
    from benchmarks.consistency import broken_structure, cameras

    given = [Entity(record.pop("id"), record) for record in cameras(200)]
    assert not broken_structure(given, given)
    lens = {"sensor": "S1", "megapixels": 8}
    price = {"amount": 5, "currency": "EUR"}
    [place] = [n for n, one in enumerate(given) if "cameras" in one.tree][:1]
    before = [Entity("a", {"brand": "B"}), *given]
    for tree, broken in (
        ({"cameras": [lens, lens], "price": price}, {}),
        ({"cameras": [{"sensor": "S1", "aperture": 1.8}]}, {"half-made cameras[]": 1}),
        ({"cameras": [lens] * 5}, {"length of cameras": 1}),
        ({"price": {"amount": 5}}, {"half-made price": 1}),
    ):
        assert broken_structure(before, [Entity("a", tree), *given]) == broken
    longer = Entity(given[place].id, {"cameras": [*given[place].tree["cameras"], lens]})
    assert broken_structure(given, [longer]) == {"length of cameras": 1}


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("source", ["mondial", "phones"])
def test_named_sources_satisfy_their_shapes(source, tmp_path):
    from benchmarks.consistency import prepared, violations

    assert not violations(*prepared(source, None, tmp_path, 0))


def test_a_curator_accepts_what_is_right_rejects_or_corrects_what_is_wrong_and_leaves_the_rest():
    from benchmarks.masking import Values, mask
    from benchmarks.precision import by_place
    from benchmarks.review_rounds import Curator
    from benchmarks.tasks import tasks_of
    from kbdisk.completion.review import ReviewRow

    entities = [Entity(f"e{n}", {"c": "xyz"[n % 3], "d": n % 7}) for n in range(300)]
    masked = mask(entities, 0.3, "test")
    values = Values(masked.entities)
    hidden = by_place(masked, tasks_of(masked, values))
    curator = Curator(entities, hidden, frozenset({(0, ("spouse",))}), values, 1.0)
    rows = [
        ReviewRow("e0", "spouse", "x", row={"value": "x"}, place=2),
        ReviewRow("e1", "none", "x", row={"value": "x"}, place=3),
    ]
    for number, entity in enumerate((entity for entity, path in hidden if path == ("c",)), 4):
        value = "xyz"[entity % 3] if number % 2 else "xyz"[(entity + 1) % 3]
        rows.append(ReviewRow(f"e{entity}", "c", value, row={"value": value}, place=number))
    decisions = curator.decide(rows, 1)
    assert decisions[2] == {"decision": "reject"}
    assert 3 not in decisions
    judged = [row for row in rows[2:] if row.place in decisions]
    assert 0.3 * len(rows) < len(judged) < 0.7 * len(rows)
    for row in judged:
        truth = "xyz"[int(row.id[1:]) % 3]
        wanted = [{"decision": "accept"}] if row.value == truth else [{"decision": "reject"}, {"correction": truth}]
        assert decisions[row.place] in wanted
    rejected = [row for row in rows if decisions.get(row.place) == {"decision": "reject"}]
    assert len(rejected) > 5
    assert [row for row in rows if curator.returned(row.id, row.path, row.value)] == rejected


def test_a_number_is_the_rejected_one_within_its_tolerance():
    from benchmarks.review_rounds import is_same

    assert is_same(5.4, 5, 0.5)
    assert not is_same(5.6, 5, 0.5)
    assert is_same(Quantity(5.4, "kg"), Quantity(5, "kg"), 0.5)
    assert not is_same(Quantity(5, "g"), Quantity(5, "kg"), 0.5)
    assert not is_same("5", 5, 0.5)


@pytest.mark.shared
def test_small_tables_are_the_same_rows_each_time(tmp_path):
    from benchmarks.small_tables import TABLES, write_table

    for name in ("abalone", "higgs-small", "gsm"):
        texts = []
        for turn in range(2):
            write_table(name, tmp_path / f"{turn}.csv")
            texts.append((tmp_path / f"{turn}.csv").read_text())
        assert texts[0] == texts[1]
        assert len(texts[0].splitlines()) == TABLES[name] + 1


def script(name: str, *arguments: object, folder: Path) -> str:
    """What a benchmark prints."""
    command = [sys.executable, "-m", "benchmarks", name, *map(str, arguments), "--quiet", "--out", folder]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_generated_source_is_consistent_when_completed(tmp_path):
    shown = script("consistency", "generated", "--entities", 80, "--budget", "3s", folder=tmp_path)
    assert "What holds of the input" in shown
    [everything, default] = [json.loads(line) for line in (tmp_path / "consistency.jsonl").read_text().splitlines()]
    assert [everything["split"], default["split"]] == ["all", "default"]
    figures = {row["name"]: row["value"] for row in everything["rows"]}
    assert figures["filled"] > 100
    assert figures["before"] == figures["after"] == 0


@pytest.mark.slow
def test_rounds_of_review_of_a_small_source_bring_nothing_back_that_was_rejected(tmp_path):
    rows = [f'{{"id": "e{n}", "a": {n % 10}, "b": {2 * (n % 10) + 1}, "c": "{"xyz"[n % 3]}"}}\n' for n in range(120)]
    (tmp_path / "kb.jsonl").write_text("".join(rows))
    shown = script("review-rounds", tmp_path / "kb.jsonl", "--rounds", 2, "--budget", "3s", folder=tmp_path)
    assert "none of which came back" in shown
    [found] = [json.loads(line) for line in (tmp_path / "review_rounds.jsonl").read_text().splitlines()]
    first, *_, last = found["details"]["rounds"]
    assert len(found["details"]["rounds"]) == 3
    assert first["accepted"] + first["corrected"] + first["rejected"] > 0
    assert last["proposed"] < first["proposed"]


@pytest.mark.shared
@pytest.mark.slow
def test_coverage_of_a_small_table_is_measured(tmp_path):
    shown = script("small-tables", "--only", "abalone", "--budget", "3s", folder=tmp_path)
    assert "abalone" in shown


@pytest.mark.slow
def test_the_precision_of_a_small_source_is_measured_beside_catboost(tmp_path, capsys):
    from benchmarks import precision

    rows = [
        f'{{"id": "e{n}", "a": {n % 10}, "b": {2 * (n % 10) + 1}, "c": "{"xyz"[n % 3]}", "d": {n % 3}}}'
        for n in range(120)
    ]
    (tmp_path / "kb.jsonl").write_text("\n".join(rows) + "\n")
    options = ["--budget", "5s", "--mask", "0", "--mask", "1", "--precision", "0.9", "--quiet", "--out", str(tmp_path)]
    precision.main([str(tmp_path / "kb.jsonl"), *options])
    assert "Precision of what is written" in capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "precision.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1]
    for line in lines:
        figures = {row["name"]: row["value"] for row in line["rows"]}
        assert figures["hidden"] > 30
        for level in ("default", "0.9"):
            assert figures[f"{level}: right"] <= figures[f"{level}: written"] == len(line["details"]["written"][level])


def test_a_shifted_split_trains_on_what_is_up_to_the_bound_and_holds_some_of_it_out():
    from benchmarks.shift import split

    entities = [Entity(f"e{n}", {"launch": {"year": 2000 + n % 20}}) for n in range(400)]
    entities += [Entity("d", {"launch": Date(2019)}), Entity("none", {"x": 1}), Entity("text", {"launch": "soon"})]
    training, like, shifted = split(entities, ("launch", "year"), 2009, 0)
    assert len(training) + len(like) == 200 == len(shifted)
    assert 5 <= len(like) <= 40
    assert all(entity.tree["launch"]["year"] <= 2009 for entity in (*training, *like))
    assert split(entities, ("launch",), 2009, 0)[2] == [entities[400]]


def test_a_statement_about_hidden_values_is_right_within_the_tolerance_beside_it():
    from benchmarks.masking import Values, mask
    from benchmarks.precision import by_place
    from benchmarks.shift import statements_of
    from benchmarks.tasks import tasks_of
    from kbdisk.completion.provenance import Provenance
    from kbdisk.entity import Completion, Filled

    entities = [Entity(f"e{n}", {"a": float(n), "b": n % 3, "c": 1}) for n in range(100)]
    masked = mask(entities, 0.3, "test 0")
    values = Values(masked.entities)
    hidden = by_place(masked, tasks_of(masked, values))
    number = next(number for number, path in hidden if path == ("a",))
    other = next(number for number in range(100) if (number, ("a",)) not in hidden)

    def statement(number: int, error: float, paths: tuple[str, ...] = ("a",)) -> list:
        belief = Provenance("", ("a",), ("a",), interval=(-1.0, 200.0), within=2.0)
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
def test_the_confidence_beyond_a_bound_is_measured_on_a_small_source(tmp_path, capsys):
    from benchmarks import shift

    rows = [
        f'{{"id": "e{n}", "year": {1980 + n % 40}, "a": {n % 40 + n % 3}, "b": {2 * (n % 40) + 1}, "c": "{"xyz"[n % 3]}"}}'
        for n in range(480)
    ]
    (tmp_path / "kb.jsonl").write_text("\n".join(rows) + "\n")
    options = ["--by", "year", "--until", "2009", "--budget", "5s", "--quiet", "--out", str(tmp_path)]
    shift.main([str(tmp_path / "kb.jsonl"), *options])
    assert "Confidence on entities unlike those of training" in capsys.readouterr().out
    [found] = [json.loads(line) for line in (tmp_path / "shift.jsonl").read_text().splitlines()]
    figures = {row["name"]: row["value"] for row in found["rows"]}
    assert figures["shifted entities"] == 120
    assert figures["shifted flagged"] > 60
    assert figures["like flagged"] <= 3
    assert figures["shifted right"] <= figures["shifted written"] <= figures["shifted hidden"]


def test_the_sources_of_one_value_have_it_where_they_say():
    from benchmarks.same_value import LABELS, PROPERTY, RARE, TOLD_APART, figures_of, generated, hidden

    rare, with_text_given = generated(RARE, 3000, 0), generated(TOLD_APART, 3000, 0)
    assert sum(PROPERTY in entity.tree for entity in rare) == pytest.approx(120, abs=35)
    assert all((PROPERTY in entity.tree) == (entity.tree["colour"] in LABELS[:3]) for entity in with_text_given)
    given = hidden(with_text_given, 0)
    having = [PROPERTY in entity.tree for entity in with_text_given]
    figures = figures_of(
        with_text_given,
        given,
        [is_there and PROPERTY not in rest.tree for is_there, rest in zip(having, given, strict=True)],
    )
    assert figures["hidden"] == figures["found"] == figures["written"] == pytest.approx(0.15 * sum(having), abs=50)
    assert figures["precision"] == 1
    assert figures_of(with_text_given, given, [False] * 3000)["written"] == 0


@pytest.mark.slow
def test_a_property_of_one_value_is_measured_on_small_sources(tmp_path, capsys):
    from benchmarks import same_value

    options = ["--entities", "200", "--budget", "3s", "--quiet", "--out", str(tmp_path)]
    same_value.main(options)
    out = capsys.readouterr().out
    assert "told apart" in out
    assert "rare" in out
