"""kbdisk.complete: plan, predict, decide and write from Python, with a model and without."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pandas
import pytest
from models import EXAMPLES, LINES, QUICK, calibrated, phones, tiny
from tables import for_each

import kbdisk
from kbdisk.api.model import Model
from kbdisk.completion.answers import REJECTED, Answer, reviewed_of
from kbdisk.completion.predict import GapPredictor
from kbdisk.entity import Entity, at, read_path, walk
from kbdisk.errors import ConfigError, KBDiskError, LoadError, SchemaError, WriteError
from kbdisk.evaluation.calibration import Line
from kbdisk.store.folder import save
from kbdisk.training.run import PRESETS


@pytest.fixture(scope="session")
def unsure_folder(tmp_path_factory) -> Path:
    """A model of the phones that is sure of some values, and of others not."""
    folder = tmp_path_factory.mktemp("unsure") / "phones.kbdisk"
    save(calibrated(tiny(*phones()), presence=Line(0.4, 1.0), correctness=Line(0.6, 1.0)), folder)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, unsure_folder) -> Path:
    """A folder with a few phones and a model of them."""
    lines = (EXAMPLES / "phones.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "phones.jsonl").write_text("".join(lines[place] for place in LINES))
    shutil.copytree(unsure_folder, tmp_path / "phones.kbdisk")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(**options) -> kbdisk.Completed:
    return kbdisk.complete("phones.jsonl", model="phones.kbdisk", **options)


def filled(several) -> list[dict]:
    return [completion.filled for completion in several]


def without_time(file: str) -> list[dict]:
    return [json.loads(line) | {"time": ""} for line in Path(file).read_text().splitlines()]


# ---------------------------------------------------------------- the stages


def test_a_source_is_completed_as_by_a_model_that_is_asked(place):
    one = completed()
    wanted = kbdisk.open("phones.kbdisk").complete("phones.jsonl")
    assert filled(one) == filled(wanted)
    assert filled(one) == filled(one)
    assert one.summary.to_json() == wanted.summary.to_json()
    assert one.drift.to_json() == wanted.drift.to_json()
    assert [(row["id"], row["path"]) for row in one.rows] == [
        (completion.entity.id, kbdisk.entity.show(path)) for completion in one for path in completion.filled
    ]


def test_thresholds_change_what_is_written_and_nothing_is_predicted_again(place, monkeypatch):
    one = completed()
    anew = {c: completed(min_confidence=c) for c in (0.2, 0.6)}
    everything = completed(fill="all")
    monkeypatch.setattr(GapPredictor, "predict", None)  # the network is asked by this alone
    for confidence, other in anew.items():
        again = one.with_thresholds(min_confidence=confidence)
        assert filled(again) == filled(other)
        assert again.summary.to_json() == other.summary.to_json()
    assert filled(one.with_thresholds(fill="all")) == filled(everything)
    assert filled(everything.with_thresholds(fill="likely")) == filled(one)
    assert len({str(filled(each)) for each in (one, everything, *anew.values())}) == 4
    with pytest.raises(ConfigError, match="--precision: chooses the confidence"):
        one.with_thresholds(min_confidence=0.5, precision=0.9)


def test_predictions_that_are_kept_are_decided_on_later_and_elsewhere(place, monkeypatch):
    first = completed(predictions="p.jsonl")
    assert Path("p.jsonl").read_bytes().count(b"\n") == len(first.predictions) + 1
    stored = Path("p.jsonl").read_bytes()
    monkeypatch.setattr(GapPredictor, "predict", None)
    assert filled(completed(predictions="p.jsonl")) == filled(first)
    assert filled(completed(predictions=first.predictions, min_confidence=0.2)) == filled(
        first.with_thresholds(min_confidence=0.2)
    )
    assert Path("p.jsonl").read_bytes() == stored


def test_predictions_of_another_source_or_model_are_refused(place):
    completed(predictions="p.jsonl")
    with pytest.raises(LoadError, match=r"p.jsonl: expected predictions with seed 1, got those with seed 0"):
        completed(predictions="p.jsonl", seed=1)
    text = Path("phones.jsonl").read_text()
    Path("phones.jsonl").write_text(text.replace("Nokia", "Nokya", 1))
    with pytest.raises(LoadError, match=r"p.jsonl: expected predictions of this source, got those of another"):
        completed(predictions="p.jsonl")
    Path("phones.jsonl").write_text(text)
    save(calibrated(tiny(*phones(), steps=6)), "other.kbdisk")
    with pytest.raises(LoadError, match=r"p.jsonl: expected predictions by this model, got those by another"):
        kbdisk.complete("phones.jsonl", model="other.kbdisk", predictions="p.jsonl")


@for_each("options", [{"every_gap": False}, {"estimate": "sample"}, {"draws": 2}, {"order": "random"}])
def test_where_only_some_gaps_were_predicted_other_thresholds_are_refused(place, options):
    one = completed(**options)
    assert any(filled(one))
    with pytest.raises(ConfigError, match="needs values for all gaps"):
        one.with_thresholds(min_confidence=0.2)
    one.predictions.save("p.jsonl")
    assert filled(completed(predictions="p.jsonl", **options)) == filled(one)
    with pytest.raises(LoadError, match=r"with fill likely min_confidence 0.2 precision none, got those with "):
        completed(predictions="p.jsonl", min_confidence=0.2, **options)
    Path("p.jsonl").unlink()


def test_predictions_for_some_gaps_are_refused_where_all_are_wanted(place):
    some = completed(every_gap=False)
    with pytest.raises(LoadError, match="expected predictions for all gaps, got those for some"):
        completed(predictions=some.predictions)
    assert filled(completed(predictions=some.predictions, every_gap=False)) == filled(some)


def test_answers_to_each_of_several_sources_hold(place):
    lines = Path("phones.jsonl").read_text().splitlines(keepends=True)
    sources = []
    for name, some in (("a.jsonl", lines[:4]), ("b.jsonl", lines[4:])):
        Path(name).write_text("".join(some))
        sources.append(name)
    before = list(kbdisk.complete(sources, model="phones.kbdisk", min_confidence=0.1))
    proposed = [(phone.entity.id, path, value) for phone in before[4:] for path, value in phone.filled.items()]
    id, path, value = next(row for row in proposed if isinstance(row[2].value, str))
    answer = Answer(id, path, value.value, REJECTED)
    reviewed_of("b.jsonl").write_text(json.dumps(answer.to_json()) + "\n")
    after = {one.entity.id: one.filled for one in kbdisk.complete(sources, model="phones.kbdisk", min_confidence=0.1)}
    assert path not in after[id] or after[id][path].value != value.value


def test_what_is_not_worth_a_prediction_changes_nothing_that_is_written(place):
    assert filled(completed(every_gap=False)) == filled(completed())


# ---------------------------------------------------------------- writing


@for_each(
    "options", [{}, {"fill": "all"}, {"precision": 0.9}, {"estimate": "sample"}, {"order": "certain"}, {"draws": 2}]
)
def test_the_target_has_the_same_bytes_as_that_of_the_command(place, options, run):
    kbdisk.complete("phones.jsonl", "a.jsonl", model="phones.kbdisk", force=True, **options)
    told = [text for name, value in options.items() for text in (f"--{name}", value)]
    status, _, err = run(
        "complete", "phones.jsonl", "--model", "phones.kbdisk", "--out", "b.jsonl", "--force", "-q", *told
    )
    assert status == 0, err
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert without_time("a.jsonl.provenance.jsonl") == without_time("b.jsonl.provenance.jsonl")


def test_what_was_decided_is_written_in_another_format_with_a_review(place):
    one = completed(min_confidence=0.2)
    written = one.write("done.csv", review="review.csv")
    rows = list(written.rows)
    assert rows == list(map(json.loads, Path("done.csv.provenance.jsonl").read_text().splitlines()))
    assert written.report.written == len(rows) > 0
    assert len(Path("review.csv").read_text().splitlines()) > len(rows) + 1
    before = sorted(place.iterdir())
    dry = one.write(None)
    assert [row["path"] for row in dry.rows] == [row["path"] for row in rows]
    assert sorted(place.iterdir()) == before


def test_a_review_is_of_one_file_and_never_replaced_unasked(place):
    one = completed()
    Path("review.csv").write_text("mine")
    with pytest.raises(WriteError, match=r"review.csv: exists already, with what was decided in it."):
        one.write(None, review="review.csv")
    with pytest.raises(
        ConfigError, match=r"review: expected a name that ends in .csv, .tsv, .jsonl, got 'review.txt'."
    ):
        one.write(None, review="review.txt")
    in_memory = kbdisk.complete([{"id": "a", "weight": None}], model="phones.kbdisk")
    with pytest.raises(ConfigError, match="review: needs one source that is a file, got "):
        in_memory.write(None, review="new.csv")
    assert Path("review.csv").read_text() == "mine"
    one.write(None, review="review.csv", force=True)
    assert len(Path("review.csv").read_text().splitlines()) > len(list(one.rows))


def test_a_target_that_is_there_is_refused_before_anything_is_predicted(place, monkeypatch):
    Path("done.jsonl").write_text("mine")
    monkeypatch.setattr(GapPredictor, "predict", None)
    with pytest.raises(WriteError, match=r"done.jsonl: exists already. Say force=True to replace it."):
        kbdisk.complete("phones.jsonl", "done.jsonl", model="phones.kbdisk")
    assert Path("done.jsonl").read_text() == "mine"


# ---------------------------------------------------------------- without a model


def test_without_a_model_one_is_trained_kept_beside_the_source_and_used_again(place, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    lines_of_phones = (EXAMPLES / "phones.jsonl").read_text().splitlines(keepends=True)
    Path("kb.jsonl").write_text("".join(lines_of_phones[:30]))
    lines: list[str] = []
    done: list[tuple[int, int]] = []
    first = kbdisk.complete(
        "kb.jsonl", "done.jsonl", preset="fast", fill="all", report=lines.append, progress=lambda *n: done.append(n)
    )
    assert re.match("training on 30 entities of kb.jsonl, ", lines[0])
    assert done == [(30, 30)]
    assert Path("kb.jsonl.kbdisk/config.json").exists()
    again = kbdisk.complete("kb.jsonl", preset="fast", fill="all", report=lines.append)
    assert lines[1].startswith("plan: ")
    assert lines[2:] == ["using the model in kb.jsonl.kbdisk"]
    assert filled(again) == filled(first)
    given = {entity.id: entity.tree for entity in kbdisk.load("kb.jsonl")}
    new = {entity.id: entity.tree for entity in kbdisk.load("done.jsonl")}
    for id, tree in given.items():
        assert all(value is None or at(new[id], path) == value for path, value in walk(tree))
    assert all(at(new[row["id"]], read_path(row["path"])) == row["value"] for row in first.rows)


def test_a_new_model_is_kept_where_that_is_wanted_after_so_many_steps(place, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    rows = [{"id": f"e{n}", "x": n % 7 if n % 4 else None, "y": "ab"[n % 2]} for n in range(80)]
    lines: list[str] = []
    for _ in range(2):
        completed = kbdisk.complete(rows, preset="fast", steps=3, keep="kept", report=lines.append)
        assert completed.source.folder == "kept"
    assert lines == ["training on 80 entities of <memory>, for 3 steps at most", "using the model in kept"]
    assert kbdisk.open("kept").record.facts["steps"] == 3


def test_after_an_edit_training_continues_from_the_kept_model(place, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    monkeypatch.setattr("kbdisk.api.train.MIN_STEPS", 1)
    rows = [{"id": f"e{n}", "x": n % 7, "y": "ab"[n % 2] if n % 5 else None} for n in range(80)]
    lines: list[str] = []

    def held_out() -> list[str]:
        Path("kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        kbdisk.complete("kb.jsonl", preset="fast", report=lines.append)
        return kbdisk.open("kb.jsonl.kbdisk").record.validation

    first = held_out()
    rows[3]["y"], rows[4]["x"] = "a", 6
    assert held_out() == first
    rows = [{**row, "z": row["x"] % 3} for row in rows]
    held_out()
    begun = [line.partition(" on ")[0] for line in lines if not line.startswith("plan: ")]
    assert begun == [
        "training",
        "the source has changed: continuing from the model in kb.jsonl.kbdisk",
        "training",
    ]


def test_where_only_ids_have_changed_the_kept_model_is_opened_once_to_continue_from(place, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    monkeypatch.setattr("kbdisk.api.train.MIN_STEPS", 1)
    opened: list[Path] = []

    def open_model(folder, *options):
        opened.append(folder)
        return kbdisk.open(folder, *options)

    monkeypatch.setattr("kbdisk.api.complete.open_model", open_model)
    lines: list[str] = []
    for letter in "ef":
        rows = [
            {"id": f"{letter if n == 3 else 'e'}{n}", "x": n % 7, "y": "ab"[n % 2] if n % 5 else None}
            for n in range(80)
        ]
        Path("kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        kbdisk.complete("kb.jsonl", preset="fast", report=lines.append)
    assert lines[-2].startswith("the source has changed: continuing from the model in kb.jsonl.kbdisk")
    assert opened == [Path("kb.jsonl.kbdisk")]


def test_what_is_in_memory_is_completed_and_leaves_no_file(place, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    before = sorted(place.iterdir())
    rows = [{"id": f"e{n}", "x": n % 7 if n % 4 else None, "y": "ab"[n % 2]} for n in range(80)]
    for source in (rows, pandas.DataFrame(rows).set_index("id")):
        one = kbdisk.complete(source, preset="fast", fill="all", only="x")
        assert [set(each) for each in filled(one)] == [set() if n % 4 else {("x",)} for n in range(80)]
    assert sorted(place.iterdir()) == before


def test_a_model_that_is_open_completes_entities_of_python(place):
    model = kbdisk.open("phones.kbdisk")
    assert isinstance(model, Model)
    entities = [Entity("new", {"id": "new", "brand": "Nokia", "weight": None})]
    [one] = kbdisk.complete(entities, model=model, fill="all", only=["weight"])
    assert one.filled.keys() == {("weight",)}


# ---------------------------------------------------------------- what makes no sense


@for_each(
    ("options", "error", "complaint"),
    [
        ({"fill": "some"}, ConfigError, "--fill: expected one of asked, likely, all, got 'some'."),
        ({"min_confidence": 2}, ConfigError, "--min-confidence: expected 0 to 1, got 2."),
        ({"min_confidence": "high"}, ConfigError, "--min-confidence: expected 0 to 1, got high."),
        ({"treshold": 0.5}, ConfigError, "treshold: expected one of fill, only, classes, "),
        ({"budget": "1m"}, ConfigError, "budget: says how to train, and model what was trained. Leave one out."),
        ({"steps": 3}, ConfigError, "steps: says how to train, and model what was trained. Leave one out."),
        (
            {"keep": "kept"},
            ConfigError,
            "keep: is for a newly trained model, and model is a trained one. Leave one out.",
        ),
        ({"model": None, "keep": "no/kept"}, KBDiskError, "no/kept: cannot be written: no such directory."),
        ({"only": "a..b"}, ConfigError, "a..b: expected a path"),
        ({"only": ["wieght"]}, SchemaError, "wieght: expected a path of the schema"),
        ({"classes": ["Pear"]}, KBDiskError, "Pear"),
        ({"model": "none.kbdisk"}, KBDiskError, "none.kbdisk"),
        ({"shapes": "none.ttl"}, SchemaError, "none.ttl: no such file."),
        ({"predictions": "no/p.jsonl"}, WriteError, "no/p.jsonl: cannot be written: no such directory."),
        ({"predictions": "phones.jsonl"}, LoadError, "phones.jsonl: expected predictions that kbdisk saved"),
        ({"out": "done.what"}, ConfigError, "done.what: the name does not tell the format."),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(place, options, error, complaint):
    before = sorted(place.iterdir())
    with pytest.raises(error) as caught:
        kbdisk.complete("phones.jsonl", **{"model": "phones.kbdisk", **options})
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(place.iterdir()) == before


def test_a_source_is_read_once_for_all_stages(place, monkeypatch):
    source, reads = kbdisk.load("phones.jsonl", id="id"), []
    read = type(source).read
    monkeypatch.setattr(type(source), "read", lambda kb: reads.append(kb.name) or read(kb))
    completed = kbdisk.complete(source, model="phones.kbdisk")
    assert completed.summary.entities == len(LINES)
    assert reads == ["phones.jsonl"]
