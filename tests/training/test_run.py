"""A run is plain data: presets, run files over them, and what is wrong with one in one line."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass

import pytest

from kbdisk.errors import ConfigError
from kbdisk.training.run import PRESETS, Run


@pytest.fixture
def read(tmp_path):
    """A preset with the run file that a text is."""

    def read(text: str, preset: str = "fast") -> Run:
        file = tmp_path / "run.toml"
        file.write_text(text)
        return Run.of(preset).with_file(file)

    return read


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_survives_json(preset):
    run = Run.of(preset)
    assert run.preset == preset
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_ends(preset):
    train = Run.of(preset).train
    assert train.steps or train.seconds


def test_a_run_file_changes_what_it_names_and_nothing_else(read):
    run = read('seed = 7\n[train]\nrate = 1\n[model]\nwidth = 32\n[codec.kinds.number]\nbelief = "binned"\n')
    base = Run.of("fast")
    assert (run.seed, run.train.rate, run.model.width, run.codec.kinds["number"].belief) == (7, 1, 32, "binned")
    assert run.train.seconds == base.train.seconds
    assert run.hiding == base.hiding
    assert run.codec.kinds["text"] == base.codec.kinds["text"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[trian]",
            "trian: unknown key. Did you mean 'train'? Known keys: boosted_trees, close_propagation, codec, gaussian_process, given_only, hiding, knn, label_regression, latent_knn, link_factorization, model, presence_trees, propagation, seed, train, value_factorization.",
        ),
        ("[train]\nwarmpu = 1", "train.warmpu: unknown key. Did you mean 'warmup'? Known keys: absent, balance, "),
        ("[codec.kinds.numbr]", "codec.kinds.numbr: unknown key. Did you mean 'number'? Known keys: category, "),
        ("train = 1", "train: expected a table, got 1."),
        ("[codec.kinds]\nnumber = 3", "codec.kinds.number: expected a table, got 3."),
        ('[train]\nrate = "x"', "train.rate: expected a number, got 'x'."),
        ("[train]\nrate = nan", "train.rate: expected a number, got nan."),
        ("[train]\nbatch = 1.5", "train.batch: expected a whole number, got 1.5."),
        ("[train]\nbatch = true", "train.batch: expected a whole number, got True."),
        ("[train]\nbalance = 1", "train.balance: expected true or false, got 1."),
        ("[train]\nobjective = 2", "train.objective: expected text, got 2."),
        ('[train]\nobjective = "best"', "train: objective: expected one of bound, field-mean, got 'best'."),
        ("[train]\nsteps = 0", "train: steps: expected more than 0, got 0."),
        ("[train]\nbatch = 99999999999", "train: batch: expected at most 1,048,576, got 99,999,999,999."),
        ("[model]\nwidth = 30", "model: expected a width that 4 heads divide, got 30."),
        ("[model]\ndropout = 1.0", "model: expected 0 to below 1 for dropout, got 1.0."),
        ('[hiding]\nrate = "all"', "hiding: expected one of count, paper, few, fixed, batch for rate, got 'all'."),
        ("[codec.evidence]\nvalues = -1", "codec.evidence: expected at least 0 for values, got -1."),
        ("seed = -1", "seed: expected a whole number from 0 to 2 ** 63 - 1, got -1."),
        ('preset = "best"', "preset: is chosen beside the run file: say --preset."),
        ("train", "expected TOML, got what is none: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text, complaint, read):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        Run.of("fast").with_file(tmp_path / "none.toml")


def test_an_unknown_preset_is_told_with_those_there_are():
    with pytest.raises(ConfigError, match="expected one of fast, default, best, links, synthetic, paper, got 'slow'"):
        Run.of("slow")


def places(config, at=()):
    """Every leaf of a run's tables."""
    for one in fields(config):
        value = getattr(config, one.name)
        if is_dataclass(value):
            yield from places(value, (*at, one.name))
        elif isinstance(value, dict):
            for name, inner in value.items():  # each expert has a table of its own
                yield from places(inner, (name,) if one.name == "experts" else (*at, one.name, name))
        elif (*at, one.name) != ("preset",):
            yield (*at, one.name), value


@pytest.mark.parametrize(
    ("path", "value"), [*places(Run.of("default"))], ids=lambda one: ".".join(one) if isinstance(one, tuple) else ""
)
def test_every_key_can_be_told_and_is_refused_in_a_wrong_type(path, value, read):
    *tables, key = path
    head = f"[{'.'.join(tables)}]\n" if tables else ""
    if value is not None:
        told = read(f"{head}{key} = {json.dumps(value)}\n", "default")
        assert told == Run.of("default")
    with pytest.raises(ConfigError, match=rf"{'.'.join(path)}: expected .*, got \["):
        read(f"{head}{key} = [[]]\n" if not isinstance(value, tuple) else f"{head}{key} = 1\n", "default")


def test_the_paper_preset_is_the_row_that_its_table_equals():
    run = Run.of("paper")
    number = run.codec.kinds["number"]
    assert (number.code, number.embedding, number.belief, number.components, number.atoms) == (
        "minmax", "dice", "mixture", 50, 0
    )  # fmt: skip
    assert run.codec.sharing == "disjoint"
    assert not run.codec.evidence.outgoing
    assert not run.codec.evidence.incoming
    assert (run.model.width, run.model.layers, run.model.heads, run.model.base, run.model.dropout) == (
        512,
        2,
        2,
        8,
        0.1,
    )
    assert (run.hiding.rate, run.hiding.together, run.hiding.nothing) == ("batch", 0, 0)
    train = asdict(run.train)
    told = {
        "objective": "field-mean",
        "rate": 1e-3,
        "batch": 1024,
        "decay": 0,
        "steps": 180_000,
        "seconds": None,
        "warmup": 0,
    }
    assert told.items() <= train.items()
    assert train["smoothing"] == train["presence"] == train["absent"] == 0
