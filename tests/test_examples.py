"""The short programs of examples/ and the demo do what they say, here with a second of training."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import rdflib
from tables import for_each

import kbdisk
from kbdisk.entity import walk

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = ["api", "complete_json", "complete_rdf", "pictures", "surest"]
SOON = "0.5s"


def program(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@for_each("name", SHORT)
def test_a_program_is_short_and_says_how_it_is_run(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) < 40
    assert f"Run: python examples/{name}.py" in text


@pytest.mark.slow
def test_a_graph_is_completed_and_keeps_every_triple(tmp_path, capsys):
    program("complete_rdf").main(str(tmp_path / "completed.ttl"), SOON)
    given, completed = (rdflib.Graph().parse(file) for file in (EXAMPLES / "elements.ttl", tmp_path / "completed.ttl"))
    assert len(completed) > len(given)
    assert {one for one in given if not any(isinstance(node, rdflib.BNode) for node in one)} <= set(completed)
    assert re.fullmatch(
        rf"\d+ new values, {len(completed) - len(given)} new triples beside .*\n", capsys.readouterr().out
    )


@pytest.mark.slow
def test_dicts_are_completed_and_keep_every_value(tmp_path, capsys):
    program("complete_json").main(str(tmp_path / "completed.json"), SOON)
    completed = json.loads((tmp_path / "completed.json").read_text())
    said = capsys.readouterr().out
    new = 0
    for phone, whole in zip(kbdisk.load(EXAMPLES / "phones.jsonl"), completed, strict=True):
        filled = dict(walk(whole))
        given = {path: value for path, value in walk(phone.tree) if value is not None}
        assert given.items() <= filled.items()
        new += sum(value is not None for value in filled.values()) - len(given)
    lines = re.findall(r" = .*, \d+% sure$", said, re.MULTILINE)
    assert new >= len(lines) > 0  # a quantity is two values
    assert "nokia-8110  launch.month = " in said


@pytest.mark.slow
def test_a_model_is_asked_all_there_is_to_ask(capsys):
    program("api").main(SOON)
    said = capsys.readouterr().out
    assert "<Belief weight.value: " in said
    assert "the truth is 133 " in said
    assert "'brand': 'Nokia'" in said
    assert "a vector for each: (63, " in said


@pytest.mark.slow
def test_pictures_are_drawn(tmp_path):
    program("pictures").main(str(tmp_path), SOON)
    for name in ("belief.png", "curve.png"):
        picture = (tmp_path / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 10_000


def test_the_surest_values_come_first(tmp_path, capsys):
    row = {"id": "https://e.org/Fe", "class": "Element", "path": "mass", "property": "mass", "interval": [54.0, 58.5]}
    rows = [{**row, "value": value, "confidence": sure} for value, sure in ((1, 0.1), (55, 0.9), (2, 0.2))]
    file = tmp_path / "some.provenance.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    program("surest").main(str(file), "2")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["90%", "sure", "Fe", "mass", "55", "54", "…", "58.5"],
        ["20%", "sure", "Fe", "mass", "2", "54", "…", "58.5"],
    ]


@pytest.mark.slow
def test_the_demo_completes_the_elements_and_shows_what_it_filled(tmp_path):
    for name, command in (("kbdisk", "-m kbdisk"), ("python", "")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        # A model that has hardly been trained is sure of nothing, so that all gaps are filled.
        ["bash", EXAMPLES / "demo.sh", "--preset", "fast", "--budget", SOON, "--fill", "all"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"^wrote completed.ttl: \d+ gaps? of 266 filled, by the model in elements.ttl.kbdisk$", done.stdout, re.M
    )
    assert re.search(r"^ *\d+% sure  \w+ +\w+ +\S", done.stdout, re.M)
    assert "the same bytes" in done.stdout
    assert re.search(r"^given +1.83", done.stdout, re.M)
    assert "error" not in done.stdout.replace("expected error", "")
