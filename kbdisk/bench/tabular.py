"""Synthetic tables, judged as TabDDPM's are: how good is a CatBoost that has learnt from drawn rows alone?

A model learns from train, and stops by validation; some sets of rows are drawn from it; several judges learn from each
and are scored on test. With `validation` they are scored on validation, and a fifth of train tells when to stop.
Judges that learn from the real rows come beside: they must reproduce what is published of them (kbdisk.bench.judge).
All this on the parts that are published, or on rows that each seed deals out anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbdisk.bench.arrays import Rows, TabularSet, chosen, read_set
from kbdisk.bench.base import PAPERS, TRAINING, Options, Table, Teller, of_model
from kbdisk.bench.judge import Judging, parameters, scores
from kbdisk.bench.results import OURS, Result, Row
from kbdisk.bench.synthetic import REAL, drawn_picture, how, table_of

if TYPE_CHECKING:
    import torch

    from kbdisk.training import Run, Trained

TAKES = TRAINING | {"validation", "split", "only", "samples", "draws", "judges", "real"}
TIMES, LEAST, MOST = 24, 50_000, 400_000  # rows that are drawn, in parts of train's; at least; at most


def run(options: Options, teller: Teller) -> Iterator[Result]:
    """Set by set: what the real rows come to, then what is drawn does, model by model."""
    names = chosen(options.data, options.only)
    if not options.real:
        _chosen(options, options.seeds[0])  # a mistake is told before anything is judged
    for name in names:
        several = [read_set(options.data, name, options.split, seed, options.validation) for seed in options.seeds]
        tuned = parameters(options.data, name)
        same = options.split == PAPERS  # of all seeds the same rows
        for turn, (seed, table) in enumerate(zip(options.seeds, several, strict=True)):
            if not (turn and same) and not options.is_done(name, REAL, 0 if same else seed):
                yield _real(table, tuned, options, 0 if same else seed, teller)
            if not options.real and not options.is_done(name, OURS, seed):
                yield _ours(table, tuned, options, seed, teller)


def _real(table: TabularSet, tuned: Judging, options: Options, seed: int, teller: Teller) -> Result:
    begun = time.monotonic()
    found = _judged(table, [table.train], tuned, options, teller, REAL)
    return _result(table, options, REAL, found, seed=seed, seconds=round(time.monotonic() - begun, 1))


def _ours(table: TabularSet, tuned: Judging, options: Options, seed: int, teller: Teller) -> Result:
    trained = _trained(table, options, seed, teller)
    count = options.samples or min(max(TIMES * len(table.train), LEAST), MOST)
    begun = time.monotonic()
    rows = [_drawn(trained, table, count, seed, turn, teller) for turn in range(options.draws)]
    drawing = time.monotonic() - begun
    found = _judged(table, rows, tuned, options, teller, f"seed {seed}")
    more = {"samples": count, "per_second": round(count * len(rows) / drawing, 1)}
    return of_model(_result(table, options, OURS, found, more, seed=seed), trained, options)


def _trained(table: TabularSet, options: Options, seed: int, teller: Teller) -> Trained:
    from kbdisk.training.train import train

    run, device = _chosen(options, seed)
    learnt, stop = table.entities(table.train, "train"), table.entities(table.stop, "stop")
    with teller.training(f"tabular: {table.name}, training, seed {seed}") as watch:
        told = watch or (lambda progress: None)
        if options.kept is None:
            return train(table.schema, learnt, run, device, told, held_out=stop)
        options.kept.mkdir(parents=True, exist_ok=True)
        folder = options.kept / f"{table.name}-{seed}"
        return train(table.schema, learnt, run, device, told, held_out=stop, checkpoint=folder, resume=True)


def _chosen(options: Options, seed: int) -> tuple[Run, torch.device]:
    """How a model is trained, and where."""
    from kbdisk.api.training import run_of
    from kbdisk.training.precision import device_named

    return run_of(options.preset, options.budget, options.config, seed), device_named(options.device)


def _drawn(trained: Trained, table: TabularSet, count: int, seed: int, turn: int, teller: Teller) -> Rows:
    from kbdisk.sampling import sample

    with teller.counting(f"{table.name}: drawing set {turn + 1}") as told:
        return table.rows(sample(trained, count, seed=1000 * seed + turn, watch=told))


def _judged(
    table: TabularSet, several: Sequence[Rows], tuned: Judging, options: Options, teller: Teller, what: str
) -> list[list[float]]:
    """The scores of each of several sets of rows."""
    found = []
    with teller.counting(f"{table.name}: judging, {what}") as told:
        for place, rows in enumerate(several, 1):
            found.append(scores(table, rows, tuned, range(options.judges)))
            if told is not None:
                told(place, len(several))
    return found


def _result(
    table: TabularSet,
    options: Options,
    method: str,
    found: Sequence[Sequence[float]],
    details: dict[str, Any] | None = None,
    **others: Any,
) -> Result:
    every = [one for own in found for one in own]
    told = {"metric": table.metric, "scores": [[round(one, 5) for one in own] for own in found], **(details or {})}
    rows = [Row(table.name, sum(every) / len(every), len(every))]
    split, part = options.split, options.part
    return Result("tabular", method, rows, split=split, part=part, setting=table.name, details=told, **others)


def tables(results: Sequence[Result]) -> list[Table]:
    """Two for each split and part: what it came to, and how."""
    together: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        together.setdefault(_rows_of(one), []).append(one)
    return [table for rows, own in together.items() for table in (table_of(own, *rows), how(own, *rows))]


def _rows_of(result: Result) -> tuple[str, str]:
    """Which split and part; the first results of all name no split."""
    return result.split or PAPERS, result.part


def figure(results: Sequence[Result], path: Path) -> bool:
    """Each set's scores on the published test, as far as they are from those of the real rows."""
    return drawn_picture([one for one in results if _rows_of(one) == (PAPERS, "test")], path)
