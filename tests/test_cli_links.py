"""kbdisk links, and evaluate --links: what is predicted of whom, by which model, and what is refused."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

import kbdisk
from kbdisk.entity import Entity, Link
from kbdisk.training.clock import Clock

COUNTRIES = 8


def country(n: int) -> dict:
    return {"id": f"country{n}", "label": f"Country {n}", "type": "Country", "continent": {"@id": f"continent{n % 2}"}}


def city(n: int) -> dict:
    """A city of each country; one speaks what is spoken in the country of its number."""
    home = n % COUNTRIES
    lines = {"id": f"city{n}", "type": "City", "country": {"@id": f"country{home}"}, "size": 10 * home + n % 3}
    return lines | ({} if n in (3, 20) else {"language": {"@id": f"language{home}"}})


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A source of cities, and a model of its links."""
    folder = tmp_path_factory.mktemp("links")
    source = folder / "cities.jsonl"
    source.write_text("".join(json.dumps(entity) + "\n" for entity in [*map(country, range(8)), *map(city, range(64))]))
    kbdisk.train(source, preset="links", steps=400, out=f"{source}.links.kbdisk")
    return folder


@pytest.fixture
def place(kept, tmp_path, monkeypatch) -> Path:
    for kept_path in kept.iterdir():
        (shutil.copytree if kept_path.is_dir() else shutil.copy)(kept_path, tmp_path / kept_path.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_missing_link_comes_first_and_known_ones_do_not_come(place, run):
    status, out, err = run("links", "cities.jsonl", "--id", "city3", "--path", "language", "--json")
    assert (status, err) == (0, "")
    links = json.loads(out)["links"]
    assert links[0]["tail"] == "language3"
    assert [link["confidence"] for link in links] == sorted((link["confidence"] for link in links), reverse=True)
    status, out, _ = run("links", "cities.jsonl", "--id", "city4", "--path", "language", "--json", "-k", "100")
    assert "language4" not in {link["tail"] for link in json.loads(out)["links"]}


def test_the_reasons_are_entities_with_the_same_link(place, run):
    _, out, _ = run("links", "cities.jsonl", "--id", "city3", "--path", "language", "--json", "-k", "1")
    [link] = json.loads(out)["links"]
    assert link["similar"]
    speakers = {entity["id"] for entity in map(city, range(64)) if entity.get("language") == {"@id": link["tail"]}}
    assert set(link["similar"]) <= speakers


def test_incoming_links_name_entities_that_link_to_it(place, run):
    arguments = ("links", "cities.jsonl", "--id", "language3", "--path", "language", "--incoming")
    status, out, _ = run(*arguments, "--json")
    links = json.loads(out)["links"]
    assert status == 0
    assert links[0]["head"] == "city3"
    assert {link["tail"] for link in links} == {"language3"}
    assert run(*arguments)[1].splitlines()[2].split() == ["property", "from", "sure", "so", "have"]


def test_a_table_names_entities_by_their_labels(place, run):
    status, out, _ = run("links", "cities.jsonl", "--id", "city3", "--id", "country1", "-k", "2")
    assert status == 0
    assert out.startswith("city3  city3\n")
    assert "\nCountry 1  country1\n" in out


def test_a_model_is_made_beside_the_source_where_there_is_none(place, run):
    shutil.rmtree("cities.jsonl.links.kbdisk")
    status, _, err = run("links", "cities.jsonl", "--id", "city3", "--budget", "1s")
    assert status == 0
    assert "the model is kept in cities.jsonl.links.kbdisk" in err
    assert run("links", "cities.jsonl", "--id", "city3")[2] == ""


def test_a_changed_source_has_its_links_learnt_again(place, run):
    with Path("cities.jsonl").open("a") as file:
        file.write(json.dumps(city(70)) + "\n")
    assert "learning the links" in run("links", "cities.jsonl", "--id", "city70", "--budget", "1s")[2]


def test_a_new_entity_is_placed_by_what_it_has(place):
    model = kbdisk.open("cities.jsonl.links.kbdisk")
    new = Entity("new", {"country": Link("country5"), "size": 51}, ("City",))
    [first, *_] = model.predict_links("new", "language", kb=[new])
    assert first.tail == "language5"
    with pytest.raises(kbdisk.KBDiskError, match="an entity that has a known link or value"):
        model.predict_links("other", "language", kb=[Entity("other", {})])


def test_nothing_is_written_into_the_source(place, run):
    before = Path("cities.jsonl").read_bytes()
    run("links", "cities.jsonl", "--id", "city3")
    assert Path("cities.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--id", "city3", "--path", "langage"), "Did you mean 'language'?"),
        (("--id", "city99"), "expected an entity that has a known link or value"),
        (("--id", "city3", "--model", "cities.jsonl.links.kbdisk", "--budget", "5s"), "Leave --budget and --force out"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments, words, place, run):
    status, out, err = run("links", "cities.jsonl", *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_model_without_links_is_refused(tiny_folder, run):
    source = str(Path(__file__).parents[1] / "examples" / "phones.jsonl")
    status, _, err = run("links", source, "--id", "nokia-3310", "--model", tiny_folder)
    assert status == 2
    assert "expected one that predicts links" in err


# ---------------------------------------------------------------- evaluate --links


def test_the_links_held_out_in_training_are_scored_of_the_training_data(place, run):
    status, out, _ = run("evaluate", "cities.jsonl.links.kbdisk", "cities.jsonl", "--links", "--json")
    rows = json.loads(out)["rows"]
    assert status == 0
    assert [row["asked"] for row in rows[:3]] == ["both", "tail", "head"]
    assert rows[0]["n"] == 2 * rows[1]["n"]
    assert rows[0]["mrr"] == pytest.approx((rows[1]["mrr"] + rows[2]["mrr"]) / 2)


def test_links_that_the_model_does_not_know_are_scored(place, run):
    test = [{"id": f"city{n}", "type": "City", "language": {"@id": f"language{n % 8}"}} for n in (3, 20)]
    test.append({"id": "city99", "type": "City", "language": {"@id": "language3"}})
    Path("test.jsonl").write_text("".join(json.dumps(entity) + "\n" for entity in test))
    status, out, _ = run("evaluate", "cities.jsonl.links.kbdisk", "test.jsonl", "--links", "--json")
    evaluated = json.loads(out)
    assert (status, evaluated["left_out"]) == (0, 1)
    assert (evaluated["rows"][0]["n"], evaluated["rows"][1]["hits_1"]) == (4, 1.0)
    status, out, _ = run("evaluate", "cities.jsonl.links.kbdisk", "test.jsonl", "--links")
    assert "2 links that cities.jsonl.links.kbdisk does not know" in out


def test_links_of_entities_without_a_class_are_read_and_foreign_ones_refused(place, run):
    Path("test.jsonl").write_text(json.dumps({"id": "city3", "language": {"@id": "language3"}}) + "\n")
    status, out, _ = run("evaluate", "cities.jsonl.links.kbdisk", "test.jsonl", "--links", "--json")
    assert (status, json.loads(out)["is_held_out"], json.loads(out)["rows"][1]["n"]) == (0, False, 1)
    Path("foreign.jsonl").write_text(json.dumps({"id": "x", "type": "City", "language": {"@id": "y"}}) + "\n")
    status, _, err = run("evaluate", "cities.jsonl.links.kbdisk", "foreign.jsonl", "--links")
    assert (status, "among entities and properties of the model, got 1 others" in err) == (2, True)


def test_links_of_the_source_at_hand_are_known_too(place):
    model = kbdisk.open("cities.jsonl.links.kbdisk")
    now = Entity("city3", {"language": Link("language3")}, ("City",))
    links = model.predict_links("city3", "language", kb=[now])
    assert "language3" not in {link.tail for link in links}
    assert links[0].presence < 0.1  # no city has two


def test_links_are_told_from_wrong_ones(place, run):
    true = [{"id": f"city{n}", "type": "City", "language": {"@id": f"language{n % 8}"}} for n in (3, 20)]
    wrong = [{"id": f"city{n}", "type": "City", "language": {"@id": f"language{(n + 3) % 8}"}} for n in range(20)]
    for name, rows in (("true.jsonl", true), ("wrong.jsonl", wrong)):
        Path(name).write_text("".join(json.dumps(entity) + "\n" for entity in rows))
    arguments = ("evaluate", "cities.jsonl.links.kbdisk", "true.jsonl", "--links", "--negatives", "wrong.jsonl")
    status, out, _ = run(*arguments, "--json")
    assert (status, json.loads(out)["classified"]["n"]) == (0, 4)
    assert json.loads(out)["classified"]["accuracy"] == 1.0
    assert "Of 4 true and false links 100 % are told apart" in run(*arguments)[1]
    status, _, err = run("evaluate", "cities.jsonl.links.kbdisk", "true.jsonl", "--negatives", "wrong.jsonl")
    assert (status, "Say --links, too" in err) == (2, True)


def test_options_of_other_evaluations_are_refused(place, run):
    status, _, err = run(
        "evaluate", "cities.jsonl.links.kbdisk", "cities.jsonl", "--links", "--curve", "--only", "size"
    )
    assert status == 2
    assert "Leave --curve, --only out" in err


# ---------------------------------------------------------------- models of links alone


def test_a_model_of_links_alone_completes_nothing(place, run):
    status, _, err = run("complete", "cities.jsonl", "--model", "cities.jsonl.links.kbdisk", "--out", "done.jsonl")
    assert status == 2
    assert "predicts links alone" in err
    assert not Path("done.jsonl").exists()


def test_the_vectors_of_a_model_of_links_are_those_of_its_factorisation(place):
    model = kbdisk.open("cities.jsonl.links.kbdisk")
    vectors = model.embed("cities.jsonl")
    predictor = model.links
    city3 = predictor.triples.number_of["city3"]
    assert vectors.shape == (72, predictor.factors.nodes.shape[1])
    assert vectors[8 + 3].tolist() == predictor.factors.nodes[city3].tolist()


def test_triples_are_a_source_as_any_other(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"n{k}\tnext\tn{(k + 1) % 40}\nn{k}\tsecond\tn{(k + 2) % 40}\n" for k in range(40)]
    Path("ring.txt").write_text("".join(lines[:-1]))
    Path("test.txt").write_text(lines[-1])
    assert run("train", "ring.txt", "--preset", "links", "--steps", "100", "-q")[0] == 0
    status, out, err = run("evaluate", "ring.txt.kbdisk", "test.txt", "--links", "--json", "--from", "triples")
    assert (status, err) == (0, "")
    rows = json.loads(out)["rows"]
    assert rows[0]["n"] == 4
    status, out, err = run("links", "ring.txt", "--id", "n3", "--json")
    assert (status, err) == (0, "")
    assert {link["head"] for link in json.loads(out)["links"]} == {"n3"}


def test_a_source_without_links_is_refused(tmp_path, run):
    source = tmp_path / "x.csv"
    source.write_text("id,x\n" + "".join(f"{n},{n}\n" for n in range(30)))
    status, _, err = run("train", str(source), "--preset", "links", "--budget", "1s")
    assert status == 2
    assert "at least 50 links" in err


def test_a_stopped_run_of_links_is_not_resumed(place, run):
    status, _, err = run("train", "cities.jsonl", "--preset", "links", "--resume", "-q", "--out", "m.kbdisk")
    assert status == 2
    assert "--resume" in err
    assert not Path("m.kbdisk").exists()


def test_correctness_that_is_not_calibrated_says_so(place, run):
    """Of so few links four are held out."""
    _, out, _ = run("links", "cities.jsonl", "--id", "city3", "--path", "language", "--json", "-k", "1")
    assert json.loads(out)["links"][0]["calibrated"] is False
    _, out, _ = run("links", "cities.jsonl", "--id", "city3", "--path", "language", "-k", "1")
    assert "not calibrated" in out
    model = kbdisk.open("cities.jsonl.links.kbdisk")
    [link] = model.predict_links(head="city3", property="language", k=1)
    assert not link.is_calibrated


def test_reading_counts_in_the_budget_of_links_alone(place):
    clock = Clock(begun=time.monotonic() - 1000)
    model = kbdisk.train(place / "cities.jsonl", preset="links", budget="60s", steps=5, clock=clock)
    assert model.record.facts["seconds"] > 1000
    [line] = clock.lines()
    assert "more than the budget of 60 s" in line
