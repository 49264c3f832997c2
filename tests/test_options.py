"""Every option of every command that asks or makes a model: it has a help text, and a row here, or a test of its own,
that sees what it does.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import rich_click as click
from models import run_file
from tables import for_each

import kbdisk
from kbdisk.cli import main
from kbdisk.cli.options import SOURCE_OPTIONS

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMANDS = ["train", "complete", "sample", "evaluate", "belief", "why", "show", "embed"]
READING = {
    name for option in SOURCE_OPTIONS for name in option(lambda: None).__click_params__[0].opts
}  # how SOURCE is read


class Result(NamedTuple):
    """What a call of a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Calls:
    """Runs a command with an option, and without it where that is compared."""

    def __init__(self, run: Callable, command: str, base: tuple[str, ...], more: tuple[str, ...]) -> None:
        self.run, self.command, self.base, self.more = run, command, base, more

    @cached_property
    def without(self) -> Result:
        return Result(*self.run(self.command, *self.base))

    @cached_property
    def told(self) -> Result:
        return Result(*self.run(self.command, *self.base, *self.more))


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_folder) -> Path:
    """A folder with the phones, a model of them, and a small source of two classes with a schema and a short run."""
    shutil.copy(EXAMPLES / "phones.jsonl", tmp_path)
    shutil.copytree(tiny_folder, tmp_path / "phones.kbdisk")
    points = [{"id": f"p{n}", "type": ["Red", "Blue"][n % 2], "x": n / 4, "y": n % 5} for n in range(40)]
    lines = "".join(json.dumps(one) + "\n" for one in points)
    (tmp_path / "kb.jsonl").write_text(lines)
    (tmp_path / "kb.txt").write_text(lines)
    (tmp_path / "x.yaml").write_text("kbdisk: 1\nclasses: {Point: {properties: {x: number}}}\n")
    (tmp_path / "run.toml").write_text(run_file(4))
    (tmp_path / "other.toml").write_text(run_file(3))
    (tmp_path / "endless.toml").write_text(run_file(100_000))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(folder: str) -> bytes:
    return Path(folder, "model.safetensors").read_bytes()


def again(calls: Calls, folder: str = "kb.jsonl.kbdisk") -> tuple[bytes, bytes]:
    """The weights that a training makes without an option, and with it."""
    assert calls.without.status == 0, calls.without.err
    first = weights(folder)
    shutil.rmtree(folder)
    assert calls.told.status == 0, calls.told.err
    return first, weights(folder)


def facts(calls: Calls) -> dict[str, Any]:
    assert calls.told.status == 0, calls.told.err
    return json.loads(Path("kb.jsonl.kbdisk/config.json").read_text())["run"]


def properties(folder: str = "kb.jsonl.kbdisk") -> set[str]:
    of = kbdisk.Schema.read(f"{folder}/schema.yaml").classes.values()
    return {path[0] for one in of for path in one.properties}


def resumed(calls: Calls) -> bool:
    calls.told  # noqa: B018
    return "no run was stopped there: beginning one" in calls.told.err


def drawn(file: str = "new.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def sampled(calls: Calls) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What is drawn without an option, and with it."""
    assert calls.without.status == 0, calls.without.err
    first = drawn()
    Path("new.jsonl").unlink()
    assert calls.told.status == 0, calls.told.err
    return first, drawn()


def told_of_the_model(calls: Calls) -> bool:
    """Whether all is as it is without -v, but for what is said of the model on standard error."""
    said = re.search(
        r"using the model in phones\.kbdisk\nsource +examples/phones\.jsonl *\n(.*\n)*steps +5 *\n", calls.told.err
    )
    return said is not None and calls.told.out == calls.without.out and "steps" not in calls.without.err


def is_missing_device(calls: Calls) -> bool:
    return calls.told == (2, "", "error: --device: expected auto, cpu or a device that is there, got 'tpu'.\n")


TRAIN = ("kb.jsonl", "--config", "run.toml", "--quiet")
SAMPLE = ("phones.kbdisk", "--out", "new.jsonl", "-n", "3")
EVALUATE = ("phones.kbdisk", "phones.jsonl", "--only", "weight", "--only", "launch")
WHY = ("phones.jsonl", "--model", "phones.kbdisk", "--id", "nokia-3310", "--path", "brand")
EMBED = ("phones.kbdisk", "phones.jsonl", "--out", "v.txt")
BELIEF = ("phones.kbdisk", "phones.jsonl", "--id", "nokia-3310", "--path", "brand")

# The command, the option, what else is said with and without it, what is said with it, and what is seen then.
Row = tuple[str, str, tuple[str, ...], tuple[str, ...], Callable[[Calls], bool]]
ROWS: list[Row] = [
    ("train", "--schema", TRAIN, ("--schema", "x.yaml"), lambda c: facts(c) is not None and properties() == {"x"}),
    ("train", "--out", TRAIN, ("--out", "m"), lambda c: c.told.status == 0 and weights("m") != b""),
    ("train", "--preset", TRAIN, ("--preset", "best"), lambda c: facts(c)["preset"] == "best"),
    ("train", "--budget", ("kb.jsonl", "--config", "endless.toml", "-q"), ("--budget", "1s"), lambda c: facts(c)["train"]["seconds"] == 1),
    ("train", "--steps", TRAIN, ("--steps", "6"), lambda c: (facts(c)["train"]["steps"], facts(c)["train"]["seconds"]) == (6, None)),
    ("train", "--config", TRAIN, ("--config", "other.toml"), lambda c: facts(c)["train"]["steps"] == 3),
    ("train", "--seed", TRAIN, ("--seed", "1"), lambda c: len(set(again(c))) == 2),
    ("train", "--device", TRAIN, ("--device", "tpu"), is_missing_device),
    ("train", "--resume", TRAIN, ("--resume",), resumed),
    ("train", "--force", TRAIN, ("--force",), lambda c: (c.without.status, c.run("train", *TRAIN)[0], c.told.status) == (0, 2, 0)),
    ("train", "--from", ("kb.txt", *TRAIN[1:]), ("--from", "jsonl"), lambda c: (c.without.status, c.told.status) == (2, 0)),
    ("train", "--class", TRAIN, ("--class", "Purple"), lambda c: c.told.status == 2 and "Purple" in c.told.err),
    ("train", "--json", TRAIN, ("--json",), lambda c: c.told.json["model"] == "kb.jsonl.kbdisk"),
    ("train", "--quiet", TRAIN[:3], ("--quiet",), lambda c: c.told == (0, "", "")),
    ("train", "--verbose", (*TRAIN[:3], "--force"), ("--verbose",), lambda c: len(c.told.err.splitlines()) > len(c.without.err.splitlines())),
    ("sample", "-n", SAMPLE, ("-n", "5"), lambda c: [len(one) for one in sampled(c)] == [3, 5]),
    ("sample", "--given", SAMPLE, ("--given", "brand=Nokia"), lambda c: {one["brand"] for one in sampled(c)[1]} == {"Nokia"}),
    ("sample", "--class", SAMPLE, ("--class", "Pear"), lambda c: c.told.status == 2 and "Pear" in c.told.err),
    ("sample", "--out", SAMPLE, ("--out", "-", "--to", "jsonl"), lambda c: len(c.told.out.splitlines()) == 3 and not Path("new.jsonl").exists()),
    ("sample", "--to", SAMPLE, ("--to", "csv"), lambda c: c.told.status == 0 and "brand" in Path("new.jsonl").read_text().splitlines()[0].split(",")),
    ("sample", "--text", SAMPLE, ("--text",), lambda c: ["name" in one for one in sampled(c)[1]] == [True] * 3),
    ("sample", "--leap", SAMPLE, ("--leap", "50"), lambda c: (lambda one, other: one != other)(*sampled(c))),
    ("sample", "--seed", SAMPLE, ("--seed", "1"), lambda c: (lambda one, other: one != other)(*sampled(c))),
    ("sample", "--device", SAMPLE, ("--device", "tpu"), is_missing_device),
    ("sample", "--force", SAMPLE, ("--force",), lambda c: (c.without.status, c.run("sample", *SAMPLE)[0], c.told.status) == (0, 2, 0)),
    ("sample", "--json", SAMPLE, ("--json",), lambda c: c.told.json["entities"] == 3),
    ("sample", "--quiet", SAMPLE, ("--quiet",), lambda c: c.told == (0, "", "")),
    ("sample", "--verbose", (*SAMPLE, "--force"), ("--verbose",), told_of_the_model),
    ("evaluate", "--curve", EVALUATE, ("--curve", "--limit", "3"), lambda c: re.search("path +n +constant +0 %.* all", c.told.out) is not None),
    ("evaluate", "--plot", EVALUATE, ("--plot", "curve.png", "--limit", "3"), lambda c: c.told.status == 0 and Path("curve.png").read_bytes()[:4] == b"\x89PNG"),
    ("evaluate", "--against", EVALUATE, ("--against", "gbdt"), lambda c: " gbdt " in c.told.out and " gbdt " not in c.without.out),
    ("evaluate", "--all", EVALUATE, ("--all", "--json"), lambda c: c.told.json["entities"]["asked"] == 63),
    ("evaluate", "--only", EVALUATE[:2], ("--only", "os", "--json"), lambda c: [one["path"] for one in c.told.json["rows"]] == ["os"]),
    ("evaluate", "--limit", EVALUATE, ("--limit", "2", "--json"), lambda c: max(one["n"] for one in c.told.json["rows"]) == 2),
    ("evaluate", "--whole", (*EVALUATE, "--json"), ("--whole",), lambda c: c.told.status == 0 and c.told.out != c.without.out),
    ("evaluate", "--seed", (*EVALUATE, "--limit", "2"), ("--seed", "3"), lambda c: c.told.status == 0 and c.told.out != c.without.out),
    ("evaluate", "--device", EVALUATE, ("--device", "tpu"), is_missing_device),
    ("evaluate", "--from", ("phones.kbdisk", "kb.txt"), ("--from", "jsonl"), lambda c: "format" in c.without.err and "format" not in c.told.err),
    ("evaluate", "--class", EVALUATE, ("--class", "Pear"), lambda c: c.told.status == 2 and "Pear" in c.told.err),
    ("evaluate", "--strict", EVALUATE, ("--strict",), lambda c: (c.without.status, c.told.status, c.told.out) == (0, 1, c.without.out) and "unseen label" in c.told.out),
    ("evaluate", "--json", EVALUATE, ("--json",), lambda c: c.told.json["model"] == "phones.kbdisk"),
    ("evaluate", "--quiet", EVALUATE, ("--quiet",), lambda c: (c.told.status, c.told.err, c.told.out) == (0, "", c.without.out)),
    ("evaluate", "--verbose", EVALUATE, ("--verbose",), told_of_the_model),
    ("belief", "--id", BELIEF, ("--id", "apple-iphone"), lambda c: "of apple-iphone" in c.told.out),
    ("evaluate", "--links", ("phones.kbdisk", "phones.jsonl"), ("--links",), lambda c: c.told.status == 2 and "predicts links" in c.told.err),
    ("evaluate", "--negatives", ("phones.kbdisk", "phones.jsonl"), ("--negatives", "kb.jsonl"), lambda c: c.told.status == 2 and "Say --links" in c.told.err),
    ("belief", "--path", BELIEF[:4], ("--path", "os"), lambda c: c.told.out.startswith("os  of nokia-3310")),
    ("belief", "--plot", BELIEF, ("--plot", "belief.png"), lambda c: c.told.status == 0 and Path("belief.png").read_bytes()[:4] == b"\x89PNG"),
    ("belief", "--json", BELIEF, ("--json",), lambda c: c.told.json["path"] == "brand"),
    ("belief", "--from", ("phones.kbdisk", "kb.txt", *BELIEF[2:]), ("--from", "jsonl"), lambda c: "format" in c.without.err and "no entity" in c.told.err),
    ("belief", "--device", BELIEF, ("--device", "tpu"), is_missing_device),
    ("belief", "--id-path", BELIEF, ("--id-path", "name", "--id", "3310"), lambda c: c.told.status == 0 and c.told.out.startswith("brand  of 3310, ")),
    ("belief", "--quiet", BELIEF, ("--quiet",), lambda c: (c.told.status, c.told.err, c.told.out) == (0, "", c.without.out)),
    ("belief", "--verbose", BELIEF, ("--verbose",), told_of_the_model),
    ("why", "--id", WHY, ("--id", "apple-iphone"), lambda c: "of iPhone  apple-iphone" in c.told.out),
    ("why", "--path", WHY, ("--path", "os"), lambda c: c.told.out.startswith("os  of 3310  nokia-3310")),
    ("why", "--model", ("kb.txt", *WHY[3:], "--from", "jsonl"), ("--model", "phones.kbdisk"), lambda c: "--model" in c.without.err and "no entity" in c.told.err),
    ("why", "--json", WHY, ("--json",), lambda c: c.told.json["path"] == "brand"),
    ("why", "--from", ("kb.txt", *WHY[1:]), ("--from", "jsonl"), lambda c: "format" in c.without.err and "no entity" in c.told.err),
    ("why", "--device", WHY, ("--device", "tpu"), is_missing_device),
    ("why", "--id-path", WHY, ("--id-path", "name", "--id", "3310"), lambda c: c.told.status == 0 and c.told.out.startswith("brand  of 3310")),
    ("why", "--quiet", WHY, ("--quiet",), lambda c: (c.told.status, c.told.err, c.told.out) == (0, "", c.without.out)),
    ("why", "--verbose", WHY, ("--verbose",), told_of_the_model),
    ("embed", "--out", EMBED, ("--out", "other.npy"), lambda c: c.told.status == 0 and Path("other.ids.txt").exists()),
    ("embed", "--force", EMBED, ("--force",), lambda c: (c.without.status, Calls(c.run, c.command, EMBED, ()).told.status, c.told.status) == (0, 2, 0)),
    ("embed", "--json", EMBED, ("--json",), lambda c: c.told.json == {"files": ["v.txt"], "entities": 63, "width": 16, "left_out": 0}),
    ("embed", "--device", EMBED, ("--device", "tpu"), is_missing_device),
    ("embed", "--quiet", EMBED, ("--quiet",), lambda c: (c.told.status, c.told.err) == (0, "")),
    ("embed", "--verbose", EMBED, ("--verbose",), lambda c: "steps" in c.told.err),
    ("show", "--verbose", ("phones.kbdisk",), ("--verbose",), lambda c: c.told.out.startswith(c.without.out) and re.search(r"\n +5 +[\d.]+ +[\d.]+\n(.*\n)*train\.batch +16\n", c.told.out) is not None),
    ("show", "--json", ("phones.kbdisk",), ("--json",), lambda c: len(c.told.json["split"]["training"]) == 57),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "option", "base", "more", "is_seen"), ROWS, ids=lambda one: one if isinstance(one, str) else ""
)
@pytest.mark.slow
def test_an_option_does_what_it_says(command, option, base, more, is_seen, place, run):
    calls = Calls(run, command, base, more)
    assert is_seen(calls), calls.told


# ---------------------------------------------------------------- how a source is read

READ: list[tuple[tuple[str, str], str, Any]] = [
    (("--from", "jsonl"), "format", "jsonl"),
    (("--id", "meta.id"), "id", "meta.id"),
    (("--items", "data.items"), "items", "data.items"),
    (("--base", "https://e.org/"), "base", "https://e.org/"),
    (("--language", "de"), "language", "de"),
    (("--context", "https://e.org/c=context.json"), "context", {"https://e.org/c": b"{}"}),
    (("--encoding", "latin-1"), "encoding", "latin-1"),
    (("--missing", "unknown"), "missing", "unknown"),
    (("--max-size", "2.5GB"), "max_size", 2.5e9),
    (("--max-size", "none"), "max_size", math.inf),
    (("--redirects", ""), "redirects", True),
    (("--skip-errors", ""), "skip_errors", True),
    (("--class", "Phone"), "classes", ("Phone",)),
    (("--query", "SELECT * {}"), "query", "SELECT * {}"),
]
SOURCES = {
    "train": ("{}", "--config", "run.toml"),
    "complete": ("{}", "--model", "phones.kbdisk", "--dry-run"),
    "evaluate": ("phones.kbdisk", "{}"),
    "belief": ("phones.kbdisk", "{}", "--id", "x", "--path", "os"),
    "why": ("{}", "--model", "phones.kbdisk", "--id", "x", "--path", "os"),
    "embed": ("phones.kbdisk", "{}"),
}


class Read(Exception):
    """A source was about to be read."""


@for_each("command", SOURCES)
@for_each(("said", "name", "value"), READ)
def test_what_is_said_about_reading_reaches_the_loader(command, said, name, value, place, monkeypatch):
    def load(source: str, **options: Any) -> None:
        found = options[name]
        assert value in found if name == "missing" else found == value
        raise Read

    Path("context.json").write_text("{}")
    monkeypatch.setattr(kbdisk, "load", load)
    source = "https://e.org/sparql" if name in ("query", "classes") else "phones.jsonl"
    option = "--id-path" if command in ("belief", "why") and said[0] == "--id" else said[0]
    out = {"train": ("--out", "m"), "embed": ("--out", "v.txt")}.get(command, ())
    with pytest.raises(Read):
        main([command, *(one.format(source) for one in SOURCES[command]), *out, option, *filter(None, said[1:])])


# ---------------------------------------------------------------- none is forgotten


def options(command: str) -> list[click.Option]:
    return [one for one in main.commands[command].params if isinstance(one, click.Option)]


@for_each("command", [one for one in COMMANDS if one != "complete"])
def test_every_option_has_a_row(command):
    """Those of `complete` are in test_cli_complete.py, which says so itself."""
    rows = {option for of, option, *_ in ROWS if of == command}
    read = {said[0] for said, _, _ in READ} if command in SOURCES else set()
    own = {max(one.opts, key=len) for one in options(command)} - {"--help"}
    assert own <= rows | read
    assert rows <= own


def test_the_rows_about_reading_are_all_there_are():
    assert {said[0] for said, _, _ in READ} == READING


@for_each("command", main.commands)
def test_every_option_says_what_it_does(command):
    for one in options(command) if command != "schema" else []:
        assert re.match(r"[A-Za-z].*[.\])]$", one.help or ""), one.opts


@for_each("command", ["", *main.commands])
def test_no_example_of_the_help_is_too_wide_for_a_terminal(command):
    told = main.commands[command].help if command else main.help
    examples = [line.strip() for line in (told or "").splitlines() if line.strip().startswith("kbdisk ")]
    assert [line for line in examples if len(line) > 78] == []


@for_each("said", [None, "ACTIVE"])
def test_threads_that_wait_sleep_unless_the_user_wants_otherwise(said):
    told = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    told |= {} if said is None else {"OMP_WAIT_POLICY": said}
    code = "import kbdisk.cli, os; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (said or "PASSIVE")
