"""`kbdisk complete` as a user meets it: the target whole or not at all, what is new told value by value, every option."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import rdflib
import torch
from judges import graph, quads
from models import LINES, QUICK, calibrated, phones, tiny

import kbdisk
from kbdisk.api.complete import fitting_budget, with_text_given
from kbdisk.cli.complete import complete as command
from kbdisk.cli.options import SOURCE_OPTIONS
from kbdisk.cli.summary import render_summary
from kbdisk.completion.predict import GapPredictor
from kbdisk.completion.sidecar import given_entities
from kbdisk.completion.summary import Row, Summary, as_itself
from kbdisk.data import Codec, spool
from kbdisk.entity import Entity, at, is_gap, walk
from kbdisk.evaluation.calibration import Calibration, Statement
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.kinds import Category, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.store.files import FORMAT, checksum
from kbdisk.store.folder import open_folder, save
from kbdisk.training import data as training_data
from kbdisk.training.lock import training_lock
from kbdisk.training.run import PRESETS

EXAMPLES = Path(__file__).parents[1] / "examples"
SOON = ("--preset", "fast", "--budget", "0.3s")
TESTED: set[str] = set()


def about(*options: str) -> Callable:
    """Marks what options a test is about: there is one for each."""
    TESTED.update(options)
    return lambda test: test


@pytest.fixture
def run(run):
    """Run `kbdisk complete ...`; returns its exit status, standard output and standard error."""
    return partial(run, "complete")


@pytest.fixture(scope="session")
def elements_folder(tmp_path_factory) -> Path:
    """A model of examples/elements.ttl after five steps, with text that is only read."""
    kb = kbdisk.load(str(EXAMPLES / "elements.ttl"))
    folder = tmp_path_factory.mktemp("elements") / "elements.kbdisk"
    save(calibrated(tiny(with_text_given(kbdisk.infer(kb).schema, ()), list(kb))), folder)
    return folder


@pytest.fixture(scope="session")
def phones_folder(tmp_path_factory) -> Path:
    """A model of all phones of the example after five steps, which remembers nothing."""
    folder = tmp_path_factory.mktemp("phones") / "phones.kbdisk"
    save(calibrated(tiny(*phones())), folder)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, phones_folder, elements_folder) -> Path:
    """A folder with the examples and a model of each, where the command is run."""
    for name in ("phones.jsonl", "phones.yaml", "elements.ttl"):
        shutil.copy(EXAMPLES / name, tmp_path)
    shutil.copytree(phones_folder, tmp_path / "phones.kbdisk")
    shutil.copytree(elements_folder, tmp_path / "elements.kbdisk")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def few(run, place):
    """Complete a few phones with the model that is there."""
    keep_few()
    return partial(run, "phones.jsonl", "--model", "phones.kbdisk")


def keep_few() -> None:
    """Leave a few of the phones."""
    lines = Path("phones.jsonl").read_text().splitlines(keepends=True)
    Path("phones.jsonl").write_text("".join(lines[place] for place in LINES))


@pytest.fixture
def quick(monkeypatch) -> None:
    """The preset of `SOON` trains a tiny network, of as many steps on every machine."""
    monkeypatch.setitem(PRESETS, "fast", QUICK)


def write_points(count: int = 40) -> None:
    """A small source that trains fast: points in points.jsonl, some of which lack a number."""
    points = [{"id": f"p{n}", "x": n % 7 if n % 4 else None, "side": "ab"[n % 2]} for n in range(count)]
    Path("points.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))


def rows(target: str) -> list[dict]:
    """What stands beside a target."""
    return [json.loads(line) for line in Path(f"{target}.provenance.jsonl").read_text().splitlines()]


def trees(file: str) -> dict[str, dict]:
    return {entity.id: entity.tree for entity in kbdisk.load(file)}


# ---------------------------------------------------------------- what comes out


@about("--model", "--out")
def test_turtle_keeps_every_byte_and_gains_what_the_sidecar_tells(run, place):
    status, out, err = run("elements.ttl", "--model", "elements.kbdisk", "--out", "done.ttl")
    assert (status, out) == (0, "")
    before, after = Path("elements.ttl").read_bytes(), Path("done.ttl").read_bytes()
    assert after.startswith(before)
    given, found = statements(before), statements(after)
    assert not given - found
    assert found - given
    new = rows("done.ttl")
    whole = {entity.id: entity.made for entity in kbdisk.load("done.ttl")}
    assert all(path_of(row) in whole[row["id"]] for row in new)
    assert sum(len(made or {}) for made in whole.values()) == len(new)
    assert re.search(rf"wrote done\.ttl: {len(new)} gaps of", err)


def statements(data: bytes) -> Counter:
    """Every triple as rdflib reads it, a blank node by what it says."""
    graph = rdflib.Graph().parse(data=data, format="turtle")
    told = {
        node: repr(sorted(graph.predicate_objects(node))) for node in graph.all_nodes() if type(node) is rdflib.BNode
    }
    return Counter((told.get(s, s), p, told.get(o, o)) for s, p, o in graph)


def path_of(row: dict) -> tuple:
    return kbdisk.entity.read_path(row["path"])


def test_json_lines_keep_all_that_is_given_and_the_text_of_lines_without_gaps(few):
    few("--out", "done.jsonl")
    before, after = Path("phones.jsonl").read_bytes().splitlines(), Path("done.jsonl").read_bytes().splitlines()
    changed = {row["id"] for row in rows("done.jsonl")}
    for old, new in zip(before, after, strict=True):
        tree = json.loads(old)
        if tree["id"] in changed:
            whole = json.loads(new)
            assert all(is_gap(value) or at(whole, path) == value for path, value in walk(tree))
        else:
            assert old == new


def test_each_row_of_the_sidecar_is_a_value_of_the_target(few):
    few("--out", "done.jsonl", "--fill", "all")
    given, done = trees("phones.jsonl"), trees("done.jsonl")
    new = rows("done.jsonl")
    for row in new:
        assert at(done[row["id"]], path_of(row)) == row["value"]
        assert path_of(row) not in dict(kbdisk.Entity("", given[row["id"]]).properties())
        assert 0 <= row["confidence"] <= 1
        assert row["model"]["name"] == "phones.kbdisk"
        assert re.fullmatch("[0-9a-f]{12}", row["model"]["hash"])
        assert row["time"].endswith("+00:00")
        if row["estimate"] == "median":
            assert row["calibrated"] is True
            assert row["confidence"] == pytest.approx(row["presence"] * row["correctness"], rel=1e-5)
    more = sum(map(leaves, done.values())) - sum(map(leaves, given.values()))
    assert more == sum(leaves({"": row["value"]}) for row in new)


def leaves(tree: dict) -> int:
    """How many values a tree has."""
    return sum(1 for _ in kbdisk.Entity("", tree).properties())


def test_a_target_of_another_format_has_all_that_the_source_has(few):
    status, _, _ = few("--out", "done.csv")
    same, _, _ = few("--out", "done.jsonl")
    assert status == same == 0
    csv, jsonl = kbdisk.load("done.csv"), trees("done.jsonl")
    assert {entity.id for entity in csv} == jsonl.keys()
    for entity in csv:
        for path, value in entity.properties():
            if path[0] != "id":
                assert at(jsonl[entity.id], path) == value


@pytest.mark.slow
def test_what_was_completed_once_is_not_filled_again(run, place):
    run("elements.ttl", "--model", "elements.kbdisk", "--out", "done.ttl", "--fill", "all")
    run("done.ttl", "--model", "elements.kbdisk", "--out", "twice.ttl", "--fill", "all")
    assert Path("twice.ttl").read_bytes() == Path("done.ttl").read_bytes()
    assert rows("twice.ttl") == rows("done.ttl")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_what_was_completed_once_is_told_by_its_sidecar_and_not_filled_again(run, few, suffix):
    few("--out", f"done.{suffix}", "--fill", "all")
    before = rows(f"done.{suffix}")
    status, _, err = run(f"done.{suffix}", "--model", "phones.kbdisk", "--out", f"again.{suffix}", "--fill", "all")
    assert status == 0, err
    assert Path(f"again.{suffix}").read_bytes() == Path(f"done.{suffix}").read_bytes()
    assert rows(f"again.{suffix}") == before
    made = sum(leaves({"": row["value"]}) for row in before)
    assert f"{made} values were filled in by kbdisk earlier: not learnt from, and left as they are\n" in err
    Path(f"done.{suffix}.provenance.jsonl").unlink()
    assert "filled in by kbdisk earlier" not in run(f"done.{suffix}", "--model", "phones.kbdisk", "--dry-run")[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "targets"), [("phones.jsonl", ("b.jsonl", "b.csv", "b.ttl")), ("elements.ttl", ("b.csv",))]
)
def test_what_was_completed_once_stays_told_wherever_it_goes(run, place, source, targets):
    keep_few()
    model, (name, suffix) = source.replace(".jsonl", ".ttl").replace(".ttl", ".kbdisk"), source.split(".")
    first = ("--only", "launch") if name == "phones" else ("--only", "meltingPoint,discoveredBy", "--fill", "all")
    assert run(source, "--model", model, "--out", f"a.{suffix}", *first)[0] == 0
    before = rows(f"a.{suffix}")
    for target in targets:
        assert run(f"a.{suffix}", "--model", model, "--out", target, "--fill", "all")[0] == 0
        told = rows(target)
        assert before
        assert [row["confidence"] for row in told[: len(before)]] == [row["confidence"] for row in before]
        assert len(told) > len(before)
        made = {entity.id: entity.made or {} for entity in given_entities(kbdisk.load(target))}
        assert all(any(path[:1] == path_of(row)[:1] for path in made[row["id"]]) for row in told)


@pytest.mark.slow
def test_what_was_completed_once_goes_along_to_other_formats_and_other_sources(run, few):
    few("--out", "done.jsonl", "--fill", "all")
    Path("more.jsonl").write_text('{"id": "new", "brand": "Nokia"}\n')
    for sources in (["done.jsonl"], ["done.jsonl", "more.jsonl"]):
        for target in ("again.csv", "again.json"):
            assert run(*sources, "--model", "phones.kbdisk", "--out", target, "--fill", "asked", "--force")[0] == 0
            done, again = trees("done.jsonl"), trees(target)
            assert all(
                at(again[id], path) == value
                for id, tree in done.items()
                for path, value in walk(tree)
                if target == "again.json" or "networks" not in path
            )


def test_several_sources_become_one(run, place):
    keep_few()
    lines = Path("phones.jsonl").read_text().splitlines(keepends=True)
    Path("a.jsonl").write_text("".join(lines[:8]))
    Path("b.jsonl").write_text("".join(lines[8:]))
    status, _, err = run("a.jsonl", "b.jsonl", "--model", "phones.kbdisk", "--out", "done.jsonl")
    assert status == 0, err
    given, done = trees("phones.jsonl"), trees("done.jsonl")
    assert list(done) == list(given)
    for id, tree in given.items():
        assert all(is_gap(value) or at(done[id], path) == value for path, value in walk(tree))


@pytest.mark.slow
def test_several_sources_of_rdf_become_one_with_every_triple(run, tmp_path, monkeypatch, elements_folder):
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "elements.ttl").read_text()
    prefixes, half = text.index("@prefix"), text.index("\n\n:", len(text) // 2)
    Path("a.ttl").write_text(text[:half])
    Path("b.ttl").write_text(text[prefixes : text.index("\n\n", prefixes)] + text[half:])
    status, _, err = run("a.ttl", "b.ttl", "--model", elements_folder, "--fill", "all", "--out", "done.ttl")
    assert status == 0, err
    given, block = re.split(rb"(?m)^(?=# kbdisk)", Path("done.ttl").read_bytes(), maxsplit=1)
    assert graph(given) == graph(text.encode())
    assert b"urn:kbdisk" not in block
    assert {row["id"].rpartition("/")[2] for row in rows("done.ttl")} >= {"He", "Og"}


@pytest.mark.slow
def test_of_sources_of_rdf_and_others_each_has_its_own_words(run, tmp_path, monkeypatch, elements_folder):
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "elements.ttl", "a.ttl")
    Path("b.jsonl").write_text(
        '{"@id": "http://example.org/new", "@type": "https://example.org/vocabulary#Element", "density": 3, "colour": "red"}\n'
    )
    status, _, err = run("a.ttl", "b.jsonl", "--model", elements_folder, "--out", "done.nt")
    assert status == 0, err
    done = quads(Path("done.nt").read_bytes(), "ntriples")
    plain = {str(one.subject) for one in done if "urn:kbdisk:" in str(one.predicate)}
    assert plain == {"<http://example.org/new>"}
    assert {one.predicate for one in quads(Path("a.ttl").read_bytes())} <= {one.predicate for one in done}


# ---------------------------------------------------------------- the options


@about("--only", "--fill")
def test_only_what_is_named_is_filled(few):
    few("--out", "a.jsonl", "--only", "launch,weight", "--only", "os", "--fill", "all")
    assert {row["property"] for row in rows("a.jsonl")} == {"launch", "weight", "os"}
    few("--out", "b.jsonl", "--only", "launch.month", "--fill", "all")
    assert {row["path"] for row in rows("b.jsonl")} == {"launch.month"}


@about("--fill")
def test_asked_is_less_than_likely_and_all_is_all(few):
    def count(fill):
        few("--out", f"{fill}.jsonl", "--fill", fill)
        return len(rows(f"{fill}.jsonl"))

    assert 0 < count("asked") <= count("likely") <= count("all")
    asked = {(id, path) for id, tree in trees("phones.jsonl").items() for path in kbdisk.Entity("", tree).asked()}
    filled = {(row["id"], path_of(row)) for row in rows("asked.jsonl")}
    assert asked <= filled
    partly = {("launch", "month"), ("launch", "day")}  # of a date whose year is there
    assert {path for _, path in filled - asked} <= partly


@about("--estimate")
def test_another_estimate_fills_other_numbers(few):
    def numbers(estimate):
        few("--out", f"{estimate}.jsonl", "--estimate", estimate, "--only", "battery,weight", "--fill", "all")
        assert {row["estimate"] for row in rows(f"{estimate}.jsonl")} == {estimate}
        return [row["value"] for row in rows(f"{estimate}.jsonl")]

    found = [numbers(estimate) for estimate in ("mean", "median", "mode", "sample")]
    assert len({str(one) for one in found}) == 4


@about("--min-confidence")
def test_nothing_is_filled_that_is_less_sure_than_wanted(few):
    few("--out", "any.jsonl")
    middle = sorted(row["confidence"] for row in rows("any.jsonl"))[len(rows("any.jsonl")) // 2]
    _, _, err = few("--out", "sure.jsonl", "--min-confidence", middle)
    assert 0 < len(rows("sure.jsonl")) < len(rows("any.jsonl"))
    assert "confidence below" in " ".join(err.split())


@about("--precision")
def test_for_a_precision_a_property_has_the_threshold_that_reached_it(few, place):
    model = open_folder("phones.kbdisk", torch.device("cpu"))
    calibration = Calibration.from_json(model.record.calibration)
    statements = {key: [Statement(0.6, 0.0, 1.0, 0.0, 1.0)] * 20 for key in calibration.statements}
    statements["", "weight.value"] = [Statement(0.6, 0.0, 0.0, 0.0, 1.0)] * 20
    model.record.calibration = replace(calibration, statements=statements).to_json()
    save(model, "phones.kbdisk", force=True)
    _, out, _ = few("--out", "sure.jsonl", "--precision", 0.9, "--json")
    told = json.loads(out)
    assert told["precision"] == 1
    weight = next(row for row in told["properties"] if row["path"] == "weight")
    assert (weight["filled"], list(weight["held_back"])) == (
        0,
        ["its held-out values never reached a precision of 0.9"],
    )
    assert rows("sure.jsonl")
    status, _, err = few("--out", "sure.jsonl", "--precision", 0.9, "--min-confidence", 0.5, "--force")
    assert (status, err) == (2, "error: --precision: chooses the confidence. Leave --min-confidence out.\n")


@about("--shapes")
def test_what_is_written_satisfies_a_file_of_shapes_and_what_is_not_enforced_is_named(few):
    lines = Path("phones.yaml").read_text().splitlines()
    Path("shapes.yaml").write_text("\n".join([*lines, "    constraints: [size.width < size.depth]"]) + "\n")
    shapes = kbdisk.Schema.read("shapes.yaml")
    few("--out", "any.jsonl", "--fill", "all")
    status, _, err = few("--out", "done.jsonl", "--fill", "all", "--shapes", "shapes.yaml")
    assert status == 0, err
    assert "breaks a constraint" in " ".join(err.split())

    def broken(file: str) -> set[str]:
        new = {row["id"] for row in rows(file)}
        return {id for id, tree in trees(file).items() if id in new and list(shapes.check(kbdisk.Entity(id, tree)))}

    assert broken("done.jsonl") < broken("any.jsonl")
    Path("shapes.ttl").write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix ex: <http://ex.org/> .\n"
        "ex:S a sh:NodeShape ; sh:targetClass ex:C ; sh:property [ sh:path ex:low ; sh:maxInclusive 40 ] ;\n"
        '    sh:sparql [ sh:select "SELECT $this WHERE { }" ] .\n'
    )
    status, _, err = few("--out", "again.jsonl", "--shapes", "shapes.ttl")
    assert status == 0, err
    assert re.search(r"^shapes\.ttl: not enforced: .*sparql", err, re.M)
    status, _, err = few("--out", "third.jsonl", "--shapes", "missing.ttl")
    assert (status, err) == (2, "error: missing.ttl: no such file.\n")


def test_the_summary_says_what_other_thresholds_would_write(few):
    _, out, err = few("--out", "done.jsonl", "--json")
    thresholds = json.loads(out)["thresholds"]
    assert [row["threshold"] for row in thresholds] == [0.9, 0.75, 0.5, None]
    values = [row["values"] for row in thresholds]
    assert values == sorted(values)
    assert values[2] == len(
        {(row["id"], row.get("gap", row["path"])) for row in rows("done.jsonl") if row["estimate"] == "median"}
    )
    _, _, err = few("--out", "again.jsonl")
    assert re.search(
        r"^minimum confidence +values +right on held-out values\n0\.9 +\d+ +100 %\n0\.75 +\d+ +100 %\n", err, re.M
    )


@about("--draws")
def test_draws_stand_in_the_sidecar_alone(few):
    few("--out", "plain.jsonl", "--fill", "asked")
    few("--out", "drawn.jsonl", "--fill", "asked", "--draws", 3)
    assert all(len(row["draws"]) == 3 for row in rows("drawn.jsonl"))
    assert all("draws" not in row for row in rows("plain.jsonl"))
    assert Path("plain.jsonl").read_bytes() == Path("drawn.jsonl").read_bytes()


@pytest.mark.slow
@about("--order", "--leap", "--seed")
def test_order_leap_and_seed_change_what_is_drawn_and_the_same_say_the_same(few):
    def target(*options):
        few("--out", "one.jsonl", "--force", "--estimate", "sample", "--fill", "all", *options)
        return Path("one.jsonl").read_bytes()

    plain = target()
    assert plain == target() == target("--order", "given", "--seed", 0)
    orders = [target("--order", name) for name in ("certain", "random")]
    assert len({plain, *orders, target("--order", "certain", "--leap", 1), target("--seed", 1)}) == 5


@pytest.mark.slow
@about("--dry-run")
def test_a_dry_run_writes_nothing_and_tells_what_it_would(few, place):
    before = sorted(place.rglob("*"))
    status, out, err = few("--dry-run")
    assert status == 0
    assert "nothing was written" in err
    assert sorted(place.rglob("*")) == before
    few("--out", "done.jsonl")
    assert [line.split("  ")[:2] for line in out.splitlines()] == [
        [row["id"], row["path"]] for row in rows("done.jsonl")
    ]


@pytest.mark.slow
def test_a_dry_run_without_a_model_trains_one_and_leaves_nothing(run, place, quick):
    before = sorted(place.rglob("*"))
    status, out, _ = run("phones.jsonl", "--dry-run", "--fill", "all", *SOON)
    assert status == 0
    assert "nokia-8110  launch.month  " in out
    assert sorted(place.rglob("*")) == before


@about("--json")
def test_json_is_the_summary_with_every_value_in_a_dry_run(few):
    _, out, err = few("--out", "done.jsonl", "--json")
    told = json.loads(out)
    assert err == ""
    assert (told["source"], told["target"], told["model"]) == ("phones.jsonl", "done.jsonl", "phones.kbdisk")
    assert told["filled"] <= told["written"] == len(rows("done.jsonl"))
    for one in told["properties"]:
        assert one["missing"] == one["filled"] + sum(one["held_back"].values())
    dry = json.loads(few("--dry-run", "--json")[1])
    assert [one["path"] for one in dry["values"]] == [row["path"] for row in rows("done.jsonl")]


def test_a_given_value_that_the_target_has_no_place_for_is_told_and_the_status_is_1(few):
    lines = (EXAMPLES / "phones.jsonl").read_text().splitlines()[:12]
    several = [json.loads(line) | {"@seen": "by hand"} for line in lines]
    Path("phones.jsonl").write_text("".join(json.dumps(one) + "\n" for one in several))
    status, _, err = few("--out", "done.csv")
    told = err[err.index("12 given without a place in it:") :].splitlines()
    why = "stands under a key that begins with @, which only JSON can say"
    assert told[1] == f"  {several[0]['id']} @seen: {why}"
    assert (status, told[11:]) == (1, ["  and 2 more: --json has them"])
    assert "given without" in few("--out", "done.csv", "--quiet", "--force")[2]
    status, out, _ = few("--out", "done.csv", "--json", "--force")
    lost = [{"id": one["id"], "path": "@seen", "reason": why} for one in several]
    assert (status, json.loads(out)["unwritable"]) == (1, lost)
    assert few("--out", "done.jsonl", "--quiet")[::2] == (0, "")


@about("--quiet", "--verbose")
def test_quiet_says_nothing_and_verbose_every_value(few):
    assert few("--out", "a.jsonl", "--quiet")[1:] == ("", "")
    _, _, err = few("--out", "b.jsonl", "--verbose")
    assert all(f"{row['id']}  {row['path']}  " in err for row in rows("b.jsonl"))


@about("--to")
def test_the_format_of_a_target_can_be_named(few):
    status, out, _ = few("--out", "-", "--to", "csv", "-q")
    assert status == 0
    assert out.startswith("id,name,brand,launch.year")
    few("--out", "done.data", "--to", "jsonl")
    assert len(Path("done.data").read_text().splitlines()) == len(LINES)


@about("--from")
def test_the_format_of_a_source_can_be_named(run, place):
    keep_few()
    shutil.copy("phones.jsonl", "phones.data")
    status, _, err = run("phones.data", "--from", "jsonl", "--model", "phones.kbdisk", "--out", "done.jsonl")
    assert status == 0, err
    assert rows("done.jsonl")


def test_standard_output_gets_the_source_with_what_is_new(few):
    status, out, err = few("--out", "-")
    _, _, beside = few("--out", "done.jsonl")
    assert status == 0
    assert err.splitlines()[-1].startswith("nothing there tells filled values from given ones")
    assert "nothing there" not in beside
    assert out == Path("done.jsonl").read_text()
    assert not Path("-.provenance.jsonl").exists()


@pytest.mark.slow
@about("--insert")
def test_gaps_in_anonymous_brackets_are_held_back_or_inserted(run, place):
    text = Path("elements.ttl").read_text()
    assert "schema:value" in text
    options = ("elements.ttl", "--model", "elements.kbdisk", "--fill", "all")
    _, _, err = run(*options, "--out", "a.ttl")
    _, _, inserted = run(*options, "--out", "b.ttl", "--insert")
    assert "--insert" in err
    assert "anonymous" not in inserted
    assert len(rows("b.ttl")) > len(rows("a.ttl"))
    assert not statements_without_nodes(Path("elements.ttl")) - statements_without_nodes(Path("b.ttl"))


def statements_without_nodes(file: Path) -> Counter:
    graph = rdflib.Graph().parse(data=file.read_bytes(), format="turtle")
    return Counter(tuple("_" if type(one) is rdflib.BNode else one for one in triple) for triple in graph)


@about("--class")
def test_only_entities_of_a_class_are_completed_and_all_are_written(run, place):
    run("elements.ttl", "--model", "elements.kbdisk", "--out", "done.ttl", "--class", "Chemist", "--fill", "all")
    assert {row["class"] for row in rows("done.ttl")} == {"Chemist"}
    assert Path("done.ttl").read_bytes().startswith(Path("elements.ttl").read_bytes())
    status, _, err = run("elements.ttl", "--model", "elements.kbdisk", "--out", "x.ttl", "--class", "Chemists")
    assert status == 2
    assert err.startswith("error: --class: the model has no class 'Chemists'; its classes are ")
    assert err.endswith("Did you mean 'Chemist'?\n")


@about("--class")
def test_a_class_that_there_is_none_of_is_refused_before_anything_is_trained(run, place):
    status, _, err = run("elements.ttl", "--out", "x.ttl", "--class", "Elemnet")
    assert (status, err.count("\n")) == (2, 1)
    assert err.endswith("Did you mean 'Element'?\n")
    assert not Path("elements.ttl.kbdisk").exists()
    assert not Path("x.ttl").exists()


@about("--device")
def test_a_device_that_is_not_there_is_refused(few):
    status, _, err = few("--out", "done.jsonl", "--device", "cuda:99")
    assert status == 2
    assert err.startswith("error: --device: expected")


@about("--force")
def test_an_existing_target_or_sidecar_is_replaced_only_by_force(few):
    for name in ("done.jsonl", "done.jsonl.provenance.jsonl"):
        Path(name).write_text("mine")
        status, _, err = few("--out", "done.jsonl")
        assert (status, err) == (2, f"error: {name}: exists already. Say --force to replace it.\n")
        assert Path(name).read_text() == "mine"
        Path(name).unlink()
    Path("done.jsonl").write_text("mine")
    assert few("--out", "done.jsonl", "--force")[0] == 0
    assert len(trees("done.jsonl")) == len(LINES)


@about("--engine", "--workers", "--address")
def test_options_for_many_files_are_refused_for_one(few):
    """What they do is in test_bulk.py."""
    for option, value in ("--engine", "ray"), ("--workers", 2), ("--address", "auto"):
        status, _, err = few("--out", "done.jsonl", option, value)
        problem = "is for many files, and --out names no folder. Leave it out, or say --out done/."
        assert (status, err) == (2, f"error: {option}: {problem}\n")


@about("--review")
def test_a_review_is_written_beside_a_target_or_instead_of_it(few):
    assert few("--review", "alone.csv")[0] == 0
    assert few("--out", "done.jsonl", "--review", "beside.csv")[0] == 0
    alone, beside = (Path(name).read_text().splitlines() for name in ("alone.csv", "beside.csv"))
    written = [row for row in csv.DictReader(beside) if row["reason"] == "written"]
    assert len(alone) == len(beside)
    assert len(written) == len(rows("done.jsonl"))
    assert few("--review", "none.csv", "--dry-run")[0] == 0
    assert not Path("none.csv").exists()


@about("--predictions")
def test_predictions_are_kept_in_a_file_and_decided_on_again_by_other_thresholds(few, monkeypatch):
    few("--out", "a.jsonl")
    middle = sorted(row["confidence"] for row in rows("a.jsonl"))[len(rows("a.jsonl")) // 2]
    few("--out", "b.jsonl", "--min-confidence", middle)
    status, out, err = few("--predictions", "p.jsonl")
    assert status == 0, err
    assert out.splitlines()
    assert "nothing was written but p.jsonl: " in err
    kept = Path("p.jsonl").read_bytes()
    monkeypatch.setattr(GapPredictor, "predict", None)  # the network is asked by this alone
    assert few("--out", "again.jsonl", "--predictions", "p.jsonl")[0] == 0
    assert Path("again.jsonl").read_bytes() == Path("a.jsonl").read_bytes()
    assert few("--out", "sure.jsonl", "--min-confidence", middle, "--predictions", "p.jsonl")[0] == 0
    assert Path("sure.jsonl").read_bytes() == Path("b.jsonl").read_bytes() != Path("a.jsonl").read_bytes()
    assert few("--review", "review.csv", "--predictions", "p.jsonl")[0] == 0
    assert len(Path("review.csv").read_text().splitlines()) > len(rows("a.jsonl"))
    status, _, err = few("--dry-run", "--predictions", "p.jsonl", "--only", "weight")
    assert status == 2
    assert err == (
        "error: p.jsonl: expected predictions with only weight, got those with only none. Name another file, or move this one away.\n"
    )
    assert Path("p.jsonl").read_bytes() == kept


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--predictions", "no/p.jsonl"], "no/p.jsonl: cannot be written: no such directory, or one of this name."),
        (["--predictions", "phones.yaml"], "phones.yaml: expected predictions that kbdisk saved, got something else."),
        (["--predictions", "phones.jsonl"], "--predictions: phones.jsonl is a source, too. Choose another name."),
        (["--predictions", "x.jsonl", "--out", "x.jsonl"], "--predictions: x.jsonl is the target, too. Choose another"),
        (
            ["--predictions", "r.csv", "--review", "r.csv"],
            "--predictions: r.csv is the review, too. Choose another name.",
        ),
    ],
)
def test_a_file_that_cannot_keep_predictions_is_refused(few, place, options, complaint):
    before = sorted(place.rglob("*"))
    status, out, err = few(*options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {complaint}")
    assert sorted(place.rglob("*")) == before


def test_a_dry_run_decides_from_predictions_and_keeps_none(few):
    assert few("--dry-run", "--predictions", "p.jsonl")[0] == 0
    assert not Path("p.jsonl").exists()


@about("--strict")
def test_what_is_unlike_the_model_fails_only_when_told_so_and_is_written(few):
    Path("phones.jsonl").write_text(Path("phones.jsonl").read_text().replace('"brand": "Nokia"', '"brand": "No Such"'))
    assert few("--out", "done.jsonl", "--only", "os")[0] == 0
    assert few("--out", "strict.jsonl", "--only", "os", "--strict")[0] == 1
    assert Path("strict.jsonl").read_bytes() == Path("done.jsonl").read_bytes()


@about("--in-place")
def test_the_source_itself_is_changed_only_when_told_so(few):
    before = Path("phones.jsonl").read_bytes()
    status, _, err = few("--out", "phones.jsonl")
    assert (status, err) == (2, "error: phones.jsonl: is the source itself. Say --in-place to change it.\n")
    assert Path("phones.jsonl").read_bytes() == before
    status, _, err = few("--in-place", "--fill", "asked", "--only", "launch")
    assert (status, err.splitlines()[-1].endswith("; as it was: phones.jsonl.before")) == (0, True), err
    assert Path("phones.jsonl.before").read_bytes() == before
    first = rows("phones.jsonl")
    assert first
    assert Path("phones.jsonl").read_bytes() != before
    few("--in-place", "--fill", "asked")
    assert rows("phones.jsonl")[: len(first)] == first


WAYS = [("--out", "done.jsonl"), ("--out", "done.csv", "--force"), ("--in-place",)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("odd", ["a directory", "a device or a pipe"])
def test_what_is_no_file_in_the_place_of_the_sidecar_is_refused_before_any_work(few, place, way, odd):
    sidecar = Path(f"{'phones.jsonl' if len(way) == 1 else way[1]}.provenance.jsonl")
    sidecar.mkdir() if odd == "a directory" else sidecar.symlink_to("/dev/full")
    before = {one: one.is_file() and one.read_bytes() for one in place.iterdir()}
    status, out, err = few(*way)
    assert (status, out) == (2, "")
    assert (
        err == f"error: {sidecar}: expected a file, got {odd}. Move it away: the provenance of new values goes there.\n"
    )
    assert {one: one.is_file() and one.read_bytes() for one in place.iterdir()} == before


def test_a_disk_that_is_full_before_the_sidecar_is_whole_leaves_all_as_it_was(few, place):
    Path("phones.jsonl.provenance.jsonl").write_text('{"id": "nokia-8110", "path": "x", "value": 1}\n' * 4999)
    before = {one: one.is_file() and one.read_bytes() for one in place.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        status, out, err = few("--in-place", "-q", "--only", "weight")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (status, out) == (2, "")
    assert err == "error: phones.jsonl.provenance.jsonl: cannot be written: file too large.\n"
    assert {one: one.is_file() and one.read_bytes() for one in place.iterdir()} == before


def test_in_place_the_sidecar_is_that_of_the_source_also_where_the_target_is_named_by_a_link(few):
    Path("link.jsonl").symlink_to("phones.jsonl")
    assert few("--in-place", "--out", "link.jsonl")[0] == 0
    assert rows("phones.jsonl")
    assert not Path("link.jsonl.provenance.jsonl").exists()


@pytest.mark.parametrize("way", [("--in-place",), ("--out", "link.jsonl", "--force")])
def test_what_is_written_through_a_link_is_told_beside_what_it_points_to(run, place, way):
    keep_few()
    Path("data").mkdir()
    Path("link.jsonl").symlink_to("data/real.jsonl")
    shutil.copy("phones.jsonl", "data/real.jsonl")
    source = "link.jsonl" if len(way) == 1 else "phones.jsonl"
    assert run(source, "--model", "phones.kbdisk", *way)[0] == 0
    assert not [*place.glob("link.jsonl.*")]
    assert rows("data/real.jsonl")
    kept = ["real.jsonl.before"] if len(way) == 1 else []
    assert [one.name for one in place.glob("data/*.before")] == kept
    for name in ("link.jsonl", "data/real.jsonl"):
        assert any(entity.made for entity in given_entities(kbdisk.load(name)))


def test_every_option_has_a_test():
    shared = {name for option in SOURCE_OPTIONS for name in option(lambda: None).__click_params__[0].opts}
    own = {max(one.opts, key=len) for one in command.params if one.param_type_name == "option"}
    assert own - shared - {"--help"} <= TESTED


@pytest.fixture
def odd(place) -> str:
    """Elements with a typo."""
    text = Path("elements.ttl").read_text()
    wrong = (
        text
        + '\n<https://example.org/elements/H> <https://example.org/v/found> "17x6"^^<http://www.w3.org/2001/XMLSchema#gYear> .\n'
    )
    Path("odd.ttl").write_text(wrong)
    return "odd.ttl"


ODDLY = [
    ("--model", "elements.kbdisk"),
    ("--model", "elements.kbdisk", "-q"),
    pytest.param(SOON, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("options", ODDLY)
def test_what_is_odd_in_a_source_is_told_once(run, odd, options):
    status, _, err = run(odd, "--out", "done.ttl", *options)
    assert (status, err.count("warning: ")) == (0, 1), err


# ---------------------------------------------------------------- a model of its own


@pytest.mark.slow
@about("--preset", "--budget", "--schema")
def test_without_a_model_one_is_trained_kept_and_used_again_while_all_is_the_same(run, place):
    options = ("phones.jsonl", "--out", "done.jsonl", "--force", "--schema", "phones.yaml", *SOON)
    status, _, err = run(*options)
    assert status == 0, err
    assert "training on 63 entities of phones.jsonl" in err
    assert "by the model in phones.jsonl.kbdisk" in err
    first, folder = Path("done.jsonl").read_bytes(), Path("phones.jsonl.kbdisk/config.json").read_bytes()
    assert "using the model in phones.jsonl.kbdisk" in run(*options)[2]
    assert Path("done.jsonl").read_bytes() == first
    assert Path("phones.jsonl.kbdisk/config.json").read_bytes() == folder
    assert json.loads(folder)["facts"]["schema"] == "phones.yaml"
    outdated = {**json.loads(folder), "format": FORMAT - 1}
    Path("phones.jsonl.kbdisk/config.json").write_text(json.dumps({**outdated, "checksum": checksum(outdated)}))
    assert "training on" in run(*options)[2]
    assert "using the model" in run(*options)[2]
    assert "training on" in run(*options, "--seed", 1)[2]
    with Path("phones.jsonl").open("a") as file:
        file.write('{"id": "new", "brand": "Nokia"}\n')
    assert "training on 64 entities" in run(*options, "--seed", 1)[2]
    assert not Path("phones.jsonl.kbdisk.training").exists()


@about("--steps")
def test_so_many_steps_are_trained_whatever_their_time(run, place, quick):
    def train(steps: int) -> tuple[str, dict]:
        status, _, err = run("points.jsonl", "--out", "done.jsonl", "--force", "--preset", "fast", "--steps", steps)
        assert status == 0, err
        return err, json.loads(Path("points.jsonl.kbdisk/config.json").read_text())

    write_points()
    err, config = train(7)
    assert "training on 40 entities of points.jsonl, for 7 steps at most\n" in err
    assert (config["facts"]["steps"], config["run"]["train"]["seconds"]) == (7, None)
    assert "using the model in points.jsonl.kbdisk" in train(7)[0]
    assert train(8)[1]["facts"]["steps"] == 8


@pytest.mark.parametrize("most_in_memory", [50, 50_000])
def test_a_model_of_a_sample_is_used_again_and_every_entity_is_completed(
    run, place, quick, monkeypatch, most_in_memory
):
    write_points(200)
    monkeypatch.setattr(training_data, "VALUES_PER_SECOND", 0)
    monkeypatch.setattr(training_data, "READ_PER_SECOND", 0)
    monkeypatch.setattr(training_data, "MIN_VALUES_SAMPLED", 150)
    monkeypatch.setattr(training_data, "MIN_LEARNT", 10)
    monkeypatch.setattr(spool, "MAX_ITEMS_IN_MEMORY", most_in_memory)
    options = ("points.jsonl", "--fill", "all", *SOON)
    status, _, err = run(*options, "--out", "done.jsonl")
    assert status == 0, err
    [line] = [line for line in err.splitlines() if line.startswith("learns from ")]
    learnt = int(line.removeprefix("learns from ").split()[0])
    assert 50 < learnt < 150
    assert line == f"learns from {learnt} of 200 entities, a sample that there is time for"
    config = json.loads(Path("points.jsonl.kbdisk/config.json").read_text())
    assert config["facts"]["left_out"] == 200 - learnt
    assert f"{200 - learnt} left out" in Path("points.jsonl.kbdisk/README.md").read_text()
    assert {row["id"] for row in rows("done.jsonl")} == {f"p{n}" for n in range(0, 200, 4)}
    assert "using the model in points.jsonl.kbdisk" in run(*options, "--out", "again.jsonl")[2]
    assert Path("again.jsonl").read_bytes() == Path("done.jsonl").read_bytes()


@about("--keep")
def test_a_new_model_is_kept_in_the_named_folder_and_used_again_from_there(run, place, quick):
    Path("models").mkdir()
    write_points()
    before = sorted(place.rglob("*"))
    options = ("points.jsonl", "--keep", "models/mine.kbdisk", *SOON)
    assert run(*options, "--dry-run")[0] == 0
    assert sorted(place.rglob("*")) == before
    status, _, err = run(*options, "--out", "done.jsonl", "--fill", "all")
    assert status == 0, err
    assert "by the model in models/mine.kbdisk" in err
    assert {row["model"]["name"] for row in rows("done.jsonl")} == {"mine.kbdisk"}
    assert [file.name for file in Path("models").iterdir()] == ["mine.kbdisk"]
    assert not Path("points.jsonl.kbdisk").exists()
    weights = Path("models/mine.kbdisk/model.safetensors").read_bytes()
    assert "using the model in models/mine.kbdisk" in run(*options, "--out", "again.jsonl")[2]
    assert "training on" in run(*options, "--out", "other.jsonl", "--seed", 1)[2]
    assert Path("models/mine.kbdisk/model.safetensors").read_bytes() != weights


SLOWLY = [pytest.param(name, marks=pytest.mark.slow) for name in ("phones.json", "phones.csv", "elements.ttl")]


@pytest.mark.parametrize("source", ["phones.jsonl", *SLOWLY])
def test_what_was_filled_in_place_is_no_reason_to_train_again_and_what_somebody_gave_is(run, place, quick, source):
    if source.startswith("phones"):
        kbdisk.write(kbdisk.load("phones.jsonl"), source, in_place=True)
    first = run(source, "--in-place", "--fill", "all", *SOON)[2]
    assert ("training on" in first, f"as it was: {source}.before" in first) == (True, True)
    weights = Path(f"{source}.kbdisk/model.safetensors").read_bytes()
    changed = Path(source).read_bytes()
    again = run(source, "--in-place", "--fill", "all", *SOON)[2]
    assert f"using the model in {source}.kbdisk" in again, again
    assert Path(f"{source}.kbdisk/model.safetensors").read_bytes() == weights
    assert Path(source).read_bytes() == changed
    given = (b"Nokia", b"Nokya") if source.startswith("phones") else (b'"1766"', b'"1767"')
    Path(source).write_bytes(changed.replace(*given, 1))
    assert "training on" in run(source, "--dry-run", *SOON)[2]


def test_a_model_that_somebody_trained_there_is_used_and_never_replaced(run, place):
    shutil.copytree("phones.kbdisk", "phones.jsonl.kbdisk")
    status, _, err = run("phones.jsonl", "--out", "done.jsonl", *SOON)
    assert status == 2
    assert "phones.jsonl.kbdisk: another model stands where this one would be kept" in err
    assert not Path("done.jsonl").exists()


@pytest.mark.slow
@about("--only")
def test_what_the_schema_leaves_out_is_learnt_where_it_is_named_and_else_refused(run, place):
    rows = [{"id": f"t{i}", "code": None if i % 5 == 0 else f"C{i:03d}", "size": i % 3} for i in range(50)]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("t.jsonl", "--out", "done.jsonl", *SOON)[0] == 0
    model = ("--model", "t.jsonl.kbdisk", "--out", "named.jsonl")
    assert "code: ignored by the schema" in run("t.jsonl", "--only", "code", *model)[2]
    status, out, _ = run("t.jsonl", "--only", "code", "--dry-run", "--json", *SOON)
    assert (status, [row["path"] for row in json.loads(out)["properties"]]) == (0, ["code"])


def test_an_empty_string_that_stands_for_no_value_is_filled_and_other_spellings_stay(run, place, quick):
    colours, sizes = ["red", "blue", ""], [1, 2, 3, -1]
    lines = [f'{{"id": "t{i}",  "colour": "{colours[i % 3]}", "size": {sizes[i % 4]}}}\n' for i in range(60)]
    Path("t.jsonl").write_text("".join(lines))
    status, _, err = run("t.jsonl", "--out", "done.jsonl", "--fill", "all", *SOON)
    assert status == 0, err
    for before, after in zip(lines, Path("done.jsonl").read_text().splitlines(keepends=True), strict=True):
        assert re.fullmatch(re.escape(before).replace('""', '"(red|blue)"'), after)
    assert len(rows("done.jsonl")) == 20


def test_nothing_is_trained_where_nothing_would_be_filled(run, place):
    before = b'{"id": "a", "weight": 1, "colour": "red"}\n{"id": "b", "weight": 2}\n{"id": "c", "colour": "red"}\n'
    for few in (before, before.splitlines(keepends=True)[0]):
        Path("few.jsonl").write_bytes(few)
        status, _, err = run("few.jsonl", "--out", "done.jsonl", "--force")
        assert (status, Path("done.jsonl").read_bytes()) == (0, few)
        assert "nothing is trained" in err
        assert "training on" not in err
        assert not Path("few.jsonl.kbdisk").exists()


@pytest.mark.slow
def test_a_dry_run_that_trains_leaves_the_model_that_is_kept(run, place):
    run("phones.jsonl", "--out", "done.jsonl", *SOON)
    before = Path("phones.jsonl.kbdisk/model.safetensors").read_bytes()
    assert json.loads(Path("phones.jsonl.kbdisk/config.json").read_text())["facts"]["schema"] == "inferred"
    status, _, err = run("phones.jsonl", "--dry-run", "--seed", "1", *SOON)
    assert (status, "training on" in err) == (0, True)
    assert Path("phones.jsonl.kbdisk/model.safetensors").read_bytes() == before


def test_what_another_process_trains_is_left_to_it(run, place):
    with training_lock(Path("phones.jsonl.kbdisk")):
        status, out, err = run("phones.jsonl", "--out", "done.jsonl", *SOON)
    assert (status, out) == (2, "")
    assert err.endswith(
        "error: phones.jsonl.kbdisk: another process is training it. Wait until that is done, or stop it.\n"
    )
    assert err.count("\n") == 1
    assert not Path("done.jsonl").exists()


def test_text_is_read_but_not_learnt_unless_it_is_named():
    schema = kbdisk.infer(kbdisk.load(str(EXAMPLES / "phones.jsonl"))).schema
    roles = {path: one.role for path, one in with_text_given(schema, ()).classes[""].properties.items()}
    assert roles["name",] == "given"
    assert roles["launch",] == "value"
    assert with_text_given(schema, [("name",)]).classes[""].properties["name",].role == "value"


def test_texts_in_a_list_are_read_but_not_learnt_unless_they_are_named():
    fields = {name: Text() for name in ("why", "laudation", "remark")} | {"category": Category()}
    schema = of_one_class({("prizes",): Property(Listed(fields)), ("names",): Property(Listed({"": Text()}))})

    def prizes(*only):
        return with_text_given(schema, only).classes[""].properties["prizes",].kind.fields

    given = Text(given=True)
    assert prizes() == {"why": given, "laudation": given, "category": Category()}
    assert prizes(("prizes", "why")) == {"why": Text(), "laudation": given, "remark": given, "category": Category()}
    assert prizes(("prizes",)) == fields
    assert with_text_given(schema, ()).classes[""].properties["names",].role == "given"
    known = [
        Entity(f"p{n}", {"prizes": [{"why": f"{n} discoveries of rays", "category": "ab"[n % 2]}]}) for n in range(40)
    ]
    slots = {slot.path: slot for slot in Codec.fit(with_text_given(schema, ()), known).slots}
    assert slots["prizes", 0, "why"].fixed
    assert not slots["prizes", 0, "category"].fixed


def test_the_budget_fits_the_size():
    assert [fitting_budget(count) for count in (50, 1000, 10_000, 100_000, 10**7)] == [90, 90, 451, 900, 900]


# ---------------------------------------------------------------- what goes wrong, before any work


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["phones.jsonl"], "Missing option '--out'"),
        (["phones.jsonl", "--out", "-", "--json"], "--json and --out - both want standard output"),
        (["phones.jsonl", "--out", "x/y.jsonl"], "x/y.jsonl: cannot be written: no such directory"),
        (["phones.jsonl", "--out", "/proc/x.jsonl"], "/proc/x.jsonl: cannot be written: "),
        (["phones.jsonl", "--out", "."], "."),
        (
            ["phones.jsonl", "--out", "x.what"],
            "x.what: the name does not tell the format. Say --to, one of: csv, json, jsonl,",
        ),
        (["phones.jsonl", "--out", "x.csv", "--insert"], "--insert: needs the format of the source"),
        (["phones.jsonl", "--out", "x.jsonl", "--model", "none.kbdisk"], "none.kbdisk"),
        (["phones.jsonl", "--out", "x.jsonl", "--model", "phones.kbdisk", "--budget", "1m"], "--budget: says how"),
        (
            ["phones.jsonl", "--out", "x.jsonl", "--model", "phones.kbdisk", "--steps", "5"],
            "--steps: says how to train",
        ),
        (["phones.jsonl", "--out", "x.jsonl", "--steps", "0"], "0 is not in the range x>=1"),
        (
            ["phones.jsonl", "--out", "x.jsonl", "--model", "phones.kbdisk", "--keep", "m"],
            "--keep: is for a newly trained model, and --model names a trained one.",
        ),
        (
            ["phones.jsonl", "--out", "x.jsonl", "--keep", "phones.yaml"],
            "phones.yaml: expected a folder or nothing, got a file.",
        ),
        (["phones.jsonl", "--out", "x.jsonl", "--keep", "no/m"], "no/m: cannot be written: no such directory."),
        (
            ["phones.jsonl", "--out", "x.jsonl", "--keep", "x.jsonl"],
            "--keep: x.jsonl is the target, too. Choose another name.",
        ),
        (["phones.jsonl", "--out", "x.jsonl", "--in-place"], "--in-place: x.jsonl is not the source"),
        (["phones.jsonl", "elements.ttl", "--in-place"], "--in-place: needs one source alone"),
        (["phones.jsonl", "-", "--out", "x.jsonl"], "-: expected files where there are several"),
        (["phones.jsonl", "--out", "x.jsonl", "--only", "a..b"], "--only: expected a path"),
        (["none.jsonl", "--out", "x.jsonl"], "none.jsonl: no such file"),
        (["phones.jsonl", "--out", "x.jsonl", "--budget", "soon"], "--budget: expected a time"),
        (["phones.jsonl", "--out", "x.jsonl", "--preset", "huge"], "'huge' is not one of 'fast', 'default'"),
        (["phones.jsonl", "--out", "x.jsonl", "--preset", "synthetic"], "'synthetic' is not one of"),
        (["phones.jsonl", "--out", "x.jsonl", "--schema", "none.yaml"], "none.yaml"),
        (["phones.jsonl", "--out", "x.jsonl", "--insert"], "--insert: jsonl has no anonymous [ ... ]"),
        (["phones.jsonl", "--dry-run", "--insert"], "--insert: jsonl has no anonymous [ ... ]"),
        (["phones.jsonl", "--dry-run", "--draws", "3"], "--draws: stand in TARGET.provenance.jsonl"),
        (["phones.jsonl", "--out", "-", "--draws", "3"], "--draws: stand in TARGET.provenance.jsonl"),
        (["phones.jsonl", "elements.ttl", "--out", "x.jsonl", "--encoding", "latin-1"], "SOURCE is jsonl, turtle: it"),
        (["phones.jsonl", "elements.ttl", "--out", "x.jsonl", "--language", "de", "--budget", "soon"], "--budget: exp"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_leaves_nothing(run, place, arguments, complaint):
    before = sorted(place.rglob("*"))
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert complaint in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert "training" not in err
    assert sorted(place.rglob("*")) == before


def test_the_option_that_names_the_format_of_a_source_is_the_one_that_the_command_has(run, place):
    Path("noname").write_text("x")
    assert "Say --from, one of: " in run("noname", "--out", "x.jsonl")[2]
    assert "--from: unknown format 'what'" in run("noname", "--out", "x.jsonl", "--from", "what")[2]


def test_a_model_of_other_things_is_refused(run, place):
    status, _, err = run("elements.ttl", "--model", "phones.kbdisk", "--out", "done.ttl")
    assert status == 2
    assert "elements.ttl: expected properties of the schema, such as " in err
    assert not Path("done.ttl").exists()


def test_an_id_alone_makes_nothing_a_thing_that_a_model_knows(run, place):
    Path("people.jsonl").write_text('{"id": "p1", "who": "Ann"}\n{"id": "p2", "who": "Bob"}\n')
    status, _, err = run("people.jsonl", "--model", "phones.kbdisk", "--out", "done.jsonl")
    assert status == 2
    assert "people.jsonl: expected properties of the schema, such as " in err
    assert not Path("done.jsonl").exists()


def test_an_entity_with_nothing_but_places_for_values_is_completed(run, place):
    Path("blank.jsonl").write_text('{"id": "a", "weight": null}\n')
    assert run("blank.jsonl", "--model", "phones.kbdisk", "--out", "done.jsonl", "--fill", "asked")[0] == 0


def test_a_path_that_the_model_does_not_know_is_refused_with_the_nearest(few):
    status, _, err = few("--out", "done.jsonl", "--only", "wieght")
    assert status == 2
    assert "Did you mean 'weight'?" in err
    assert not Path("done.jsonl").exists()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_what_the_schema_leaves_out_is_named_and_its_gaps_are_counted(run, place, quick, suffix):
    lines = [{"id": f"e{n}", "x": n % 7 if n % 4 else None, "never": None, "part": {"no": None}} for n in range(80)]
    Path("kb.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    if suffix == "csv":
        kbdisk.write(list(kbdisk.load("kb.jsonl")), "kb.csv")
    source, before = f"kb.{suffix}", sorted(place.rglob("*"))
    for path in ("never", "part"):
        status, _, err = run(source, "--out", "done.jsonl", "--only", path)
        assert (status, len(err.splitlines())) == (2, 1)
        assert err.startswith(f"error: {path}: {source} has it, and the inferred schema leaves it out: ")
    Path("kb.yaml").write_text("kbdisk: 1\nclasses:\n  '': {id: id, properties: {x: number}}\n")
    err = run(source, "--out", "done.jsonl", "--only", "never", "--schema", "kb.yaml")[2]
    assert err == f"error: never: {source} has it, and kb.yaml leaves it out. Put it in there.\n"
    Path("kb.yaml").unlink()
    assert sorted(place.rglob("*")) == before
    _, _, err = run(source, "--out", "done.jsonl", "--fill", "all", *SOON)
    assert "\nbesides, 160 gaps of what the schema leaves out: never, part.no\n" in err
    assert "\nwrote done.jsonl: 20 gaps of 20" in err


@pytest.mark.slow
def test_texts_that_are_not_learnt_are_told_apart_from_what_no_schema_has(run, place, quick):
    texts = {f"t{i}": lambda n, i=i: f"some words about {n * 37 % 101} and {n * i}" for i in range(6)}
    lines = [
        {
            "id": f"e{n}",
            "x": n % 7 if n % 4 else None,
            "never": None,
            **{k: t(n) if n % 5 else None for k, t in texts.items()},
        }
        for n in range(80)
    ]
    Path("kb.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    _, _, err = run("kb.jsonl", "--out", "done.jsonl", "--fill", "all", *SOON)
    assert (
        "\nbesides, 32 gaps of what is learnt only where --only names it: t4, t5\nbesides, 80 gaps of what the schema"
        in err
    )
    told = json.loads(run("kb.jsonl", "--dry-run", "--json", "--model", "kb.jsonl.kbdisk")[1])
    assert (told["ignored"], told["left_out"]) == ({"t4": 16, "t5": 16}, {"never": 80})
    assert run("kb.jsonl", "--out", "more.jsonl", "--fill", "all", *SOON, "--only", "t5")[0] == 0
    assert all(tree["t5"] for tree in trees("more.jsonl").values())


def test_what_the_schema_of_a_model_leaves_out_is_named(few):
    Path("phones.jsonl").write_text('{"id": "a", "brand": "Nokia", "weight": null, "never": null}\n')
    _, _, err = few("--out", "done.jsonl", "--only", "never")
    assert err.startswith("error: never: phones.jsonl has it, and the schema of the model leaves it out. ")
    told = json.loads(few("--dry-run", "--json")[1])
    assert told["left_out"] == {"never": 1}


# ---------------------------------------------------------------- the table


TABLE = "id,weight,sku\na,100,1\ndup,110,2\ndup,,3\n"


@pytest.mark.parametrize("options", [("--model", "phones.kbdisk"), SOON])
@pytest.mark.parametrize(("sources", "where"), [(["t.csv"], "t.csv"), (["phones.jsonl", "t.csv"], "t.csv")])
def test_a_table_in_which_an_id_repeats_is_refused(run, place, sources, where, options):
    Path("t.csv").write_text(TABLE)
    before = sorted(place.rglob("*"))
    status, out, err = run(*sources, "--out", "done.csv", *options)
    assert (status, out) == (2, "")
    assert err == f"error: {where}: has more than one entity 'dup'. Say --id to tell them apart.\n"
    assert sorted(place.rglob("*")) == before


def test_a_table_without_ids_or_with_another_one_is_completed(run, place):
    Path("t.csv").write_text(TABLE.replace("id,", "customer,"))
    assert run("t.csv", "--model", "phones.kbdisk", "--out", "done.csv")[0] == 0
    Path("t.csv").write_text(TABLE)
    assert run("t.csv", "--id", "sku", "--model", "phones.kbdisk", "--out", "done.csv", "--force")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_terminal(run, place, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, _, err = run("elements.ttl", "--model", "elements.kbdisk", "--out", "done.ttl", "--force")
    assert max(map(len, err.splitlines())) <= columns
    assert re.search(r"^property +missing +filled +expected error +constant +sure", err, re.MULTILINE)


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_the_constant_and_what_is_held_back_are_told_however_narrow_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    summary = Summary.of([{"class": "", "path": "engine.power", "metric": "MAE", "ours": 12.3, "constant": 45.6}])
    for path, filled in (("engine", "power"), 9), (("sunroof",), 0):
        of = Row("", path, 12, filled, Counter({"unlikely to be recorded": 12 - filled}), Counter([path]), "", 4.5)
        of.quality = summary.quality
        summary.rows["", path] = of
    lines = render_summary({"target": None}, summary).splitlines()
    assert max(map(len, lines)) <= columns
    sure = [] if columns == 60 else ["50", "%"]
    beside = ["3:", "unlikely", "to", "be", "recorded"] if columns >= 100 else []
    assert ["engine.power", "12", "9", "12.3", "MAE", "45.6", *sure, *beside] in map(str.split, lines)
    below = "unlikely to be recorded  3 of engine.power, 12 of sunroof"
    assert (below in " ".join(lines)) == (columns < 100)


def test_the_expected_error_says_how_many_values_are_by_rule_instead(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    summary = Summary.of([{"class": "", "path": "seats", "metric": "MAE", "ours": 49.2, "constant": 51.3}])
    row = Row("", ("seats",), 500, 500, leaves=Counter([("seats",)]), quality=summary.quality)
    summary.rows["", ("seats",)] = row
    for by_rule, expected in (0, "49.2 MAE  "), (415, "49.2 MAE, 415 by rule  "), (500, "  by rule  "):
        row.by_rule = Counter({"seats = as by model": by_rule})
        assert expected in render_summary({"target": None}, summary)


def in_classes(count: int, learnt_as=as_itself) -> Summary:
    """A summary in which each of some classes has a weight, and lacks a power that is held back."""
    measured = [
        {"class": f"C{number}", "path": "weight", "metric": "MAE", "ours": 12.3 + number, "constant": 45.6}
        for number in range(count)
    ]
    summary = Summary.of(measured, learnt_as)
    for number in range(count):
        name = f"C{number}"
        row = Row(name, ("weight",), 10, 4 + (number == 0), Counter({"too few": 6 - (number == 0)}), confidence_sum=3.0)
        row.leaves, row.quality, row.learnt_as = Counter([("weight",)]), summary.quality, learnt_as
        summary.rows[name, ("weight",)] = row
        summary.rows[name, ("power",)] = Row(name, ("power",), 7, 0, Counter({"too few": 7}))
    return summary


def test_of_many_classes_the_summary_has_each_property_once(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    text = render_summary({"target": None}, in_classes(30))
    assert "All 30 classes (--json lists each)" in text
    lines = list(map(str.split, text.splitlines()))
    counts, held_back = ["weight", "300", "121"], ["74", "%", "179:", "too", "few"]
    assert [*counts, "by", "class", *held_back] in lines
    assert ["power", "210", "too", "few"] in lines
    assert sum(line[:1] == ["weight"] for line in lines) == 1
    together = render_summary({"target": None}, in_classes(30, lambda name, path: ("C0", "weight")))
    assert [*counts, "12.3", "MAE", "45.6", *held_back] in list(map(str.split, together.splitlines()))
    few = render_summary({"target": None}, in_classes(3))
    assert all(f"\nC{number}\n" in few for number in range(3))


def test_a_reason_for_many_properties_names_the_first_ones(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    summary = Summary.of([])
    for number in range(50):
        summary.rows["", (f"p{number}",)] = Row("", (f"p{number}",), 7, 0, Counter({"too few": 7}))
    text = " ".join(render_summary({"target": None}, summary).split())
    assert "7 of p19 and 30 more" in text
    assert "7 of p20" not in text


@pytest.mark.parametrize(
    ("unit", "shown"), [("g/cm3", "g/cm3"), ("http://qudt.org/vocab/unit/KiloGM", "KiloGM"), ("", "")]
)
def test_an_error_is_told_in_the_unit(monkeypatch, unit, shown):
    monkeypatch.setenv("COLUMNS", "100")
    summary = Summary.of([{"class": "", "path": "density.value", "metric": "MAE", "ours": 1.25, "constant": 4.5}])
    summary.rows["", ("density",)] = Row(
        "", ("density",), 3, 3, leaves=Counter([("density", "value")]), unit=unit, quality=summary.quality
    )
    assert f"1.25 {shown} MAE".replace("  ", " ") in render_summary({"target": None}, summary)


# ---------------------------------------------------------------- killed


def killed(arguments: list[str], seconds: float) -> None:
    """Run the command, and kill it after so many seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kbdisk", "complete", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_command_killed_at_any_moment_leaves_no_partial_target_and_goes_on(place):
    arguments = ["phones.jsonl", "--out", "done.jsonl", "--preset", "fast", "--budget", "6s", "-q"]
    source = Path("phones.jsonl").read_bytes()
    for turn in range(10):
        killed(arguments, 2 + 1.3 * turn)
        assert Path("phones.jsonl").read_bytes() == source
        if Path("done.jsonl").exists():
            assert len(trees("done.jsonl")) == 63
            break
    else:
        done = subprocess.run([sys.executable, "-m", "kbdisk", "complete", *arguments], check=True, timeout=120)
        assert done.returncode == 0
    assert len(trees("done.jsonl")) == 63
