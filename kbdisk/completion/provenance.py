"""Where filled values come from: a row of plain data for each, and the file beside a target that has them, a row a line.

id, class   of the entity; its id is its own, or
numbered    is its number, counted from 1 in the order of the source, headers and blank lines left out; or
id_path     is what stands at this path, by --id or by the schema
path, value the place, and the value as it stands in the target; a key that another file may have for another predicate is an IRI
property    the schema's property that the value is, or is a part of; `gap` is what was filled as one, where that is more
confidence  the probability that it is right: presence times correctness; of a number, that the truth is no further off
            than `within`
interval    where the truth of a number is with 90 % probability; of a value with several numbers, each by its name
draws       values drawn besides, where they were asked for: each with those of the entity's other gaps
estimate    which value was taken: median, mean, mode, sample, by a formula, by a rule, or one shared by all that it
            stands beside; `formula` or `rule` says which, a rule with how many of the known values agree with it
presence    the probability that the entity has such a value at all
correctness the probability that the value is right, given that the entity has one
calibrated  whether presence and correctness were calibrated on held-out entities
unlike      where the entity is unlike those that the model learnt from: in which ways, such as "launch.year above 2012"
model, time by which model, and when
reviewed    accepted or corrected, by `kbdisk apply`; a corrected value is given from then on, and no longer counts as filled in
block       false where the target's format has blocks, and the value stands in none
was         what stood in the places that the value took, for whoever takes it out again: a path -> the text there, such as
            `null` or `""` of JSON, or the bytes of a cell of a table; null where nothing stood, or a Parquet cell was null;
            of an empty part or list, how its brackets looked. Rows of blocks need none; an older kbdisk wrote none
edits       of JSON-LD and RDF/XML, in the first row of a completion: all changes to the text, each with its place in the
            target, in bytes, what stood there, and what stands there now; none where the text was serialised anew

Of what an earlier completion filled in, and only a block of RDF told, a row has id, path and value alone.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import IO, Any

import torch

from kbdisk.completion.earlier import named
from kbdisk.completion.placing import Told
from kbdisk.completion.summary import Summary
from kbdisk.completion.wording import in_words
from kbdisk.entity import Completion, show
from kbdisk.experts import serialize
from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.loaders.files import writing
from kbdisk.loaders.kb import Placeless, Report
from kbdisk.loaders.values.tagged_json import encode
from kbdisk.schemas.composites import show_pattern
from kbdisk.training.files import EXPERTS
from kbdisk.training.trained import Trained

SHORT = 12  # digits of a model's hash
WIDTH = 3  # digits after the first one of an interval's width


def fingerprint(trained: Trained) -> str:
    """A short hash of a model's weights and of its experts."""
    digest = hashlib.sha256()
    for member in trained.members:
        for name, one in sorted(member.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(one.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        if member.latent_knn is not None:
            digest.update(serialize.to_bytes("latent_knn", member.latent_knn))
    for name in EXPERTS:
        if (experts := getattr(trained, name)) is not None:
            digest.update(serialize.to_bytes(name, experts))
    return digest.hexdigest()[:SHORT]


def rows(completion: Completion, model: Mapping[str, Any], time: str) -> Iterator[dict[str, Any]]:
    """A row for each value that was filled in."""
    for path, one in completion.filled.items():
        told = one.belief
        assert isinstance(told, Told)
        row: dict[str, Any] = {"id": completion.entity.id, "path": show(path), "value": encode(one.value)}
        row |= {**named(completion.entity), "class": told.of, "property": show_pattern(told.field)}
        if told.gap != path:
            row["gap"] = show(told.gap)
        row |= {"confidence": _short(one.confidence), "interval": _wide(told.interval), "within": _short(told.within)}
        if told.draws:
            row["draws"] = [encode(each) for each in told.draws]
        row["estimate"] = told.estimate
        if told.formula:
            row["formula"] = told.formula
        if told.rule:
            row["rule"] = told.rule
        if completion.unlike:
            row["unlike"] = list(completion.unlike)
        yield row | {
            "presence": _short(told.presence),
            "correctness": _short(told.correctness),
            "calibrated": told.calibrated,
            "model": model,
            "time": time,
        }


def line(row: Mapping[str, Any]) -> bytes:
    """A row as it stands in the file."""
    return dump_json(row, LINE)


def read_rows(kept: IO[bytes], report: Report | None = None) -> Iterator[dict[str, Any]]:
    """The rows that were kept, as a target has them by its report: but for what it refused, and what it rounded is so."""
    without = {(id, show(path)) for id, path, _ in report.unwritable} if report else set()
    spelt = {(id, show(path)): value for (id, path), value in report.spelt.items()} if report else {}
    was = {(id, show(path)): before for (id, path), before in report.was.items()} if report else {}
    edits = report.edits if report else []
    kept.seek(0)
    for one in kept:
        row = load_json(one)
        place = row["id"], row["path"]
        if place in without:
            continue
        if place in spelt:
            row["value"] = encode(spelt[place])
        if place in was:
            row["was"] = was[place]
        if edits:
            row["edits"], edits = edits, []
        yield row


def unwritten(summary: Summary, kept: IO[bytes], refused: Sequence[Placeless]) -> list[Placeless]:
    """Let a summary tell of values that were filled in, and that the target had no place for; the others, which were given."""
    reasons = {(id, show(path)): why for id, path, why in refused}
    gaps: dict[tuple[str, str], tuple[str, str, str]] = {}
    filled = set()
    for row in read_rows(kept) if reasons else ():
        why = reasons.get((row["id"], row["path"]))
        if why is not None:
            filled.add((row["id"], row["path"]))
            if row["estimate"] != "shared":  # what came with another was no gap
                gaps[row["id"], row.get("gap", row["path"])] = (row["class"], row["property"], why)
    for of, path, why in gaps.values():
        summary.unwritten(of, path, why)
    return [one for one in refused if (one[0], show(one[1])) not in filled]


def write_sidecar(
    file: FilePath,
    earlier: Iterable[bytes],
    kept: IO[bytes],
    report: Report,
    several: ExitStack,
    words: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the lines of earlier completions, then the rows that were kept, as the target has them, in its words."""
    with writing(file, several=several) as stream:
        stream.writelines(in_words(itertools.chain(earlier, map(line, read_rows(kept, report))), words))


def _short(told: Any) -> Any:
    """A number with as many digits as mean something."""
    if isinstance(told, Mapping):
        return {name: _short(each) for name, each in told.items()}
    return float(f"{told:.6g}") if isinstance(told, float) else told


def _wide(told: Any) -> Any:
    """An interval, or several by name, with as many digits as its width gives a meaning; never narrower than it was."""
    if isinstance(told, Mapping):
        return {name: _wide(each) for name, each in told.items()}
    if told is None:
        return None
    low, high = told
    if not 0 < high - low < math.inf:
        return [low, high]
    step = Decimal(1).scaleb(Decimal(high - low).adjusted() - WIDTH)
    ends = (Decimal(repr(low)).quantize(step, ROUND_FLOOR), Decimal(repr(high)).quantize(step, ROUND_CEILING))
    return [float(end) for end in ends]
