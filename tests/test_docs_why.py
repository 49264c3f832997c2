"""docs/why.md tells the truth: its program runs, and its screen has the lines that the command prints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from transcripts import check_program, commands

DOCS = (Path(__file__).parents[1] / "docs" / "why.md").read_text()
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL))
HEADS = re.compile(r"^(given|value|confidence|note|prediction by|similar entity|without)  ", re.MULTILINE)


@pytest.fixture
def place(tmp_path, tiny_folder, monkeypatch) -> Path:
    """A folder with the examples and a model of the phones."""
    shutil.copytree(
        Path(__file__).parents[1] / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.kbdisk*")
    )
    shutil.copytree(tiny_folder, tmp_path / "phones.kbdisk")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_prints_what_stands_below_it(place):
    check_program(BLOCKS["python"], BLOCKS["text"], place, trained=False)


def test_the_command_prints_the_lines_that_are_shown(place, run):
    [(command, screen)] = commands(BLOCKS["console"])
    status, printed, _ = run(*command.split()[1:])
    assert status == 0
    heads = HEADS.findall(printed)  # a model of five steps may be moved by nothing that is given
    assert heads == HEADS.findall(screen)[: len(heads)]
    assert heads[-1] == "without" or "No given property changes the answer." in printed
    assert printed.splitlines()[0] == screen.splitlines()[0]


def test_every_line_of_the_screen_is_explained():
    for word in (
        "confidence",
        "presence",
        "correctness",
        "not written",
        "rule",
        "prediction by",
        "similar entity",
        "without",
    ):
        assert f"**{word}**" in DOCS, word
