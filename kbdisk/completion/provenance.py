"""Provenance of filled values: a row of plain data for each, and the sidecar of a target, which has a row a line.

id, class   of the entity; its id is its own, or
numbered    is its number, counted from 1 in the order of the source, headers and blank lines left out; or
id_path     is the value at this path, by --id or by the schema
path, value the place, and the value as it stands in the target; a key that other files may have for another predicate is an IRI
property    the schema's property that the value is, or is a part of; `gap` is the path of the gap, where the value is a part of it
confidence  the probability that the value is right: presence times correctness; of a number, that the truth is no further
            off than `within`; the way that it comes about is at the head of decide.py
interval    where the truth of a number is with 90 % probability; of a value with several numbers, each by its name
draws       values that were drawn besides, where asked for: the draws of an entity's gaps belong together
estimate    how the value was chosen: median, mean, mode, sample, formula, rule, `shared` by all such parts, or `member`, a
            further one of a set that has some, or a further class;
            `formula` or `rule` has its text, a rule with how many of the known values agree with it
presence    the probability that the entity has such a value at all
correctness the probability that the value is right, given that the entity has one
calibrated  whether presence and correctness were calibrated on held-out entities
unlike      of an entity that is unlike those that the model learnt from: in which ways, such as "launch.year above 2012"
model, time by which model, and when
reviewed    accepted or corrected, by `kbdisk apply`; a corrected value is given from then on, and no longer counts as filled in
block       false where the target's format has blocks, and the value stands outside of them
was         what stood in the places that the value took, for `kbdisk retract`: a path -> the text there, such as
            `null` or `""` of JSON, or the bytes of a cell of a table; null where nothing stood, or a Parquet cell was null;
            of an empty part or list, how its brackets looked. Rows of values in blocks need none
edits       of JSON-LD and RDF/XML, in the first row of a completion: all changes to the text, each with its place in the
            target, in bytes, what stood there, and what stands there now; none where the text was serialised anew

The row of an earlier filled value that only a block of RDF records has id, path and value alone.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import IO, Any

import torch

from kbdisk.completion.sidecar import id_origin, with_renamed_keys
from kbdisk.completion.summary import Summary
from kbdisk.entity import Completion, Path, show
from kbdisk.experts import EXPERTS, serialize
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders.files import writing
from kbdisk.loaders.kb import Placeless, Report
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.trained import Trained

HASH_DIGITS = 12  # of a model's hash
WIDTH_DIGITS = 3  # digits after the first one of an interval's width

MEMBER = "member"  # the estimate of a further member of a set

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Provenance:
    """The provenance of a filled value: the `belief` of a Filled."""

    class_name: str
    field: Path  # EACH for any place of a list
    gap: Path  # the path of the filled field: for a date whose month and day are missing, that of the date
    presence: float | None = None  # the probability that the entity has such a value
    correctness: float | None = None  # the probability that this value is right, given that the entity has one
    interval: Bounds | Mapping[str, Bounds] | None = None  # of a number; of several, each by its name
    within: float | Mapping[str, float] | None = None  # how far off a number may be and still count as right
    draws: tuple[Any, ...] = ()
    estimate: str = ""  # or `formula`, `rule`, `shared` or `member`
    formula: str = ""
    rule: str = ""
    calibrated: bool = False


def fingerprint(trained: Trained) -> str:
    """A short hash of a model's weights and of its experts."""
    digest = hashlib.sha256()
    for member in trained.members:
        for name, tensor in sorted(member.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        if member.latent_knn is not None:
            digest.update(serialize.to_bytes(serialize.LATENT_KNN, member.latent_knn))
    for name, kind in EXPERTS.items():
        if name in trained.experts:
            digest.update(serialize.to_bytes(kind.load_format(), trained.experts[name]))
    return digest.hexdigest()[:HASH_DIGITS]


def rows(completion: Completion, model: Mapping[str, Any], time: str) -> Iterator[dict[str, Any]]:
    """A row for each value that was filled in."""
    for path, filled in completion.filled.items():
        provenance = filled.belief
        assert isinstance(provenance, Provenance)
        row: dict[str, Any] = {"id": completion.entity.id, "path": show(path), "value": encode(filled.value)}
        row |= {**id_origin(completion.entity), "class": provenance.class_name}
        row["property"] = show_pattern(provenance.field)
        if provenance.gap != path:
            row["gap"] = show(provenance.gap)
        row["confidence"] = _rounded(filled.confidence)
        row |= {"interval": _rounded_interval(provenance.interval), "within": _rounded(provenance.within)}
        if provenance.draws:
            row["draws"] = [encode(drawn) for drawn in provenance.draws]
        row["estimate"] = provenance.estimate
        if provenance.formula:
            row["formula"] = provenance.formula
        if provenance.rule:
            row["rule"] = provenance.rule
        if completion.unlike:
            row["unlike"] = list(completion.unlike)
        yield row | {
            "presence": _rounded(provenance.presence),
            "correctness": _rounded(provenance.correctness),
            "calibrated": provenance.calibrated,
            "model": model,
            "time": time,
        }


def line(row: Mapping[str, Any]) -> bytes:
    """A row as it stands in the file."""
    return dump_json(row, LINE)


def read_rows(kept: IO[bytes], report: Report | None = None) -> Iterator[dict[str, Any]]:
    """The kept rows of values that a target has, by its report: without refused values, with values as they were written."""
    refused = {(id, show(path)) for id, path, _ in report.unwritable} if report else set()
    spelt = {(id, show(path)): value for (id, path), value in report.spelt.items()} if report else {}
    edits = report.edits if report else []
    kept.seek(0)
    for kept_line in kept:
        row = load_json(kept_line)
        place = row["id"], row["path"]
        if place in refused:
            continue
        if place in spelt:
            row["value"] = encode(spelt[place])
        was = report.was.get(*place) if report else None
        if was is not None:
            row["was"] = was
        if edits:
            row["edits"], edits = edits, []
        yield row


def unwritten(summary: Summary, kept: IO[bytes], refused: Sequence[Placeless]) -> list[Placeless]:
    """Count refused values that were filled in as held back in a summary; returns the other refused values, which were given."""
    reasons = {(id, show(path)): why_not for id, path, why_not in refused}
    gaps: dict[tuple[str, str], tuple[str, str, str]] = {}
    filled = set()
    for row in read_rows(kept) if reasons else ():
        why_not = reasons.get((row["id"], row["path"]))
        if why_not is not None:
            filled.add((row["id"], row["path"]))
            if row["estimate"] == MEMBER:
                summary.unwritten_member(row["class"], row["property"], why_not)
            elif row["estimate"] != "shared":  # a value that came with another was no gap
                gaps[row["id"], row.get("gap", row["path"])] = (row["class"], row["property"], why_not)
    for class_name, path, why_not in gaps.values():
        summary.unwritten(class_name, path, why_not)
    return [placeless for placeless in refused if (placeless[0], show(placeless[1])) not in filled]


def write_sidecar(
    file: FilePath,
    earlier: Iterable[bytes],
    kept: IO[bytes],
    report: Report,
    several: ExitStack,
    names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the lines of earlier completions, then the kept rows as the target has them, with some keys renamed."""
    with writing(file, several=several) as stream:
        stream.writelines(with_renamed_keys(itertools.chain(earlier, map(line, read_rows(kept, report))), names))


def _rounded(value: Any) -> Any:
    """A number, or several by name, with six significant digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(number) for name, number in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _rounded_interval(interval: Any) -> Any:
    """An interval, or several by name, with as many digits as its width gives a meaning; never narrower than it was."""
    if isinstance(interval, Mapping):
        return {name: _rounded_interval(bounds) for name, bounds in interval.items()}
    if interval is None:
        return None
    low, high = interval
    if not 0 < high - low < math.inf:
        return [low, high]
    step = Decimal(1).scaleb(Decimal(high - low).adjusted() - WIDTH_DIGITS)
    ends = (Decimal(repr(low)).quantize(step, ROUND_FLOOR), Decimal(repr(high)).quantize(step, ROUND_CEILING))
    return [float(end) for end in ends]
