"""What benches measured: a line of JSON each, added and never changed. Tables are made of the latest of each kind."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from kbdisk.errors import LoadError, WriteError

OURS = "ours"


@dataclass(frozen=True)
class Row:
    """One figure: of a property, or of a data set."""

    name: str
    value: float
    n: int = 0  # values that it is the mean of, where that can be said


@dataclass(frozen=True)
class Result:
    """What one method came to with one seed."""

    bench: str
    method: str  # OURS, or a row of BASELINES
    rows: Sequence[Row]
    seed: int = 0
    split: str = ""
    part: str = "test"  # or validation
    setting: str = ""  # what else tells tables apart: a protocol, a data set, a variant
    preset: str = ""  # of ours
    told: str = ""  # what was told beside it: a budget, a run file
    run: dict[str, Any] = field(default_factory=dict)  # all that was chosen
    steps: int = 0
    seconds: float = 0.0  # of training
    details: dict[str, Any] = field(default_factory=dict)  # whatever else a picture needs
    facts: dict[str, Any] = field(default_factory=dict)  # when, of which commit, where, with what: `stamped`

    @property
    def kind(self) -> tuple[str, ...]:
        """What it is a result of, but for the seed."""
        return (self.setting, self.split, self.part, self.method, self.preset, self.told)

    @property
    def values(self) -> dict[str, float]:
        """Its figures by their names."""
        return {row.name: row.value for row in self.rows}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Itself again."""
        return cls(**{**data, "rows": [Row(**row) for row in data["rows"]]})


def stamped(result: Result) -> Result:
    """The same with when, where, and of which commit it is."""
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": version("torch"),
        "kbdisk": version("kbdisk"),
    }
    return replace(result, facts=facts | result.facts)


def commit() -> str:
    """The commit that this code is of, with + where it was changed since; nothing where it is of no checkout."""
    here = Path(__file__).parent
    told = ["git", "-C", str(here), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(told, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def append(file: Path, result: Result) -> None:
    """Add a result to those that are stored."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
    except OSError as error:
        raise WriteError(str(file), f"cannot be written: {(error.strerror or str(error)).lower()}.") from None


def read(file: Path) -> list[Result]:
    """All results that are stored; none where there is no file."""
    if not file.exists():
        return []
    found = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                found.append(Result.from_json(json.loads(line.decode())))
            except (ValueError, TypeError, KeyError) as error:
                raise LoadError(str(file), f"expected a result, got none: {error}.", number) from None
    return found


def latest(results: Iterable[Result]) -> list[Result]:
    """Of several results of one kind and seed the last one."""
    return list({(one.bench, *one.kind, one.seed): one for one in results}.values())


@dataclass(frozen=True)
class Figure:
    """One figure over several seeds."""

    mean: float
    spread: float | None  # their standard deviation; None of one alone

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Over some seeds, one or more."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def figures(results: Sequence[Result]) -> dict[str, Figure]:
    """Each row's figure over results of one kind."""
    names = dict.fromkeys(row.name for one in results for row in one.rows)
    return {name: Figure.of([one.values[name] for one in results if name in one.values]) for name in names}
