"""Documents of RDF in which values are filled, for the tests of formats that take them in within their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kbdisk
from kbdisk import Completion, Filled
from kbdisk.loaders.kb import Report

E = "http://ex.org/"
Values = dict[str, dict[Any, Any]]  # of entities by their short ids, by path


def filled(folder: Path, document: str | bytes, values: Values, format: str, **options: Any) -> tuple[bytes, Report]:
    """A document with values filled in, and the report of that."""
    data = document if isinstance(document, bytes) else document.encode()
    items = [
        Completion(one, {path if isinstance(path, tuple) else (path,): Filled(value) for path, value in wanted.items()})
        for one in kbdisk.load(data, format=format, **options)
        if (wanted := values.get(one.id.removeprefix(E)))
    ]
    assert len(items) == len(values)
    report = kbdisk.write(items, folder / "out", format=format, force=True)
    return (folder / "out").read_bytes(), report


def before_and_after(written: str) -> tuple[str, str]:
    """The two documents of one that marks what is new as «new», and what it stands in the place of as «new|old»."""
    before, after = [], []
    for i, piece in enumerate(written.split("«")):
        new, mark, rest = piece.partition("»")
        new, _, old = new.partition("|") if mark else (new, "", "")
        before += [old if mark else new, rest]
        after += [new, rest]
        assert bool(mark) == (i > 0)
    return "".join(before), "".join(after)
