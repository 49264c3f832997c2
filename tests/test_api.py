"""kbdisk as Python meets it: train, open, and all that a model can be asked."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas
import pytest
import rdflib
from models import EXAMPLES, QUICK, tiny_run
from worlds import city, country, world

import kbdisk
from kbdisk.api.belief import NumberBelief
from kbdisk.api.model import Model
from kbdisk.api.source import LoadedSource
from kbdisk.api.train import evaluation_sample, scope_of, seconds_of
from kbdisk.entity import Entity, Link
from kbdisk.errors import CheckpointError, ConfigError, KBDiskWarning, LoadError, SchemaError
from kbdisk.training.run import PRESETS

PHONES, SCHEMA = str(EXAMPLES / "phones.jsonl"), str(EXAMPLES / "phones.yaml")
ROWS = [{"id": f"e{i}", "a": i % 10, "b": "xy"[i % 2], "c": None if i % 3 else i} for i in range(40)]


@pytest.fixture(scope="module")
def model(tiny_model) -> Model:
    return Model(tiny_model, LoadedSource.of(PHONES))


@pytest.fixture(scope="module")
def phones() -> list[Entity]:
    return list(kbdisk.load(PHONES))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Model:
    """A model that was trained on the phones, and saved."""
    return trained(PHONES, SCHEMA, out=tmp_path_factory.mktemp("made") / "m.kbdisk")


def trained(kb, schema=None, **options) -> Model:
    return kbdisk.train(kb, schema, run=tiny_run(), device="cpu", **options)


# ---------------------------------------------------------------- from whatever there is


def graph() -> rdflib.Graph:
    lines = [f'<http://e.org/{i}> <http://e.org/a> {i % 10} ; <http://e.org/b> "{"xy"[i % 2]}" .' for i in range(40)]
    return rdflib.Graph().parse(data="\n".join(lines), format="turtle")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kb",
    [
        ROWS,
        pandas.DataFrame(ROWS).set_index("id"),
        graph(),
        [Entity(row["id"], row) for row in ROWS],
        kbdisk.load(ROWS),
        [pandas.DataFrame(ROWS[:20]), ROWS[20:]],
    ],
    ids=["dicts", "frame", "graph", "entities", "kb", "several"],
)
def test_any_knowledge_base_trains_a_model(kb):
    model = trained(kb)
    assert model.record.source["entities"] == 40
    assert {("a",), ("b",)} <= next(iter(model.schema.classes.values())).properties.keys()
    filled = [one.filled for one in model.complete(kb, least=1, fill="all")]
    assert len(filled) == 40


def test_a_number_of_any_length_is_no_evidence_and_in_nobodys_way():
    rows = [row | ({"a": 10**5000} if row["a"] == 3 else {}) for row in ROWS]
    assert len(list(trained(rows).complete(rows))) == len(rows)


def test_a_path_trains_a_model_that_knows_its_source(made):
    assert made.record.source["name"] == PHONES
    assert made.record.source["entities"] == 63
    assert len(made.record.source["sha256"]) == 64
    assert repr(made) == f"<Model of {PHONES}: one class, 17 properties>"


def test_a_model_says_how_good_it_is_on_what_was_held_out(made):
    assert {row["path"] for row in made.record.quality} >= {"weight.value", "brand", "launch.year"}
    assert all(row["n"] <= len(made.record.validation) for row in made.record.quality)


@pytest.mark.parametrize(("seconds", "texts"), [(None, 200), (900.0, 200), (90.0, 90), (10.0, 60)])
def test_a_short_run_is_examined_by_fewer_texts(seconds, texts):
    assert scope_of(tiny_run(steps=None, seconds=seconds)).texts == texts


@pytest.mark.parametrize(("seconds", "count"), [(None, 700), (900.0, 700), (60.0, 600), (2.0, 100)])
def test_a_short_run_is_examined_by_fewer_entities(seconds, count):
    known = [Entity(f"e{n}", {}) for n in range(700)]
    asked = evaluation_sample(known, tiny_run(steps=None, seconds=seconds))
    assert len(asked) == len({one.id for one in asked}) == count
    assert asked == evaluation_sample(known, tiny_run(steps=None, seconds=seconds))


def test_it_says_where_and_with_what_it_was_trained():
    facts = trained(ROWS).record.facts
    assert facts["kbdisk"] == "0.1.0"
    assert {"torch", "python", "machine", "device", "date"} <= facts.keys()


def test_sources_of_the_same_entities_add_to_each_other():
    one = [{"id": f"e{i}", "a": i} for i in range(20)]
    other = [{"id": f"e{i}", "a": -1, "b": "x"} for i in range(10, 30)]
    reading = LoadedSource.of([kbdisk.load(one), kbdisk.load(other)])
    assert len(reading.entities) == 30
    assert reading.by_id["e15"].tree == {"id": "e15", "a": 15, "b": "x"}
    assert reading.by_id["e25"].tree["a"] == -1


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "parquet", "frame", "dicts"])
def test_ids_that_are_numbers_are_ids_whatever_their_places(format, tmp_path):
    several = [[{"id": i, "a": 1} for i in (1, 3, 2, 0)], [{"id": i, "b": 2} for i in (0, 1, 2, 3)]]
    sources = []
    for number, dicts in enumerate(several):
        file = tmp_path / f"{number}.{format}"
        if format == "jsonl":
            file.write_text("".join(f"{json.dumps(one)}\n" for one in dicts))
        elif format == "json":
            file.write_text(json.dumps(dicts))
        elif format == "csv":
            pandas.DataFrame(dicts).to_csv(file, index=False)
        elif format == "parquet":
            pandas.DataFrame(dicts).to_parquet(file)
        own = {"frame": pandas.DataFrame(dicts), "dicts": dicts}
        sources.append(kbdisk.load(own.get(format, file)))
    merged = LoadedSource.of(sources).by_id
    assert sorted(merged) == ["0", "1", "2", "3"]
    assert all(one.tree["a"] == 1 and one.tree["b"] == 2 for one in merged.values())


def test_entities_without_ids_are_not_mixed_up_over_sources(tmp_path):
    for name in ("one", "other"):
        (tmp_path / f"{name}.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    reading = LoadedSource.of([tmp_path / "one.jsonl", str(tmp_path / "other.jsonl")])
    assert len(reading.by_id) == 4


def test_what_sources_hold_is_told_by_a_hash(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": 1}\n')
    before = LoadedSource.of(file).sha256
    assert LoadedSource.of(file).sha256 == before
    file.write_text('{"a": 2}\n')
    assert LoadedSource.of(file).sha256 != before
    assert (
        LoadedSource.of([{"a": 1}]).sha256 == LoadedSource.of([{"a": 1}]).sha256 != LoadedSource.of([{"a": 2}]).sha256
    )


def test_kbdisk_is_imported_without_torch_and_knows_its_names():
    code = "import kbdisk, sys; kbdisk.Schema.read; kbdisk.load; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(getattr(kbdisk, name) for name in ("train", "open", "Model", "Run"))
    assert set(kbdisk.LATER) <= set(kbdisk.__all__)
    with pytest.raises(AttributeError, match="no attribute 'tran'"):
        kbdisk.tran  # noqa: B018


# ---------------------------------------------------------------- what is chosen


@pytest.mark.parametrize(
    ("told", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2 min", 120), ("45", 45), (7, 7), (0.5, 0.5)]
)
def test_a_budget_is_a_time(told, seconds):
    assert seconds_of(told) == seconds


@pytest.mark.parametrize("told", ["", "soon", "0s", "-3m", "10 days", 0])
def test_what_is_no_time_is_told(told):
    with pytest.raises(ConfigError, match=r"--budget: expected a time such as 90s, 10m or 2h, got"):
        seconds_of(told)


def test_run_files_presets_budgets_and_seeds_come_together(tmp_path):
    from kbdisk.api.train import run_of

    (tmp_path / "run.toml").write_text("seed = 3\n[train]\nbatch = 7\nseconds = 9\n")
    run = run_of("fast", None, tmp_path / "run.toml", None)
    assert (run.preset, run.seed, run.train.batch, run.train.seconds) == ("fast", 3, 7, 9)
    run = run_of("fast", "2m", tmp_path / "run.toml", 5)
    assert (run.seed, run.train.seconds) == (5, 120)


def test_a_number_of_steps_replaces_the_time_of_a_preset_and_no_other(monkeypatch):
    from kbdisk.api.train import run_of

    def limits(budget, config=None):
        train = run_of("fast", budget, config, None, steps=40).train
        return train.steps, train.seconds

    assert limits(None) == (40, None)
    assert limits("2m") == (40, 120)
    with pytest.raises(ConfigError, match="steps: expected at least 1, got 0"):
        run_of("fast", None, None, None, steps=0)
    monkeypatch.setitem(PRESETS, "fast", QUICK)
    assert kbdisk.train(ROWS, config=None, preset="fast", steps=1, budget=60).trained.run.train.steps == 1


def test_a_schema_may_be_one_a_file_or_inferred(made):
    assert made.record.facts["schema"] == SCHEMA
    assert replace(made.schema, rules=None) == kbdisk.Schema.read(SCHEMA)
    assert trained(ROWS).record.facts["schema"] == "inferred"
    own = kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {id: id, properties: {a: number}}}\n")
    assert replace(trained(ROWS, own).schema, rules=None) == own
    ruled = replace(own, rules=())
    assert trained(ROWS, ruled).schema == ruled


def test_a_schema_that_knows_nothing_of_the_source_is_told():
    with pytest.raises(SchemaError) as error:
        trained([{"wieght": 1, "x": 2}] * 20, "phone")
    assert "expected properties of the schema, such as " in str(error.value)
    assert str(error.value).endswith("got wieght, x. Did you mean 'weight'?")


@pytest.mark.parametrize(
    ("classes", "got"), [({}, "entities without a class"), ({"@type": "http://e/Car"}, "'http://e/Car'")]
)
def test_entities_of_no_class_of_the_schema_are_told_apart_from_those_of_other_properties(classes, got):
    schema = kbdisk.infer([{"@type": name, "x": n} for n in range(20) for name in ("Town", "Lake")])
    with pytest.raises(SchemaError) as error:
        trained([{**classes, "x": n} for n in range(20)], schema)
    assert f"expected entities of the class 'Lake', got {got}. Say their class (in JSON under" in str(error.value)


def test_a_schema_is_inferred_of_whatever_is_a_knowledge_base():
    kb = kbdisk.load(PHONES)
    dicts = [json.loads(line) for line in Path(PHONES).read_text().splitlines()]
    found = [kbdisk.infer(one) for one in (kb, PHONES, list(kb), iter(kb), dicts)]
    assert all(one == found[0] for one in found)


def test_too_few_entities_are_told():
    with pytest.raises(LoadError, match="<memory>: expected at least 2 entities, got 1"):
        trained([{"weight": 100}], "phone")
    with pytest.raises(SchemaError, match="<memory>: nothing in it can be learnt"):
        trained([{}, {}])


# ---------------------------------------------------------------- folders


def test_a_model_is_saved_and_opened_as_it_was(made, tmp_path, phones):
    made.save(tmp_path / "m.kbdisk")
    again = kbdisk.open(tmp_path / "m.kbdisk", device="cpu")
    assert again.record.quality == made.record.quality
    assert [one.tree for one in again.sample(5)] == [one.tree for one in made.sample(5)]
    assert again.log_prob(phones[:5]).tolist() == made.log_prob(phones[:5]).tolist()


@pytest.mark.slow
def test_a_model_folder_is_not_replaced_unasked(tmp_path):
    trained(ROWS, out=tmp_path / "m")
    with pytest.raises(CheckpointError, match="force=True"):
        trained(ROWS, out=tmp_path / "m")
    trained(ROWS, out=tmp_path / "m", force=True).save(tmp_path / "n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m", "n"]  # nothing is left of how they were trained
    assert kbdisk.open(tmp_path / "n").record.source["entities"] == 40


def test_a_card_tells_of_a_model(model):
    assert "examples/phones.jsonl" in model.card
    assert model.card.startswith("# ")


# ---------------------------------------------------------------- beliefs


def test_a_belief_in_a_number_is_a_distribution(model):
    belief = model.belief("nokia-3310", "launch.year")
    low, high = belief.interval(0.9)
    assert low < belief.quantile(0.3) < belief.median < belief.quantile(0.7) < high
    assert belief.quantile(0.4) - 1 <= belief.value <= belief.quantile(0.6) + 1  # whole years
    assert belief.cdf(high) - belief.cdf(low) == pytest.approx(0.9, abs=1e-6)
    assert type(belief.mode) is int
    assert belief.given == 2000
    assert 0 < belief.confidence < 1
    assert 0 < belief.recorded < 1
    assert belief.entropy > 0


def test_the_density_of_a_number_and_its_atoms_add_up_to_all(model):
    belief = model.belief("nokia-3310", "weight")
    x = np.linspace(belief.quantile(1e-6) - 1, belief.quantile(1 - 1e-6) + 1, 20_001)
    whole = np.trapezoid(belief.densities(x), x) + sum(belief.atoms.values())
    assert whole == pytest.approx(1, abs=0.01)
    assert belief.density(x[100]) == pytest.approx(belief.densities(x)[100])


def test_samples_of_a_belief_are_as_it_says(model):
    belief = model.belief("nokia-3310", "launch.year")
    drawn = belief.sample(4000, seed=1)
    assert drawn == belief.sample(4000, seed=1)
    assert abs(np.mean(np.array(drawn) <= belief.median) - belief.cdf(belief.median + 0.5)) < 0.03
    assert np.mean(drawn) == pytest.approx(belief.mean, abs=1)


def test_a_quantity_is_believed_of_by_its_number_in_its_unit(model):
    belief = model.belief("nokia-3310", "weight")
    assert (belief.path, belief.unit, belief.given) == (("weight", "value"), "g", 133)
    assert "g, 90% within" in repr(belief)


def test_a_belief_in_a_label_has_probabilities(model):
    belief = model.belief("nokia-3310", "brand")
    shares = belief.probabilities
    assert list(shares) == sorted(shares, key=shares.get, reverse=True)
    assert belief.mode == belief.value == next(iter(shares))
    assert belief.confidence == pytest.approx(shares[belief.mode])
    assert math.exp(belief.log_prob("Nokia")) == pytest.approx(shares["Nokia"])
    assert belief.rank(belief.mode) == 1
    assert sum(shares.values()) < 1  # the rest is for brands never met
    assert math.exp(belief.log_prob("Siemens")) == pytest.approx(1 - sum(shares.values()), abs=1e-5)
    assert set(belief.sample(50)) <= shares.keys()


def test_a_belief_in_a_set_tells_of_each_label(model):
    belief = model.belief("nokia-3310", "networks")
    assert belief.given == ["GSM"]
    assert belief.probabilities["GSM"] > belief.probabilities["LTE"]
    assert isinstance(belief.value, list)
    assert belief.log_prob(["GSM"]) > belief.log_prob(["5G"])


def test_a_belief_in_a_text_finds_texts(model):
    belief = model.belief("nokia-3310", "name")
    assert all(isinstance(text, str) for text in belief.probabilities)
    assert belief.log_prob("3310") < 0
    assert isinstance(belief.value, str)


def test_what_is_asked_about_is_hidden(model, phones):
    """The value itself changes nothing; another one does."""
    one = next(entity for entity in phones if entity.id == "nokia-3310")
    other = Entity(one.id, {**one.tree, "brand": "Apple"})
    assert model.belief(one, "brand").probabilities == model.belief(other, "brand").probabilities
    assert model.belief(one, "os").probabilities != model.belief(other, "os").probabilities


def test_beliefs_are_those_about_each_property(model):
    told = model.beliefs("nokia-3310")
    assert list(told)[:2] == ["name", "brand"]  # in the schema's order
    assert list(told)[-1] == "camera.aperture"
    assert {"launch.year", "os", "weight.value"} <= told.keys()
    assert told["os"].given is None
    alone = model.belief("nokia-3310", "weight")
    assert told["weight.value"].median == alone.median
    assert told["weight.value"].log_prob(133) == pytest.approx(alone.log_prob(133), abs=1e-4)


def test_the_length_of_a_list_is_not_told_by_its_places():
    entities = [{"id": str(i), "n": i % 2, "parts": [{"a": i}] * (i % 4)} for i in range(48)]
    model = trained(entities)
    shorter = model.belief({"id": "x", "n": 1, "parts": [{"a": 1}]}, "parts.count")
    longer = model.belief({"id": "x", "n": 1, "parts": [{"a": 1}] * 3}, "parts.count")
    assert shorter.mean == pytest.approx(longer.mean, abs=1e-4)
    assert (shorter.given, longer.given) == (1, 3)


def test_a_dict_is_an_entity_too(model):
    belief = model.belief({"brand": "Nokia"}, "weight")
    assert isinstance(belief, NumberBelief)
    assert belief.given is None


def test_links_bring_what_the_knowledge_base_knows():
    several = [
        each
        for i in range(12)
        for each in (
            country(f"c{i}", "Europe" if i % 2 else "Asia", f"t{i}", 10**6 * (i + 1)),
            city(f"t{i}", f"c{i}", 1000 + i, "x", 10**5 * (i + 1)),
        )
    ]
    model = trained(several)
    apart = model.belief(several[0], "population", kb=[several[0], several[2]])
    together = model.belief(several[0], "population", kb=several)
    assert apart.median != together.median or apart.mean != together.mean
    capital = model.belief("c1", "capital")
    assert isinstance(capital.given, Link)
    assert set(capital.probabilities) <= {f"t{i}" for i in range(12)}


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        (
            "launch",
            "launch: expected the path of one value, got several. Say one of launch.day, launch.month, launch.year.",
        ),
        ("weigth", "weigth: expected a property that the model knows. Did you mean 'weight'?"),
        ("a[", "a[: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'a['."),
    ],
)
def test_what_cannot_be_asked_is_told(model, path, complaint):
    with pytest.raises(kbdisk.KBDiskError) as error:
        model.belief("nokia-3310", path)
    assert str(error.value) == complaint


def test_ids_need_a_knowledge_base_that_has_them(model, tiny_model):
    with pytest.raises(LoadError, match="no entity has the id 'nokia-0'"):
        model.belief("nokia-0", "weight")
    with pytest.raises(ConfigError, match=r"Say kb=\.\.\."):
        Model(tiny_model).belief("nokia-3310", "weight")
    assert Model(tiny_model).belief("nokia-3310", "weight", kb=PHONES).given == 133


def test_an_entity_of_no_class_of_the_model_is_told():
    model = trained([Entity(str(i), {"a": i % 7, "b": "xy"[i % 2]}, ("A",)) for i in range(20)])
    with pytest.raises(SchemaError, match="x: expected a class of A, got B"):
        model.belief(Entity("x", {}, ("B",)), "a")


def test_a_belief_is_plain_data_too(model):
    told = model.belief("nokia-3310", "weight").to_json()
    assert told["given"]["value"] == 133
    assert [one["level"] for one in told["intervals"]] == [0.5, 0.9]
    told = model.belief("nokia-3310", "brand").to_json()
    assert told["given"]["rank"] >= 1
    assert told["probabilities"][0]["value"] == told["value"]


# ---------------------------------------------------------------- the rest


def test_completions_fill_what_is_missing(model):
    done = list(model.complete(PHONES, fill="all", only=["weight", "os"], least=1))
    assert len(done) == 63
    filled = [one for completion in done for path, one in completion.filled.items() if path[0] == "os"]
    assert filled
    assert all(0 < one.confidence <= 1 and one.value for one in filled)


def test_log_probabilities_are_of_each_entity_in_order(model, phones):
    whole = model.log_prob(phones)
    assert whole.shape == (63,)
    assert (whole < 0).all()
    bare = model.log_prob([{"brand": "Nokia"}, {"brand": "Nokia", "os": "Symbian"}])
    assert bare[1] < bare[0] < 0
    alone = model.belief({}, "brand").log_prob("Nokia")
    assert bare[0] == pytest.approx(alone, abs=1e-4)
    assert model.log_prob({"brand": "Nokia"})[0] == pytest.approx(bare[0], abs=1e-4)


def test_evaluation_is_a_frame_of_what_the_model_was_not_trained_on(model):
    frame = model.evaluate(PHONES)
    assert {"path", "n", "ours", "constant", "better"} <= set(frame.columns)
    assert frame["n"].max() <= len(model.record.validation)


def test_rows_of_another_table_are_new_whatever_their_numbers():
    rows = [{"x": n % 7, "y": n % 5} for n in range(60)]
    model = kbdisk.train(rows, run=tiny_run(steps=2))
    assert model.evaluate(rows, against=None)["n"].max() == len(model.record.validation) < 60
    others = [{"x": n % 3, "y": n % 4} for n in range(40)]
    assert model.evaluate(others)["n"].tolist() == [40, 40]


@pytest.mark.slow
def test_baselines_are_columns_of_an_evaluation(model):
    frame = model.evaluate(PHONES, against=("gbdt", "constant"), only=["os", "weight"])
    assert frame["gbdt_rmse"].notna().tolist() == frame["rmse"].notna().tolist()
    assert frame["gbdt_error"].notna().tolist() == frame["error"].notna().tolist()
    assert frame["constant_mae"].notna().tolist() == frame["mae"].notna().tolist()
    assert frame.set_index("path")["gbdt"]["os"] < frame.set_index("path")["constant"]["os"]
    assert "against" not in frame
    alone = model.evaluate(PHONES, against="gbdt", only=["os"])
    assert alone["gbdt"].tolist() == frame["gbdt"][frame["path"] == "os"].tolist()
    with pytest.raises(ConfigError, match="Did you mean 'gbdt'"):
        model.evaluate(PHONES, against=["gdbt"])
    with pytest.raises(LoadError, match="expected the 57 entities that the model was trained on"):
        model.evaluate([{"id": "new", "os": "Android"}], against=["gbdt"])


def test_evaluation_of_what_the_model_was_trained_on_says_so(model, phones):
    known = [one for one in phones if one.id in set(model.record.training)]
    with pytest.warns(KBDiskWarning, match="trained on all of these"):
        model.evaluate(known, only=["weight"])


def test_entities_are_vectors_that_are_near_where_they_say_the_same(model, phones):
    vectors = model.embed(phones)
    assert vectors.shape == (63, 16)
    assert vectors.dtype == np.float32
    assert (model.embed(phones) == vectors).all()
    assert np.allclose(model.embed(phones[5])[0], vectors[5], atol=1e-5)
    twin, changed = (Entity("x", {**phones[40].tree, **more}) for more in ({}, {"brand": "Nokia", "weight": 700}))
    same, other = model.embed([twin, changed])
    assert np.linalg.norm(same - vectors[40]) < 1e-4 < np.linalg.norm(other - vectors[40])


def test_vectors_hold_what_links_bring():
    entities = world()
    model = trained([Entity(f"{one.id}{i}", one.tree, one.classes) for i in range(4) for one in entities] + entities)
    assert not np.allclose(model.embed(entities)[0], model.embed(entities[:1])[0])


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"budget": "1m"}, "budget"),
        ({"preset": "fast"}, "preset"),
        ({"seed": 0, "config": "a.toml"}, "config and seed"),
    ],
)
def test_a_run_says_all_of_a_training(beside, named):
    with pytest.raises(ConfigError, match=f"run: says all of a training. Leave {named} out"):
        trained(ROWS, **beside)


def test_the_package_says_its_version():
    assert kbdisk.__version__ == version("kbdisk")
