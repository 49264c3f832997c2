"""Files completed with known values, without a model: `from completed import complete, rows`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kbdisk
from kbdisk.completion.sidecar import given_entities
from kbdisk.completion.write import write_completions
from kbdisk.entity import Completion, Filled, read_path, show
from kbdisk.loaders.kb import Report
from kbdisk.loaders.values.tagged_json import encode

Values = Mapping[str, Mapping[str, Any]]  # of entities, by path as text
TIME = "2026-01-01T00:00:00+00:00"


def complete(
    source: str, target: str, values: Values, *, blank: bool = True, read_as: str | None = None, **how: Any
) -> Report:
    """Complete a source with known values, as `kbdisk complete` does with those of a model."""
    kb = kbdisk.load(source, format=read_as)

    def completions() -> Iterator[tuple[Completion, list[dict[str, Any]]]]:
        for entity in given_entities(kb):
            filled = {read_path(path): Filled(one, 0.9, blank=blank) for path, one in values.get(entity.id, {}).items()}
            rows = [
                {"id": entity.id, "path": show(path), "value": encode(one.value), "time": TIME}
                for path, one in filled.items()
            ]
            numbered = {"numbered": True} if entity.nameless else {}
            yield Completion(entity, filled), [row | numbered for row in rows]

    return write_completions([kb], completions(), target, force=True, **how)


def rows(target: str) -> list[dict[str, Any]]:
    file = Path(f"{target}.provenance.jsonl")
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
