"""Completions written into a file, with the sidecar that records them and what earlier completions filled in."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

from kbdisk.completion.answers import without_lines
from kbdisk.completion.carried import UNTOLD, Carried
from kbdisk.completion.earlier import BLOCKS
from kbdisk.completion.provenance import line, write_sidecar
from kbdisk.completion.wording import words_of
from kbdisk.entity import Completion
from kbdisk.loaders import KB
from kbdisk.loaders.files import sidecar_of, temporary
from kbdisk.loaders.formats import Beside, WritePlan, target_format
from kbdisk.loaders.kb import Report

Recorded = tuple[Completion, Iterable[Mapping[str, Any]]]  # a completion, and the rows of its values


def write_completions(
    kbs: Sequence[KB],
    completions: Iterable[Recorded],
    target: str | None,
    *,
    format: str | None = None,
    insert: bool = False,
    force: bool = False,
    in_place: bool = False,
    answered: Collection[bytes] = (),
    beside: Beside | None = None,
    kept: IO[bytes] | None = None,
) -> Report:
    """Write sources to a target with what was filled in every entity, its sidecar, and what else is to stand beside it: all or nothing.

    Without a target nothing is written, and the report says what would be. Lines of a sidecar that are `answered` do not go
    along. The rows are left in the file `kept`.
    """
    if kept is None:
        with temporary() as file:
            return write_completions(
                kbs, completions, target, format=format, insert=insert, force=force, in_place=in_place,
                answered=answered, beside=beside, kept=file,
            )  # fmt: skip
    name = target_format(kbs, target, format)
    carried = Carried(kbs, name, in_place=in_place)
    plain: Mapping[str, Any] = UNTOLD if name in BLOCKS and (len(kbs) > 1 or not kbs[0].keeps(name)) else {}
    earlier: list[bytes] = []
    items: Any = _kept(completions, kept, carried, earlier, answered, plain)
    writing = WritePlan.for_items(
        items, os.devnull if target is None else target, format=name, only_new=False, insert=insert, mixed=len(kbs) > 1
    )

    def all_beside(report: Report, several: ExitStack) -> None:
        for kb in kbs:
            kb.refuse_changed()
        if beside is not None:
            beside(report, several)
        rest = carried.rest() if any(kb.skipped for kb in kbs) else ()
        sidecar = sidecar_of(kbs[0].name if in_place else str(target))
        write_sidecar(sidecar, [*earlier, *rest], kept, report, several, words_of(kbs, name))

    return writing.run(force=force, in_place=in_place, beside=None if target in (None, "-") else all_beside)


def _kept(
    completions: Iterable[Recorded],
    kept: IO[bytes],
    carried: Carried,
    earlier: list[bytes],
    answered: Collection[bytes],
    plain: Mapping[str, Any],
) -> Iterator[Completion]:
    for completion, rows in completions:
        earlier += without_lines(carried.of(completion.entity), answered)
        for row in rows:
            kept.write(line({**row, **plain}))
        yield completion
