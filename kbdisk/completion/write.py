"""Write: completions into a file, with the sidecar that records the values of these and of earlier completions."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

from kbdisk.completion.answers import without_lines
from kbdisk.completion.provenance import line, write_sidecar
from kbdisk.completion.sidecar import OUTSIDE_BLOCKS, CarriedRows, contested_keys
from kbdisk.entity import Completion
from kbdisk.loaders import KB, format_row
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
    """Write sources to a target with the filled values, its sidecar, and the files that `beside` writes: all or nothing.

    Without a target nothing is written, and the report says what would be. Lines of a sidecar that are `answered` are not
    carried over. The rows are left in the file `kept`.
    """
    if kept is None:
        with temporary() as file:
            return write_completions(
                kbs, completions, target, format=format, insert=insert, force=force, in_place=in_place,
                answered=answered, beside=beside, kept=file,
            )  # fmt: skip
    name = target_format(kbs, target, format)
    carried = CarriedRows(kbs, name, in_place=in_place)
    is_outside_blocks = format_row(name).has_blocks and (len(kbs) > 1 or not kbs[0].keeps(name))
    earlier: list[bytes] = []
    marks: Mapping[str, Any] = OUTSIDE_BLOCKS if is_outside_blocks else {}
    items: Any = _kept(completions, kept, carried, earlier, answered, marks)
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
        write_sidecar(sidecar, [*earlier, *rest], kept, report, several, contested_keys(kbs, name))

    return writing.run(force=force, in_place=in_place, beside=None if target in (None, "-") else all_beside)


def _kept(
    completions: Iterable[Recorded],
    kept: IO[bytes],
    carried: CarriedRows,
    earlier: list[bytes],
    answered: Collection[bytes],
    marks: Mapping[str, Any],
) -> Iterator[Completion]:
    """The completions. Their rows are added to the file `kept`, and the lines of earlier ones to `earlier`."""
    for completion, rows in completions:
        earlier += without_lines(carried.of(completion.entity), answered)
        for row in rows:
            kept.write(line({**row, **marks}))
        yield completion
