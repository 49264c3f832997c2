"""Several processes train as one: the same gradients and steps, and a run goes on with as many processes or others."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from models import phones, run_file, tiny_run

from kbdisk.errors import ConfigError, SchemaError, TrainingError
from kbdisk.training.data import Data
from kbdisk.training.distributed import ProcessEnded, Processes
from kbdisk.training.loop import Trainer, build, shapes_at_any_width
from kbdisk.training.train import train

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
STEPS = 600  # of the command


# ---------------------------------------------------------------- real processes


class Failure(NamedTuple):
    """The exception of a process; ours cannot be pickled."""

    type: type[Exception]
    text: str
    status: int | None


def in_processes(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `work` returns, or the failure that it ends with, in each of so many connected processes."""
    context = multiprocessing.get_context("fork")
    port = free_port()
    results = context.SimpleQueue()
    started = [context.Process(target=_work, args=(rank, size, port, results, work, arguments)) for rank in range(size)]
    for process in started:
        process.start()
    by_rank = dict(results.get() for _ in started)
    for process in started:
        process.join()
    return [by_rank[rank] for rank in range(size)]


def _work(rank: int, size: int, port: int, results: Any, work: Callable[..., Any], arguments: tuple) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    processes = Processes.of_environment()
    try:
        with processes.connected():
            results.put((rank, work(processes, *arguments)))
    except Exception as error:
        results.put((rank, Failure(type(error), str(error), getattr(error, "status", None))))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torchrun(size: int, *arguments: str) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    return [*launch, "-m", "kbdisk", *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def completed(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)


# ---------------------------------------------------------------- division of work


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("chunks", [[16], [8, 8], [6, 6, 4], [1, 1], [5, 5, 5, 2]])
def test_every_entity_of_a_step_is_in_one_piece_of_one_process(size, chunks):
    pieces = [piece for rank in range(size) for piece in Processes(rank, size).pieces(chunks)]
    entities = [(piece.chunk, entity) for piece in pieces for entity in range(piece.start, piece.end)]
    assert sorted(entities) == [(chunk, entity) for chunk, count in enumerate(chunks) for entity in range(count)]
    assert all(piece.is_whole == (piece.end - piece.start == chunks[piece.chunk]) for piece in pieces)


def test_processes_that_divide_the_chunks_evenly_have_whole_ones():
    for rank in range(2):
        assert [piece.chunk for piece in Processes(rank, 2).pieces([7, 7, 7, 3])] == [2 * rank, 2 * rank + 1]
        assert all(piece.is_whole for piece in Processes(rank, 2).pieces([7, 7, 7, 3]))


def test_processes_without_an_address_cannot_train_together():
    with pytest.raises(ConfigError, match="torchrun --nproc-per-node 2"), Processes(0, 2).connected():
        pass


# ---------------------------------------------------------------- gradients


def run_of(*, noise: bool, **choices: Any):
    """A tiny run, of float32 and with chunks as large as wanted; without dropout unless with noise."""
    run = tiny_run(**{"batch": 30, "precision": "float32", "steps": 4, **choices})
    text = replace(run.codec.kinds["text"], blank=run.codec.kinds["text"].blank if noise else 0.0)
    return replace(
        run,
        model=replace(run.model, dropout=0.2 if noise else 0.0),
        codec=replace(run.codec, kinds={**run.codec.kinds, "text": text}),
    )


@pytest.fixture(scope="module")
def exact_data():
    schema, entities = phones()
    return Data.prepare(schema, entities, run_of(noise=False))


def gradients_of(processes: Processes, data: Data, run) -> tuple[list, tuple[float, float]]:
    """The gradients and the loss of the first step."""
    trainer = Trainer(data, run, CPU, processes=processes)
    trainer.gradients.least = 4
    trainer.network.train()
    loss = trainer.gradients.compute(trainer.entities_of(0), trainer._loss)
    gradients = [None if weight.grad is None else weight.grad.numpy().copy() for weight in trainer.gradients.parameters]
    return gradients, (loss.total, loss.nats)


def largest_difference(gradients: list, others: list) -> float:
    assert [gradient is None for gradient in gradients] == [gradient is None for gradient in others]
    pairs = [(mine, theirs) for mine, theirs in zip(gradients, others, strict=True) if mine is not None]
    return max(float(abs(mine - theirs).max()) for mine, theirs in pairs)


DIVISIONS = [  # of a loss in parts over so many processes: each objective, each size and both numbers of parts
    ("bound", 1, 3),
    ("bound", 2, 2),
    ("field-mean", 1, 3),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (("bound", 1, 2), ("bound", 2, 3), ("field-mean", 1, 2))),
]


@pytest.mark.parametrize(("objective", "parts", "size"), DIVISIONS)
def test_the_gradients_are_those_of_one_process(objective, parts, size, exact_data):
    run = run_of(noise=False, objective=objective, parts=parts)
    alone, loss = gradients_of(Processes(), exact_data, run)
    for together, loss_together in in_processes(size, gradients_of, exact_data, run):
        assert largest_difference(alone, together) < 1e-6
        assert loss_together == pytest.approx(loss, rel=1e-6)


def test_two_processes_have_the_dropout_of_one_whose_step_has_two_chunks():
    run = run_of(noise=True, parts=2)
    data = Data.prepare(*phones(), run)
    alone, _ = gradients_of(Processes(), data, run)
    for together, _ in in_processes(2, gradients_of, data, run):
        assert largest_difference(alone, together) == 0.0


# ---------------------------------------------------------------- whole runs


def trained_weights(processes: Processes, run, folder: Path | None = None, **choices: Any) -> list:
    schema, entities = phones()
    trained = train(
        schema, entities, run, CPU, lambda progress: None, checkpoint=folder, processes=processes, **choices
    )
    return [weight.detach().numpy().copy() for weight in trained.network.parameters()]


@pytest.mark.parametrize(("seconds", "size"), [(None, 3), (600.0, 2)], ids=["steps", "budget"])
def test_process_0_has_the_model_of_one_process_and_the_others_end(seconds, size):
    run = run_of(noise=False, seconds=seconds, parts=1)
    experts = {name: replace(config, share=0.0) for name, config in run.experts.items() if hasattr(config, "share")}
    run = run.with_experts(**experts)
    first, *others = in_processes(size, trained_weights, run)
    assert [(other.type, other.status) for other in others] == [(ProcessEnded, 0)] * (size - 1)
    alone = trained_weights(Processes(), run)
    codec = Data.prepare(*phones(), run).codec
    untrained = build(codec, run, shapes_at_any_width(codec, run.model))
    start = [weight.detach().numpy() for weight in untrained.parameters()]
    assert distance(alone, first) < 0.01 * distance(alone, start)  # optimizers enlarge rounding of tiny gradients


def distance(weights: list, others: list) -> float:
    return sum(float(((mine - theirs) ** 2).sum()) for mine, theirs in zip(weights, others, strict=True)) ** 0.5


def test_an_error_in_the_data_is_reported_by_process_0_alone():
    schema, _ = phones()
    first, other = in_processes(2, lambda processes: train(schema, [], tiny_run(), CPU, print, processes=processes))
    assert first.type is SchemaError
    assert (other.type, other.status) == (ProcessEnded, 2)


def test_other_entities_in_another_process_are_refused():
    schema, entities = phones()

    def work(processes: Processes):
        return train(schema, entities[processes.rank :], tiny_run(), CPU, print, processes=processes)

    first, other = in_processes(2, work)
    assert first.type is TrainingError
    assert "process 1: expected the entities of process 0" in first.text
    assert (other.type, other.status) == (ProcessEnded, 2)


def test_a_process_that_is_lost_is_an_error_of_one_line():
    def work(processes: Processes) -> float:
        if processes.rank == 1:
            raise ValueError("lost")
        return processes.largest(1)

    first, _ = in_processes(2, work)
    assert first.type is TrainingError
    assert "\n" not in first.text


# ---------------------------------------------------------------- the command


@pytest.fixture
def configured(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(run_file(STEPS, 6))
    points = [{"id": f"p{n}", "x": n / 7, "y": n % 5, "c": "uvw"[n % 3]} for n in range(40)]
    Path("points.jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in points))
    return tmp_path


def command(out: str, *more: str) -> list[str]:
    return ["train", "points.jsonl", "--out", out, "--config", "run.toml", "--device", "cpu", *more]


def weights_of(folder: str) -> bytes:
    return Path(folder, "model.safetensors").read_bytes()


def step_of(folder: Path) -> int:
    try:
        return json.loads((folder / "state.json").read_bytes())["state"]["step"]
    except FileNotFoundError:
        return 0


def stopped(number: int, out: str) -> str:
    """Train by two processes, and end torchrun, or all of its processes, between two evaluations; standard error."""
    with Path("log").open("w") as log:
        job = subprocess.Popen(torchrun(2, *command(out)), env=ENVIRONMENT, stdout=log, stderr=log)
        while step_of(Path(f"{out}.training")) < 100:
            assert job.poll() is None, Path("log").read_text()
            time.sleep(0.01)
        if number == signal.SIGKILL:
            os.kill(random.choice(children_of(job.pid)), number)
        else:
            job.send_signal(number)
        assert job.wait() != 0
    assert 100 <= step_of(Path(f"{out}.training")) < STEPS
    assert not Path(out).exists()
    return Path("log").read_text()


def children_of(parent: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_goes_on_to_the_bit_and_with_one_process(number, configured):
    whole = completed(torchrun(2, *command("whole.kbdisk")))
    assert whole.returncode == 0, whole.stderr
    assert whole.stderr.count("wrote whole.kbdisk") == 1
    log = stopped(number, "m.kbdisk")
    if number == signal.SIGINT:
        assert log.count("stopped after step") == 1
    subprocess.run(["cp", "-r", "m.kbdisk.training", "one.kbdisk.training"], check=True)
    again = completed(torchrun(2, *command("m.kbdisk", "--resume")))
    assert again.returncode == 0, again.stderr
    assert weights_of("m.kbdisk") == weights_of("whole.kbdisk")
    alone = completed([sys.executable, "-m", "kbdisk", *command("one.kbdisk", "--resume")])
    assert alone.returncode == 0, alone.stderr
    ours, theirs = (safetensors.torch.load(weights_of(name)) for name in ("one.kbdisk", "whole.kbdisk"))
    assert ours.keys() == theirs.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "points.jsonl", "--out", "there"], "error: there"),
        (["train", "missing.jsonl", "--out", "m.kbdisk"], "error: missing.jsonl"),
        (["complete", "points.jsonl", "--out", "done.jsonl"], "error: --model"),
    ],
)
def test_an_error_is_one_line_of_process_0(arguments, line, configured):
    Path("there").mkdir()
    Path("there", "file").write_text("")
    done = completed(torchrun(2, *arguments))
    assert done.returncode != 0
    assert [text for text in done.stderr.splitlines() if text.startswith("error: ")] == [
        text for text in done.stderr.splitlines() if text.startswith(line)
    ]
    assert done.stderr.count("error: ") == 1 or done.stderr.count(line) == 1
