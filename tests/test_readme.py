"""The README tells the truth: its transcripts and programs run, its words for things exist.

In a `console` block the lines after `$ command` are what the command prints, on either stream; a line of
`...` alone stands for any number of lines. A `python` block is run, and prints the `text` block after it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbdisk.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
CONSOLES = [text for language, text in BLOCKS if language == "console"]
PROGRAMS = [
    (text, BLOCKS[n + 1][1] if n + 1 < len(BLOCKS) and BLOCKS[n + 1][0] == "text" else "")
    for n, (language, text) in enumerate(BLOCKS)
    if language == "python"
]


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with the examples, where `kbdisk` is this one."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "kbdisk").write_text(f'#!/bin/sh\nexec {sys.executable} -m kbdisk "$@"\n')
    (bin / "kbdisk").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def commands(console: str) -> list[tuple[str, str]]:
    """Each command of a transcript with what it prints."""
    parts = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)
    assert parts[0] == "", "a transcript begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def as_pattern(expected: str) -> str:
    pieces = re.split(r"^\.\.\.\n", expected.strip() + "\n", flags=re.MULTILINE)
    return r"(?:.*\n)*?".join(map(re.escape, pieces))


@pytest.mark.parametrize("console", CONSOLES)
def test_transcripts_are_what_happens(console, place):
    for command, expected in commands(console):
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        printed = done.stdout.strip() + "\n"
        assert re.fullmatch(as_pattern(expected), printed), f"$ {command}\n{printed}"


@pytest.mark.parametrize(("program", "expected"), PROGRAMS)
def test_programs_print_what_they_are_said_to(program, expected, place):
    done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected


def test_the_demo_runs(place):
    done = subprocess.run(["bash", place / "examples" / "demo.sh"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "diff shows only what is new" in done.stdout
    changed = [line for line in done.stdout.splitlines() if line.startswith("< ")]
    assert len(changed) == 1  # the bracket that a value is set into
    assert "[ a schema:QuantitativeValue ; schema:unitText" in changed[0]


def test_there_is_code_in_the_first_twelve_lines():
    assert any(line.startswith("```") for line in README.splitlines()[:12])


def test_every_command_and_make_target_that_is_named_exists_and_every_one_is_named():
    named = set(re.findall(r"\bkbdisk (inspect|write|[a-z]+)\b(?= [\w\-/.]|`)", README))
    assert set(main.commands) <= named
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)\b(?=`|\s+#|\n)", README)) <= targets


def test_every_file_in_the_tree_that_is_shown_exists():
    tree = next(text for language, text in BLOCKS if language == "tree")
    folder = ROOT
    for line in tree.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = ROOT / name
        assert (folder / name if line.startswith(" ") else folder).exists(), line
