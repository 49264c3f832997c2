"""Further members of sets and further classes from the command line: written, reviewed, explained and taken out again."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import crew
import pytest
import rdflib
from crew import E

import kbdisk

QUICK = ("--preset", "fast", "--budget", "0.3s")
MISSING = {number: crew.missing_skill(number) for number in crew.LACKING_SKILL}
SOURCES = {"kb.ttl": crew.turtle, "kb.nt": crew.n_triples, "kb.jsonl": crew.json_lines, "kb.csv": crew.csv}


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A folder of the sources, each with the model that completing it keeps, also under the name of the completed file."""
    folder = tmp_path_factory.mktemp("crew")
    for name, text in SOURCES.items():
        (folder / name).write_text(text())
        kbdisk.complete(folder / name, preset="fast", budget="0.3s")
        shutil.copytree(folder / f"{name}.kbdisk", folder / f"done-{name}.kbdisk")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch, sources) -> Path:
    shutil.copytree(sources, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(target: str) -> list[dict]:
    return [json.loads(line) for line in Path(f"{target}.provenance.jsonl").read_text().splitlines()]


def statements(file: str) -> set:
    """The statements of a file, as rdflib reads them."""
    return set(rdflib.Graph().parse(file, format="turtle"))


@pytest.mark.parametrize(
    ("name", "key"), [("kb.ttl", "skill"), ("kb.nt", "skill"), ("kb.jsonl", "skills"), ("kb.csv", "skills")]
)
def test_missing_members_are_added_in_place_and_taken_out_to_the_byte(run, place, name, key):
    status, _, err = run("complete", name, "--out", f"done-{name}", "--only", key, *QUICK)
    assert status == 0
    assert f"using the model in {name}.kbdisk" in err
    assert f"{len(MISSING)} members added to sets" in err
    before, after = (dict(members_of(file, key)) for file in (name, f"done-{name}"))
    assert {id: after[id] - before[id] for id in after if after[id] != before[id]} == {
        f"p{number}": {skill} for number, skill in MISSING.items()
    }
    for row in rows(f"done-{name}"):
        assert (row["property"], row["gap"], row["estimate"]) == (f"{key}", key, "member")
        assert row["confidence"] == pytest.approx(row["presence"] * row["correctness"], rel=1e-4)
    again = run("complete", f"done-{name}", "--dry-run", "--only", key, *QUICK)
    assert again[0] == 0
    assert "added" not in again[2]
    assert run("retract", f"done-{name}")[0] == 0
    assert Path(f"done-{name}").read_bytes() == Path(name).read_bytes()


def members_of(file: str, key: str):
    """The members of each set, with those in blocks, by the last words of ids."""
    if file.endswith((".ttl", ".nt")):
        found: dict[str, set[str]] = {}
        for head, predicate, tail in statements(file):
            if str(predicate) == E + key:
                found.setdefault(str(head).removeprefix(E), set()).add(str(tail).removeprefix(E))
        yield from found.items()
    elif file.endswith(".csv"):
        for row in csv.DictReader(io.StringIO(Path(file).read_text())):
            yield row["id"], {row[f"{key}[{number}]"] for number in range(3)} - {""}
    else:
        for line in Path(file).read_text().splitlines():
            record = json.loads(line)
            yield record["id"], set(record[key])


def test_every_byte_but_the_new_members_stays(run, place):
    run("complete", "kb.jsonl", "--out", "done.jsonl", "--only", "skills", *QUICK)
    text = Path("done.jsonl").read_text()
    for number, skill in MISSING.items():
        shorter = json.dumps(list(crew.skills_of(number)))
        line = next(line for line in text.splitlines() if f'"id": "p{number}"' in line)
        text = text.replace(line, line.replace(f'{shorter[:-1]}, "{skill}"]', shorter))
    assert text == crew.json_lines()


def test_classes_are_reviewed_and_written_where_they_are_named(run, place):
    wanted = {f"{E}p{number}": E + crew.kind_of(number) for number in crew.LACKING_CLASS} | {f"{E}c20": f"{E}City"}
    assert run("complete", "kb.ttl", "--review", "review.csv", *QUICK)[0] == 0
    with Path("review.csv").open(encoding="utf-8-sig", newline="") as stream:
        table = list(csv.DictReader(stream))
    proposed = {row["id"]: row["value"] for row in table if "rdf:type" in row["reason"]}
    assert proposed == wanted
    status, out, err = run("complete", "kb.ttl", "--out", "typed.ttl", "--only", "rdf:type", "--json")
    assert status == 0, err
    assert json.loads(out)["members"] == len(wanted)
    new = statements("typed.ttl") - statements("kb.ttl")
    assert {str(head): str(tail) for head, _, tail in new} == wanted
    assert {str(predicate) for _, predicate, _ in new} == {"http://www.w3.org/1999/02/22-rdf-syntax-ns#type"}
    given = {entity.id: entity.classes for entity in kbdisk.load("kb.ttl")}
    assert {entity.id: entity.classes for entity in kbdisk.load("typed.ttl")} == given  # not evidence
    assert run("retract", "typed.ttl", "--only", "rdf:type")[0] == 0
    assert Path("typed.ttl").read_bytes() == Path("kb.ttl").read_bytes()


def test_accepted_members_and_classes_are_applied_and_rejected_ones_are_not_proposed_again(run, place):
    run("complete", "kb.ttl", "--review", "review.jsonl", *QUICK)
    reviewed = []
    for line in Path("review.jsonl").read_text().splitlines():
        row = json.loads(line)
        is_class = "rdf:type" in row["reason"]
        if row["id"] in (f"{E}p5", f"{E}p3") and (is_class or row["path"] == "skill[2]"):
            row["decision"] = "accept"
        elif row["id"] in (f"{E}p11", f"{E}p17") and (is_class or row["path"] == "skill[2]"):
            row["decision"] = "reject"
        reviewed.append(json.dumps(row))
    Path("review.jsonl").write_text("\n".join(reviewed) + "\n")
    status, _, err = run("apply", "review.jsonl", "--out", "applied.ttl")
    assert status == 0, err
    new = statements("applied.ttl") - statements("kb.ttl")
    assert {(str(head).removeprefix(E), str(tail).removeprefix(E)) for head, _, tail in new} == {
        ("p5", MISSING[5]),
        ("p3", crew.kind_of(3)),
    }
    run("complete", "kb.ttl", "--review", "again.jsonl", *QUICK)
    values = {(row["id"], row["value"]) for row in map(json.loads, Path("again.jsonl").read_text().splitlines())}
    assert (f"{E}p11", E + MISSING[11]) not in values
    assert (f"{E}p17", E + crew.kind_of(17)) not in values
    assert (f"{E}p8", E + crew.kind_of(8)) in values


def test_a_member_or_class_that_is_moved_out_of_the_block_is_accepted_and_a_deleted_one_rejected(run, place):
    run("complete", "kb.ttl", "--out", "done.ttl", "--only", "rdf:type,skill", *QUICK)
    text = Path("done.ttl").read_text()
    block = text[text.index("# kbdisk: begin") :]
    lines = {
        word: next(line for line in block.splitlines() if line.startswith(f":{word} "))
        for word in ("p3", "p5", "p11", "p17")
    }
    changed = text
    for word in lines:
        changed = changed.replace(lines[word] + "\n", "")
    head, _, rest = changed.partition("# kbdisk: begin")
    Path("done.ttl").write_text(f"{head}{lines['p3']}\n{lines['p5']}\n# kbdisk: begin{rest}")
    run("complete", "done.ttl", "--in-place", "--only", "rdf:type,skill", *QUICK)
    answers = {
        row["id"]: row["answer"] for row in map(json.loads, Path("done.ttl.reviewed.jsonl").read_text().splitlines())
    }
    assert answers == {f"{E}p3": "accepted", f"{E}p5": "accepted", f"{E}p11": "rejected", f"{E}p17": "rejected"}


def test_why_explains_a_further_member_and_a_further_class(run, place):
    run("complete", "kb.ttl", "--out", "done.ttl", "--only", "skill", *QUICK)
    status, err, error = run("why", "kb.ttl", "--id", f"{E}p5", "--path", "skill[2]")
    assert status == 0, error
    assert MISSING[5] in err
    assert "linear autoencoder" in err
    status, err, error = run(
        "why", "done.ttl", "--id", f"{E}p5", "--path", "skill[2]", "--json", "--model", "kb.ttl.kbdisk"
    )
    assert status == 0, error
    reasons = json.loads(err)
    assert reasons["given"]["by"] == "kbdisk"
    [row] = [row for row in rows("done.ttl") if row["id"] == f"{E}p5"]
    assert reasons["confidence"] == pytest.approx(row["confidence"], abs=0.02)
    status, err, _ = run("why", "kb.ttl", "--id", f"{E}p3", "--path", "rdf:type")
    assert status == 0
    assert "written only where --only names rdf:type" in err


def test_classes_are_proposed_from_python(place):
    completed = kbdisk.complete("kb.ttl", only="rdf:type")
    assert {row["id"] for row in completed.rows} == {f"{E}p{number}" for number in crew.LACKING_CLASS} | {f"{E}c20"}
    assert completed.summary.members == len(crew.LACKING_CLASS) + 1


def test_classes_are_refused_where_a_source_has_none(run, place):
    status, _, err = run("complete", "kb.jsonl", "--out", "done.jsonl", "--only", "rdf:type", *QUICK)
    assert status == 2
    assert "expected RDF" in err
    assert not Path("done.jsonl").exists()
