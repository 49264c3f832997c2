"""The speed of a training step: against a plain network, against the machine's peak, and as schemas and batches grow.

python -m benchmarks train [--rounds 5] [--only plain,schema,memory,processes] [--threads 1]

Measurements alternate. Each is the processor time of several steps, and the median of some is reported. They use one thread:
waiting for other threads would count as work, and other load on the machine would show. Work is counted by
`torch.utils.flop_counter`: the products of the forward and the backward pass.

The table of processes is of elapsed time, as processes wait for each other: measure it on two idle cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date
from itertools import accumulate
from types import ModuleType

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.script import CHECKOUT, argument_parser
from kbdisk.data import Codec, CodecConfig
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.entity import Entity
from kbdisk.model.diffusion import loss
from kbdisk.model.masking import Hiding, hide
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training.config import TrainConfig
from kbdisk.training.data import Data
from kbdisk.training.distributed import Processes
from kbdisk.training.loop import Trainer
from kbdisk.training.run import Run

LEAST = 1.5  # processor seconds of one reading: its clock may tick in hundredths
SIZE = 3072  # of the machine's own products
SIZE_BESIDE = 1536  # of products in several processes
UNTIMED_STEPS, TIMED_STEPS = 2, 8  # of a reading in several processes
PROCESS = "process"  # the argument of a child that is one of several


# ---------------------------------------------------------------- what is trained on


def phones(count: int) -> tuple[Codec, Tokens]:
    """Entities like the paper's phones without their text: nine numbers, two categories of 100 and 10 labels."""
    numbers = [f"number {i}" for i in range(9)]
    leaves = {**dict.fromkeys(numbers, Number()), "maker": Category(), "network": Category()}
    tree = {name: Property(leaf) for name, leaf in leaves.items()}
    schema = Schema({"Phone": Class("Phone", {(name,): prop for name, prop in tree.items()})})
    entities = [
        Entity(
            str(i),
            {name: round(random.gauss(100, 30), 1) for name in numbers}
            | {"maker": f"m{random.randrange(100)}", "network": f"n{random.randrange(10)}"},
            ("Phone",),
        )
        for i in range(count)
    ]
    codec = Codec.fit(schema, entities, CodecConfig(sharing="disjoint"))
    return codec, codec.encode(entities)


def sparse(paths: int, count: int, sharing: str = "auto", longest: int = 20) -> tuple[Codec, Tokens]:
    """Entities with 20 of many properties, a fifth of these categories; every property is met; the last may be longer."""
    leaves = {f"path {i}": Category() if i % 5 == 0 else Number() for i in range(paths)}
    schema = Schema({"Thing": Class("Thing", {(name,): Property(leaf) for name, leaf in leaves.items()})})

    def thing(number: int) -> Entity:
        size = longest if number == count - 1 else 20
        numbers = (
            [(number * 20 + j) % paths for j in range(20)] if number * 20 < paths else random.sample(range(paths), size)
        )
        tree = {
            f"path {i}": f"n{random.randrange(10)}" if i % 5 == 0 else round(random.gauss(0, 1), 2) for i in numbers
        }
        return Entity(str(number), tree, ("Thing",))

    entities = [thing(i) for i in range(count)]
    codec = Codec.fit(schema, entities, CodecConfig(sharing=sharing))
    return codec, codec.encode(entities[-4096:])


# ---------------------------------------------------------------- what is measured


@dataclass
class Trained:
    """A network in training: one step of it, and what a step does."""

    name: str
    step: Callable[[], object]
    entities: int
    flops: float = 0.0

    @classmethod
    def ours(cls, name: str, codec: Codec, batch: Batch, config: ModelConfig, bf16: bool = True) -> Trained:
        """Ours: what is hidden is drawn anew in each step."""
        model = DiSK(codec, config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
                total = loss(model, batch, hide(batch, Hiding())).total
            total.backward()
            optimizer.step()

        return cls(name, step, batch.size).counted()

    @classmethod
    def plain(cls, codec: Codec, batch: Batch, config: ModelConfig) -> Trained:
        """The tests' reference: dense, in float32."""
        reference = plain_reference()
        model = reference.Reference(codec, config)
        columns = reference.dense(batch, batch.known, len(codec.slots))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        nothing = torch.zeros(batch.size, len(codec.slots), dtype=torch.bool)

        def step() -> None:
            optimizer.zero_grad()
            visible = hide(batch, Hiding()).visible
            shown = nothing.index_put((batch.entity, batch.slot), visible)
            model(replace(columns, visible=shown)).backward()
            optimizer.step()

        return cls("plain, float32", step, batch.size).counted()

    def counted(self) -> Trained:
        """Itself, with the work of a step: a mean over some, as what is hidden differs."""
        self.step()
        with FlopCounterMode(display=False) as counter:
            for _ in range(4):
                self.step()
        self.flops = counter.get_total_flops() / 4
        return self


def plain_reference() -> ModuleType:
    """tests/reference.py."""
    spec = importlib.util.spec_from_file_location("reference", CHECKOUT / "tests" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def multiplied(dtype: torch.dtype, size: int = SIZE) -> Trained:
    """A large product of matrices."""
    a, b = torch.randn(2, size, size).to(dtype)
    return Trained(f"matmul {size}, {str(dtype)[6:]}", lambda: torch.mm(a, b), 0, 2.0 * size**3)


def seconds(step: Callable[[], object]) -> float:
    """The processor's seconds of one step."""
    begun, steps = time.process_time(), 0
    while time.process_time() - begun < LEAST:
        step()
        steps += 1
    return (time.process_time() - begun) / steps


def measured(networks: list[Trained], rounds: int) -> list[float]:
    """The seconds of a step of each: the medians of readings in turn."""
    readings = [[seconds(network.step) for network in networks] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*readings, strict=True)]


# ---------------------------------------------------------------- the tables


def against_plain(rounds: int) -> Iterator[str]:
    """Entities per second of ours and of the plain network, and the share of the machine's products."""
    codec, tokens = phones(4096)
    yield "| what | seconds a step | entities a second and core | GFLOP an entity | GFLOP/s | of matmul | against plain |"
    yield "|---|---|---|---|---|---|---|"
    for width, size, dropout in ((256, 1024, 0.0), (256, 1024, 0.1), (128, 512, 0.0), (128, 512, 0.1)):
        config = ModelConfig(width=width, heads=4, dropout=dropout)
        batch = tokens.batch(torch.arange(size))
        ours = Trained.ours("ours, bfloat16", codec, batch, config)
        networks = [multiplied(torch.float32), multiplied(torch.bfloat16), Trained.plain(codec, batch, config), ours]
        taken = measured(networks, rounds)
        rates = [network.flops / second for network, second in zip(networks, taken, strict=True)]
        for network, second, rate, top in zip(networks, taken, rates, [rates[0], rates[1]] * 2, strict=True):
            if network.entities == 0:
                yield f"| {network.name} | {second:.3f} | | | {rate / 1e9:.0f} | | |"
                continue
            name = f"{network.name}, width {width}, batch {size}, dropout {dropout}"
            per = f"{network.entities / second:.0f} | {network.flops / network.entities / 1e9:.3f} | {rate / 1e9:.0f}"
            yield f"| {name} | {second:.3f} | {per} | {rate / top:.0%} | {taken[2] / second:.2f} |"


def as_schemas_grow(rounds: int) -> Iterator[str]:
    """The time of a step as the schema grows and entities stay as they are."""
    yield "| paths in the schema, 20 an entity, width 128, batch 256 | milliseconds a step | against the least schema |"
    yield "|---|---|---|"
    cases = [(20, "auto"), (20, "tied"), (1000, "auto"), (10_000, "auto")]
    networks = []
    for paths, sharing in cases:
        codec, tokens = sparse(paths, 20_000 if paths > 1000 else 4096, sharing=sharing)
        groups = 1 + max(slot.group for slot in codec.slots)
        name = f"{paths:,}, {sharing}: {groups} sets of weights for a kind"
        networks.append(Trained.ours(name, codec, tokens.batch(torch.arange(256)), ModelConfig(width=128, dropout=0.1)))
    taken = measured(networks, rounds)
    for network, second in zip(networks, taken, strict=True):
        yield f"| {network.name} | {second * 1000:.0f} | {second / taken[0]:.2f} |"


def memory(rounds: int) -> Iterator[str]:
    """The most memory a step takes beyond what there is before it, by its tokens, in a process of its own each."""
    yield "| batch | tokens | MB of a step | KB a token |"
    yield "|---|---|---|---|"
    for case in ("256", "512", "1024", "2048", "512 of which one has 1,000 properties"):
        run = [sys.executable, "-W", "ignore", "-m", "benchmarks.train", case]
        measured = json.loads(subprocess.run(run, check=True, capture_output=True, text=True, cwd=CHECKOUT).stdout)
        per_token = measured["bytes"] / measured["tokens"] / 1e3
        yield f"| {case} | {measured['tokens']:,} | {measured['bytes'] / 1e6:.0f} | {per_token:.1f} |"


def processes(rounds: int) -> Iterator[str]:
    """Two processes of one thread each against one: a data-parallel step, and products of matrices side by side."""
    yield "| what | seconds, one process | seconds, two processes | speed of two against one |"
    yield "|---|---|---|---|"
    one, two = [], []
    for _ in range(rounds):
        one.append(_seconds_in_processes(1))
        two.append(_seconds_in_processes(2))
    names = {
        "step": "a training step of 512 entities, width 128, divided",
        "product": f"a product of matrices of side {SIZE_BESIDE} in each process",
    }
    for name, title in names.items():
        alone, together = (statistics.median(reading[name] for reading in readings) for readings in (one, two))
        work = 2 if name == "product" else 1  # two processes multiply twice
        yield f"| {title} | {alone:.3f} | {together:.3f} | {work * alone / together:.2f} |"


def _seconds_in_processes(size: int) -> dict[str, float]:
    """The elapsed seconds of a training step and of a product, in so many new processes at once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.train", PROCESS]
    address = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command, env={**os.environ, **address, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )
        for rank in range(size)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process of the benchmark has failed")
    taken: dict[str, float] = json.loads(outputs[0])
    return taken


def process_child() -> None:
    """The elapsed seconds of a training step and of a product, in one of several processes."""
    random.seed(0)
    torch.set_num_threads(1)
    codec, tokens = phones(4096)
    run = Run("default", model=ModelConfig(width=128, dropout=0.1), train=TrainConfig(batch=512, steps=100))
    several = Processes.of_environment()
    with several.connected():
        trainer = Trainer(Data(codec, tokens, tokens), run, torch.device("cpu"), processes=several)
        steps = {"step": trainer.advance, "product": multiplied(torch.float32, SIZE_BESIDE).step}
        taken = {name: _elapsed(step, several) for name, step in steps.items()}
    print(json.dumps(taken))


def _elapsed(step: Callable[[], object], several: Processes) -> float:
    """The elapsed seconds of one step until all processes have taken it."""
    for _ in range(UNTIMED_STEPS):
        step()
    several.largest(0)
    begun = time.monotonic()
    for _ in range(TIMED_STEPS):
        step()
    several.largest(0)
    return (time.monotonic() - begun) / TIMED_STEPS


def child(case: str) -> None:
    """One step of so many entities, and the bytes that its tensors took at most."""
    random.seed(0)
    torch.manual_seed(0)
    size, long = int(case.split()[0]), not case.isdigit()
    codec, tokens = sparse(1000, 4096, longest=1000 if long else 20)
    batch = tokens.batch(torch.arange(len(tokens) - size, len(tokens)))
    network = Trained.ours("", codec, batch, ModelConfig(width=128))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        network.step()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    taken = accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns()))
    print(json.dumps({"bytes": max(taken), "tokens": len(batch)}))


TABLES = {"plain": against_plain, "schema": as_schemas_grow, "memory": memory, "processes": processes}


def main(argv: Sequence[str]) -> None:
    """Measure and print."""
    parser = argument_parser("train", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default=",".join(TABLES))
    arguments = parser.parse_args(argv)
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}"
    threads = f"threads: {torch.get_num_threads()}, {torch.backends.cpu.get_cpu_capability()}"
    print(f"{date.today()}, {versions}, {threads}")
    for name in arguments.only.split(","):
        print()
        for line in TABLES[name](arguments.rounds):
            print(line, flush=True)


if __name__ == "__main__":  # one measurement, in a process of its own
    process_child() if sys.argv[1] == PROCESS else child(sys.argv[1])
