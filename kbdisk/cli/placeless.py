"""Values that a target has no place for: the first of them, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbdisk.loaders.kb import Placeless

SHOWN = 10


def lines(several: Sequence[Placeless], what: str = "") -> Iterator[str]:
    """For standard error; `what` they are."""
    from kbdisk.entity import show

    if several:
        yield f"{len(several):,}{what} without a place in it:"
    for id, path, reason in several[:SHOWN]:
        yield f"  {id} {show(path)}: {reason}"
    if len(several) > SHOWN:
        yield f"  and {len(several) - SHOWN:,} more: --json has them"


def as_data(several: Sequence[Placeless]) -> list[dict[str, str]]:
    """All of them, for --json."""
    from kbdisk.entity import show

    return [{"id": id, "path": show(path), "reason": reason} for id, path, reason in several]
