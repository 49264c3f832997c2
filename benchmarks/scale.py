"""How the cost of each stage grows with the number of entities: seconds, peak memory, budgets, and quality by the known truth.

python -m benchmarks scale [--sizes 1000,10000,100000] [--budget 60s] [--only reading,inspect] [--out DIR]

The sources are those of `python -m benchmarks world`, as JSON Lines: a class has 14 to 20 properties, and a sixth of the values
is missing. Each measurement is a process of its own, whose seconds and peak memory the operating system reports:

reading    kbdisk.load, one entity after the other
holding    kbdisk.load, all entities kept in memory
inspect    kbdisk inspect SOURCE
set-up     kbdisk train SOURCE, from the command until it reports its plan, when training begins
train      kbdisk train SOURCE --budget BUDGET
complete   kbdisk complete SOURCE --budget BUDGET, which trains and fills
filling    kbdisk complete SOURCE --model MODEL --fill all, with the model of `train`
quality    the values that `filling` wrote, against the hidden truth, beside a CatBoost for each property of a sample

A fit is cost = a + b * entities, by least squares on relative errors, with neither a nor b below zero. Bars are ratios within one
run. The tables show all stored results of a budget. A run that was stopped goes on: sources, models and targets stay in
OUT/scale.unfinished/ until it ends.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.base import Table
from benchmarks.results import OURS, Result, Row, StoredRun, latest, read
from benchmarks.script import CHECKOUT, add_out_option, argument_parser
from benchmarks.tables import print_tables, ratio_cell
from kbdisk.errors import ConfigError

NAME = "scale"
PLAN = "plan: "  # begins the line that a training reports when set-up is done
MIN_SIZE = 10  # entities of a source
SAMPLE = 5000  # entities at most whose values are scored, and that CatBoost learns from
MIN_COUNTED = 20  # hidden values of a property of numbers, from which on it counts in the mean
SET_UP_SECONDS, SET_UP_FACTOR = 5.0, 3.0  # the bar of set-up: seconds, and times what inspect takes
MAX_OVERRUN = 1.15  # of a budget
MAX_PLAN_ERROR = 0.25  # of what is planned after set-up
PLAN_ROUNDING = 1.0  # seconds, as plans are in whole ones
MAX_SECONDS_A_GAP = 0.0003
MAX_MEGABYTES = {100_000: 1000, 1_000_000: 3000}  # by the number of entities
MEGABYTE = 1e6
NAMES = {"@id", "@type", "label"}  # keys that are no properties


# ---------------------------------------------------------------- one measurement


class Line(NamedTuple):
    """A line on standard error."""

    seconds: float  # since the start of the process
    text: str


@dataclass(frozen=True)
class Measurement:
    """What a process took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    lines: Sequence[Line]  # on standard error

    @property
    def rows(self) -> list[Row]:
        """As figures of a result."""
        return [
            Row("seconds", round(self.seconds, 3)),
            Row("cpu_seconds", round(self.cpu_seconds, 3)),
            Row("megabytes", round(self.peak_bytes / MEGABYTE, 1)),
        ]


def measure(command: Sequence[str], until: str | None = None) -> Measurement:
    """Run a process to its end, or until it writes a line on standard error that begins with `until`: it is killed then.

    The operating system counts the memory of this process, too, as it starts the other: a peak is never below it.
    """
    begun, lines, is_killed = time.monotonic(), [], False
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT) as process:
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(Line(time.monotonic() - begun, line.rstrip()))
                if until is not None and line.startswith(until):
                    process.kill()
                    is_killed = True
                    break
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begun
        if process.returncode != (-signal.SIGKILL if is_killed else 0) or (until is not None and not is_killed):
            problem = lines[-1].text if lines else "without a message"
            raise SystemExit(f"exit status {process.returncode} of {' '.join(command)}: {problem}")
        output.seek(0)
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Measurement(seconds, usage.ru_utime + usage.ru_stime, peak, output.read(), lines)


# ---------------------------------------------------------------- stages


@dataclass(frozen=True)
class Files:
    """The files of one size."""

    folder: Path
    size: int

    @property
    def source(self) -> Path:
        """The given values."""
        return self.folder / f"{self.size}.jsonl"

    @property
    def hidden(self) -> Path:
        """The true values that are missing."""
        return self.folder / f"{self.size}.jsonl.hidden.tsv"

    @property
    def model(self) -> Path:
        """The model of `train`."""
        return self.folder / f"{self.size}.kbdisk"

    @property
    def filled(self) -> Path:
        """The target of `filling`."""
        return self.folder / f"{self.size}.filled.jsonl"

    def make_source(self) -> None:
        """Write the source where it is not there yet."""
        if not self.source.with_name(f"{self.source.name}.world.json").exists():  # which is written last
            self.folder.mkdir(parents=True, exist_ok=True)
            measure(_own("make", self.source, self.size))


def _own(stage: str, *arguments: object) -> list[str]:
    """The command of a stage of this module: see `STAGES_HERE`."""
    return [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", stage, *map(str, arguments)]


def _kbdisk(*arguments: object) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "kbdisk", *map(str, arguments)]


def _result(stage: str, files: Files, budget: str, rows: Sequence[Row], **more: Any) -> Result:
    settings: dict[str, Any] = {"method": OURS, "setting": stage, "split": str(files.size), "told": budget}
    return Result(NAME, rows=rows, **settings | more)


def reading(files: Files, budget: str) -> Iterator[Result]:
    """Entities that are read and forgotten."""
    took = measure(_own("read", files.source))
    details = {"file_bytes": files.source.stat().st_size}
    yield _result("reading", files, "", took.rows, seconds=took.seconds, details=details)


def holding(files: Files, budget: str) -> Iterator[Result]:
    """Entities that are read and kept."""
    took = measure(_own("hold", files.source))
    yield _result("holding", files, "", took.rows, seconds=took.seconds)


def inspect(files: Files, budget: str) -> Iterator[Result]:
    """The command that set-up is compared with."""
    took = measure(_kbdisk("inspect", files.source))
    yield _result("inspect", files, "", took.rows, seconds=took.seconds)


def set_up(files: Files, budget: str) -> Iterator[Result]:
    """From the command to the first step."""
    out = files.folder / f"{files.size}.set-up.kbdisk"
    took = measure(_kbdisk("train", files.source, "--budget", budget, "--out", out, "--force"), until=PLAN)
    yield _result("set-up", files, budget, took.rows, seconds=took.seconds)


def train(files: Files, budget: str) -> Iterator[Result]:
    """A model within a budget."""
    command = _kbdisk("train", files.source, "--budget", budget, "--out", files.model, "--force", "--json")
    took = measure(command)
    steps = json.loads(took.output)["facts"]["steps"]
    yield _result("train", files, budget, [*took.rows, *plan_rows(took)], seconds=took.seconds, steps=steps)


def complete(files: Files, budget: str) -> Iterator[Result]:
    """A model, and gaps filled by it, within a budget."""
    out = files.folder / f"{files.size}.complete.jsonl"
    took = measure(_kbdisk("complete", files.source, "--budget", budget, "--out", out, "--force", "--json"))
    rows = [*took.rows, *plan_rows(took), *_gap_rows(took.output)]
    yield _result("complete", files, budget, rows, seconds=took.seconds)


def filling(files: Files, budget: str) -> Iterator[Result]:
    """All gaps filled by a model."""
    model = ("--model", files.model, "--fill", "all")
    took = measure(_kbdisk("complete", files.source, *model, "--out", files.filled, "--force", "--json"))
    yield _result("filling", files, budget, [*took.rows, *_gap_rows(took.output)], seconds=took.seconds)


def quality(files: Files, budget: str) -> Iterator[Result]:
    """The errors of filled values, of ours and of CatBoost."""
    took = measure(_own("score", files.source, files.filled, files.hidden, files.size, budget))
    for method, figures in json.loads(took.output).items():
        rows = [Row(name, value) for name, value in figures.items() if value is not None]
        yield _result("quality", files, budget, rows, method=method)


STAGES: Mapping[str, Callable[[Files, str], Iterator[Result]]] = {
    "reading": reading,
    "holding": holding,
    "inspect": inspect,
    "set-up": set_up,
    "train": train,
    "complete": complete,
    "filling": filling,
    "quality": quality,
}
FITTED = (
    "reading",
    "holding",
    "inspect",
    "set-up",
    "filling",
)  # their seconds grow with the entities; others have a budget
WITHIN_BUDGET = ("train", "complete")
USED = {"filling": "train", "quality": "filling"}  # a stage, and that whose file it reads


def plan_rows(took: Measurement) -> list[Row]:
    """The seconds that a plan has for what follows set-up, in whole seconds, and those that it took."""
    for line in took.lines:
        if line.text.startswith(PLAN):
            planned = [float(seconds.replace(",", "")) for seconds in re.findall(r"([\d,]+) s\b", line.text)]
            return [Row("planned", sum(planned[1:])), Row("came", round(took.seconds - line.seconds, 3))]
    return []


def _gap_rows(output: str) -> list[Row]:
    summary = json.loads(output)
    return [Row("gaps", summary["missing"]), Row("filled", summary["filled"])]


# ---------------------------------------------------------------- what runs in processes of this module


def make_source(source: str, size: str) -> None:
    """Write a world."""
    from benchmarks.world import World
    from benchmarks.world_files import WorldFiles

    WorldFiles(World(int(size)), Path(source)).write()


def read_source(source: str) -> None:
    """Read all entities and forget each."""
    import kbdisk

    for _ in kbdisk.load(source):
        pass


def hold_source(source: str) -> None:
    """Read all entities and keep them."""
    import kbdisk

    list(kbdisk.load(source))


def score_filled(source: str, filled: str, hidden: str, size: str, budget: str) -> None:
    """Print the quality of filled values, and that of CatBoost within the same budget, on a sample of the entities."""
    import kbdisk
    from benchmarks.kb import KBOptions, answers_of, masked_entities
    from benchmarks.peers import registry
    from benchmarks.peers.protocol import Imputation
    from kbdisk.training.schedule import seconds_of

    chosen = set(random.Random(0).sample(range(int(size)), min(int(size), SAMPLE)))
    kb = kbdisk.load(source)
    given = [entity for number, entity in enumerate(kb) if number in chosen]
    trees = [entity.tree for number, entity in enumerate(kbdisk.load(filled)) if number in chosen]
    masked = masked_entities(kb, given, KBOptions(hidden=Path(hidden)), 0)
    imputation = Imputation.of(masked, seconds_of(budget))
    answers = {
        OURS: answers_of(masked, imputation.values, trees),
        "catboost": registry.fill("catboost", imputation).answers,
    }
    properties = statistics.fmean(len(entity.tree.keys() - NAMES) for entity in given)
    facts = {"entities": len(given), "cells": len(masked.cells), "properties": round(properties, 2)}
    print(json.dumps({method: facts | _qualities(masked, imputation.tasks, answers[method]) for method in answers}))


def _qualities(masked: Any, tasks: Any, answers: Any) -> dict[str, float | None]:
    """The error of numbers over the constant's, a mean over properties, and the shares of right labels."""
    from benchmarks.kb import score

    scores = score(masked, tasks, answers).values()
    numbers = [scored.ratio for scored in scores if scored.kind == "number" and len(scored.errors) >= MIN_COUNTED]
    labels = [scored for scored in scores if scored.kind == "label"]
    count = sum(len(scored.errors) for scored in labels)
    wrong, constant_wrong = (
        sum(map(sum, errors)) for errors in zip(*((label.errors, label.constant) for label in labels), strict=True)
    )
    return {
        "numbers": round(statistics.fmean(numbers), 4) if numbers else None,
        "labels": round(1 - wrong / count, 4) if count else None,
        "constant_labels": round(1 - constant_wrong / count, 4) if count else None,
    }


STAGES_HERE: Mapping[str, Callable[..., None]] = {
    "make": make_source, "read": read_source, "hold": hold_source, "score": score_filled,
}  # fmt: skip


# ---------------------------------------------------------------- the fit


@dataclass(frozen=True)
class Fit:
    """A cost by the number of entities: fixed + each * entities."""

    fixed: float
    each: float

    @classmethod
    def of(cls, costs: Mapping[int, float]) -> Fit | None:
        """Least squares on relative errors, with neither part below zero; None of fewer than two sizes.

        Relative errors, as costs of small sizes would not count beside those of large ones.
        """
        if len(costs) < 2:
            return None
        pairs = [(1 / cost, size / cost) for size, cost in costs.items()]
        xx, xz, zz = (sum(pair[i] * pair[j] for pair in pairs) for i, j in ((0, 0), (0, 1), (1, 1)))
        x, z = (sum(pair[i] for pair in pairs) for i in (0, 1))
        determinant = xx * zz - xz * xz
        fixed, each = (x * zz - z * xz) / determinant, (z * xx - x * xz) / determinant
        if fixed < 0:
            return cls(0.0, z / zz)
        return cls(x / xx, 0.0) if each < 0 else cls(fixed, each)

    def at(self, size: float) -> float:
        """The cost of so many entities."""
        return self.fixed + self.each * size


# ---------------------------------------------------------------- tables


class Measured:
    """The stored figures of one budget, by stage and number of entities."""

    def __init__(self, results: Sequence[Result], budget: str) -> None:
        self.results = [result for result in latest(results) if result.told in ("", budget)]
        self.budget = budget
        self.by_stage: dict[str, dict[int, Result]] = {}
        for result in sorted(self.results, key=lambda result: int(result.split)):
            if result.method == OURS:
                self.by_stage.setdefault(result.setting, {})[int(result.split)] = result
        self.stages = [stage for stage in STAGES if stage in self.by_stage and stage != "quality"]
        self.sizes = sorted({size for stage in self.stages for size in self.by_stage[stage]})

    def figures(self, stage: str, row: str) -> dict[int, float]:
        """A figure of a stage by the number of entities."""
        results = self.by_stage.get(stage, {})
        return {size: result.values[row] for size, result in results.items() if row in result.values}

    def fit(self, stage: str, row: str) -> Fit | None:
        """How a figure grows."""
        return Fit.of(self.figures(stage, row))


def tables(results: Sequence[Result], budget: str) -> list[Table]:
    """One for each question."""
    measured = Measured(results, budget)
    if not measured.results:
        return []
    made = [_seconds(measured), _memory(measured), _budgets(measured), _quality(measured), _bars(measured)]
    return [table for table in made if table.rows]


def _size_names(measured: Measured) -> list[str]:
    return [f"{size:,}" for size in measured.sizes]


def _seconds(measured: Measured) -> Table:
    """Processor seconds of each stage, and how they grow."""
    rows = []
    for stage in measured.stages:
        cpu, wall = (measured.figures(stage, row) for row in ("cpu_seconds", "seconds"))
        cells = [f"{cpu[size]:,.1f} ({wall[size]:,.1f})" if size in cpu else "" for size in measured.sizes]
        largest = max(cpu)
        rows.append(
            [stage, *cells, f"{cpu[largest] / largest * 1e3:.3f}", *_fit_cells(_seconds_fit(measured, stage), 1, 1e3)]
        )
    header = ["stage", *_size_names(measured), "ms an entity at the largest", "a, s", "b, ms an entity"]
    title = "Seconds of the processor, and of a clock in brackets; fit: a + b * entities, of processor seconds"
    return Table(
        title,
        header,
        rows,
        [f"Budget of train and complete: {measured.budget}.", f"Measured {_dates_and_commits(measured.results)}."],
    )


def _dates_and_commits(results: Sequence[Result]) -> str:
    days = {result.facts.get("date", "")[:10] for result in results}
    commits = {result.facts.get("commit", "") for result in results}
    return ", ".join([*sorted(days), *sorted(commits)])


def _seconds_fit(measured: Measured, stage: str) -> Fit | None:
    """How processor seconds grow, of a stage that has no budget."""
    return measured.fit(stage, "cpu_seconds") if stage in FITTED else None


def _fit_cells(fit: Fit | None, unit: float, each_unit: float) -> list[str]:
    return ["", ""] if fit is None else [f"{fit.fixed * unit:.2f}", f"{fit.each * each_unit:.3f}"]


def _memory(measured: Measured) -> Table:
    """Peak memory of each stage, and how it grows."""
    rows = []
    for stage in measured.stages:
        peaks = measured.figures(stage, "megabytes")
        fit = measured.fit(stage, "megabytes")
        cells = [f"{peaks[size]:,.0f}" if size in peaks else "" for size in measured.sizes]
        rows.append([stage, *cells, *(["", ""] if fit is None else [f"{fit.fixed:,.0f}", f"{fit.each * 1e3:,.2f}"])])
    title = "Peak memory in MB; fit: a + b * entities"
    return Table(title, ["stage", *_size_names(measured), "a, MB", "b, KB an entity"], rows)


def _budgets(measured: Measured) -> Table:
    """What a budget bought, against what was planned."""
    rows = []
    for stage in WITHIN_BUDGET:
        for size, result in measured.by_stage.get(stage, {}).items():
            figures = result.values
            planned = [f"{figures['planned']:,.0f}", f"{figures['came']:,.1f}"] if "planned" in figures else ["", ""]
            filled = f"{figures['filled']:,.0f} of {figures['gaps']:,.0f}" if "gaps" in figures else ""
            seconds = [f"{figures[name]:,.1f}" for name in ("seconds", "cpu_seconds")]
            rows.append([stage, f"{size:,}", *seconds, *planned, f"{result.steps:,}" if result.steps else "", filled])
    header = [
        "command",
        "entities",
        "seconds",
        "of the processor",
        "planned after set-up",
        "came",
        "steps",
        "gaps filled",
    ]
    return Table(f"The whole command with a budget of {measured.budget}", header, rows)


def _quality(measured: Measured) -> Table:
    """The quality of filled values by the known truth."""
    results = [result for result in measured.results if result.setting == "quality"]
    rows = []
    for result in sorted(results, key=lambda result: (int(result.split), result.method != OURS)):
        figures = result.values
        counts = [f"{figures[name]:,.0f}" for name in ("entities", "cells")]
        ratios = [ratio_cell(figures.get(name)) for name in ("numbers", "labels", "constant_labels")]
        rows.append([f"{int(result.split):,}", result.method, *counts, *ratios])
    header = [
        "entities",
        "method",
        "in the sample",
        "hidden values",
        "numbers: error over the constant's",
        "labels: share right",
        "constant",
    ]
    return Table("Quality of filled values by the known truth", header, rows, _quality_notes(results))


def _quality_notes(results: Sequence[Result]) -> list[str]:
    if not results:
        return []
    properties = statistics.fmean(result.values["properties"] for result in results)
    hidden = statistics.fmean(result.values["cells"] / result.values["entities"] for result in results)
    return [
        f"Entities of the sample have {properties:.1f} given properties on average, and {hidden:.1f} hidden values.",
        "Numbers, dates among them: mean over properties with "
        f"{MIN_COUNTED} hidden values or more. Labels: categories, links and booleans. CatBoost learns from the sample alone.",
    ]


class Bar(NamedTuple):
    """What a measurement has to reach."""

    name: str
    size: int
    measured: str
    wanted: str
    is_met: bool


def bars(measured: Measured) -> Iterator[Bar]:
    """The bars of a run; seconds are of the processor but for budgets, which are of a clock."""
    from kbdisk.training.schedule import seconds_of

    inspecting = measured.figures("inspect", "cpu_seconds")
    for size, seconds in measured.figures("set-up", "cpu_seconds").items():
        if size in inspecting:
            most = SET_UP_SECONDS + SET_UP_FACTOR * inspecting[size]
            wanted = f"at most {most:.1f} s ({SET_UP_SECONDS:g} s + {SET_UP_FACTOR:g} * inspect)"
            yield Bar("set-up", size, f"{seconds:.1f} s", wanted, seconds <= most)
    for stage in WITHIN_BUDGET:
        for size, seconds in measured.figures(stage, "seconds").items():
            ratio = seconds / seconds_of(measured.budget)
            yield Bar(f"{stage}: budget", size, f"{ratio:.2f} of it", f"at most {MAX_OVERRUN:g}", ratio <= MAX_OVERRUN)
        planned = measured.figures(stage, "planned")
        for size, came in measured.figures(stage, "came").items():
            off = MAX_PLAN_ERROR * planned[size]
            is_met = abs(came - planned[size]) <= off + PLAN_ROUNDING
            yield Bar(f"{stage}: plan", size, f"{came:.0f} s of {planned[size]:.0f}", f"within {off:.0f} s", is_met)
    gaps = measured.figures("filling", "gaps")
    for size, seconds in measured.figures("filling", "cpu_seconds").items():
        each = seconds / max(gaps[size], 1)
        wanted = f"at most {MAX_SECONDS_A_GAP * 1e3:g} ms"
        yield Bar("filling, a gap", size, f"{each * 1e3:.2f} ms", wanted, each <= MAX_SECONDS_A_GAP)
    for size, most in MAX_MEGABYTES.items():
        peaks = {stage: measured.figures(stage, "megabytes") for stage in ("set-up", *WITHIN_BUDGET, "filling")}
        for stage, by_size in peaks.items():
            if size in by_size:
                peak = by_size[size]
                yield Bar(f"memory of {stage}", size, f"{peak:,.0f} MB", f"at most {most:,} MB", peak <= most)


def _bars(measured: Measured) -> Table:
    rows = [
        [bar.name, f"{bar.size:,}", bar.measured, bar.wanted, "met" if bar.is_met else "MISSED"]
        for bar in bars(measured)
    ]
    return Table("Bars", ["bar", "entities", "measured", "wanted", "verdict"], rows)


# ---------------------------------------------------------------- the plot


def plot(results: Sequence[Result], budget: str, path: Path) -> bool:
    """Processor seconds and peak memory by the number of entities, with their fits; False where there are fewer than two sizes."""
    measured = Measured(results, budget)
    if len(measured.sizes) < 2:
        return False
    from benchmarks.plots import MARKERS, save_plot
    from kbdisk.api.plots import COLOURS, GRID, INK

    colours = [*COLOURS.values(), INK]

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2)
        for axes, row, title in zip(
            panels, ("cpu_seconds", "megabytes"), ("processor seconds", "peak memory, MB"), strict=True
        ):
            for stage, marker, colour in zip(measured.stages, MARKERS, colours, strict=False):
                figures = measured.figures(stage, row)
                axes.plot(*zip(*figures.items(), strict=True), marker, color=colour, label=stage)
                fit = measured.fit(stage, row) if row == "megabytes" else _seconds_fit(measured, stage)
                if fit is not None:
                    ends = min(figures), max(figures)
                    points = [ends[0] * (ends[1] / ends[0]) ** (step / 50) for step in range(51)]
                    axes.plot(points, [fit.at(point) for point in points], color=colour, linewidth=1)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.grid(axis="both", color=GRID, linewidth=0.8)
            axes.set_xlabel("entities")
            axes.set_title(title, loc="left", fontsize=10)
        panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))

    save_plot(path, 9, 4, draw)
    return True


# ---------------------------------------------------------------- the command


def run(sizes: Sequence[int], stages: Sequence[str], budget: str, out: Path) -> None:
    """Measure the stages at each size, but for those that a stopped run has measured."""
    stored = StoredRun.of(out, NAME, (budget,))
    folder = stored.unfinished.file.with_suffix("")
    done = {(result.setting, int(result.split)) for result in stored.results}
    for size in sizes:
        files = Files(folder, size)
        for stage in STAGES:
            if stage not in stages or (stage, size) in done:
                continue
            used = USED.get(stage)
            if used is not None and (used, size) not in done:
                raise ConfigError("--only", f"{stage} needs what {used} writes. Name {used}, too.")
            files.make_source()
            print(f"{stage}, {size:,} entities", file=sys.stderr, flush=True)
            for result in list(STAGES[stage](files, budget)):
                stored.add(result)
            done.add((stage, size))
    stored.end()
    shutil.rmtree(folder, ignore_errors=True)


def main(argv: Sequence[str]) -> None:
    """Measure, store, print and draw."""
    parser = argument_parser(NAME, __doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of entities")
    parser.add_argument("--budget", default="60s", help="of train, of complete, and of CatBoost")
    parser.add_argument("--only", default=",".join(STAGES), help="stages to measure")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    run(_sizes(arguments.sizes), _stages(arguments.only), arguments.budget, arguments.out.absolute())
    results = read(arguments.out / f"{NAME}.jsonl")
    print_tables(tables(results, arguments.budget))
    plot(results, arguments.budget, arguments.out / f"{NAME}.png")


def _sizes(text: str) -> list[int]:
    """Numbers of entities, small ones first."""
    names = text.split(",")
    if not all(name.isdecimal() and int(name) >= MIN_SIZE for name in names):
        raise ConfigError("--sizes", f"expected numbers from {MIN_SIZE} on with commas between them, got {text!r}.")
    return sorted(map(int, names))


def _stages(text: str) -> list[str]:
    """The names of stages."""
    names = text.split(",")
    for name in names:
        if name not in STAGES:
            raise ConfigError("--only", f"expected some of {', '.join(STAGES)}, got {name!r}.")
    return names


if __name__ == "__main__":  # one measurement, in a process of its own
    STAGES_HERE[sys.argv[1]](*sys.argv[2:])
