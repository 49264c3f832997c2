"""What the benchmarks of completion share: named sources, results that outlive a stopped run, averages over properties."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kbdisk.bench.base import Table, data_file, data_folder
from kbdisk.bench.kb import COUNTED, code_version
from kbdisk.bench.results import Result, append, latest, stamped
from kbdisk.bench.unfinished import Unfinished
from kbdisk.cli.bench import shown
from kbdisk.errors import KBDiskError

RESULTS = Path(__file__).parent / "results"
SOURCES = {  # name -> where it is in the folder of data, and where it is from
    "gsm": ("gsm/gsm_processed.csv", "haolun-wu/Disk-SNAKE"),
    "nuclei": ("nuclear/nuclear_processed.csv", "IAEA, as strifinopoulos/sNuCLR prepares it"),
    "wikilike-1500": ("kb/wikilike/wikilike-1500.ttl.gz", "tsafavi/codex and mniepert/mmkb"),
    "laureates": ("json/nobel_laureates.json", "the Nobel API, version 1"),
    "mondial": ("rdf/mondial/mondial-europe.nt.gz", "Mondial, Göttingen"),
    "countries": ("json/countries.json", "mledoze/countries"),
}
KINDS = {"all": ("number", "label"), "numbers": ("number",), "labels": ("label",)}


def source_file(name: str) -> Path:
    """A named source, or the file of that name."""
    if name not in SOURCES:
        return Path(name)
    return data_file(data_folder(None), *SOURCES[name])


class Kept:
    """The results of one run: stored as they come, and there again when the same run goes on with the same code."""

    def __init__(self, out: Path, bench: str, run: Sequence[Any], identity: str = "") -> None:
        self.file = out / f"{bench}.jsonl"
        name = "-".join(str(part).replace("/", "_") for part in run)
        identity = json.dumps([list(map(str, run)), code_version(), identity])
        self.unfinished = Unfinished.of(out / f"{bench}.{name}.unfinished.jsonl", identity)
        self.model = self.unfinished.file.with_suffix(".kbdisk")  # where a training that was stopped goes on

    @property
    def results(self) -> list[Result]:
        """Those that are there."""
        return self.unfinished.results

    def add(self, result: Result) -> None:
        """Store another result."""
        whole = stamped(result)
        append(self.file, whole)
        self.unfinished.add(whole)

    def end(self) -> None:
        """The run is complete."""
        self.unfinished.end()


def mean_ratio(results: Iterable[Result], kinds: Sequence[str], least: int = COUNTED) -> float | None:
    """The mean error over the constant's of the properties with so many hidden values or more; of several masks the mean."""
    means = []
    for result in results:
        of = result.details["kind"]
        counted = [row.value for row in result.rows if row.n >= least and of[row.name] in kinds]
        if counted:
            means.append(statistics.fmean(counted))
    return statistics.fmean(means) if means else None


def groups(results: Iterable[Result], key: Callable[[Result], Any]) -> dict[Any, list[Result]]:
    """The latest results of each kind and seed, by a key of theirs, in order."""
    found: dict[Any, list[Result]] = {}
    for result in latest(results):
        found.setdefault(key(result), []).append(result)
    return found


def shown_ratio(value: float | None) -> str:
    """A ratio as tables show it."""
    return "" if value is None else f"{value:.3f}"


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, or that there are none."""
    print("\n\n".join(map(shown, tables)) if tables else "nothing is stored yet")


def command_line(main: Callable[[], None]) -> None:
    """Run a benchmark; a user's mistake is one line, and exit status 2."""
    try:
        main()
    except KBDiskError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def out_option(parser: argparse.ArgumentParser) -> None:
    """The option that says where results are."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
