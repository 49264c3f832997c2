"""`kbdisk train` as a user meets it: a model folder, a table that is in the record, and one line for what is wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from models import run_file

import kbdisk
from kbdisk.cli.train import train as command
from kbdisk.schemas.schema import Schema
from kbdisk.store.card import quality
from kbdisk.training.loop import Trainer
from kbdisk.training.run import PRESETS
from kbdisk.training.validation import ValidationLoss, Validator

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(run):
    """Run `kbdisk train ...`; returns its exit status, standard output and standard error."""
    return partial(run, "train")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a small source, its schema and a short run, where the command is run."""
    lines = [{"id": f"p{n}", "x": n / 4, "y": n % 5, "colour": ["red", "blue", "green"][n % 3]} for n in range(40)]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (tmp_path / "kb.yaml").write_text(
        "kbdisk: 1\nclasses: {Point: {properties: {x: number, y: number, colour: category}}}\n"
    )
    (tmp_path / "run.toml").write_text(run_file(4))
    (tmp_path / "long.toml").write_text(run_file(5000, 2500))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


SHORT = ("kb.jsonl", "--config", "run.toml")

# ---------------------------------------------------------------- what comes of it


def test_a_source_becomes_a_model_beside_it(place, run):
    status, out, err = run(*SHORT)
    assert (status, out) == (0, "")
    assert "training on kb.jsonl: 40 entities\n" in err
    assert "no schema was given: inferred one, 4 properties; it will be kb.jsonl.kbdisk/schema.yaml\n" in err
    assert err.endswith("\nwrote kb.jsonl.kbdisk\n")
    assert "4 steps" in err
    assert "32 trained on, 8 held out" in err
    assert {one.name for one in place.iterdir()} == {
        "kb.jsonl", "kb.yaml", "run.toml", "long.toml", "kb.jsonl.kbdisk"
    }  # fmt: skip
    assert kbdisk.open(place / "kb.jsonl.kbdisk").record.facts["schema"] == "inferred"


def test_every_figure_of_the_table_is_in_the_record(place, run):
    _, _, err = run(*SHORT, "--schema", "kb.yaml")
    record = kbdisk.open(place / "kb.jsonl.kbdisk").record
    assert [row["path"] for row in record.quality] == ["x", "y", "colour"]
    for row in quality({"quality": record.quality}):
        line = next(line for line in err.splitlines() if line.startswith(row.property))
        assert line.split() == " ".join(row).split()
    assert record.facts["schema"] == "kb.yaml"


def test_as_json_it_tells_all_on_standard_output(place, run):
    status, out, err = run(*SHORT, "--json", "--quiet", "--out", "m")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert (told["model"], told["trained_on"], told["held_out"], told["skipped"]) == ("m", 32, 8, 0)
    assert told["quality"] == kbdisk.open(place / "m").record.quality
    assert told["source"]["name"] == "kb.jsonl"
    assert told["facts"]["steps"] == 4
    assert [one["step"] for one in told["history"]] == [2, 4]


def test_quiet_says_nothing(place, run):
    assert run(*SHORT, "-q") == (0, "", "")


def test_verbose_tells_each_look(place, run):
    _, _, err = run(*SHORT, "-v")
    assert len(re.findall(r"^step [24] of 4, \d+ s: held out [\d.]+ nats, \d of \d properties better", err, re.M)) == 2


def test_the_same_seed_makes_the_same_model_and_another_another(place, run):
    for name, seed in [("a", 3), ("b", 3), ("c", 4)]:
        run(*SHORT, "--seed", seed, "--out", name)
    assert weights(place / "a") == weights(place / "b") != weights(place / "c")
    assert kbdisk.open(place / "a").record.validation != kbdisk.open(place / "c").record.validation


def test_several_sources_are_one_knowledge_base(place, run):
    lines = (place / "kb.jsonl").read_text().splitlines(keepends=True)
    (place / "one.jsonl").write_text("".join(lines[:25]))
    (place / "two.jsonl").write_text("".join(lines[20:]))
    status, out, _ = run("one.jsonl", "two.jsonl", "--config", "run.toml", "--json", "-q")
    told = json.loads(out)
    assert (status, told["model"], told["source"]["name"]) == (0, "one.jsonl.kbdisk", "one.jsonl, two.jsonl")
    assert told["trained_on"] + told["held_out"] == 40


def test_a_class_is_trained_on_alone(place, run):
    turtle = "@prefix : <http://e/> .\n" + "".join(
        f":c{n} a :City ; :size {n}.5 ; :kind 'k{n % 2}' .\n:r{n} a :River ; :length {n * 3} .\n" for n in range(20)
    )
    (place / "kb.ttl").write_text(turtle)
    status, out, err = run("kb.ttl", "--class", "City", "--config", "run.toml", "--json")
    told = json.loads(out)
    assert (status, told["trained_on"] + told["held_out"]) == (0, 20)
    assert "kb.ttl: 20 entities" in err
    assert list(kbdisk.open(place / "kb.ttl.kbdisk").schema.classes) == ["City"]


def test_a_few_entities_are_trained_on_and_their_model_is_said_to_be_of_unknown_quality(place, run):
    (place / "few.jsonl").write_text("".join((place / "kb.jsonl").read_text().splitlines(keepends=True)[:4]))
    status, _, err = run("few.jsonl", "--config", "run.toml")
    assert status == 0
    assert "Nothing was held out of so few entities, so its quality is unknown." in err


@pytest.mark.slow
def test_a_schema_may_come_over_standard_input(place):
    words = [sys.executable, "-m", "kbdisk", "train", *SHORT, "--schema", "-", "-q"]
    with (place / "kb.yaml").open() as stream:
        subprocess.run(words, stdin=stream, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert replace(kbdisk.open(place / "kb.jsonl.kbdisk").schema, rules=None) == Schema.read(place / "kb.yaml")


def test_the_presets_are_those_there_are():
    module = sys.modules[command.callback.__module__]
    assert tuple(PRESETS) == module.PRESETS


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A clock that steps and looks move on, and a little whoever reads it."""
    clock, advance, look = SimpleNamespace(now=0.0, steps=0, step=0.05), Trainer.advance, Validator.evaluate

    def reading() -> float:
        clock.now += 1e-4
        return clock.now

    def stepping(trainer: Trainer) -> float:
        clock.now, clock.steps = clock.now + clock.step, clock.steps + 1
        return advance(trainer)

    def looking(watching: Validator, *more) -> ValidationLoss:
        clock.now += 0.02
        return look(watching, *more)

    monkeypatch.setattr(time, "monotonic", reading)
    monkeypatch.setattr(Trainer, "advance", stepping)
    monkeypatch.setattr(Validator, "evaluate", looking)
    return clock


def test_a_budget_bounds_the_time(place, run, clock):
    _, out, _ = run("kb.jsonl", "--preset", "fast", "--budget", "0.5s", "--json", "-q")
    facts = json.loads(out)["facts"]
    assert 2 <= facts["steps"] == clock.steps < 10  # of 0.05 s each; two show that there will not be enough
    assert facts["seconds"] <= 0.5
    assert kbdisk.open(place / "kb.jsonl.kbdisk").trained.run.train.seconds == 0.5


def test_of_steps_and_a_budget_whichever_ends_first_ends_a_training(place, run, clock):
    for steps, expected in ((4, range(4, 5)), (1000, range(5, 10))):
        clock.steps = 0
        choices = ("--config", "run.toml", "--budget", "0.5s", "--steps", steps, "--force")
        _, out, _ = run("kb.jsonl", *choices, "--json", "-q")
        facts = json.loads(out)["facts"]
        assert facts["steps"] == clock.steps
        assert facts["steps"] in expected
        assert facts["seconds"] <= 0.5


def test_without_a_budget_so_many_steps_are_trained_whatever_their_time(place, run, clock):
    clock.step = 1.0
    _, out, _ = run("kb.jsonl", "--config", "run.toml", "--preset", "fast", "--steps", 75, "--json", "-q")
    assert json.loads(out)["facts"]["steps"] == clock.steps > 60  # the seconds of the preset


def test_what_cannot_be_read_is_skipped_on_request_and_told(place, run):
    with (place / "kb.jsonl").open("a") as file:
        file.write("{broken\n")
    assert run(*SHORT)[0] == 2
    status, _, err = run(*SHORT, "--skip-errors")
    assert status == 1
    assert "skipped kb.jsonl:41: " in err
    assert (place / "kb.jsonl.kbdisk").exists()


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["none.jsonl"], "none.jsonl: no such file."),
        (["kb.jsonl", "--schema", "phone.yaml"], "phone.yaml: no such file. The library has 'phone': say that name alone."),
        (["kb.jsonl", "--schema", "fone"], "fone: unknown schema. Did you mean 'phone'?"),
        (["kb.jsonl", "--schema", "phone"], "kb.jsonl: expected properties of the schema, such as "),
        (["kb.jsonl", "--schema", "near.yaml"], "Did you mean 'colours'?"),
        (["kb.jsonl", "--schema", "given.yaml"], "the schema: expected a property that can be predicted, got x (role: given)."),
        (["kb.jsonl", "--config", "none.toml"], "none.toml: cannot be read: no such file or directory."),
        (["kb.jsonl", "--config", "wrong.toml"], "wrong.toml: train.stpes: unknown key. Did you mean 'steps'? Known keys: "),
        (["kb.jsonl", "--budget", "soon"], "--budget: expected a time such as 90s, 10m or 2h, got 'soon'."),
        (["kb.jsonl", "--device", "tpu"], "--device: expected auto, cpu or a device that is there, got 'tpu'"),
        (["kb.jsonl", "--out", "kb.jsonl"], "kb.jsonl: expected a folder or nothing, got a file."),
        (["kb.jsonl", "--out", "."], ".: expected a folder of its own, got one that you are in."),
        (["kb.jsonl", "--class", "Town"], "kb.jsonl: no entity is of the class 'Town'"),
        (["one.jsonl"], "one.jsonl: expected at least 2 entities, got 1.\n"),
        (["page.json"], "page.json: expected at least 2 entities, got 1. If the entities are those listed in 'items', make that list the whole file.\n"),
        (["empty.jsonl"], "empty.jsonl: expected some data, got an empty file."),
        (["-", "--from", "jsonl"], "--out: - is no file that a model could stand beside. Say --out MODEL."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(arguments, complaint, place, run):
    (place / "near.yaml").write_text("kbdisk: 1\nclasses: {Point: {properties: {colours: category}}}\n")
    (place / "given.yaml").write_text("kbdisk: 1\nclasses: {P: {properties: {x: {kind: number, role: given}}}}\n")
    (place / "wrong.toml").write_text("[train]\nstpes = 3\n")
    (place / "one.jsonl").write_text('{"id": "a", "x": 1}\n')
    (place / "page.json").write_text('{"count": 2, "items": [{"id": "a", "x": 1}, {"id": "b", "x": 2}]}')
    (place / "empty.jsonl").write_text("")
    before = {one.name for one in place.iterdir()}
    status, out, err = run(*arguments, "-q")
    assert (status, out) == (2, "")
    assert complaint in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert {one.name for one in place.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [[], ["kb.jsonl", "kb.jsonl"], ["-", "--schema", "-", "--out", "m"], ["kb.jsonl", "--preset", "slow"], ["kb.jsonl", "--seed", "-1"]],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(arguments, place, run):
    assert run(*arguments)[0] == 2


def test_a_model_that_is_there_is_kept_unless_forced(place, run):
    run(*SHORT)
    before = weights(place / "kb.jsonl.kbdisk")
    status, _, err = run(*SHORT, "--seed", 5)
    assert (status, err) == (2, "error: kb.jsonl.kbdisk: a model is there already. Say --force to replace it.\n")
    assert weights(place / "kb.jsonl.kbdisk") == before
    assert run(*SHORT, "--seed", 5, "--force")[0] == 0
    assert weights(place / "kb.jsonl.kbdisk") != before


def test_a_loss_that_is_no_number_is_one_line(place, run):
    (place / "wild.toml").write_text(run_file(30) + "rate = 1e30\n")
    status, _, err = run("kb.jsonl", "--config", "wild.toml", "-q")
    assert status == 2
    assert re.fullmatch(r"error: train: expected a loss .* after step \d+\. Lower train\.rate \(1e\+30\)\.\n", err)
    assert not (place / "kb.jsonl.kbdisk").exists()


# ---------------------------------------------------------------- real processes


def begun(*arguments) -> subprocess.Popen:
    """A process that trains, which has taken some steps by now."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kbdisk", "train", *arguments, "-v"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    looks = 0
    for line in process.stderr:
        looks += line.startswith("step ")
        if looks == 2:  # the first is kept by now
            return process
    raise AssertionError(process.communicate())


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
LONG = ("kb.jsonl", "--schema", "kb.yaml", "--config", "long.toml", "--out", "my model")


def signalled(run, number: int) -> tuple[int, str, str]:
    """What a training in this process says that gets a signal in its third step."""
    advance = Trainer.advance

    def stepping(trainer: Trainer) -> float:
        nats = advance(trainer)
        if trainer.state.step == 3:
            signal.raise_signal(number)
        return nats

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Trainer, "advance", stepping)
        return run(*LONG, "--verbose")


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_signal_keeps_the_run_and_says_how_to_go_on(number, status, place, run):
    assert kept_at(place, run, status, *signalled(run, number)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_signal_to_a_process_keeps_its_run(number, status, place, run):
    process = begun(*LONG)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert kept_at(place, run, status, process.returncode, out, err) > 0


def kept_at(place: Path, run, wanted: int, status: int, out: str, err: str) -> int:
    """The step after which a run says that it was stopped; it is kept, and goes on as it says and in no other way."""
    assert (status, out) == (wanted, "")
    told = re.search(r"stopped after step (\d+); kept in my model\.training\nGo on with: (.*)\n$", err)
    assert told is not None, err
    assert shlex.split(told[2]) == [
        "kbdisk", "train", "kb.jsonl", "--schema", "kb.yaml", "--out", "my model", "--config", "long.toml", "--resume", "--verbose"
    ]  # fmt: skip
    assert not (place / "my model").exists()
    state = json.loads((place / "my model.training" / "state.json").read_text())["state"]
    assert state["step"] == int(told[1])
    status, _, err = run(*LONG)
    assert (status, err.count("\n")) == (2, 1)
    assert f"a run stopped there after step {state['step']}. Say --resume to go on, --force to begin anew." in err
    status, _, err = run(*LONG[:4], "run.toml", "--out", "my model", "--resume")
    assert status == 2
    assert "is another run's: train.steps was 5000 and is 4" in err
    return int(told[1])


@pytest.mark.slow
def test_a_killed_run_leaves_no_model_and_resume_makes_it(place, run):
    (place / "long.toml").write_text(run_file(120, 120))
    process = begun("kb.jsonl", "--config", "long.toml")
    process.kill()
    process.communicate()
    assert not (place / "kb.jsonl.kbdisk").exists()
    assert run("kb.jsonl", "--config", "long.toml", "--resume", "-q") == (0, "", "")
    assert not (place / "kb.jsonl.kbdisk.training").exists()
    run("kb.jsonl", "--config", "long.toml", "--out", "unbroken", "-q")
    assert weights(place / "kb.jsonl.kbdisk") == weights(place / "unbroken")


@pytest.mark.slow
def test_what_another_process_trains_is_left_to_it(place, run):
    process = begun("kb.jsonl", "--config", "long.toml")
    for more in ([], ["--resume"], ["--force"]):
        status, out, err = run("kb.jsonl", "--config", "long.toml", *more)
        assert (status, out) == (2, "")
        assert err == "error: kb.jsonl.kbdisk: another process is training it. Wait until that is done, or stop it.\n"
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert (place / "kb.jsonl.kbdisk.training" / "state.json").exists()


def test_to_resume_what_was_never_begun_begins_it_and_says_so(place, run):
    status, _, err = run(*SHORT, "--resume")
    assert status == 0
    assert "kb.jsonl.kbdisk.training: no run was stopped there: beginning one\n" in err


def on_terminal(*arguments) -> tuple[int, str]:
    """What a terminal gets, and the exit status."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(OMP_NUM_THREADS="1", COLUMNS="100", LINES="40", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-m", "kbdisk", "train", *arguments])
    told = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not data:
            break
        told += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), re.sub(r"\x1b\[[0-9;]*m", "", told.decode())


@pytest.mark.slow
def test_on_a_terminal_a_bar_tells_how_far_it_is_and_how_wrong_beside_the_constant(place):
    (place / "run.toml").write_text(run_file(600, 300))
    status, told = on_terminal(*SHORT, "--schema", "kb.yaml")
    assert status == 0
    assert re.match(rf"reading {SHORT[0]} \.\.\.\r +\r", told), "while torch is imported"
    assert re.search(r"training .*\d+/600.*held out .*nats", told)
    assert re.search(r"property +metric +constant +so far +better", told)
    assert re.search(r"colour.*error rate", told)
    assert "\x1b[?25h" in told, "the cursor is shown again"
