"""Completions written into a file, with the sidecar that tells of them and of what an earlier completion filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

from kbdisk.completion.carried import UNTOLD, Carried
from kbdisk.completion.earlier import BLOCKS
from kbdisk.completion.provenance import line, write_sidecar
from kbdisk.completion.wording import words_of
from kbdisk.entity import Completion
from kbdisk.loaders import KB
from kbdisk.loaders.kb import Report
from kbdisk.loaders.target import sidecar_of, temporary
from kbdisk.loaders.writing import Beside, Plan, format_of_target

Recorded = tuple[Completion, Iterable[Mapping[str, Any]]]  # a completion, and the rows of its values


def write_completions(
    kb: KB,
    completions: Iterable[Recorded],
    target: str,
    *,
    format: str | None = None,
    insert: bool = False,
    force: bool = False,
    in_place: bool = False,
    beside: Beside | None = None,
) -> Report:
    """Write the source to the target with what was filled in every entity of it, its sidecar, and what else is to stand
    beside it: all of them or none."""
    name = format_of_target(kb, target, format)
    carried = Carried([kb], name, in_place=in_place)
    plain: Mapping[str, Any] = UNTOLD if name in BLOCKS and not kb.keeps(name) else {}
    earlier: list[bytes] = []
    with temporary() as kept:
        items = _kept(completions, kept, carried, earlier, plain)
        plan = Plan.of(items, target, format=format, only_new=False, insert=insert)

        def all_beside(report: Report, several: ExitStack) -> None:
            kb.refuse_changed()
            if beside is not None:
                beside(report, several)
            rest = carried.rest() if kb.skipped else ()
            write_sidecar(sidecar_of(target), [*earlier, *rest], kept, report, several, words_of([kb], name))

        return plan.run(force=force, in_place=in_place, beside=None if target == "-" else all_beside)


def _kept(
    completions: Iterable[Recorded], kept: IO[bytes], carried: Carried, earlier: list[bytes], plain: Mapping[str, Any]
) -> Iterator[Completion]:
    for completion, rows in completions:
        earlier += carried.of(completion.entity)
        for row in rows:
            kept.write(line({**row, **plain}))
        yield completion
