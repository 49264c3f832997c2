"""Writes a world block by block, in memory that does not grow: the given values, the hidden ones beside them, and what is known of it.

OUT              JSON Lines or N-Triples: the entities in the order of their numbers, with values missing
OUT.hidden.tsv   the single values that are missing, as `python -m benchmarks kb --hidden` reads them
OUT.members.tsv  the members of sets that are missing, in the same form
OUT.world.json   of every property: its kind, its gaps, the error of the best predictor and that of the constant

With shards OUT is a folder: each shard is a file of the given values with the hidden ones beside it. The shards one after the
other are the bytes of the one file.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from benchmarks.generator import BASE
from benchmarks.progress import Report
from benchmarks.world import (
    CLASSES,
    UNIT,
    Category,
    Day,
    LabelSet,
    LinkSet,
    LinkTo,
    LogNumber,
    Members,
    Number,
    Property,
    Quantity,
    SetOf,
    Single,
    World,
)
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.files import COMPRESSED, compressing, compression_of, without_compression, writing

BLOCK = 4096  # entities at a time
SAMPLE = 20_000  # entities of a class, of which errors of constants and shares of missing values are measured
GZIP_LEVEL = 1  # a third of the time of the usual level, for files half as large again
SUBJECT = "\0"  # stands for the entity in a line, until the line is complete
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SHARD = re.compile(r"part-\d{5}\.(jsonl|nt)(\.(gz|bz2|zst))?(\.(hidden|members)\.tsv(\.gz)?)?")


# ---------------------------------------------------------------- formats


class Ends(NamedTuple):
    """What stands before and after the text of a value, given or hidden."""

    before: str
    after: str


class SetEnds(NamedTuple):
    """What stands before the texts of a set's members, between them and after them."""

    before: str
    between: str
    after: str


class JsonLines:
    """An object a line."""

    suffix = ".jsonl"

    def begin(self, class_name: str) -> str:
        """The beginning of an entity."""
        return f'{{"@id": "{BASE}{SUBJECT}", "@type": "{class_name}", "label": "{class_name} {SUBJECT}"'

    end = "}\n"

    def given(self, property: Property) -> Ends:
        """A value of a property."""
        before, after = property.json()
        return Ends(f', "{property.name}": {before}', after)

    def given_set(self, property: Property) -> SetEnds:
        """The members of a set."""
        before, after = property.json()
        return SetEnds(f', "{property.name}": [{before}', f"{after}, {before}", f"{after}]")

    def hidden(self, property: Property) -> Ends:
        """A line of a hidden value."""
        path, before, after = property.hidden_json()
        return Ends(f"{SUBJECT}\t{path}\t{before}", f"{after}\n")


class NTriples:
    """Triples by subject, a line each."""

    suffix = ".nt"
    end = ""

    def begin(self, class_name: str) -> str:
        """The class and the label of an entity."""
        subject = f"<{BASE}{SUBJECT}>"
        return (
            f'{subject} <{RDF_TYPE}> <{BASE}{class_name}> .\n{subject} <{RDFS_LABEL}> "{class_name} {SUBJECT}"@en .\n'
        )

    def given(self, property: Property) -> Ends:
        """A triple."""
        before, after = property.rdf()
        return Ends(f"<{BASE}{SUBJECT}> <{BASE}{property.name}> {before}", f"{after} .\n")

    def given_set(self, property: Property) -> SetEnds:
        """A triple for each member."""
        before, after = self.given(property)
        return SetEnds(before, f"{after}{before}", after)

    def hidden(self, property: Property) -> Ends:
        """A line of a hidden value."""
        before, after = property.rdf()
        return Ends(f"{SUBJECT}\t<{BASE}{property.name}>\t{before}", f"{after}\n")


FORMATS = {format.suffix: format for format in (JsonLines(), NTriples())}


def format_of(out: Path, *, is_folder: bool = False) -> JsonLines | NTriples:
    """The format that a name ends in; a folder without an ending has JSON Lines."""
    suffix = Path(without_compression(out.name)).suffix
    if is_folder and not suffix and compression_of(out.name) is None:
        return FORMATS[".jsonl"]
    if suffix not in FORMATS:
        endings = ", ".join(COMPRESSED)
        raise ConfigError(
            str(out), f"expected a name that ends in .jsonl or .nt, with {endings} or without, got {out.name!r}."
        )
    return FORMATS[suffix]


# ---------------------------------------------------------------- lines


class Lines(NamedTuple):
    """The text of each entity: its given values, its hidden single values, its hidden members of sets."""

    given: list[str]
    hidden: list[str]
    members: list[str]


def lines(world: World, format: JsonLines | NTriples, start: int, stop: int) -> Lines:
    """The texts of the entities from start to before stop."""
    given, hidden, hidden_members = ([""] * (stop - start) for _ in range(3))
    for class_name in CLASSES:
        members = world.members(class_name, start, stop)
        places = (members.numbers - start).tolist()
        if not places:
            continue
        columns: list[list[str]] = []
        singles, sets = [""] * len(places), [""] * len(places)
        for property in CLASSES[class_name].properties:
            if isinstance(property, SetOf):
                columns.append(_write_set(members, property, format, sets))
            else:
                columns.append(_write_single(members, property, format, singles))
        begin, end = format.begin(class_name), format.end
        for place, fragments, single, of_sets in zip(places, zip(*columns, strict=True), singles, sets, strict=True):
            subject = f"e{start + place}"
            given[place] = f"{begin}{''.join(fragments)}{end}".replace(SUBJECT, subject)
            hidden[place] = single.replace(SUBJECT, subject)
            hidden_members[place] = of_sets.replace(SUBJECT, subject)
    return Lines(given, hidden, hidden_members)


def _write_single(
    members: Members, property: Property, format: JsonLines | NTriples, hidden_lines: list[str]
) -> list[str]:
    """The fragments of a property, empty where the value is missing; missing values are added to the hidden lines."""
    texts = property.texts(members.world, members.value(property.name))
    missing = members.is_missing(property)
    before, after = format.given(property)
    fragments = [
        "" if is_missing else f"{before}{text}{after}" for text, is_missing in zip(texts, missing.tolist(), strict=True)
    ]
    before, after = format.hidden(property)
    for row in np.flatnonzero(missing).tolist():
        hidden_lines[row] += f"{before}{texts[row]}{after}"
    return fragments


def _write_set(members: Members, property: SetOf, format: JsonLines | NTriples, hidden_lines: list[str]) -> list[str]:
    """The same of a set, of which single members may be missing."""
    values = members.value(property.name)
    missing = members.is_missing(property)[:, None] | members.is_member_missing(property)
    before, between, after = format.given_set(property)
    fragments = [
        f"{before}{between.join(texts)}{after}" if texts else ""
        for texts in _member_texts(members.world, property, values, ~missing)
    ]
    before, after = format.hidden(property)
    between = f"{after}{before}"
    for row, texts in enumerate(_member_texts(members.world, property, values, missing)):
        if texts:
            hidden_lines[row] += f"{before}{between.join(texts)}{after}"
    return fragments


def _member_texts(world: World, property: SetOf, values: Any, chosen: Any) -> list[list[str]]:
    """Of each entity the texts of the chosen members."""
    is_member = chosen & (values >= 0)
    texts = property.texts(world, values[is_member])
    ends = np.cumsum(is_member.sum(axis=1)).tolist()
    return [texts[start:stop] for start, stop in zip([0, *ends[:-1]], ends, strict=True)]


# ---------------------------------------------------------------- files


@dataclass(frozen=True)
class WorldFiles:
    """The files of a world: one, or as many shards as are asked for in the folder OUT."""

    world: World
    out: Path
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards > self.world.entities:
            raise ConfigError(
                "--shards", f"expected at most {self.world.entities} of as many entities, got {self.shards}."
            )
        format_of(self.out, is_folder=self.shards is not None)

    @property
    def description(self) -> Path:
        """The file with what is known of the world."""
        return self.out.with_name(f"{self.out.name}.world.json")

    def given_files(self) -> Iterator[tuple[Path, int, int]]:
        """Each file of given values, with the numbers of its first entity and of the first after it."""
        if self.shards is None:
            yield self.out, 0, self.world.entities
            return
        kind = compression_of(self.out.name)
        suffix = format_of(self.out, is_folder=True).suffix + (f".{kind}" if kind else "")
        starts = [self.world.entities * shard // self.shards for shard in range(self.shards + 1)]
        for shard in range(self.shards):
            yield self.out / f"part-{shard:05}{suffix}", starts[shard], starts[shard + 1]

    def refuse_existing(self) -> None:
        """WriteError where a file stands in the way."""
        for file in (self.out, self.description, *([] if self.shards else hidden_files(self.out))):
            if file.exists() and not (self.shards and file == self.out and file.is_dir() and not any(file.iterdir())):
                raise WriteError(str(file), "exists already. Say --force to replace it.")

    def write(self, report: Report | None = None) -> None:
        """Write all files, each of them whole or not at all; shards that an earlier run left in the folder are removed."""
        format = format_of(self.out, is_folder=self.shards is not None)
        if self.shards is not None:
            _make_folder(self.out)
        written: set[Path] = set()
        for file, start, stop in self.given_files():
            with contextlib.ExitStack() as files:
                streams = [files.enter_context(_compressed(path)) for path in (file, *hidden_files(file))]
                for first in range(start, stop, BLOCK):
                    last = min(first + BLOCK, stop)
                    for stream, texts in zip(streams, lines(self.world, format, first, last), strict=True):
                        stream.write("".join(texts).encode())
                    if report is not None:
                        report(last, self.world.entities)
            written.update((file, *hidden_files(file)))
        with writing(self.description) as stream:
            stream.write(json.dumps(describe(self.world), indent=1).encode() + b"\n")
        if self.shards is not None:
            for file in self.out.iterdir():
                if SHARD.fullmatch(file.name) and file not in written:
                    file.unlink()


def hidden_files(file: Path) -> tuple[Path, Path]:
    """The files of hidden values and of hidden members beside one of given values, gzipped where that is compressed."""
    suffix = ".gz" if compression_of(file.name) else ""
    return file.with_name(f"{file.name}.hidden.tsv{suffix}"), file.with_name(f"{file.name}.members.tsv{suffix}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise WriteError(str(folder), f"cannot be made: {(error.strerror or str(error)).lower()}.") from error


@contextlib.contextmanager
def _compressed(file: Path) -> Iterator[BinaryIO]:
    kind = compression_of(file.name)
    with writing(file) as stream:
        if kind == "gz":
            with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=GZIP_LEVEL, mtime=0) as fast:
                yield cast(BinaryIO, fast)
        else:
            with compressing(stream, kind) as compressed:
                yield compressed


# ---------------------------------------------------------------- what is known


def describe(world: World) -> dict[str, Any]:
    """All that is known of a world, as plain data."""
    classes = {}
    for name, world_class in CLASSES.items():
        sample = world.sample(name, SAMPLE)
        properties = {property.name: describe_property(sample, property) for property in world_class.properties}
        classes[name] = {
            "entities": world.count(name), "latent_variables": [*world_class.latents], "properties": properties,
        }  # fmt: skip
    return {"entities": world.entities, "seed": world.seed, "classes": classes}


def describe_property(sample: Members, property: Property) -> dict[str, Any]:
    """A property as plain data: kind, errors, gaps."""
    facts: dict[str, Any] = {"kind": property.kind}
    facts |= {"unit": property.unit} if isinstance(property, Quantity) else {}
    kind = property.member if isinstance(property, SetOf) else property
    if isinstance(kind, LinkTo):
        facts["target"] = kind.target
    elif isinstance(kind, Category):
        facts["labels"] = [*kind.labels]
    values = sample.value(property.name)
    if isinstance(property, Single):
        scale, name = scale_of(property)
        missing = sample.is_missing(property)
        centre_costs = property.costs(values, sample.centre(property.name))
        constant_costs = property.costs(values, property.constant(values[~missing] if not missing.all() else values))
        facts |= {
            "measure": name,
            "noise": property.noise / (UNIT if name == "error rate" else scale),
            **_errors(property.error(sample) / scale, float(constant_costs.mean()) / scale),
        }
        if missing.any():
            centre_costs, constant_costs = centre_costs[missing], constant_costs[missing]
            facts["hidden"] = _errors(float(centre_costs.mean()) / scale, float(constant_costs.mean()) / scale)
    elif isinstance(property, SetOf):
        facts |= {"members": _short(float((values >= 0).sum(axis=1).mean()))}
        if isinstance(property, LabelSet):
            facts |= {"likely_member": property.likely / UNIT, "unlikely_member": property.unlikely / UNIT}
        if isinstance(property, LinkSet):
            facts["width"] = property.width
        facts["missing_members"] = property.member_gap_rate / UNIT
    return facts | {"missing": _describe_gap(sample, property)}


def _errors(least: float, constant: float) -> dict[str, Any]:
    ratio = _short(least / constant) if constant else None
    return {"least_error": _short(least), "constant_error": _short(constant), "least_ratio": ratio}


def scale_of(property: Single) -> tuple[float, str]:
    """How many integers of a property make one of its measure, and the measure."""
    if isinstance(property, LogNumber):
        return UNIT, "decades"
    if isinstance(property, Number):
        return 10**property.decimals, "absolute"
    return (1, "days") if isinstance(property, Day) else (1, "error rate")


def _describe_gap(sample: Members, property: Property) -> dict[str, Any]:
    gap, world_class = property.gap, CLASSES[sample.class_name]
    facts: dict[str, Any] = {
        "share": _short(float(sample.is_missing(property).mean())),
        "rate": (world_class.gap_rate if gap.rate is None else gap.rate) / UNIT,
    }
    if gap.driver:
        driver = world_class.property(gap.driver)
        bounds = {"from": gap.low, "below": gap.high}
        texts = {
            name: driver.texts(sample.world, np.array([bound]))[0]
            for name, bound in bounds.items()
            if bound is not None
        }
        if isinstance(driver, Category):
            facts["where"] = {"property": gap.driver, "among": [*driver.labels[gap.low : gap.high]]}
        else:
            facts["where"] = {"property": gap.driver, **texts}
        facts["where"]["rate"] = gap.rate_within / UNIT
    return facts


def _short(number: float) -> float:
    return float(f"{number:.4g}")
