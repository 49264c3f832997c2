"""The cost of inferring a schema, relative to loading alone: the ratio of the times, and peak memory, each in a process of its own.

python -m benchmarks infer [--lines 1000000] [--triples 5000000]
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.io import phones, things
from benchmarks.script import CHECKOUT, argument_parser

if TYPE_CHECKING:
    from kbdisk.loaders import KB

ROUNDS = 3


def child(what: str, path: str) -> None:
    """Load, or infer; on the first lines before, so that everything is imported."""
    import kbdisk

    def run(kb: KB) -> int:
        if what == "infer":
            return len(kbdisk.infer(kb).reasons)
        return sum(1 for _ in kb)

    with Path(path).open("rb") as file:
        start = b"".join(line for line, _ in zip(file, range(400), strict=False))
    run(kbdisk.load(start, format="jsonl" if path.endswith("jsonl") else "ntriples"))
    begun = time.perf_counter()
    run(kbdisk.load(path))
    seconds = time.perf_counter() - begun
    print(json.dumps({"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measured(what: str, path: Path) -> dict[str, float]:
    """Seconds and megabytes of one run."""
    run = [sys.executable, "-W", "ignore", "-m", "benchmarks.infer", what, str(path)]
    answer: dict[str, float] = json.loads(
        subprocess.run(run, check=True, capture_output=True, text=True, cwd=CHECKOUT).stdout
    )
    return answer


def row(path: Path, lines: Iterable[str], what: str, rounds: int) -> None:
    """Write the file, measure in turn, print, delete it."""
    with path.open("w") as file:
        file.writelines(lines)
    pairs = [(measured("load", path), measured("infer", path)) for _ in range(rounds)]
    load, infer = (min(pair[side]["seconds"] for pair in pairs) for side in (0, 1))
    most = max(pair[1]["megabytes"] for pair in pairs)
    path.unlink()
    print(f"| {what} | {load:.2f} s | {infer:.2f} s | {infer / load:.2f} | {most:.0f} MB |", flush=True)


def main(argv: Sequence[str]) -> None:
    """Measure and print."""
    parser = argument_parser("infer", __doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--triples", type=int, default=5_000_000)
    arguments = parser.parse_args(argv)
    print(f"{date.today()}, Python {platform.python_version()}, {platform.machine()}\n")
    print("| source | loading alone | inferring | ratio (wanted: 2 or less) | memory (wanted: under 300 MB) |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in (arguments.lines // 5, arguments.lines):
            row(Path(folder, "some.jsonl"), phones(count), f"JSON Lines, {count:,}", ROUNDS)
        for count in (arguments.triples // 10, arguments.triples):
            row(Path(folder, "some.nt"), things(count), f"N-Triples, {count:,}", 1 if count > 1_000_000 else ROUNDS)


if __name__ == "__main__":  # one measurement, in a process of its own
    child(sys.argv[1], sys.argv[2])
