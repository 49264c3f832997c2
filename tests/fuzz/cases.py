"""Cases: one mutated file and one command over it, made from a name such as `turtle:17` alone; and what is wrong with one.

A kind of input is a row in KINDS: it puts files into an empty folder, the current one, and says which command runs.
What must hold in every case: exit status 0, 1 or 2; no traceback, no warning that is not ours; at status 2 one line
`error: ...` and the folder as it was; the source is unchanged unless it is changed in place; what was written can be
read again and holds all that was given.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import http.server
import io
import json
import re
import shutil
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz import mutators

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10  # of the processor's time, not of the clock's: another's load is no hang
FORMATS = [
    "json",
    "jsonl",
    "csv",
    "tsv",
    "parquet",
    "turtle",
    "ntriples",
    "nquads",
    "trig",
    "n3",
    "rdfxml",
    "jsonld",
    "sparql-update",
    "triples",
]
SUFFIX = {
    "turtle": "ttl",
    "ntriples": "nt",
    "nquads": "nq",
    "rdfxml": "rdf",
    "sparql-update": "ru",
    "quickstatements": "qs",
    "triples": "txt",
}
NOTHING = ("an empty file", "an empty list", "expected some rows")  # what is written of no entities at all is no source
APPENDED_TO = {"turtle", "ntriples", "nquads", "trig", "n3", "triples"}  # a change keeps every byte that is there
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OURS = re.compile(r"(error|warning): ")


@dataclass
class Command:
    """A command, with what its files are."""

    arguments: list[str]
    target: str | None = None
    format: str | None = None  # of the target
    copies: str | None = None  # the file whose bytes the target is to have
    changes: str | None = None  # the file that is changed in place
    prints_data: bool = False  # on standard output: its own bytes, not for people


@dataclass
class Result:
    """What became of a case."""

    case: str
    command: list[str] = field(default_factory=list)
    status: Any = None
    faults: list[str] = field(default_factory=list)
    stderr: str = ""


class Hang(BaseException):
    """A command that computes too long."""


# ---------------------------------------------------------------- running


def run_case(case: str, model: Path | None = None, keep: Path | None = None) -> Result:
    """Run one case in a folder of its own; `keep` is where its files stay. `model` is a folder of a sound model."""
    kind, _, seed = case.partition(":")
    random = Random(case)
    result = Result(case)
    with tempfile.TemporaryDirectory(prefix="kbdisk-fuzz-") as made, chdir(keep or made), guarded(result):
        command = KINDS[kind].make(random, Input(kind, seed, model))
        result.command = command.arguments
        before = _bytes_here()
        given = _given(command.changes) if command.changes else {}
        result.status, out, err = call(command.arguments)
        result.stderr = err
        result.faults += [*_wrong_status(result.status, err), *_raw(command, out, err)]
        result.faults += _wrong_files(command, result.status, before)
        if command.target and result.status in (0, 1):
            result.faults += _unreadable(command)
        if command.changes and result.status in (0, 1):
            result.faults += _lost(command, given)
    return result


@contextmanager
def guarded(result: Result) -> Iterator[None]:
    """Take what should never come out of a command for a fault, and so what takes too long."""

    def stop(*_: object) -> None:
        raise Hang(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    except (Exception, Hang):
        result.faults.append(f"traceback: {traceback.format_exc()}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def call(arguments: list[str]) -> tuple[Any, str, str]:
    """The exit status of a command, and what it printed; whatever is no exit comes through."""
    from kbdisk.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2))
    status: Any = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments, prog_name="kbdisk")
        except SystemExit as ended:
            status = ended.code
    return status, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))


# ---------------------------------------------------------------- what must hold


def _wrong_status(status: Any, err: str) -> Iterator[str]:
    if status not in (0, 1, 2):
        yield f"status: {status}"
    lines = err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if status == 2 and (len(errors) != 1 or not lines[-1].startswith("error: ")):
        yield f"error: expected one line at the end, got {lines[-6:]}"
    if status != 2 and errors:
        yield f"error: expected none at status {status}, got {errors}"
    if any(re.match(r"\w+Warning: |Traceback ", line) for line in lines):
        yield f"warning: {err}"


def _raw(command: Command, out: str, err: str) -> Iterator[str]:
    for name, text in (("stderr", err), ("stdout", "" if command.prints_data else out)):
        if found := RAW.search(text):
            yield f"raw: {name} has {found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 20]!r}"


def _bytes_here() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def _wrong_files(command: Command, status: Any, before: dict[str, bytes]) -> Iterator[str]:
    after = _bytes_here()
    mine = {command.target, f"{command.target}.provenance.jsonl"} if command.target and status in (0, 1) else set()
    if command.format == "model" and status in (0, 1):
        mine |= {
            name
            for name in {**before, **after}
            if name.startswith((f"{command.target}/", f"{command.target}.training"))
        }
    if command.changes and status in (0, 1):
        mine |= {command.changes, f"{command.changes}.before"}
    yield from (f"changed: {name}" for name in before if name not in mine and after.get(name) != before[name])
    if command.arguments[0] == "train":  # what a run that cannot go on has learnt is kept
        mine |= {name for name in after if name.startswith(f"{command.target}.training")}
    yield from (f"left behind: {name}" for name in after.keys() - before.keys() - mine)
    if command.copies and status == 0 and _plain(str(command.target)) != _plain(command.copies):
        yield f"bytes: {command.target} is not {command.copies}"
    kept = command.changes if command.format in APPENDED_TO and status in (0, 1) else None
    if kept and "." not in Path(kept).stem and not _is_within(before[kept], after[kept]):
        yield f"bytes: {kept} lost some"


def _plain(name: str) -> bytes:
    """A file's bytes, uncompressed."""
    from kbdisk.loaders.files import Source

    return Source(name).read()


def _is_within(old: bytes, new: bytes) -> bool:
    """Whether new bytes are old ones with some put in between."""
    rest = iter(new)
    return all(byte in rest for byte in old)


def _unreadable(command: Command) -> Iterator[str]:
    """What was written is read again, unless nobody reads its format."""
    target, format = str(command.target), str(command.format)
    if format in ("quickstatements", "sparql-update") or not Path(target).exists():
        return
    more = [option for option in ("--skip-errors",) if option in command.arguments]
    if format == "jsonld" and "--context" in command.arguments:
        more += ["--context", command.arguments[command.arguments.index("--context") + 1]]
    inspecting = ["inspect", "-q", "--json", "--from", format, target, *more]
    arguments = ["show", target] if format == "model" else inspecting
    status, _, err = call(arguments)
    if status not in (0, 1 if "--skip-errors" in more else 0) and not any(word in err for word in NOTHING):
        yield f"unreadable: {err}"


def _given(source: str) -> dict[str, dict[tuple[Any, ...], str]]:
    """What a source gives, by entity and path; an empty one where it cannot be read, which the command will say."""
    import kbdisk
    from kbdisk.errors import KBDiskError
    from kbdisk.schemas.text.numerals import of_any_length

    try:
        with warnings.catch_warnings(), of_any_length():
            warnings.simplefilter("ignore")
            format = "triples" if source.endswith(".txt") else None
            return {entity.id: dict(_leaves(entity.tree)) for entity in kbdisk.load(source, format=format)}
    except KBDiskError:
        return {}


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(tree, dict | list) and len(path) < 50:
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, (*path, key))
    elif tree is not None:
        yield path, f"{type(tree).__name__} {tree!r}"


def _lost(command: Command, given: dict[str, dict[tuple[Any, ...], str]]) -> Iterator[str]:
    assert command.changes is not None
    now = _given(command.changes)
    for id, leaves in given.items():
        lost = {path for path, value in leaves.items() if now.get(id, {}).get(path) != value}
        if lost:
            path = min(lost, key=str)
            yield f"lost: {id!r} {path} was {leaves[path][:80]}, is {str(now.get(id, {}).get(path))[:80]}"
            return


# ---------------------------------------------------------------- sources


@dataclass
class Input:
    """What a case is made with."""

    kind: str
    seed: str
    model: Path | None


@dataclass
class Kind:
    """A kind of input: how a case of it is made in the current folder."""

    make: Callable[[Random, Input], Command]
    weight: int = 4  # how many cases of it there are beside the others
    needs_model: bool = False  # and torch, so seconds


@dataclass
class Text:
    """A source in a text format: its files in the corpus, and the mutators that know its structure."""

    files: list[str]
    structured: list[Callable[[Random, bytes], bytes]]
    suffix: str

    def mutated(self, random: Random) -> bytes:
        data = _corpus(random.choice(self.files))
        return mutated(random, data, self.structured)


def mutated(random: Random, data: bytes, structured: list[Callable[[Random, bytes], bytes]]) -> bytes:
    """A sound file with one to three faults."""
    if structured and random.random() < 0.75:
        data = random.choice(structured)(random, data)
        if random.random() < 0.85:
            return data
    if random.random() < 0.04:
        return random.choice([b"", b"\n", b"\0", b"\xef\xbb\xbf", b" " * 1000])
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        data = mutators.mutate_bytes(random, data, _others())
    return data


@cache
def _corpus(name: str) -> bytes:
    return (CORPUS / name).read_bytes()


@cache
def _others() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.rglob("*")) if path.is_file()]


TERMS = [mutators.mutate_terms] * 3 + [mutators.mutate_tokens, mutators.mutate_lines]
WORDS = [mutators.mutate_tokens, mutators.mutate_lines]
SOURCES: dict[str, Text] = {
    "json": Text(["ships.json", "keyed.json"], [mutators.mutate_json] * 3 + WORDS, "json"),
    "jsonl": Text(["ships.jsonl"], [mutators.mutate_json_lines] * 3 + WORDS, "jsonl"),
    "csv": Text(["ships.csv", "elements.csv"], [mutators.mutate_cells] * 2 + WORDS, "csv"),
    "tsv": Text(["cities.tsv"], [mutators.mutate_cells] * 2 + WORDS, "tsv"),
    "triples": Text(["ships.txt"], [mutators.mutate_cells] * 2 + WORDS, "txt"),
    "turtle": Text(["elements.ttl", "triple-terms.ttl", "wikibase.ttl"], TERMS, "ttl"),
    "trig": Text(["graphs.trig", "triple-terms.ttl"], TERMS, "trig"),
    "ntriples": Text(["elements.nt"], TERMS, "nt"),
    "nquads": Text(["graphs.nq"], TERMS, "nq"),
    "n3": Text(["rules.n3", "elements.ttl"], TERMS, "n3"),
    "rdfxml": Text(["elements.rdf"], WORDS, "rdf"),
    "jsonld": Text(["people.jsonld"], [mutators.mutate_json] * 3 + WORDS, "jsonld"),
    "wikibase-json": Text(["dump.wikibase.json", "entity.wikibase.json"], [mutators.mutate_json] * 3 + WORDS, "json"),
}


def source_case(random: Random, given: Input) -> Command:
    """A mutated source, and a command that reads it."""
    text = SOURCES[given.kind]
    name = f"kb.{text.suffix}"
    Path(name).write_bytes(text.mutated(random))
    return _reading(random, name, given.kind)


def compressed_case(random: Random, given: Input) -> Command:
    """A compressed source that is broken, or has broken content."""
    format = random.choice(["jsonl", "csv", "turtle", "ntriples"])
    text, packing = SOURCES[format], random.choice(["gz", "bz2", "zst"])
    data = _corpus(text.files[0]) if random.random() < 0.6 else text.mutated(random)
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "zst": _zstd}[packing](data)
    if random.random() < 0.1:
        packed += packed
    if random.random() < 0.8:
        packed = mutators.mutate_bytes(random, packed, _others())
    name = f"kb.{text.suffix}.{packing}"
    Path(name).write_bytes(packed)
    return _reading(random, name, format)


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def parquet_case(random: Random, given: Input) -> Command:
    """A table of any types, or a sound Parquet file with faults in its bytes."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(mutators.random_table(random), stream, compression=random.choice(["none", "snappy", "zstd", "gzip"]))
    data = stream.getvalue()
    if random.random() < 0.4:
        data = mutators.mutate_bytes(random, data, _others())
    Path("kb.parquet").write_bytes(data)
    return _reading(random, "kb.parquet", "parquet")


def _reading(random: Random, name: str, format: str) -> Command:
    """A command that reads a source."""
    is_named = format == "triples" or (format == "wikibase-json" and random.random() < 0.5)
    how = ["--from", format] if is_named else []
    skip = ["--skip-errors"] if random.random() < 0.2 else []
    more = ["--id", random.choice(["name", "id", "launched.year", "x[0]"])] if random.random() < 0.05 else []
    more += (
        ["--items", random.choice(["data", "list", "parts.x", "[0]"])]
        if random.random() < 0.03 and format == "json"
        else []
    )
    common = [name, *how, *skip, *more]
    writing = [name, *skip, *more, *(["--from", format] if how else [])]
    packed = Path(name).suffix if Path(name).suffix in (".gz", ".bz2", ".zst") else ""
    match random.randrange(10):
        case 0 | 1:
            as_json = random.choice([["--json"], ["--all", "--examples", "9"], []])
            return Command(["inspect", "-q", *common, *as_json], prints_data="--json" in as_json)
        case 2 | 3:
            how_shown = random.choice([["--explain"], ["--json"], []])
            return Command(["schema", "infer", "-q", *common, *how_shown], prints_data=how_shown != ["--explain"])
        case 4:
            Path("schema.yaml").write_text(_schema_of(format), encoding="utf-8")
            how_shown = random.choice([["--strict"], ["--json"], ["--all"], []])
            return Command(
                ["schema", "check", "-q", "schema.yaml", *common, *how_shown], prints_data="--json" in how_shown
            )
        case 5 if format in FORMATS:
            target = f"out.{SUFFIX.get(format, format)}{packed}"
            keeps = None if skip or more else name
            return Command(["write", *writing, "--out", target], target, format, keeps)
        case 6 | 7 if format in FORMATS:
            Path("values.jsonl").write_bytes(_values_for(random, name))
            arguments = ["write", *writing, "--values", "values.jsonl", "--in-place", "--out", name]
            return Command(
                [*arguments, *(["--insert"] if format in ("turtle", "trig", "n3") else [])], None, format, changes=name
            )
        case 8:
            Path("values.jsonl").write_bytes(_values_for(random, name))
            to = random.choice([*FORMATS, "quickstatements"])
            target = f"out.{SUFFIX.get(to, to)}"
            only = ["--only-new"] if random.random() < 0.4 else []
            return Command(
                ["write", *writing, "--values", "values.jsonl", "--out", target, *_named(to), *only], target, to
            )
        case _:
            to = random.choice(FORMATS)
            target = f"out.{SUFFIX.get(to, to)}"
            written = format if (format, to) == ("wikibase-json", "json") else to  # it stays the dump that it was
            return Command(["write", *writing, "--out", target, *_named(to)], target, written)


def _named(format: str) -> list[str]:
    """The option that names the format of a target whose suffix does not."""
    return ["--to", format] if format == "triples" else []


def _values_for(random: Random, source: str) -> bytes:
    """New values for some entities of a source, as far as it can be read."""
    lines = []
    for id, leaves in list(_given(source).items())[:4]:
        keys = ["new", "crew", "built", "launched.month", "parts[0].of", "a.b", *(str(path[0]) for path in leaves)]
        for key in dict.fromkeys(random.choices(keys, k=random.choice([1, 1, 3]))):
            value = random.choice(
                [mutators.random_value(random), *random.choices(mutators.TAGGED, k=3), 5, "text", 1.5]
            )
            lines.append(json.dumps({"id": id, "path": key, "value": value}))
    return "\n".join(lines).encode() if lines else b'{"id": "a", "path": "b", "value": 1}\n'


@cache
def _schema_of(format: str) -> str:
    """The schema of the sound file of a format."""
    import kbdisk

    if format == "parquet":
        return _corpus("ship.schema.yaml").decode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kbdisk.infer(kbdisk.load(CORPUS / SOURCES[format].files[0], format=format)).to_yaml()


# ---------------------------------------------------------------- files beside a source


def values_case(random: Random, given: Input) -> Command:
    """A mutated file of new values."""
    shutil.copy(CORPUS / "ships.jsonl", "kb.jsonl")
    Path("values.jsonl").write_bytes(
        mutated(random, _corpus("ships.values.jsonl"), [mutators.mutate_json_lines] * 3 + WORDS)
    )
    arguments = ["write", "kb.jsonl", "--values", "values.jsonl"]
    if random.random() < 0.5:
        return Command([*arguments, "--in-place", "--out", "kb.jsonl"], format="jsonl", changes="kb.jsonl")
    to = random.choice([*FORMATS, "quickstatements"])
    target = f"out.{SUFFIX.get(to, to)}"
    return Command([*arguments, "--out", target, *_named(to), *random.choice([[], ["--only-new"]])], target, to)


def sidecar_case(random: Random, given: Input) -> Command:
    """A mutated file of provenance beside a sound source."""
    shutil.copy(CORPUS / "ships.jsonl", "kb.jsonl")
    data = mutated(random, _corpus("ships.jsonl.provenance.jsonl"), [mutators.mutate_json_lines] * 3 + WORDS)
    Path("kb.jsonl.provenance.jsonl").write_bytes(data)
    if random.random() < 0.3:
        return Command(["inspect", "kb.jsonl"])
    to = random.choice(FORMATS)
    target = f"out.{SUFFIX.get(to, to)}"
    return Command(["write", "kb.jsonl", "--out", target, *_named(to)], target, to)


def context_case(random: Random, given: Input) -> Command:
    """A mutated JSON-LD context that a source names."""
    Path("kb.jsonld").write_text(
        '{"@context": "http://example.org/c", "@id": "http://example.org/a", "born": "1815", "knows": ["x"], "label": {"en": "A"}}'
    )
    context = json.dumps({"@context": json.loads(_corpus("people.jsonld"))["@context"]}).encode()
    Path("c.jsonld").write_bytes(mutated(random, context, [mutators.mutate_json] * 4))
    arguments = ["kb.jsonld", "--context", "http://example.org/c=c.jsonld"]
    if random.random() < 0.5:
        return Command(["inspect", *arguments])
    to = random.choice(FORMATS)
    target = f"out.{SUFFIX.get(to, to)}"
    return Command(["write", *arguments, "--out", target, *_named(to)], target, to)


# ---------------------------------------------------------------- schemas


def schema_case(random: Random, given: Input) -> Command:
    """A mutated schema file of ours."""
    data = mutated(random, _corpus("ship.schema.yaml"), [mutators.mutate_yaml] * 3 + WORDS)
    Path("schema.yaml").write_bytes(data)
    shutil.copy(CORPUS / "ships.jsonl", "kb.jsonl")
    return random.choice(
        [
            Command(["schema", "show", "schema.yaml"]),
            Command(["schema", "export", "schema.yaml"], prints_data=True),
            Command(["schema", "check", "-q", "schema.yaml", "kb.jsonl"]),
        ]
    )


IMPORTS: dict[str, Text] = {
    "shacl": Text(["shapes.shacl.ttl"], TERMS, "ttl"),
    "jsonschema": Text(["ship.jsonschema.json"], [mutators.mutate_json] * 3 + WORDS, "json"),
    "linkml": Text(["ship.linkml.yaml"], [mutators.mutate_yaml] * 3 + WORDS, "yaml"),
}


def import_case(random: Random, given: Input) -> Command:
    """A mutated schema of others."""
    text = IMPORTS[given.kind]
    name = f"schema.{text.suffix}"
    Path(name).write_bytes(text.mutated(random))
    how = [] if random.random() < 0.3 else ["--from", given.kind]
    return Command(["schema", "import", name, *how], prints_data=True)


# ---------------------------------------------------------------- endpoints


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every SELECT with one body and every CONSTRUCT with another."""

    bodies: tuple[tuple[bytes, str], tuple[bytes, str]] = ((b"", ""), (b"", ""))

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"]))
        again = b"STR%28%3Fs%29+%3E" in form  # the page after the last one
        body, type = self.bodies[b"CONSTRUCT" in form]
        body = b'{"head": {"vars": ["s"]}, "results": {"bindings": []}}' if again else body
        self.send_response(200)
        self.send_header("Content-Type", "application/sparql-results+json" if again else type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@cache
def _server() -> http.server.HTTPServer:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def endpoint_case(random: Random, given: Input) -> Command:
    """A SPARQL endpoint with mutated answers."""
    from kbdisk.loaders import http as requests

    requests.MAX_TRIES = 1  # what breaks off is asked again after seconds
    select, construct = _corpus("endpoint/select.json"), _corpus("endpoint/construct.nt")
    if random.random() < 0.5:
        select = mutated(random, select, [mutators.mutate_json] * 3 + WORDS)
    else:
        construct = mutated(random, construct, list(WORDS))
    types = ["application/sparql-results+json", "application/n-triples"]
    if random.random() < 0.1:
        types[random.randrange(2)] = random.choice(["text/html", "text/turtle", "application/rdf+xml", "text/csv", "x"])
    Answers.bodies = (select, types[0]), (construct, types[1])
    source = f"http://127.0.0.1:{_server().server_port}/sparql"
    skip = ["--skip-errors"] if random.random() < 0.2 else []
    if random.random() < 0.7:
        return Command([*random.choice([["inspect", "-q"], ["schema", "infer", "-q"]]), source, *skip])
    to = random.choice(["jsonl", "turtle", "csv", "ntriples"])
    target = f"out.{SUFFIX.get(to, to)}"
    return Command(["write", source, "--out", target, *skip], target, to)


# ---------------------------------------------------------------- models and runs


def run_file_case(random: Random, given: Input) -> Command:
    """A mutated run file; a training that begins by it is ended at once."""
    Path("run.toml").write_bytes(mutated(random, _corpus("run.toml"), WORDS))
    shutil.copy(CORPUS / "ships.jsonl", "kb.jsonl")
    return Command(
        ["train", "-q", "kb.jsonl", "--config", "run.toml", "--budget", "1s", "--out", "m.kbdisk"], "m.kbdisk", "model"
    )


def model_case(random: Random, given: Input) -> Command:
    """A model folder in which a file was changed, by accident or by somebody who mends the checksums."""
    assert given.model is not None
    shutil.copytree(given.model, "m.kbdisk")
    names = sorted(path.name for path in Path("m.kbdisk").iterdir())
    name = random.choice(names)
    path = Path("m.kbdisk", name)
    structured = (
        [mutators.mutate_json] * 3
        if name.endswith(".json")
        else [mutators.mutate_yaml]
        if name.endswith(".yaml")
        else []
    )
    path.write_bytes(mutated(random, path.read_bytes(), [*structured, _mutate_head] if structured else [_mutate_head]))
    if random.random() < 0.85:
        mend_checksums(name)
    (Path("kb.jsonl")).write_bytes(
        b"".join((CORPUS.parents[2] / "examples/phones.jsonl").read_bytes().splitlines(keepends=True)[:4])
    )
    return random.choice(
        [
            Command(["show", "m.kbdisk"]),
            Command(["show", "-v", "m.kbdisk"]),
            Command(["complete", "-q", "kb.jsonl", "--model", "m.kbdisk", "--dry-run"]),
            Command(["complete", "-q", "kb.jsonl", "--model", "m.kbdisk", "--out", "out.jsonl"], "out.jsonl", "jsonl"),
            Command(["evaluate", "-q", "m.kbdisk", "kb.jsonl", "--limit", "1", "--only", "weight"]),
            Command(["sample", "m.kbdisk", "-n", "1", "--out", "out.jsonl"], "out.jsonl", "jsonl"),
        ]
    )


def _mutate_head(random: Random, data: bytes) -> bytes:
    """Faults in the first kilobytes, where safetensors say what they hold."""
    return mutators.mutate_tokens(random, data[:2000]) + data[2000:]


def mend_checksums(name: str) -> None:
    """Let config.json vouch for what stands there now."""
    import hashlib

    from kbdisk.store.files import CONFIG, checksum

    try:
        config = json.loads(Path("m.kbdisk", CONFIG).read_bytes())
        data = Path("m.kbdisk", name).read_bytes()
        if name in config["files"]:
            config["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        config["checksum"] = checksum(config)
        Path("m.kbdisk", CONFIG).write_text(json.dumps(config))
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return  # it is broken in another way


def checkpoint_case(random: Random, given: Input) -> Command:
    """A run that was stopped, a file of which was changed before it goes on."""
    shutil.copytree(stopped(), ".", dirs_exist_ok=True)
    folder = Path("m.kbdisk.training")
    path = random.choice([folder / "state.json", *sorted(folder.iterdir())])
    structured = [mutators.mutate_json] * 6 if path.suffix == ".json" else []
    path.write_bytes(mutated(random, path.read_bytes(), [*structured, _mutate_head]))
    return Command(
        ["train", "-q", "kb.jsonl", "--config", "run.toml", "--out", "m.kbdisk", "--resume"], "m.kbdisk", "model"
    )


@cache
def stopped() -> Path:
    """A folder with a source, a run file, and a run that was stopped after three steps."""
    import kbdisk

    def watch(progress: Any) -> None:
        if progress.step == 3:
            signal.raise_signal(signal.SIGINT)

    folder = Path(tempfile.mkdtemp(prefix="kbdisk-fuzz-stopped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = [{"id": f"p{n}", "x": n / 7, "y": n % 5, "c": "uvw"[n % 3]} for n in range(40)]
    with chdir(folder):
        Path("kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path("run.toml").write_bytes(_corpus("run.toml"))
        with suppress(KeyboardInterrupt):
            kbdisk.train("kb.jsonl", config="run.toml", out="m.kbdisk", watch=watch)
        assert Path("m.kbdisk.training/state.json").exists()
    return folder


def completing_case(random: Random, given: Input) -> Command:
    """A sound model, and a mutated source that it completes."""
    assert given.model is not None
    head = b"".join((CORPUS.parents[2] / "examples/phones.jsonl").read_bytes().splitlines(keepends=True)[:4])
    Path("kb.jsonl").write_bytes(mutated(random, head, [mutators.mutate_json_lines] * 5 + WORDS))
    model = str(given.model)
    if random.random() < 0.6:
        return Command(["complete", "-q", "kb.jsonl", "--model", model, "--dry-run"])
    to = random.choice(["jsonl", "json", "csv", "turtle", "parquet"])
    target = f"out.{SUFFIX.get(to, to)}"
    return Command(["complete", "-q", "kb.jsonl", "--model", model, "--out", target], target, to)


KINDS: dict[str, Kind] = {
    **{name: Kind(source_case) for name in SOURCES},
    "compressed": Kind(compressed_case),
    "parquet": Kind(parquet_case),
    "values": Kind(values_case),
    "sidecar": Kind(sidecar_case),
    "context": Kind(context_case),
    "schema": Kind(schema_case),
    **{name: Kind(import_case) for name in IMPORTS},
    "endpoint": Kind(endpoint_case),
    "run-file": Kind(run_file_case, 1, needs_model=True),
    "model": Kind(model_case, 2, needs_model=True),
    "checkpoint": Kind(checkpoint_case, 1, needs_model=True),
    "completing": Kind(completing_case, 2, needs_model=True),
}


def cases(first: int, count: int, only: str | None = None, with_models: bool = True) -> Iterator[str]:
    """So many names of cases, all kinds in turn, the seeds from `first` on."""
    round = [
        name
        for name, kind in KINDS.items()
        if (only is None or name == only) and (with_models or not kind.needs_model)
        for _ in range(kind.weight)
    ]
    for number in range(count):
        yield f"{round[number % len(round)]}:{first + number}"
