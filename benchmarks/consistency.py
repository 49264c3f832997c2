"""Violations of the constraints of a shapes file in input and output, counted by pyshacl.

python -m benchmarks consistency SOURCE [SHAPES] [--budget 2m]
python -m benchmarks consistency                       the table of all that is stored

SOURCE is a file of RDF, with SHAPES, or one of

    mondial      Mondial (Europe), with shapes/mondial.ttl, written by hand
    phones       the phones of GSMArena as Turtle, with shapes/phones.ttl
    generated    persons and firms, generated here, with every kind of constraint that kbdisk enforces: shapes/generated.ttl
    laureates, cameras       nested JSON without shapes: laureates of the Nobel prize; generated phones, with cameras[0].aperture

`kbdisk complete --shapes SHAPES` runs twice with one model: with `--fill all`, and with the default options. The input has to
conform. Constraints that kbdisk reports as not enforced are checked, too. In nested JSON the structure is checked. Faults are:

    half-made object    it has one of two keys that all objects of its kind in the input have together
    list                longer than the longest of its kind in the input, or not as long as it was given
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import kbdisk
from benchmarks.base import Table
from benchmarks.data import source_file
from benchmarks.masking import pattern, property_name
from benchmarks.results import OURS, Result, Row, StoredRun, group_latest, read
from benchmarks.script import add_out_option, argument_parser
from benchmarks.tables import print_tables
from kbdisk.entity import Date, Entity, Link, Text
from kbdisk.entity import Path as EntityPath
from kbdisk.errors import ConfigError, LoadError

NAME = "consistency"
SHAPES = Path(__file__).parent / "shapes"
SHAPED, NESTED = ("mondial", "phones", "generated"), ("laureates", "cameras")
MIN_TOGETHER = 20  # objects of a kind that have both keys
MODES: dict[str, list[str]] = {"all": ["--fill", "all"], "default": []}
EX = "http://example.org/"
PERSONS, FIRMS, MISSING = 1500, 150, 0.3


# ---------------------------------------------------------------- sources


def prepared(source: str, shapes: str | None, work: Path, entities: int) -> tuple[Path, Path | None]:
    """The file to complete, alone in a folder, and its shapes."""
    named = {"mondial": ".nt", "phones": ".ttl", "generated": ".ttl", "laureates": ".json", "cameras": ".jsonl"}
    if source not in named and shapes is None:
        raise ConfigError("SHAPES", f"expected a file of shapes, as {source} is none of {', '.join(named)}.")
    file = work / (f"{source}{named[source]}" if source in named else Path(source).name)
    if source == "mondial":
        file.write_bytes(gzip.decompress(source_file(source).read_bytes()))
    elif source == "phones":
        kbdisk.write(list(phones(kbdisk.load(str(source_file("gsm"))))), file)
    elif source == "generated":
        file.write_text("\n".join(turtle(generated(entities))))
    elif source == "cameras":
        file.write_text("".join(f"{json.dumps(record)}\n" for record in cameras(entities)))
    else:
        shutil.copy(source_file(source), file)
    if shapes is None:
        return file, None if source in NESTED else SHAPES / f"{source}.ttl"
    return file, Path(shapes)


def phones(kb: Iterable[Entity]) -> Iterator[Entity]:
    """Phones with an IRI and a class, without blank cells; parts of the date are whole numbers."""
    for number, entity in enumerate(kb):
        launch = {name: None if value is None else int(value) for name, value in entity.tree["launch"].items()}
        tree = {name: value for name, value in entity.tree.items() if name != "launch"} | launch
        known = {name: value for name, value in tree.items() if value is not None}
        yield Entity(f"{EX}phone{number}", known, (f"{EX}Phone",))


def generated(persons: int = PERSONS, seed: int = 0) -> list[Entity]:
    """Persons and firms that satisfy shapes/generated.ttl, a share of their values missing."""
    draw = random.Random(f"consistency {seed}")
    firms = [f"{EX}firm{number}" for number in range(FIRMS)]
    seats = {firm: draw.choice(("Ulm", "Ghent", "Turin")) for firm in firms}
    entities = []
    for number in range(persons):
        tree = _person(draw, number, persons, firms, seats)
        needed = {"kind", "firm", "state"}
        kept = {name: value for name, value in tree.items() if name in needed or draw.random() >= MISSING}
        if ("team" in kept) != ("crew" in kept):  # equal or both missing
            kept.pop("team", None), kept.pop("crew", None)
        entities.append(Entity(f"{EX}person{number}", kept, (f"{EX}Person",)))
    for firm in firms:
        size = draw.randrange(1, 500)
        whole = {"size": size, "seat": seats[firm], "code": 3 * size + 1}
        entities.append(
            Entity(firm, {k: v for k, v in whole.items() if k == "size" or draw.random() >= MISSING}, (f"{EX}Firm",))
        )
    return entities


def _person(
    draw: random.Random, number: int, persons: int, firms: Sequence[str], seats: dict[str, str]
) -> dict[str, Any]:
    kind, firm = draw.choice(("clerk", "smith", "cook")), draw.choice(firms)
    born = date(1950, 1, 1) + timedelta(days=draw.randrange(12000))
    hired = born + timedelta(days=6500 + draw.randrange(3000))
    left = hired + timedelta(days=draw.choice((0, 30, 400, 4000)))
    grade = draw.randrange(1, 10)
    chief, deputy = draw.sample(range(persons), 2)
    team = f"{kind}s of {seats[firm]}"
    tools = {"clerk": ["pen"], "smith": [draw.choice(("saw", "axe")), "pen"], "cook": ["pan", "pot"]}[kind]
    return {
        "born": _day(born),
        "hired": _day(hired),
        "left": _day(left),
        "height": round(1.5 + 0.04 * grade + draw.uniform(-0.1, 0.1), 2),
        "grade": grade,
        "least": 10 * grade + draw.randrange(3),
        "most": 10 * grade + 3 + draw.randrange(20),
        "kind": kind,
        "room": f"{'ABCDEF'[number % 6]}{grade}",
        "team": team,
        "crew": team,
        "chief": Link(f"{EX}person{chief}"),
        "deputy": Link(f"{EX}person{deputy}"),
        "firm": Link(firm),
        "tool": tools,
        "state": ["here", draw.choice(("busy", "idle"))],
        "title": [Text(f"{kind} {grade}", "en"), Text(f"{kind} {grade}. Klasse", "de")],
    }


def _day(day: date) -> Date:
    return Date(day.year, day.month, day.day)


def turtle(entities: Sequence[Entity]) -> Iterator[str]:
    """Entities as Turtle, several values as several triples."""
    yield f"@prefix : <{EX}> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."
    for entity in entities:
        yield f"<{entity.id}> a <{entity.classes[0]}>"
        for name, value in entity.tree.items():
            yield f"    ; :{name} {', '.join(map(_term, value if isinstance(value, list) else [value]))}"
        yield "    ."


def _term(value: Any) -> str:
    match value:
        case Link(id):
            return f"<{id}>"
        case Date(year, month, day):
            return f'"{year:04}-{month:02}-{day:02}"^^xsd:date'
        case Text(text, language):
            return f"{json.dumps(text)}@{language}"
    return json.dumps(value)


def cameras(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Phones with a list of cameras: a sensor comes with its pixels, an aperture may be missing."""
    draw, records = random.Random(f"cameras {seed}"), []
    for number in range(count):
        rank = draw.randrange(4)
        lenses = [
            {"sensor": f"S{rank}", "megapixels": 8 * (rank + 1) + 2 * place, "aperture": round(1.6 + 0.2 * place, 1)}
            for place in range(draw.randrange(1, rank + 2))
        ]
        lenses = [{k: v for k, v in lens.items() if k != "aperture" or draw.random() >= MISSING} for lens in lenses]
        whole = {
            "brand": f"B{rank // 2}",
            "weight": 120 + 20 * rank + draw.randrange(10),
            "price": {"amount": 100 * (rank + 1) + draw.randrange(50), "currency": "EUR" if rank % 2 else "USD"},
            "cameras": lenses,
        }
        records.append({"id": f"phone{number}"} | {k: v for k, v in whole.items() if draw.random() >= MISSING})
    return records


# ---------------------------------------------------------------- pyshacl


def violations(data: Path, shapes: Path) -> Counter[str]:
    """How many violations of each component of constraints pyshacl finds."""
    try:
        import pyshacl
        import rdflib
    except ImportError:
        raise LoadError(NAME, "expected pyshacl, got none. Run pip install pyshacl.") from None
    graphs = [rdflib.Graph().parse(file) for file in (data, shapes)]
    _, report, _ = pyshacl.validate(graphs[0], shacl_graph=graphs[1])
    sh = rdflib.Namespace("http://www.w3.org/ns/shacl#")
    found: Counter[str] = Counter()
    for result in report.subjects(rdflib.RDF.type, sh.ValidationResult):
        component = str(report.value(result, sh.sourceConstraintComponent)).rpartition("#")[2]
        path = str(report.value(result, sh.resultPath)).replace("#", "/").rpartition("/")[2]
        found[f"{component.removesuffix('ConstraintComponent')} of {path}"] += 1
    return found


# ---------------------------------------------------------------- structure of nested JSON


def nodes(entity: Entity, kind: type) -> Iterator[tuple[EntityPath, Any]]:
    """All objects, or all lists, of an entity, each with its path."""
    stack: list[tuple[EntityPath, Any]] = [((key,), value) for key, value in entity.tree.items()]
    while stack:
        path, value = stack.pop()
        if isinstance(value, kind):
            yield path, value
        if isinstance(value, dict | list):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            stack += [((*path, key), part) for key, part in inner]


def broken_structure(before: Sequence[Entity], after: Sequence[Entity]) -> Counter[str]:
    """The half-made objects of the output, and its lists of a wrong length, by what they are of."""
    keys: dict[EntityPath, list[frozenset[str]]] = {}
    lengths: dict[EntityPath, int] = {}
    given: dict[tuple[str, EntityPath], int] = {}
    for entity in before:
        for path, part in nodes(entity, dict):
            keys.setdefault(pattern(path), []).append(_known(part))
        for path, members in nodes(entity, list):
            given[entity.id, path] = len(members)
            lengths[pattern(path)] = max(lengths.get(pattern(path), 0), len(members))
    pairs = {of: _together(objects) for of, objects in keys.items()}
    found: Counter[str] = Counter()
    for entity in after:
        for path, part in nodes(entity, dict):
            has = _known(part)
            found[f"half-made {_named(path)}"] += any((a in has) != (b in has) for a, b in pairs.get(pattern(path), ()))
        for path, members in nodes(entity, list):
            most = lengths.get(pattern(path), 0)
            was = given.get((entity.id, path))
            found[f"length of {_named(path)}"] += len(members) > most if was is None else len(members) != was
    return +found


def _named(path: EntityPath) -> str:
    return property_name((pattern(path), "", "label"))


def _known(part: dict[str, Any]) -> frozenset[str]:
    return frozenset(key for key, value in part.items() if value is not None)


def _together(objects: Sequence[frozenset[str]]) -> list[tuple[str, str]]:
    """The pairs of keys of which every object has both or none."""
    names = sorted(frozenset[str]().union(*objects))
    both = {(a, b): sum(a in has and b in has for has in objects) for a, b in combinations(names, 2)}
    counts = Counter(name for has in objects for name in has)
    return [(a, b) for (a, b), n in both.items() if n >= MIN_TOGETHER and n == counts[a] == counts[b]]


# ---------------------------------------------------------------- a run


def measure(source: str, shapes: str | None, arguments: argparse.Namespace) -> None:
    """Each mode on one source."""
    stored_run = StoredRun.of(arguments.out, NAME, (Path(source).name, arguments.budget))
    with tempfile.TemporaryDirectory() as folder:
        file, rules = prepared(source, shapes, Path(folder), arguments.entities)
        given = list(kbdisk.load(str(file))) if rules is None else []

        def check(output: Path) -> Counter[str]:
            if rules is not None:
                return violations(output, rules)
            return broken_structure(given, list(kbdisk.load(str(output))))

        before, shaped = check(file), [] if rules is None else ["--shapes", rules]
        for mode, extra in MODES.items():
            target = file.with_name(f"completed-{mode}{file.suffix}")
            written = complete(file, target, [*shaped, "--budget", arguments.budget, *extra], arguments.quiet)
            after = check(target)
            rows = [
                Row("filled", written), Row("before", before.total()), Row("after", after.total()),
            ]  # fmt: skip
            details = {"before": dict(before), "after": dict(after)}
            stored_run.add(
                Result(
                    NAME, OURS, rows, split=mode, setting=Path(source).name, told=f" + {arguments.budget}", details=details
                )
            )  # fmt: skip
    stored_run.end()


def complete(file: Path, target: Path, options: Sequence[object], quiet: bool) -> int:
    """Run kbdisk complete, and return how many values it wrote."""
    command = [sys.executable, "-m", "kbdisk", "complete", file, "--out", target, "--json", *options]
    error = subprocess.PIPE if quiet else None
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=error, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a given value has no place in the target
        last = ((done.stderr or "").strip().splitlines() or ["see above"])[-1]
        raise LoadError(str(file), f"expected kbdisk complete to succeed, got: {last}")
    return int(json.loads(done.stdout)["written"])


def table(results: Sequence[Result]) -> list[Table]:
    """A row for each source and mode, with the violations by their component."""
    rows, total = [], 0
    for group in group_latest(results, lambda result: (result.setting, result.told, result.split)).values():
        result = group[-1]
        after = result.details["after"]
        listed = ", ".join(f"{count} {name}" for name, count in sorted(after.items()))
        filled, before, violated = (result.values[name] for name in ("filled", "before", "after"))
        total += int(filled)
        rows.append(
            [result.setting, result.told.removeprefix(" + "), result.split, f"{filled:,.0f}", f"{before:.0f}", f"{violated:.0f}", listed]
        )  # fmt: skip
    if not rows:
        return []
    header = ["source", "budget", "fill", "filled", "violations before", "after", "of which"]
    return [Table("What holds of the input", header, rows, [f"{total:,} values filled in all."])]


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("consistency", __doc__)
    parser.add_argument("source", nargs="?")
    parser.add_argument("shapes", nargs="?")
    parser.add_argument("--budget", default="2m", help="of the training")
    parser.add_argument("--entities", type=int, default=PERSONS, help="of a source that is made here: persons, phones")
    parser.add_argument("--quiet", action="store_true")
    add_out_option(parser)
    arguments = parser.parse_args(argv)
    if arguments.source is not None:
        measure(arguments.source, arguments.shapes, arguments)
    print_tables(table(read(arguments.out / f"{NAME}.jsonl")))
