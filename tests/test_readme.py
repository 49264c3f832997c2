"""The README tells the truth: its transcripts and programs run, its words for things exist.

In a `console` block the lines after `$ command` are what the command prints, on either stream; a line of
`...` alone stands for any number of lines. A `python` block is run, and prints the `text` block after it.

What a model says is never twice the same: in `trained` blocks any number stands for any other, a row of a table for
its first cell, the bars of a chart for any bars. What is trained is trained for some seconds.

All is run in one folder, from the first block to the last, as a reader would: what takes no training often, all of it
where there is time.
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
BLOCKS = re.findall(r"^```(\w+)( trained)?\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
KBDISK = """#!/bin/sh
case "$*" in
    train*|complete*) case "$*" in *--model*) ;; *) set -- "$@" --preset fast --budget 10s ;; esac ;;
esac
exec {python} -m kbdisk "$@"
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with the examples, where `kbdisk` is this one, and trains for some seconds."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.kbdisk*"))
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "kbdisk").write_text(KBDISK.format(python=sys.executable))
    (bin / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for one in bin.iterdir():
        one.chmod(0o755)
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


def anyhow(text: str) -> str:
    """What a model says, without what differs from one training to the next."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        told = re.sub(r"[-+<]?\d(?:[\d,.]*\d)?", "#", line).replace(", the best after #", "")
        if line.startswith(" " * 30):  # a cell goes on
            continue
        if line.startswith("{") or re.match(r"(below |from )?#( … #)?  ", told):
            told = told[0] if told[0] == "{" else "#"
        elif "#" in told and "  " in told.strip():
            told = re.split("  +", told)[0]
        told = " ".join(told.split())
        if not (told == "#" and lines[-1:] == ["#"]):
            lines.append(told)
    return "\n".join(lines) + "\n"


def check(command: str, expected: str, folder: Path, *, trained: bool) -> None:
    """Run a command of a transcript in a folder, and compare what it prints."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wanted, printed = (anyhow(one) if trained else one.strip() + "\n" for one in (expected, done.stdout))
    assert re.fullmatch(as_pattern(wanted), printed), f"$ {command}\n{done.stdout}\n{printed}\ninstead of\n{wanted}"


def check_program(program: str, expected: str, folder: Path, *, trained: bool) -> None:
    """Run a program in a folder, and compare what it prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if trained:
        assert anyhow(done.stdout) == anyhow(expected), done.stdout
    else:
        assert done.stdout == expected


def follow(place: Path, *, training: bool) -> None:
    """Do all that the README says, from the first block to the last; without training what needs none."""
    for (language, trained, text), (_, _, after) in zip(BLOCKS, [*BLOCKS[1:], ("", "", "")], strict=True):
        if trained and not training:
            continue
        if language == "console":
            for command, expected in commands(text):
                check(command, expected, place, trained=bool(trained))
        elif language == "python":
            check_program(text, after, place, trained=bool(trained))


def test_what_needs_no_training_is_what_happens(place):
    follow(place, training=False)


@pytest.mark.slow
def test_all_of_it_in_order_is_what_happens(place):
    follow(place, training=True)


def test_the_best_step_may_be_the_last_one():
    assert anyhow("541 steps, the best after 370, in 69 s") == anyhow("28 steps, in 6 s")


def test_no_file_is_written_twice():
    code = "\n".join(text for language, _, text in BLOCKS if language in ("console", "python"))
    written = re.findall(r'--out (\S+)|\.write\((?:.*, )?"(.+?)"\)|(?<=> )(\S+\.\w+)$', code, re.MULTILINE)
    names = ["".join(one) for one in written]
    assert len(names) > 6
    assert len(names) == len(set(names)), names


def test_there_is_code_in_the_first_twelve_lines():
    assert any(line.startswith("```") for line in README.splitlines()[:12])


def test_every_command_and_make_target_that_is_named_exists_and_every_one_is_named():
    named = set(re.findall(r"\bkbdisk (inspect|write|[a-z]+)\b(?= [\w\-/.]|`)", README))
    assert set(main.commands) <= named
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)\b(?=`|\s+#|\n)", README)) <= targets


def test_every_file_in_the_tree_that_is_shown_exists():
    tree = next(text for language, _, text in BLOCKS if language == "tree")
    folder = ROOT
    for line in tree.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = ROOT / name
        assert (folder / name if line.startswith(" ") else folder).exists(), line
