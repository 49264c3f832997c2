"""Stored results: a line of JSON each, which is added and never changed. Tables are made of the latest result of each kind.

Until a run ends, its results are also kept in a file of their own, so that the same command resumes it. The first line of that
file identifies the run, the others are results.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from kbdisk.errors import LoadError, WriteError

OURS = "ours"
FOLDER = Path(__file__).parent
PACKAGES = ("kbdisk", "kbdisk.loaders", "kbdisk.schemas")  # each a folder of its own in a checkout


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
    method: str  # OURS, or another of benchmarks.methods
    rows: Sequence[Row]
    seed: int = 0
    split: str = ""
    part: str = "test"  # or validation
    setting: str = ""  # what else tells tables apart: a protocol, a data set, a variant
    preset: str = ""  # of ours
    told: str = ""  # what stands beside the preset in the head of a column: a budget, a run file
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
    command = ["git", "-C", str(FOLDER), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    results = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                results.append(Result.from_json(json.loads(line.decode())))
            except (ValueError, TypeError, KeyError) as error:
                raise LoadError(str(file), f"expected a result, got none: {error}.", number) from None
    return results


def latest(results: Iterable[Result]) -> list[Result]:
    """Of several results of one kind and seed the last one."""
    return list({(result.bench, *result.kind, result.seed): result for result in results}.values())


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
    names = dict.fromkeys(row.name for result in results for row in result.rows)
    return {name: Figure.of([result.values[name] for result in results if name in result.values]) for name in names}


def group_latest(results: Iterable[Result], key: Callable[[Result], Any]) -> dict[Any, list[Result]]:
    """The latest results of each kind and seed, grouped by a key, in order."""
    groups: dict[Any, list[Result]] = {}
    for result in latest(results):
        groups.setdefault(key(result), []).append(result)
    return groups


# ---------------------------------------------------------------- a run that can be stopped


class StoredRun:
    """The results of one run: stored as they come, and there again when the same run goes on with the same code."""

    def __init__(self, out: Path, bench: str, name: str, identity: str) -> None:
        self.file = out / f"{bench}.jsonl"
        self.unfinished = Unfinished.of(out / f"{bench}.{name}.unfinished.jsonl", identity)
        self.model = self.unfinished.file.with_suffix(".kbdisk")  # where a training that was stopped goes on

    @classmethod
    def of(cls, out: Path, bench: str, settings: Sequence[Any], identity: str = "") -> Self:
        """The run of a benchmark with some settings, which name it."""
        name = "-".join(str(setting).replace("/", "_") for setting in settings)
        return cls(out, bench, name, json.dumps([list(map(str, settings)), code_version(), identity]))

    @property
    def results(self) -> list[Result]:
        """Those that are there."""
        return self.unfinished.results

    def add(self, result: Result) -> Result:
        """Store another result; returns it with when, where, and of which commit it is."""
        result = stamped(result)
        append(self.file, result)
        self.unfinished.add(result)
        return result

    def end(self) -> None:
        """The run is complete."""
        self.unfinished.end()


class Unfinished:
    """Results kept until their run ends."""

    def __init__(self, file: Path, identity: str, results: Sequence[Result]) -> None:
        self.file, self.identity, self.results = file, identity, list(results)

    @classmethod
    def of(cls, file: Path, identity: str) -> Self:
        """The results of a run of the same identity; none where the file is of another run, or damaged."""
        try:
            first, *lines = file.read_text("utf-8").splitlines()
            if json.loads(first) == {"run": identity}:
                return cls(file, identity, _whole_results(lines))
        except (OSError, ValueError):
            pass
        return cls(file, identity, [])

    def add(self, result: Result) -> None:
        """Keep another result."""
        self.results.append(result)
        lines = [json.dumps({"run": self.identity}), *(json.dumps(asdict(kept)) for kept in self.results)]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text("\n".join(lines) + "\n", "utf-8")
        except OSError as error:
            raise WriteError(str(self.file), f"cannot be written: {(error.strerror or str(error)).lower()}.") from None

    def end(self) -> None:
        """Forget them: the run is complete."""
        self.file.unlink(missing_ok=True)


def _whole_results(lines: Sequence[str]) -> list[Result]:
    """The results of lines, up to the first that was cut short."""
    results = []
    for line in lines:
        try:
            results.append(Result.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            break
    return results


@cache
def code_version() -> str:
    """A hash of the code of kbdisk and of the benchmarks."""
    folders = [Path(place) for name in PACKAGES for place in import_module(name).__path__]
    files = [
        *FOLDER.glob("*.py"),
        *(FOLDER / "peers").glob("*.py"),
        *(file for folder in folders for file in folder.rglob("*.py")),
    ]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()
