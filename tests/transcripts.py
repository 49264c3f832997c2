"""Runs the blocks of a page of documentation, and compares what they print with what the page shows.

In a `console` block the lines after `$ command` are what the command prints, on either stream; a line of `...` alone stands
for any number of lines. A `python` block is run, and prints the `text` block after it.

A model never says the same twice: in `trained` blocks any number stands for any other, a row of a table for its first cell,
the bars of a chart for any bars. Training takes some seconds, whatever budget the page names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)(?: (trained))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A cell that goes on; what is not printed after a short training; what is printed where it was too short for this machine.
UNSTEADY = (" " * 30, "of held-out values with such", "took ", "left out for lack of time", "plan: ")
KBDISK = """#!/bin/sh
case "$*" in
    train*|complete*) case "$*" in *--model*) ;; *) set -- "$@" --preset fast --budget 10s ;; esac ;;
esac
exec {python} -m kbdisk "$@"
"""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    is_trained: bool  # whether it needs a model, which is trained
    text: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(language, bool(trained), text) for language, trained, text in BLOCK.findall(page)]


@pytest.fixture
def reader_folder(tmp_path, monkeypatch) -> Path:
    """A folder with the examples, where the command `kbdisk` is the one under test, and trains for some seconds."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.kbdisk*"))
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "kbdisk").write_text(KBDISK.format(python=sys.executable))
    (bin / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in bin.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def commands(console: str) -> list[tuple[str, str]]:
    """Each command of a transcript with what it prints."""
    parts = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)
    assert parts[0] == "", "a transcript begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def as_pattern(expected: str) -> str:
    """A regular expression of what a command prints, in which a line of `...` stands for any lines."""
    pieces = re.split(r"^\.\.\.\n", expected.strip() + "\n", flags=re.MULTILINE)
    return r"(?:.*\n)*?".join(map(re.escape, pieces))


def without_numbers(text: str) -> str:
    """What a model says, without what differs from one training to the next."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        masked = re.sub(r"[-+<]?\d(?:[\d,.]*\d)?", "#", line).replace(", the best after #", "")
        if line.startswith(UNSTEADY):
            continue
        masked = re.sub(r"# (gap|value|entit)(s|y|ies)?\b", r"# \1", masked)
        if line.startswith("{") or re.match(r"(below |from )?#( … #)?  ", masked):
            masked = masked[0] if masked[0] == "{" else "#"
        elif "#" in masked and "  " in masked.strip():
            masked = re.split("  +", masked)[0]
        masked = " ".join(masked.split())
        if not (masked == "#" and lines[-1:] == ["#"]):
            lines.append(masked)
    return "\n".join(lines) + "\n"


def check_command(command: str, expected: str, folder: Path, *, trained: bool) -> None:
    """Run a command of a transcript in a folder, and compare what it prints."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wanted, printed = (without_numbers(text) if trained else text.strip() + "\n" for text in (expected, done.stdout))
    assert re.fullmatch(as_pattern(wanted), printed), f"$ {command}\n{done.stdout}\n{printed}\ninstead of\n{wanted}"


def check_program(program: str, expected: str, folder: Path, *, trained: bool) -> None:
    """Run a program in a folder, and compare what it prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if trained:
        assert without_numbers(done.stdout) == without_numbers(expected), done.stdout
    else:
        assert done.stdout == expected


def follow(page: str, folder: Path, *, training: bool) -> None:
    """Do all that a page shows, from the first block to the last; without `training`, what needs no model."""
    blocks = blocks_of(page)
    for block, after in zip(blocks, [*blocks[1:], Block("", False, "")], strict=True):
        if block.is_trained and not training:
            continue
        if block.language == "console":
            for command, expected in commands(block.text):
                check_command(command, expected, folder, trained=block.is_trained)
        elif block.language == "python":
            expected = after.text if after.language == "text" else ""
            check_program(block.text, expected, folder, trained=block.is_trained)
