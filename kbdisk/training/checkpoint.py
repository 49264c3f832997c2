"""Checkpoints: a run is saved in a folder so that it can resume exactly where it was.

    state.json             how far it is, which files hold its tensors, and the identity of the run
    last-812.safetensors   after step 812: the weights, those of the EMA, the optimizer's moments
    best-800.safetensors   the EMA weights with the lowest validation loss so far
    metrics.jsonl          each step's loss, each evaluation

A file is written beside and renamed, state.json last, and only then the files that it no longer names are removed: at
whatever moment the process is killed, state.json names complete files.

The identity of a run is its source, schema, settings, entities and the version of kbdisk: a run resumes only where all are
the same. SIGINT, SIGTERM and SIGHUP let the current step finish, and end the run when it is saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from io import BufferedWriter
from pathlib import Path as FilePath
from types import FrameType
from typing import Any, Self

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from kbdisk.entity import show
from kbdisk.errors import CheckpointError, setting
from kbdisk.loaders.files import writing
from kbdisk.tensors import write
from kbdisk.training.data import Data
from kbdisk.training.distributed import Processes
from kbdisk.training.loop import Trainer
from kbdisk.training.run import Run
from kbdisk.training.validation import Progress, State, finite

FORMAT = 5
STATE, METRICS = "state.json", "metrics.jsonl"
MAX_SECONDS_BETWEEN = 30.0  # between two saves of a run
MOMENTS = ("step", "exp_avg", "exp_avg_sq", "momentum")  # of AdamW, of Muon
FILE = re.compile(r"(last|best)-[0-9]+\.safetensors")
MAX_DIFFERENCES = 3  # differences named in an error


@dataclass
class Checkpoint:
    """A folder that a run is kept in."""

    folder: FilePath
    identity: dict[str, Any]
    kept: float = field(default_factory=time.monotonic)  # when it was last
    metrics: BufferedWriter | None = None

    @classmethod
    def begin(cls, folder: FilePath, identity: dict[str, Any], *, force: bool = False) -> Self:
        """A new run's folder; an unfinished run that is there is in the way unless forced."""
        if not force:
            refuse_unfinished(folder)
        remove(folder)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise CheckpointError(str(folder), f"cannot be made: {(error.strerror or str(error)).lower()}.") from None
        return cls(folder, identity)

    @classmethod
    def resume(cls, folder: FilePath, identity: dict[str, Any], trainer: Trainer) -> Self:
        """The folder of a run that stopped, and the trainer as it was then; CheckpointError where it is another run's."""
        content = _read(folder)
        found = differences(content["of"], identity)
        if found:
            more = f", and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
            what = f"{', '.join(found[:MAX_DIFFERENCES])}{more}"
            raise CheckpointError(
                str(folder),
                f"is another run's: {what}. Resume with what it began with, or say {setting('force')} to begin anew.",
            )
        expected = _tensors(trainer), _named("best", trainer, trainer.best)
        last, best = (
            _load(folder / content[name], tensors) for name, tensors in zip(("last", "best"), expected, strict=True)
        )
        _put(trainer, last, best)
        trainer.state = _state(content["state"])
        _shorten(folder / METRICS, trainer.state.step)
        return cls(folder, identity)

    @property
    def is_due(self) -> bool:
        """Whether the run has not been kept for long."""
        return time.monotonic() - self.kept > MAX_SECONDS_BETWEEN

    def save(self, trainer: Trainer) -> None:
        """Keep the run as it is between two steps."""
        state = trainer.state
        last, best = f"last-{state.step}.safetensors", f"best-{state.best_step}.safetensors"
        _write_tensors(self.folder / last, _tensors(trainer))
        if not (self.folder / best).exists():
            _write_tensors(self.folder / best, _named("best", trainer, trainer.best))
        content = {"format": FORMAT, "last": last, "best": best, "state": _plain(state), "of": self.identity}
        if self.metrics is not None:
            self.metrics.flush()
        _write(self.folder / STATE, _json(content))
        for file in self.folder.iterdir():
            if file.name not in (STATE, METRICS, last, best):
                file.unlink()
        self.kept = time.monotonic()

    def log(self, progress: Progress, trainer: Trainer) -> None:
        """A line of metrics."""
        if self.metrics is None:
            self.metrics = (self.folder / METRICS).open("ab")
        content: dict[str, Any] = {
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "loss": finite(progress.loss),
            "rate": trainer.optimizer.param_groups[0]["lr"] / trainer.shares[0],
        }
        if progress.validation_loss is not None:
            names = [show(slot.keys if slot.class_name else slot.path) for slot in trainer.codec.slots]
            by_path = {names[slot]: finite(nats) for slot, (nats, _) in progress.validation_loss.by_slot.items()}
            content |= {"nats": finite(progress.validation_loss.nats), "properties": by_path}
        self.metrics.write(_json(content) + b"\n")
        if progress.validation_loss is not None:
            self.metrics.flush()

    def close(self) -> None:
        """End the metrics."""
        if self.metrics is not None:
            self.metrics.close()
            self.metrics = None


def share_state(trainer: Trainer, processes: Processes) -> None:
    """Send the state of process 0's trainer, which may be that of a resumed run, to the trainers of the other processes."""
    if processes.size == 1:
        return
    last, best, trainer.state = processes.share(
        lambda: (_on_cpu(_tensors(trainer)), _on_cpu(_named("best", trainer, trainer.best)), trainer.state)
    )
    if not processes.is_first:
        _put(trainer, *({name: tensor.to(trainer.device) for name, tensor in part.items()} for part in (last, best)))


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def beside(model: FilePath) -> FilePath:
    """The folder of a run's checkpoint, beside the model folder."""
    return model.with_name(f"{model.name}.training")


def folder_of(folder: FilePath, number: int) -> FilePath:
    """The folder of the checkpoint of one network of a run, by its number from 0."""
    return folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")


def refuse_unfinished(folder: FilePath) -> None:
    """CheckpointError where a new run would lose one that can go on."""
    if is_there(folder):
        step = _read(folder)["state"]["step"]
        raise CheckpointError(
            str(folder),
            f"a run stopped there after step {step:,}. Say {setting('resume')} to go on, {setting('force')} to begin anew.",
        )


def is_there(folder: FilePath) -> bool:
    """Whether a run that can go on is kept in a folder."""
    return (folder / STATE).exists()


def remove(folder: FilePath) -> None:
    """Remove what was kept of a run, of all its networks; a folder that holds anything else is not ours to remove."""
    number = 1
    while (other := folder_of(folder, number)).exists():
        _remove(other)
        number += 1
    if folder.exists():
        _remove(folder)


def _remove(folder: FilePath) -> None:
    known = ("last-*.safetensors", "best-*.safetensors", STATE, METRICS, ".*.part")
    strange = [file.name for file in folder.iterdir() if not any(file.match(name) for name in known)]
    if strange:
        raise CheckpointError(str(folder), f"expected a run that stopped, got a folder with {strange[0]!r}. Move it.")
    (folder / STATE).unlink(missing_ok=True)  # first, so that the rest of a killed removal is no run
    shutil.rmtree(folder)


# ---------------------------------------------------------------- tensors


def _named(kind: str, trainer: Trainer, tensors: list[Tensor]) -> dict[str, Tensor]:
    names = [name for name, _ in trainer.network.named_parameters()]
    return {f"{kind}/{name}": tensor.detach().contiguous() for name, tensor in zip(names, tensors, strict=True)}


def _tensors(trainer: Trainer) -> dict[str, Tensor]:
    """The state that the next step depends on, besides the seed and the number of the step."""
    kept = _named("weights", trainer, list(trainer.network.parameters()))
    kept |= _named("average", trainer, trainer.ema.weights)
    for name, parameter in trainer.network.named_parameters():
        moments = trainer.optimizer.state.get(parameter, {})
        kept |= {f"{key}/{name}": moments[key].contiguous() for key in MOMENTS if key in moments}
    return kept


@torch.no_grad()
def _put(trainer: Trainer, last: Mapping[str, Tensor], best: Mapping[str, Tensor]) -> None:
    """Put tensors into a trainer. The identity of the run is the same, and so are names and shapes."""
    for place, (name, parameter) in enumerate(trainer.network.named_parameters()):
        parameter.copy_(last[f"weights/{name}"])
        trainer.ema.weights[place].copy_(last[f"average/{name}"])
        moments = {key: last[f"{key}/{name}"] for key in MOMENTS if f"{key}/{name}" in last}
        if moments:
            trainer.optimizer.state[parameter] = moments
    trainer.best = [best[f"best/{name}"] for name, _ in trainer.network.named_parameters()]


def _load(file: FilePath, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file: the expected ones, and moments of the same shapes."""
    try:
        device = next(iter(expected.values())).device
        loaded = safetensors.torch.load_file(file, str(device))
    except (OSError, safetensors.SafetensorError) as error:
        fact = (getattr(error, "strerror", None) or str(error)).lower()
        raise CheckpointError(str(file), f"cannot be read: {fact}. {_advise_restart()}") from None
    shapes = {name: tensor.shape for name, tensor in expected.items()}
    for name, tensor in loaded.items():
        kind, _, parameter = name.partition("/")
        shape = torch.Size() if kind == "step" else shapes.get(f"weights/{parameter}" if kind in MOMENTS else name)
        if tensor.shape != shape:
            raise CheckpointError(
                str(file), f"expected {name} of shape {shape}, got {tensor.shape}. {_advise_restart()}"
            )
    missing = shapes.keys() - loaded.keys()
    if missing:
        raise CheckpointError(str(file), f"expected {min(missing)}, got a file without. {_advise_restart()}")
    return loaded


# ---------------------------------------------------------------- state


def _plain(state: State) -> dict[str, Any]:
    return {**asdict(state), "best": finite(state.best)}


def _state(content: Mapping[str, Any]) -> State:
    return State(**{**content, "best": math.inf if content["best"] is None else content["best"]})


def _advise_restart() -> str:
    return f"Say {setting('force')} to begin the run anew."


def _read(folder: FilePath) -> dict[str, Any]:
    """state.json."""
    file = folder / STATE
    try:
        content: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            str(folder), f"no run is kept there. Leave {setting('resume')} out to begin one."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(str(file), f"cannot be read: {error}. {_advise_restart()}") from None
    format = content.get("format") if isinstance(content, dict) else None
    if format != FORMAT:
        raise CheckpointError(str(file), f"expected a run in format {FORMAT}, got {format!r}. {_advise_restart()}")
    if not _is_complete(content):
        raise CheckpointError(str(file), f"expected how far a run is, got something else. {_advise_restart()}")
    return content


COUNTS = ("step", "best_step", "worse", "evaluations", "falls")  # of a state
SIGNED = ("best", "spare")
NUMBERS = {
    "total": (int, type(None)),
    "seconds": (float,),
    "spare": (float, int),
    "values": (int, type(None)),
    "recorded": (int, type(None)),
    "best": (float, int, type(None)),
}


def _is_complete(content: Mapping[str, Any]) -> bool:
    """Whether it has all that there is to know, in the types that this has."""
    state, of = content.get("state"), content.get("of")
    if not (isinstance(state, dict) and isinstance(of, dict) and state.keys() == asdict(State()).keys()):
        return False
    named = all(FILE.fullmatch(str(content.get(name))) for name in ("last", "best"))
    counts = all(type(state[name]) is int for name in COUNTS)
    numbers = all(type(state[name]) in kinds for name, kinds in NUMBERS.items())
    sizes = counts and numbers and all((state[name] or 0) >= 0 for name in (*COUNTS, *NUMBERS) if name not in SIGNED)
    lists = all(type(state[name]) is list for name in ("history", "timing"))
    return named and sizes and lists and type(state["stopped"]) is str


def _shorten(file: FilePath, step: int) -> None:
    """Metrics without the lines of steps that are to be done again, and without half a line."""
    if not file.exists():
        return
    kept = []
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), 1):
        try:
            if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                break
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CheckpointError(
                f"{file}:{number}", f"expected a step's measures, got something else. {_advise_restart()}"
            ) from None
        kept.append(line)
    _write(file, b"".join(kept))


def _write(file: FilePath, data: bytes) -> None:
    with writing(file) as stream:
        stream.write(data)


def _write_tensors(file: FilePath, tensors: Mapping[str, Tensor]) -> None:
    with writing(file) as stream:
        write(stream, tensors)


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


# ---------------------------------------------------------------- the run's identity


SECONDS = ("train", "seconds")


def run_identity(data: Data, run: Run, source: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run, as plain data: its data, settings and source."""
    content = {
        "kbdisk": version("kbdisk"),
        "source": {name: value for name, value in source.items() if name != "name"},
        "schema": _hash(data.codec.schema.to_yaml().encode()),
        "run": run.to_json(),
        "entities": fingerprint(data),
    }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences of the identities of two runs, in words."""
    found = [f"the {name} has changed" for name in ("source", "schema") if then.get(name) != now[name]]
    found += _changes(then.get("kbdisk"), now["kbdisk"], ("kbdisk",))
    found += _changes(then.get("run"), now["run"], ())
    if not found and then.get("entities") != now["entities"]:
        found.append("the entities are not the same")
    return found


def _changes(then: Any, now: Any, at: tuple[str, ...]) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _changes(then.get(key), now.get(key), (*at, key))
    elif then != now:
        yield _budget(then, now) if at == SECONDS else f"{'.'.join(at)} was {then!r} and is {now!r}"


def _budget(then: float | None, now: float | None) -> str:
    """The change of a time budget in words. A network has a share of it, so its own seconds would say nothing to a user."""
    if then is None or now is None:
        return "there was no time budget, and is one" if then is None else "there was a time budget, and is none"
    if not isinstance(then, int | float) or then <= 0:
        return f"the time budget was {then!r}"
    return f"the time budget is {now / then:.2g} times what it was"


def fingerprint(data: Data) -> str:
    """A hash of the encoded entities and of the codec."""
    hashed = hashlib.sha256(json.dumps(data.codec.to_json()).encode())
    for tokens in (data.training, data.validation):
        hashed.update(repr(tokens.ids).encode())
        for tensor in (tokens.classes, tokens.offsets, tokens.slot, tokens.row, tokens.known):
            hashed.update(tensor.numpy().data)
    return hashed.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- signals


SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A run that a signal stopped, saved in a folder that it can resume from."""

    def __init__(self, signal: int, step: int, total: int | None, folder: FilePath) -> None:
        super().__init__(f"stopped after step {step:,}; kept in {folder}")
        self.signal, self.step, self.total, self.folder = signal, step, total, folder


@dataclass
class Stop:
    """The signal that asks the run to stop, if any."""

    signal: int | None = None

    def is_asked(self, processes: Processes) -> bool:
        """Whether a signal has asked one of the processes to stop."""
        if processes.size == 1:
            return self.signal is not None
        signal = processes.largest(self.signal or 0)
        if signal:
            self.signal = signal
        return bool(signal)


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """Records the first signal instead of obeying it; a second one is obeyed at once.

    The first signal is raised at the end, as it may have come after the last check. Outside of the main thread signals are
    left alone, and so is a signal that is ignored (nohup).
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is None:
            stop.signal = number
            return
        signal.signal(number, before[signal.Signals(number)])
        signal.raise_signal(number)

    for number in caught:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in caught:
            signal.signal(number, before[number])
    if stop.signal is not None:
        signal.raise_signal(stop.signal)
