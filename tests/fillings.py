"""Documents of RDF in which values are filled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kbdisk
from kbdisk import Completion, Filled
from kbdisk.loaders.kb import KB, Report

E = "http://ex.org/"
SUFFIX = {"turtle": "ttl", "trig": "trig", "ntriples": "nt", "nquads": "nq", "rdfxml": "rdf", "jsonld": "jsonld"}
Values = dict[str, dict[Any, Any]]  # of entities, by path


def completions(kb: KB, values: Values) -> list[Completion]:
    """What is filled in entities: id -> path -> value; ids without a colon are short."""
    wanted = {id if ":" in id else E + id: paths for id, paths in values.items()}
    found = [
        Completion(
            entity,
            {
                path if isinstance(path, tuple) else (path,): Filled(value)
                for path, value in wanted.pop(entity.id).items()
            },
        )
        for entity in kb
        if entity.id in wanted
    ]
    assert not wanted, wanted
    return found


def filled(
    folder: Path,
    document: str | bytes,
    values: Values,
    format: str = "turtle",
    base: str | None = None,
    context: Mapping[str, bytes] | None = None,
    **how: Any,
) -> tuple[bytes, Report]:
    """A document with values filled in, and the report of that."""
    data = document if isinstance(document, bytes) else document.encode()
    kb = kbdisk.load(data, format=format, base=base, context=context or {})
    target = folder / f"out.{SUFFIX[format]}"
    report = kbdisk.write(completions(kb, values) or kb, target, format=format, force=True, **how)
    return target.read_bytes(), report


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
