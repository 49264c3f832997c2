"""Data never reach a terminal raw: what would steer it, or turn what is read, is shown as an escape, by one door."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbdisk.cli import main
from kbdisk.errors import LoadError
from kbdisk.printable import in_one_line, printable

CLI = Path(__file__).parents[1] / "kbdisk" / "cli"
HOSTILE = "a\x1b]0;x\x07b\x9b31mc\u202ed\u2066e\u200ff\u2028g\x7fh[bold]i"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    name = tmp_path / f"{HOSTILE.replace('/', '')}.json"
    item = {
        "id": HOSTILE,
        "@type": HOSTILE,
        "label": HOSTILE,
        f"k{HOSTILE}": HOSTILE,
        "n": 1,
        "part": {HOSTILE: HOSTILE},
    }
    name.write_text(json.dumps([item | {"id": f"{HOSTILE}{i}", "n": i} for i in range(12)] + [{"id": "x", "n": None}]))
    return name


def test_no_command_shows_data_raw(source, tmp_path):
    schema = tmp_path / "s.yaml"
    inferred = CliRunner().invoke(main, ["schema", "infer", str(source)])
    schema.write_text(inferred.stdout)
    broken = tmp_path / f"{HOSTILE}.ttl"
    broken.write_text(f"<http://e/a> {HOSTILE}")
    for arguments in (
        ["inspect", str(source)],
        ["inspect", str(broken)],
        ["inspect", f"/nowhere/{HOSTILE}"],
        ["inspect", "--from", HOSTILE, str(source)],
        ["inspect", "--class", HOSTILE, str(source)],
        ["inspect", str(source), HOSTILE],
        ["inspect", f"--{HOSTILE}", str(source)],
        [HOSTILE],
        ["schema", "show", str(schema)],
        ["schema", "show", str(broken)],
        ["schema", "infer", str(source), "--reasons"],
        ["schema", "check", str(schema), str(source)],
        ["schema", "check", str(schema), str(broken)],
        ["schema", "import", str(source)],
        ["write", str(source), "--out", str(tmp_path / f"{HOSTILE}.nt")],
        ["write", str(broken), "--out", str(tmp_path / "x.nt")],
        ["show", str(source)],
        ["belief", str(source), HOSTILE, HOSTILE],
        ["why", str(source), "--id", HOSTILE, "--path", HOSTILE],
        ["evaluate", str(source), str(source)],
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert not RAW.search(result.output), (arguments, RAW.findall(result.output), result.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "--json"],
        pytest.param(["schema", "infer"], marks=pytest.mark.slow),
        pytest.param(["write", "--to", "jsonl", "--out", "-"], marks=pytest.mark.slow),
    ],
)
def test_data_on_standard_output_are_exact_in_a_pipe_and_escaped_on_a_terminal(source, arguments):
    command = [sys.executable, "-m", "kbdisk", *arguments, str(source)]
    piped = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert "\u202e" in piped or "schema" in arguments
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:  # what Linux says at the end
                break
            if not chunk:
                break
            shown += chunk
        os.close(ours)
    assert running.returncode == 0
    text = shown.decode().replace("\r\n", "\n")
    assert not RAW.search(text), RAW.findall(text)
    if "--json" in arguments:
        assert json.loads(text) == json.loads(piped)


def test_an_error_and_a_line_cannot_be_broken_by_data():
    assert str(LoadError("a\x1b[2J", "b\u202e")) == "a\\u001b[2J: b\\u202e"
    assert in_one_line("a\nerror: b\t\udcff") == "a\\nerror: b\\t\\udcff"
    assert printable(printable(HOSTILE)) == printable(HOSTILE)
    assert printable("é 日本 👩\u200d🚀 \u0645\u06cc\u200c\u0631\n") == "é 日本 👩\u200d🚀 \u0645\u06cc\u200c\u0631\n"


def test_no_command_goes_past_the_one_door_to_the_terminal():
    for file in sorted(CLI.glob("*.py")):
        if file.name == "screen.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "click.echo", "click.secho", "Console", "sys.stdout.write"), file
