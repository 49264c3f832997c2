"""Reviews of known values, without a model, and what people do to them: `from reviews import ACCEPT, decide, propose`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import kbdisk
from kbdisk.completion.earlier import given
from kbdisk.completion.review import Reviewing, ReviewRow, write_review_of
from kbdisk.entity import Completion, Filled, read_path
from kbdisk.loaders.kb import Report
from kbdisk.loaders.values.tagged_json import encode


def propose(source: str, review: str, values: dict[str, dict[str, Any]], target: str = "", **options: Any) -> None:
    """Write a review of known values, as `kbdisk complete --review` does with those of a model."""
    kb = kbdisk.load(source, **options)
    reviewing, found = Reviewing(kb, kb, kbdisk.infer(kb).schema), list[ReviewRow]()
    for entity in given(kb):
        for text, value in values.get(entity.id, {}).items():
            path = read_path(text)
            row = {"id": entity.id, "path": text, "value": encode(value), "class": (*entity.classes, "")[0]}
            row |= {"confidence": 0.75, "interval": [0.5, 12.25], "within": 0.5, "estimate": "median"}
            completion = Completion(entity, {path: Filled(value, 0.75)})
            found.append(reviewing.row(completion, path, row | ({"numbered": True} if entity.nameless else {})))
    write_review_of(review, found, Report(), source, target, options)


def cells(review: str) -> list[dict[str, str]]:
    with Path(review).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def decide(review: str, *decisions: dict[str, str], **how: Any) -> None:
    """Fill in columns of the rows of a review, in their order, and save it as a spreadsheet may."""
    several = cells(review)
    assert len(several) == len(decisions)
    text = Path(review).open("w", encoding=how.pop("encoding", "utf-8-sig"), newline="")  # noqa: SIM115
    with text:
        writer = csv.DictWriter(text, list(several[0]), **how)
        writer.writeheader()
        writer.writerows(row | decision for row, decision in zip(several, decisions, strict=True))


ACCEPT, REJECT, NOTHING = {"decision": "accept"}, {"decision": "Reject "}, dict[str, str]()


def correct(value: str) -> dict[str, str]:
    return {"correction": value}
