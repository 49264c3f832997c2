"""Runs cases in forked workers, within bounds of memory, and says what is wrong with which.

python tests/fuzz/run.py 1500 --first 100000     1,500 cases of all kinds
python tests/fuzz/run.py 500 --kind turtle       of one
python tests/fuzz/run.py turtle:17 --keep DIR    one case, whose files stay in DIR
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import resource
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import cases
from fuzz.cases import KINDS, Result, run_case

MEMORY = 1 << 30  # bytes that a worker may take beyond what its imports have
SLICE = 250  # cases of one worker
SILENCE = 90.0  # seconds of the clock without a result, after which a worker is taken for stuck


def run_all(names: list[str], model: Path | None, tell: Callable[[Result], None]) -> dict[str, Any]:
    """Run cases, in forked workers one after the other; returns figures of all."""
    totals: dict[str, Any] = {"cases": Counter(), "statuses": Counter(), "peak": 0, "faults": 0}
    rest = list(names)
    while rest:
        done = 0
        for line in _worker(rest[:SLICE], model):
            if "peak" in line:
                totals["peak"] = max(totals["peak"], line["peak"])
                continue
            result = Result(**line)
            done += 1
            totals["cases"][result.case.partition(":")[0]] += 1
            totals["statuses"][str(result.status)] += 1
            totals["faults"] += bool(result.faults)
            if result.faults:
                tell(result)
        rest = rest[max(done, 1) :]
    return totals


def _worker(names: list[str], model: Path | None) -> Iterator[dict[str, Any]]:
    """The results of some cases from one worker; of the case in which it dies that it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(names, model, writing)
    os.close(writing)
    kept, done = b"", 0
    with os.fdopen(reading, "rb", buffering=0) as stream:
        while True:
            if not select.select([stream], [], [], SILENCE)[0]:
                os.kill(child, signal.SIGKILL)
            data = stream.read(1 << 16)
            if not data:
                break
            *lines, kept = (kept + data).split(b"\n")
            for line in lines:
                done += 1
                yield json.loads(line)
    _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        yield {"case": names[min(done, len(names) - 1)], "faults": [f"died: the worker ended with {code}"]}


def _work(names: list[str], model: Path | None, writing: int) -> None:
    """What a worker does; never returns."""
    status = 1
    try:
        faulthandler.enable()
        used = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for name in names:
            os.write(writing, json.dumps(vars(run_case(name, model))).encode() + b"\n")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        os.write(writing, json.dumps({"peak": peak}).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def signature(fault: str) -> str:
    """What faults with one cause have alike: the exception, and where in kbdisk it was raised."""
    places = re.findall(r'File "[^"]*?((?:kbdisk|loaders|schemas)/[^"]*)", line (\d+), in (\w+)', fault)
    if fault.startswith("traceback"):
        last = fault.strip().splitlines()[-1]
        return f"{last[:100]} @ {' < '.join(f'{p[0]}:{p[1]}' for p in places[-1:-4:-1])}"
    return re.sub(r"\d+|'.*'", "#", fault.strip())[:90]


def make_model(folder: Path) -> Path:
    """A tiny model of the phones, trained for some steps."""
    from models import phones, tiny

    from kbdisk.store.folder import save

    place = folder / "phones.kbdisk"
    if not place.exists():
        trained = tiny(*phones(), nearest=8)
        trained.record.source = {"name": "examples/phones.jsonl", "entities": 63}
        save(trained, place)
    return place


def import_all() -> None:
    """What the commands import when they are first used."""
    import linkml_runtime.loaders
    import pyarrow.parquet
    import pyoxigraph
    import rdflib
    import rich.console
    import yaml

    import kbdisk.api.complete
    import kbdisk.inspection

    del linkml_runtime, pyarrow, pyoxigraph, rdflib, rich, yaml, kbdisk


def main() -> int:
    """Run what is asked for; status 1 where something is wrong."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell begins in the background
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["COLUMNS"] = "80"
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = (
        "system"  # others reserve a gigabyte at once, which counts against the bound
    )
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="how many cases, or one such as turtle:17")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--keep", type=Path, help="the folder in which the files of one case stay")
    parser.add_argument("--no-models", action="store_true", help="leave out what needs torch")
    parser.add_argument("--model", type=Path, default=Path("/tmp"), help="the folder of the model that cases share")
    told = parser.parse_args()
    one = ":" in told.what
    kind = told.what.partition(":")[0] if one else told.kind
    needs = any(row.needs_model for name, row in KINDS.items() if kind in (None, name)) and not told.no_models
    model = make_model(told.model) if needs else None
    if one:
        if told.keep:
            told.keep.mkdir(parents=True, exist_ok=True)
        result = run_case(told.what, model, told.keep)
        print("kbdisk", *result.command, f"\nstatus {result.status}\n{result.stderr}", *result.faults, sep="\n")
        return 1 if result.faults else 0
    import_all()
    began = time.process_time()
    seen: Counter[str] = Counter()

    def tell(result: Result) -> None:
        for fault in result.faults:
            name = signature(fault)
            seen[name] += 1
            if seen[name] <= 2:
                print(f"{result.case}  {' '.join(result.command)}\n    {name}", flush=True)

    if needs and kind in (None, "checkpoint"):
        cases.stopped()  # once, for all workers
    names = list(cases.cases(told.first, int(told.what), told.kind, model is not None))
    totals = run_all(names, model, tell)
    children = os.times().children_user + os.times().children_system
    print(dict(totals["cases"]), dict(totals["statuses"]), f"peak {totals['peak'] >> 20} MiB")
    print(
        f"{len(names)} cases, {totals['faults']} with faults, {children + time.process_time() - began:.0f} CPU seconds"
    )
    for name, count in seen.most_common():
        print(f"{count:5}  {name}")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
