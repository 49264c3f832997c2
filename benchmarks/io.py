"""The speed of reading, as ratios to the libraries beneath, measured side by side in one run.

    python -m benchmarks io [--triples 100000] [--memory 5000000]

The two sides of a pair run in turn, several times, each time in a process of its own; the best time of each side counts. Speed
differs between machines and from minute to minute; the ratios should not.
"""

from __future__ import annotations

import json
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

from benchmarks.script import CHECKOUT, argument_parser

XSD = "http://www.w3.org/2001/XMLSchema#"
NS = "http://example.org/ns#"
ROUNDS = 5


def things(triples: int) -> Iterator[str]:
    """N-Triples: ten statements to a thing, one of them a part, some links; the first things come back at the end."""
    dice = random.Random(0)
    count = triples // 11
    for i in range(count):
        me = f"<http://example.org/thing/{i}>"
        yield f"{me} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{NS}Thing> .\n"
        yield f'{me} <http://www.w3.org/2000/01/rdf-schema#label> "thing {i}"@en .\n'
        yield f'{me} <{NS}code> "T{i:07d}" .\n'
        yield f'{me} <{NS}weight> "{dice.random() * 100:.2f}"^^<{XSD}decimal> .\n'
        yield f'{me} <{NS}height> "{dice.random() * 100:.1f}"^^<{XSD}decimal> .\n'
        yield f'{me} <{NS}count> "{dice.randrange(10000)}"^^<{XSD}integer> .\n'
        yield f'{me} <{NS}born> "19{dice.randrange(10, 99)}-0{dice.randrange(1, 9)}-1{dice.randrange(10)}"^^<{XSD}date> .\n'
        yield f'{me} <{NS}colour> "{dice.choice(["red", "green", "blue"])}" .\n'
        yield f"{me} <{NS}next> <http://example.org/thing/{dice.randrange(count)}> .\n"
        yield f"{me} <{NS}made> _:b{i} .\n"
        yield f'_:b{i} <{NS}year> "19{dice.randrange(10, 99)}"^^<{XSD}gYear> .\n'
    for i in range(min(100, count)):
        yield f'<http://example.org/thing/{i}> <{NS}late> "{i}"^^<{XSD}integer> .\n'


def phones(count: int) -> Iterator[str]:
    """JSON Lines: some 200 bytes with a dozen keys."""
    dice = random.Random(0)
    for i in range(count):
        launch = {"year": dice.randrange(1999, 2024), "month": dice.randrange(1, 13)}
        sizes = {"height": dice.randrange(900, 1700) / 10, "width": dice.randrange(400, 900) / 10, "depth": 8.1}
        phone = {"id": f"p{i}", "model": f"Phone {i}", "oem": dice.choice(["Nokia", "LG"]), "launch": launch, **sizes}
        yield (
            json.dumps({**phone, "weight": dice.randrange(80, 250), "battery": 3000, "edge": dice.random() < 0.5})
            + "\n"
        )


def ours(path: str) -> int:
    """Every entity of a file, as a tree."""
    import kbdisk

    count = 0
    for _ in kbdisk.load(path):
        count += 1
    return count


def pyoxigraph(path: str) -> int:
    """Every triple, and nothing done with it."""
    import pyoxigraph

    count = 0
    for _ in pyoxigraph.parse(path=path):
        count += 1
    return count


def rdflib(path: str) -> int:
    """Into a graph."""
    import rdflib

    return len(rdflib.Graph().parse(path))


def orjson(path: str) -> int:
    """Every line."""
    import orjson

    count = 0
    with Path(path).open("rb") as file:
        for line in file:
            orjson.loads(line)
            count += 1
    return count


READERS: dict[str, Callable[[str], int]] = {"ours": ours, "pyoxigraph": pyoxigraph, "rdflib": rdflib, "orjson": orjson}


def measured(reader: str, path: Path) -> dict[str, float]:
    """One reading in a process of its own: seconds of the processor (imports not counted) and the most memory, in MB."""
    run = [sys.executable, "-W", "ignore", "-m", "benchmarks.io", reader, str(path)]
    answer: dict[str, float] = json.loads(
        subprocess.run(run, check=True, capture_output=True, text=True, cwd=CHECKOUT).stdout
    )
    return answer


def child(reader: str, path: str) -> None:
    """What `measured` runs: once on a small piece, so that everything is imported, then in earnest."""
    with tempfile.NamedTemporaryFile(suffix=Path(path).suffix) as small:
        with Path(path).open("rb") as file:
            small.write(
                b"".join(line for line, _ in zip(file, range(400), strict=False) if path.endswith(("nt", "jsonl")))
            )
        small.write(b"" if path.endswith(("nt", "jsonl")) else b"<urn:a> <urn:b> <urn:c> .\n")
        small.flush()
        READERS[reader](small.name)
    start = time.process_time()  # of the processor: what else runs on the machine counts less
    count = READERS[reader](path)
    seconds = time.process_time() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": most, "count": count}))


def against(other: str, path: Path, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Our best seconds, the other's best, and ours as a multiple of it."""
    pairs = [(measured("ours", path), measured(other, path)) for _ in range(rounds)]
    mine, theirs = min(a["seconds"] for a, _ in pairs), min(b["seconds"] for _, b in pairs)
    return mine, theirs, mine / theirs


def row(what: str, mine: float, theirs: float, ratio: str, wanted: str) -> None:
    print(f"| {what} | {mine:.2f} s | {theirs:.2f} s | {ratio} | {wanted} |", flush=True)


def speeds(folder: Path, triples: int) -> None:
    """The table of ratios."""
    import pyoxigraph as ox

    nt, ttl, jsonl = folder / "things.nt", folder / "things.ttl", folder / "phones.jsonl"
    nt.write_text("".join(things(triples)))
    with ttl.open("wb") as file:
        ox.serialize((quad.triple for quad in ox.parse(path=str(nt))), file, format=ox.RdfFormat.TURTLE)
    jsonl.write_text("".join(phones(triples)))
    print("| what | ours | the other | ratio | wanted |\n|---|---|---|---|---|")
    for name, path in (("Turtle", ttl), ("N-Triples", nt)):
        mine, theirs, ratio = against("rdflib", path, rounds=2)
        row(
            f"{name}, {triples:,} triples: entities, against rdflib's parse",
            mine,
            theirs,
            f"{1 / ratio:.1f} times as fast",
            "10 or more",
        )
        mine, theirs, ratio = against("pyoxigraph", path)
        row(
            f"{name}: entities, against pyoxigraph's bare triples",
            mine,
            theirs,
            f"{ratio:.2f} times as long",
            "3 or less",
        )
    mine, theirs, ratio = against("orjson", jsonl)
    row(
        f"JSON Lines, {triples:,}: entities, against bare orjson.loads",
        mine,
        theirs,
        f"{ratio:.2f} times as long",
        "2 or less",
    )


def memory(folder: Path, triples: int) -> None:
    """A large file: time and memory."""
    path = folder / "large.nt"
    with path.open("w") as file:
        file.writelines(things(triples))
    mine, theirs = measured("ours", path), measured("pyoxigraph", path)
    size = path.stat().st_size / 1e6
    what = f"N-Triples, {triples:,} triples ({size:.0f} MB): {mine['megabytes']:.0f} MB of memory, {mine['count']:,.0f} entities"
    ratio = mine["seconds"] / theirs["seconds"]
    row(what, mine["seconds"], theirs["seconds"], f"{ratio:.2f} times as long", "under 150 MB")


def main(argv: Sequence[str]) -> None:
    """Measure and print."""
    parser = argument_parser("io", __doc__)
    parser.add_argument("--triples", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=5_000_000, help="triples of the large file; 0 leaves it out")
    arguments = parser.parse_args(argv)
    print(f"{date.today()}, Python {platform.python_version()}, {platform.machine()}\n")
    with tempfile.TemporaryDirectory() as folder:
        speeds(Path(folder), arguments.triples)
        if arguments.memory:
            memory(Path(folder), arguments.memory)


if __name__ == "__main__":  # one measurement, in a process of its own
    child(sys.argv[1], sys.argv[2])
