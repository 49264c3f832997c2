"""A run that is killed goes on where it was, to the bit; what it cannot go on from is told in one line."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from models import phones, tiny_run

from kbdisk.entity import Entity
from kbdisk.errors import CheckpointError, KBDiskWarning, TrainingError
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training import checkpoint
from kbdisk.training.checkpoint import Interrupted, differences
from kbdisk.training.loop import Trainer
from kbdisk.training.train import train
from kbdisk.training.validation import Progress, ValidationLoss, Validator

CPU = torch.device("cpu")
SOURCE = {"name": "phones.jsonl", "sha256": "00"}
STEPS = 6


def points() -> tuple[Schema, list[Entity]]:
    """Entities of two numbers and a category, quickly learnt."""
    properties = {("x",): Property(Number()), ("y",): Property(Number()), ("c",): Property(Category())}
    entities = [Entity(f"p{n}", {"x": n / 7, "y": n % 5, "c": "uvw"[n % 3]}, ("Point",)) for n in range(40)]
    return Schema({"Point": Class("Point", properties)}), entities


def go(
    folder=None, *, after=None, number=signal.SIGINT, given=None, source=SOURCE, resume=False, force=False, **choices
):
    """Train, and send a signal after so many steps. What is recorded is not learnt, which would take most of the time."""

    def watch(progress) -> None:
        if progress.step == after:
            signal.raise_signal(number)

    run = tiny_run(**{"steps": STEPS, "evaluations": 3, "absent": 0, "presence": 0.0, **choices})
    schema, entities = given or points()
    return train(
        schema, entities, run, CPU, watch, source=source, checkpoint=folder, resume=resume, force=force
    )  # fmt: skip


def weights(trained) -> list[torch.Tensor]:
    return list(trained.network.state_dict().values())


def same(one, other) -> bool:
    return all(map(torch.equal, weights(one), weights(other)))


@pytest.fixture(scope="module")
def unbroken():
    return go()


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A run that was stopped after three of its steps; read it, never change it."""
    folder = tmp_path_factory.mktemp("kept") / "m.training"
    with pytest.raises(Interrupted):
        go(folder, after=3)
    return folder


@pytest.fixture
def stopped(kept, tmp_path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(kept, tmp_path / "m.training"))


# ---------------------------------------------------------------- going on


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_run_that_goes_on_ends_as_the_unbroken_one(after, tmp_path, unbroken):
    folder = tmp_path / "m.training"
    with pytest.raises(Interrupted):
        go(folder, after=after)
    ended = go(folder, resume=True)
    assert same(ended, unbroken)
    assert [one["nats"] for one in ended.record.history] == [one["nats"] for one in unbroken.record.history]
    assert ended.record.facts["best_step"] == unbroken.record.facts["best_step"]


@pytest.mark.slow
def test_a_run_with_texts_dates_and_sets_goes_on_to_the_bit(tmp_path):
    folder, (schema, entities) = tmp_path / "m.training", phones()
    choices = {"given": (schema, entities[:24]), "steps": 3, "absent": 2, "presence": 0.05}
    with pytest.raises(Interrupted):
        go(folder, after=2, **choices)
    assert same(go(folder, resume=True, **choices), go(**choices))


def test_keeping_a_run_changes_nothing_of_it(tmp_path, unbroken):
    assert same(go(tmp_path / "m.training"), unbroken)


def test_a_run_may_be_stopped_again_and_again(tmp_path, unbroken):
    folder = tmp_path / "m.training"
    for after in (1, 3, 4):
        with pytest.raises(Interrupted):
            go(folder, after=after, resume=True)
    assert same(go(folder, resume=True), unbroken)


def test_a_run_that_had_ended_only_makes_its_model(tmp_path, unbroken):
    folder = tmp_path / "m.training"
    go(folder)
    assert same(go(folder, resume=True), unbroken)


def test_to_resume_where_nothing_is_kept_is_to_begin(tmp_path, unbroken):
    assert same(go(tmp_path / "m.training", resume=True), unbroken)


def test_a_budget_that_has_become_steps_stays_them(tmp_path):
    folder = tmp_path / "m.training"
    with pytest.raises(Interrupted):
        go(folder, after=6, steps=8, seconds=1000.0, timed=3)
    state = json.loads((folder / "state.json").read_text())["state"]
    assert state["total"] == 8
    assert len(state["timing"]) == 3
    ended = go(folder, resume=True, steps=8, seconds=1000.0, timed=3)
    assert ended.record.facts["steps"] == 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step_and_says_where_it_is_kept(number, tmp_path):
    with pytest.raises(Interrupted) as caught:
        go(tmp_path / "m.training", after=2, number=number)
    told = caught.value
    assert (told.signal, told.step, told.total) == (number, 2, STEPS)
    assert told.folder == tmp_path / "m.training"
    assert checkpoint.is_there(told.folder)


@pytest.mark.parametrize("call", ["watch", "close", "save"])
def test_a_signal_that_comes_with_the_last_step_ends_the_run_too(call, tmp_path, monkeypatch):
    sent = []

    def send() -> None:
        sent.append(signal.raise_signal(signal.SIGINT))

    if call != "watch":
        real = getattr(checkpoint.Checkpoint, call)
        monkeypatch.setattr(
            checkpoint.Checkpoint, call, lambda *given: (real(*given), sent or _step(given) < STEPS or send())
        )
    with pytest.raises(Interrupted) as caught:
        go(tmp_path / "m.training", after=STEPS if call == "watch" else None)
    assert caught.value.step == STEPS


def _step(given) -> int:
    """How far the trainer is that a checkpoint saves; where it is closed, to the end."""
    return given[1].state.step if len(given) > 1 else STEPS


# ---------------------------------------------------------------- killed

KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.schema import Class, Property, Schema
from kbdisk.training import checkpoint
from kbdisk.training.loop import Trainer
from kbdisk.training.validation import Progress
from training.test_checkpoint import go
checkpoint.MAX_SECONDS_BETWEEN = 0.0  # kept after every step
go(Path(sys.argv[1]), resume=True, steps={steps})
"""


def killed(folder: Path, steps: int, when: Callable[[], bool]) -> None:
    """Let a process train, and kill it when it is time."""
    code = KILLED.format(tests=str(Path(__file__).parents[1]), steps=steps)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": str(random.randrange(1000))}
    process = subprocess.Popen([sys.executable, "-c", code, folder], env=environment, stderr=subprocess.PIPE)
    while process.poll() is None and not when():
        time.sleep(0.002)
    process.kill()
    _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err.decode()


def step_of(folder: Path) -> int:
    """How far the run is that a folder keeps."""
    try:
        return json.loads((folder / "state.json").read_bytes())["state"]["step"]
    except FileNotFoundError:
        return 0


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on_to_the_bit(tmp_path):
    folder, steps = tmp_path / "m.training", 60
    killed(folder, steps, lambda: step_of(folder) >= 3)
    assert 3 <= step_of(folder) < steps
    unbroken = go(steps=steps)
    assert same(go(folder, resume=True, steps=steps), unbroken)
    told = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert told == list(range(1, steps + 1))


@pytest.mark.slow
def test_ten_kills_at_any_moment_lose_nothing(tmp_path):
    folder, steps, draw = tmp_path / "m.training", 1000, random.Random(0)
    for _ in range(10):
        before, wait, begun = step_of(folder), draw.random() / 3, []

        def is_time(before=before, wait=wait, begun=begun) -> bool:
            if not begun and step_of(folder) > before:
                begun.append(time.monotonic())
            return bool(begun) and time.monotonic() - begun[0] > wait

        killed(folder, steps, is_time)
        assert before < step_of(folder) < steps
    unbroken = go(steps=steps)
    assert same(go(folder, resume=True, steps=steps), unbroken)


# ---------------------------------------------------------------- what is kept


def test_what_is_kept_is_data_and_no_program(stopped):
    state = json.loads((stopped / "state.json").read_text())
    assert {file.name for file in stopped.iterdir()} == {state["last"], state["best"], "state.json", "metrics.jsonl"}
    assert state["state"]["step"] == 3
    for name in (state["last"], state["best"]):
        with safetensors.safe_open(stopped / name, "pt") as file:
            assert all(file.get_tensor(key).isfinite().all() for key in file.keys())  # noqa: SIM118


def test_metrics_tell_each_step_and_each_look(stopped):
    told = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [one["step"] for one in told] == [1, 2, 3]
    assert all(one["loss"] > 0 < one["rate"] for one in told)
    assert [("nats" in one) for one in told] == [False, True, False]
    assert "Point.x" in told[1]["properties"]


def test_metrics_of_steps_that_are_done_again_are_there_once(stopped):
    with (stopped / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "loss": 1}\n{"step": 5, "lo')
    go(stopped, resume=True)
    told = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [one["step"] for one in told] == [1, 2, 3, 4, 5, 6]
    assert "rate" in told[3]


def test_what_a_kill_left_half_written_is_no_harm_and_goes(stopped, unbroken):
    (stopped / "last-4.safetensors").write_bytes(b"half")
    (stopped / ".state.json.x1.part").write_bytes(b"{")
    assert same(go(stopped, resume=True), unbroken)
    assert {file.suffix for file in stopped.iterdir()} == {".safetensors", ".json", ".jsonl"}
    assert len(list(stopped.iterdir())) == 4


def test_it_is_kept_every_so_often_between_looks(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_SECONDS_BETWEEN", 0.0)
    folder, seen = tmp_path / "m.training", []

    def watch(progress: Progress) -> None:
        if progress.final_task is None:
            seen.append(step_of(folder))

    train(*points(), tiny_run(evaluations=1), CPU, watch, checkpoint=folder)
    assert seen == [0, 1, 2, 3, 4]


# ---------------------------------------------------------------- what is in the way


def refused(folder: Path, **more) -> str:
    with pytest.raises(CheckpointError) as caught:
        go(folder, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_that_is_kept_is_not_lost_by_beginning_another(stopped, unbroken):
    assert "a run stopped there after step 3. Say resume=True to go on, force=True to begin anew." in refused(stopped)
    assert same(go(stopped, force=True), unbroken)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    assert "got a folder with 'thesis.tex'. Move it." in refused(tmp_path, force=True)
    assert (tmp_path / "thesis.tex").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be made: " in refused(tmp_path / "file" / "m.training")


def without(path: str):
    """The points, of a schema without one property."""
    schema, entities = points()
    (name, one), *_ = schema.classes.items()
    kept = {key: each for key, each in one.properties.items() if key != (path,)}
    return replace(schema, classes={name: replace(one, properties=kept)}), entities


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"source": {**SOURCE, "sha256": "11"}}, "is another run's: the source has changed. Resume with what it "),
        ({"given": without("x")}, "is another run's: the schema has changed. Resume"),
        ({"rate": 0.5}, "is another run's: train.rate was 0.002 and is 0.5."),
        ({"seed": 3}, "is another run's: seed was 0 and is 3. Resume"),
        ({"steps": 9, "batch": 8, "clip": 2.0, "decay": 0.0}, "train.batch was 16 and is 8, train.decay was 0.2 and is 0.0, train.steps was 6 and is 9, and 1 more."),
    ],
)  # fmt: skip
def test_another_run_is_refused_by_what_differs(more, complaint, stopped, unbroken):
    assert complaint in refused(stopped, resume=True, **more)
    assert same(go(stopped, resume=True), unbroken)


def test_another_name_of_the_same_source_is_no_other(stopped, unbroken):
    assert same(go(stopped, resume=True, source={**SOURCE, "name": "./phones.jsonl"}), unbroken)


def test_other_entities_are_refused_where_no_source_tells(stopped):
    schema, entities = points()
    assert "the entities are not the same. " in refused(stopped, resume=True, given=(schema, entities[1:]))


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (26.4, 10.56, "the time budget is 0.4 times what it was"),
        (None, 9.0, "there was no time budget, and is one"),
        (9.0, None, "there was a time budget, and is none"),
    ],
)
def test_another_budget_is_told_in_no_seconds_that_nobody_has_said(then, now, told):
    one, other = (
        {"source": {}, "schema": "", "kbdisk": "1", "run": {"train": {"seconds": each}}} for each in (then, now)
    )
    assert differences(one, other) == [told]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state.json", "last", "best"])
@pytest.mark.parametrize("damage", ["gone", "empty", "half", "other"])
def test_damaged_files_are_told(name, damage, stopped):
    state = json.loads((stopped / "state.json").read_text())
    file = stopped / state.get(name, name)
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "half": data[: len(data) // 2], "other": b'{"format": 99}' + b"x" * 40}[damage])
    if (name, damage) == ("state.json", "gone"):
        go(stopped, resume=True, steps=2)  # nothing is kept
        return
    assert "force=True" in refused(stopped, resume=True)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "of": {}, "state": 3}'])
def test_a_state_that_is_none_is_told(text, stopped):
    (stopped / "state.json").write_text(text)
    assert "force=True" in refused(stopped, resume=True)


@pytest.mark.parametrize(("name", "value"), [("values", [1]), ("values", -1), ("recorded", "x"), ("falls", None)])
def test_a_state_of_other_types_or_less_than_nothing_is_told(name, value, stopped):
    told = json.loads((stopped / "state.json").read_text())
    told["state"][name] = value
    (stopped / "state.json").write_text(json.dumps(told))
    assert "force=True" in refused(stopped, resume=True)


@pytest.mark.parametrize("which", ["last", "best"])
@pytest.mark.parametrize("damage", ["gone", "shape", "more"])
def test_tensors_of_something_else_are_told(which, damage, stopped):
    file = stopped / json.loads((stopped / "state.json").read_text())[which]
    tensors = safetensors.torch.load_file(file)
    name = min(tensors)
    if damage == "gone":
        del tensors["average/query" if which == "last" else name]
    else:
        tensors["more" if damage == "more" else name] = torch.zeros(3, 3)
    safetensors.torch.save_file(tensors, file)
    assert "force=True" in refused(stopped, resume=True)


def test_a_state_cannot_name_files_elsewhere(stopped):
    state = json.loads((stopped / "state.json").read_text())
    (stopped / "state.json").write_text(json.dumps({**state, "last": "../../secret"}))
    assert "force=True" in refused(stopped, resume=True)


# ---------------------------------------------------------------- no number


@pytest.fixture
def poisoned(monkeypatch) -> None:
    """Weights that are no numbers after four steps."""
    advance = Trainer.advance

    def poisoning(trainer: Trainer) -> float:
        if trainer.state.step == 4:
            with torch.no_grad():
                trainer.network.query.fill_(torch.nan)
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", poisoning)


@pytest.mark.parametrize(("evaluations", "good"), [(3, 4), (1, 4), (2, 3)])
def test_a_loss_that_is_no_number_keeps_good_weights_that_resume_makes_a_model_of(
    evaluations, good, tmp_path, poisoned, monkeypatch
):
    monkeypatch.setattr(ValidationLoss, "cost", lambda self, constant: -self.step)  # every look is better than the last
    folder = tmp_path / "m.training"
    with pytest.raises(
        TrainingError, match=f"resume=True makes a model of the weights of step {good}, which were good"
    ):
        go(folder, evaluations=evaluations)
    trained = go(folder, evaluations=evaluations, resume=True)
    assert all(one.isfinite().all() for one in weights(trained))
    assert trained.record.facts["stopped"] == "expected a loss that is a number, got none after step 4"
    assert trained.record.facts["best_step"] == good


@pytest.mark.slow
@pytest.mark.parametrize(
    ("looks", "networks", "told"), [(3, 2, "It has the weights of step 4"), (0, 1, "It is left out")]
)
@pytest.mark.parametrize("kept", [False, True])
def test_a_further_network_that_cannot_go_on_ends_no_run(looks, networks, told, kept, tmp_path, monkeypatch):
    first, advance = tiny_run().seed, Trainer.advance

    def poisoning(trainer: Trainer) -> float:
        if trainer.run.seed != first and trainer.state.step == (4 if looks else 0):
            with torch.no_grad():
                trainer.network.query.fill_(torch.nan)
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", poisoning)
    monkeypatch.setattr(ValidationLoss, "cost", lambda self, constant: -self.step)
    with pytest.warns(
        KBDiskWarning, match=rf"^train: network 2: expected a loss that is a number.*{told}.*Lower train\.rate"
    ):
        trained = go(tmp_path / "m.training" if kept else None, members=2, evaluations=3)
    assert len(trained.members) == trained.record.facts["networks"] == networks
    assert all(one.isfinite().all() for member in trained.members for one in member.network.parameters())


def test_where_no_weights_were_good_there_is_nothing_to_go_on_from(tmp_path):
    folder = tmp_path / "m.training"
    for resume in (False, True):
        with pytest.raises(TrainingError, match=r"Lower train\.rate \(1e\+30\)\.$"):
            go(folder, rate=1e30, steps=50, evaluations=1, resume=resume)
        assert not checkpoint.is_there(folder)


def test_where_the_first_look_is_no_number_a_run_that_is_resumed_says_so_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Validator, "evaluate", lambda self, step, tokens=None: ValidationLoss(step, math.nan, {}))
    for resume in (False, True):
        with pytest.raises(TrainingError, match="expected a loss on the held-out part that is a number"):
            go(tmp_path / "m.training", evaluations=3, resume=resume)


def test_what_was_kept_can_be_removed_once_the_model_is_safe(stopped):
    checkpoint.remove(stopped)
    assert not stopped.exists()
    checkpoint.remove(stopped)
