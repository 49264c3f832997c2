"""A run on its way, kept in a folder so that it can go on exactly where it was.

    state.json             how far it is, which files hold its tensors, and what it is a run of
    last-812.safetensors   after step 812: the weights, the averaged ones, the optimizer's moments
    best-800.safetensors   the averaged weights that cost the least so far
    metrics.jsonl          each step's loss, each look at the held-out part

A file is written beside and renamed, state.json last, and only then is removed what it no longer names: at whatever
moment the process is killed, it names files that are whole.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BufferedWriter
from pathlib import Path as FilePath
from typing import Any, Self

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from kbdisk.entity import show
from kbdisk.errors import CheckpointError
from kbdisk.loaders.files import writing
from kbdisk.training.identity import differences
from kbdisk.training.loop import Trainer
from kbdisk.training.validation import Progress, State, finite

FORMAT = 5
STATE, METRICS = "state.json", "metrics.jsonl"
SPAN = 30.0  # seconds between two times that a run is kept, at most
MOMENTS = ("step", "exp_avg", "exp_avg_sq", "momentum")  # of AdamW, of Muon
FILE = re.compile(r"(last|best)-[0-9]+\.safetensors")
ANEW = "Say force=True to begin the run anew."
SHOWN = 3  # differences named in an error


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
        told = _read(folder)
        found = differences(told["of"], identity)
        if found:
            more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            what = f"{', '.join(found[:SHOWN])}{more}"
            raise CheckpointError(
                str(folder),
                f"is another run's: {what}. Resume with what it began with, or say force=True to begin anew.",
            )
        expected = _tensors(trainer), _named("best", trainer, trainer.best)
        _put(trainer, *(_load(folder / told[name], one) for name, one in zip(("last", "best"), expected, strict=True)))
        trainer.state = _state(told["state"])
        _shorten(folder / METRICS, trainer.state.step)
        return cls(folder, identity)

    @property
    def is_due(self) -> bool:
        """Whether the run has not been kept for long."""
        return time.monotonic() - self.kept > SPAN

    def save(self, trainer: Trainer) -> None:
        """Keep the run as it is between two steps."""
        state = trainer.state
        last, best = f"last-{state.step}.safetensors", f"best-{state.best_step}.safetensors"
        _write(self.folder / last, safetensors.torch.save(_tensors(trainer)))
        if not (self.folder / best).exists():
            _write(self.folder / best, safetensors.torch.save(_named("best", trainer, trainer.best)))
        told = {"format": FORMAT, "last": last, "best": best, "state": _plain(state), "of": self.identity}
        if self.metrics is not None:
            self.metrics.flush()
        _write(self.folder / STATE, _json(told))
        for file in self.folder.iterdir():
            if file.name not in (STATE, METRICS, last, best):
                file.unlink()
        self.kept = time.monotonic()

    def log(self, progress: Progress, trainer: Trainer) -> None:
        """A line of metrics."""
        if self.metrics is None:
            self.metrics = (self.folder / METRICS).open("ab")
        told: dict[str, Any] = {
            "step": progress.step,
            "seconds": round(progress.seconds, 2),
            "loss": finite(progress.loss),
            "rate": trainer.optimizer.param_groups[0]["lr"] / trainer.shares[0],
        }
        if progress.look is not None:
            names = [show(slot.keys if slot.of else slot.path) for slot in trainer.codec.slots]
            by_path = {names[slot]: finite(nats) for slot, (nats, _) in progress.look.by_slot.items()}
            told |= {"nats": finite(progress.look.nats), "properties": by_path}
        self.metrics.write(_json(told) + b"\n")
        if progress.look is not None:
            self.metrics.flush()

    def close(self) -> None:
        """End the metrics."""
        if self.metrics is not None:
            self.metrics.close()
            self.metrics = None


def beside(model: FilePath) -> FilePath:
    """Where a run is kept until its model is in its own folder."""
    return model.with_name(f"{model.name}.training")


def folder_of(folder: FilePath, number: int) -> FilePath:
    """Where one of several networks of a run is kept, by its number from 0."""
    return folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")


def refuse_unfinished(folder: FilePath) -> None:
    """CheckpointError where a new run would lose one that can go on."""
    if is_there(folder):
        step = _read(folder)["state"]["step"]
        raise CheckpointError(
            str(folder), f"a run stopped there after step {step:,}. Say resume=True to go on, force=True to begin anew."
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
    (folder / STATE).unlink(missing_ok=True)  # first, so that what is left of a killed removal is no run
    shutil.rmtree(folder)


# ---------------------------------------------------------------- tensors


def _named(kind: str, trainer: Trainer, tensors: list[Tensor]) -> dict[str, Tensor]:
    names = [name for name, _ in trainer.network.named_parameters()]
    return {f"{kind}/{name}": one.detach().contiguous() for name, one in zip(names, tensors, strict=True)}


def _tensors(trainer: Trainer) -> dict[str, Tensor]:
    """All that the next step depends on, but for what the seed and the step's number tell."""
    kept = _named("weights", trainer, list(trainer.network.parameters()))
    kept |= _named("average", trainer, trainer.ema.weights)
    for name, parameter in trainer.network.named_parameters():
        moments = trainer.optimizer.state.get(parameter, {})
        kept |= {f"{key}/{name}": moments[key].contiguous() for key in MOMENTS if key in moments}
    return kept


@torch.no_grad()
def _put(trainer: Trainer, last: Mapping[str, Tensor], best: Mapping[str, Tensor]) -> None:
    """The trainer with these tensors. What the run is of is the same, so names and shapes are."""
    for place, (name, parameter) in enumerate(trainer.network.named_parameters()):
        parameter.copy_(last[f"weights/{name}"])
        trainer.ema.weights[place].copy_(last[f"average/{name}"])
        trainer.best[place].copy_(best[f"best/{name}"])
        moments = {key: last[f"{key}/{name}"] for key in MOMENTS if f"{key}/{name}" in last}
        if moments:
            trainer.optimizer.state[parameter] = moments


def _load(file: FilePath, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, which are those expected, and besides moments of the same shapes."""
    try:
        device = next(iter(expected.values())).device
        loaded = safetensors.torch.load_file(file, str(device))
    except (OSError, safetensors.SafetensorError) as error:
        fact = (getattr(error, "strerror", None) or str(error)).lower()
        raise CheckpointError(str(file), f"cannot be read: {fact}. {ANEW}") from None
    shapes = {name: one.shape for name, one in expected.items()}
    for name, one in loaded.items():
        kind, _, of = name.partition("/")
        shape = torch.Size() if kind == "step" else shapes.get(f"weights/{of}" if kind in MOMENTS else name)
        if one.shape != shape:
            raise CheckpointError(str(file), f"expected {name} of shape {shape}, got {one.shape}. {ANEW}")
    missing = shapes.keys() - loaded.keys()
    if missing:
        raise CheckpointError(str(file), f"expected {min(missing)}, got a file without. {ANEW}")
    return loaded


# ---------------------------------------------------------------- state


def _plain(state: State) -> dict[str, Any]:
    return {**asdict(state), "best": finite(state.best)}


def _state(told: Mapping[str, Any]) -> State:
    return State(**{**told, "best": math.inf if told["best"] is None else told["best"]})


def _read(folder: FilePath) -> dict[str, Any]:
    """state.json."""
    file = folder / STATE
    try:
        told: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(str(folder), "no run is kept there. Leave resume=True out to begin one.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(str(file), f"cannot be read: {error}. {ANEW}") from None
    format = told.get("format") if isinstance(told, dict) else None
    if format != FORMAT:
        raise CheckpointError(str(file), f"expected a run in format {FORMAT}, got {format!r}. {ANEW}")
    if not _is_whole(told):
        raise CheckpointError(str(file), f"expected how far a run is, got something else. {ANEW}")
    return told


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


def _is_whole(told: Mapping[str, Any]) -> bool:
    """Whether it has all that there is to know, in the types that this has."""
    state, of = told.get("state"), told.get("of")
    if not (isinstance(state, dict) and isinstance(of, dict) and state.keys() == asdict(State()).keys()):
        return False
    named = all(FILE.fullmatch(str(told.get(name))) for name in ("last", "best"))
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
                f"{file}:{number}", f"expected a step's measures, got something else. {ANEW}"
            ) from None
        kept.append(line)
    _write(file, b"".join(kept))


def _write(file: FilePath, data: bytes) -> None:
    with writing(file) as stream:
        stream.write(data)


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
