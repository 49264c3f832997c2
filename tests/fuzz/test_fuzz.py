"""Whatever stands in a file, a command says so in one line, loses nothing, and leaves nothing behind.

One case alone: `python tests/fuzz/run.py turtle:17 --keep DIR`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import cases

from kbdisk.loaders import FORMATS

SCRIPT = Path(__file__).with_name("run.py")
AGAIN = "python tests/fuzz/run.py {} --keep DIR"


def complaints(names, model=None):
    results = [cases.run_case(name, model) for name in names]
    return [(AGAIN.format(result.case), result.command, result.faults) for result in results if result.faults]


def test_mutated_files_are_read_or_refused_in_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert complaints(cases.cases(0, 200, with_models=False)) == []


def test_mutated_model_folders_are_opened_or_refused_in_one_line(monkeypatch, tiny_folder):
    monkeypatch.setenv("COLUMNS", "80")
    assert complaints(cases.cases(0, 12, "model"), tiny_folder) == []


def test_the_files_that_are_mutated_are_sound():
    for kind, text in cases.SOURCES.items():
        for name in text.files:
            status, _, err = cases.call(["inspect", "-q", str(cases.CORPUS / name), "--from", kind])
            assert (status, err) == (0, ""), name
    for kind, text in cases.IMPORTS.items():
        status, out, err = cases.call(["schema", "import", "-q", str(cases.CORPUS / text.files[0]), "--from", kind])
        assert (status, err) == (0, ""), kind
        assert out.startswith("kbdisk: 1\n")


def test_every_format_that_is_read_is_mutated():
    written_only = {"sparql-update", "quickstatements"}
    assert FORMATS.keys() - written_only - {"sparql"} == {*cases.SOURCES, "parquet"}
    assert "endpoint" in cases.KINDS  # sparql


def test_a_case_is_the_same_each_time_it_is_run(tmp_path):
    for kind in cases.SOURCES:
        name = f"{kind}:7"
        first, second = tmp_path / f"{kind}-1", tmp_path / f"{kind}-2"
        for folder in (first, second):
            folder.mkdir()
            cases.run_case(name, keep=folder)
        assert {path.name: path.read_bytes() for path in first.iterdir()} == {
            path.name: path.read_bytes() for path in second.iterdir()
        }


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_thousand_mutated_files_are_read_or_refused_within_ten_seconds_and_a_gigabyte(tmp_path):
    command = [sys.executable, str(SCRIPT), "20000", "--first", "1000000", "--model", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print(ended.stdout)
