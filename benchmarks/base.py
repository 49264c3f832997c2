"""The protocol of a benchmark, its options, and its tables. Plain data: nothing heavy is imported here.

`run` yields each result as soon as it is measured, so that an interrupted run has stored its results so far. `tables` and
`figure` are made of stored results alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.progress import Progress
from benchmarks.results import OURS, Result
from kbdisk.errors import ConfigError

if TYPE_CHECKING:
    from kbdisk.training import Trained

FACTS = ("device", "parameters", "best_step")  # of a model that are kept with its results
PAPERS, RANDOM = "paper", "random"  # the split that published figures are of; one drawn anew for each seed


@dataclass(frozen=True)
class Options:
    """The options of a benchmark."""

    data: Path
    preset: str = "default"
    budget: str | None = None  # longest time of one training
    config: str | None = None  # a run file over the preset
    seeds: tuple[int, ...] = (0, 1, 2)
    methods: tuple[str, ...] = (OURS,)  # as benchmarks.methods has them
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
    def label(self) -> str:
        """The budget and the run file, as the head of a column shows them after the preset."""
        return "".join(f" + {Path(name).name}" for name in (self.budget, self.config) if name is not None)

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


def of_model(result: Result, trained: Trained, options: Options) -> Result:
    """The same, with which model it is a result of, and how long that was trained."""
    facts = trained.record.facts
    return replace(
        result,
        preset=options.preset,
        told=options.label,
        run=trained.run.to_json(),
        steps=facts["steps"],
        seconds=facts["seconds"],
        facts={name: facts[name] for name in FACTS if name in facts},
    )


class BenchModule(Protocol):
    """What a module of BENCHES has."""

    def run(self, options: Options, progress: Progress) -> Iterator[Result]:
        """Measure: each result as soon as it is there."""

    def tables(self, results: Sequence[Result]) -> list[Table]:
        """What results come to; of several of one kind and seed, the latest counts."""

    def figure(self, results: Sequence[Result], path: Path) -> bool:
        """Draw results; False where there is nothing to draw."""


def refuse_split(split: str, known: Collection[str]) -> None:
    """ConfigError where a benchmark has no such split."""
    if split not in known:
        raise ConfigError("--split", f"expected one of {', '.join(known)}, got {split!r}.")
