"""What a bench is, what it is told, and what it shows. Plain data: nothing heavy is imported here.

`run` yields each result as it comes, so that a run that is cut short has stored what it had. `tables` and `figure` are
made of stored results alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kbdisk.bench.results import Result
from kbdisk.errors import ConfigError, LoadError

if TYPE_CHECKING:
    from kbdisk.training import Trained
    from kbdisk.training.state import Watch

Told = Callable[[int, int], None]  # how many are done, of how many
TRAINING = frozenset({"data", "preset", "budget", "config", "device"})  # what a bench that trains is told of it
FACTS = ("device", "parameters", "best_step")  # of a model that are kept with its results
PAPERS, RANDOM = "paper", "random"  # the split that published figures are of; one drawn anew for each seed
BESIDE = Path("../shared/data")  # where the data may be, seen from a checkout


@dataclass(frozen=True)
class Options:
    """What a bench is told."""

    data: Path
    preset: str = "default"
    budget: str | None = None  # longest time of one training
    config: str | None = None  # a run file over the preset
    seeds: tuple[int, ...] = (0, 1, 2)
    against: tuple[str, ...] = ()  # rows of BASELINES
    ours: bool = True  # or only those
    validation: bool = False  # score on a tenth of train, and leave test alone
    split: str = PAPERS
    only: tuple[str, ...] = ()  # data sets, or variants, by name; all where empty
    device: str = "auto"
    samples: int | None = None  # of tabular: rows in each set that is drawn; None: by how many train has
    draws: int = 5  # of tabular: sets drawn of each model
    judges: int = 10  # of tabular: CatBoosts that learn from each set
    real: bool = False  # of tabular: no model, only what the real rows come to
    kept: Path | None = None  # where trainings are kept until all results of the run are there
    done: frozenset[tuple[str, str, int]] = frozenset()  # setting, method and seed of the results that are there

    @property
    def told(self) -> str:
        """What is told beside the preset, as a column is headed with it."""
        return "".join(f" + {Path(one).name}" for one in (self.budget, self.config) if one is not None)

    def is_done(self, setting: str, method: str, seed: int) -> bool:
        """Whether a run that goes on has a result already."""
        return (setting, method, seed) in self.done

    @property
    def part(self) -> str:
        """What is scored."""
        return "validation" if self.validation else "test"


@dataclass(frozen=True)
class Table:
    """A table as text: what a terminal and a page of Markdown both show."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())


class Teller:
    """Whom a bench tells how far it is; this one listens and says nothing."""

    def training(self, what: str) -> AbstractContextManager[Watch | None]:
        """While something is trained: what watches it."""
        return nullcontext()

    def counting(self, what: str) -> AbstractContextManager[Told | None]:
        """While something is counted: what is told how far that is."""
        return nullcontext()

    def say(self, line: str) -> None:
        """A line in between."""


def of_model(result: Result, trained: Trained, options: Options) -> Result:
    """The same, with which model it is a result of, and how long that has learnt."""
    facts = trained.record.facts
    return replace(
        result,
        preset=options.preset,
        told=options.told,
        run=trained.run.to_json(),
        steps=facts["steps"],
        seconds=facts["seconds"],
        facts={name: facts[name] for name in FACTS if name in facts},
    )


class Bench(Protocol):
    """What a module of BENCHES has."""

    TAKES: frozenset[str]  # the options of the command line that it heeds, beside seeds and where results go

    def run(self, options: Options, teller: Teller) -> Iterator[Result]:
        """Measure: each result as soon as it is there."""

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """What results come to; of several of one kind and seed, the latest counts."""

    def figure(self, results: Sequence[Result], path: Path) -> bool:
        """Draw results; False where there is nothing to draw."""


def refuse_split(split: str, known: Collection[str]) -> None:
    """ConfigError where a bench has no such split."""
    if split not in known:
        raise ConfigError("--split", f"expected one of {', '.join(known)}, got {split!r}.")


def data_folder(told: str | os.PathLike[str] | None) -> Path:
    """The folder of data: as told, else KBDISK_DATA, else beside the checkout. LoadError where there is none."""
    place = Path(told or os.environ.get("KBDISK_DATA") or BESIDE)
    if not place.is_dir():
        hint = "Say --data DIR, or set KBDISK_DATA, to a folder as docs/benchmarks.md describes."
        raise LoadError(str(place), f"expected the folder of data, got none. {hint}")
    return place


def data_file(data: Path, name: str, source: str) -> Path:
    """A file of the data; LoadError, with where it is from, where it is not there."""
    found = data / name
    if not found.exists():
        raise LoadError(str(found), f"no such file. It is from {source}; --data DIR or KBDISK_DATA says where it is.")
    return found
