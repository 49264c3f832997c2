"""One process at a time trains into a folder, and one that has died is in nobody's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbdisk.errors import CheckpointError
from kbdisk.training.lock import refuse_busy, training_lock

HOLDING = """
import sys
from pathlib import Path
from kbdisk.training.lock import training_lock
with training_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
BUSY = "m.kbdisk: another process is training it. Wait until that is done, or stop it."


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("m.kbdisk")


@pytest.fixture
def other(model):
    """Another process that has the folder to itself."""
    command = [sys.executable, "-c", HOLDING, str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def refused(model: Path) -> str:
    with pytest.raises(CheckpointError) as error, training_lock(model):
        pass
    return str(error.value)


def test_a_second_one_is_refused_until_the_first_is_done(model, other):
    assert refused(model) == BUSY
    with pytest.raises(CheckpointError):
        refuse_busy(model)
    other.communicate("")
    with training_lock(model):
        assert refused(model) == BUSY


def test_one_that_was_killed_is_in_nobodys_way(model, other):
    other.kill()
    other.wait()
    assert list(model.parent.iterdir()), "its lock is still there"
    refuse_busy(model)
    with training_lock(model):
        pass


def test_nothing_is_left_of_it(model):
    with training_lock(model), pytest.raises(CheckpointError), training_lock(model):
        pass
    assert not list(model.parent.iterdir())
    with training_lock(Path("new/folder/m.kbdisk")):
        assert Path("new/folder").is_dir()


def test_other_folders_are_free(model, other):
    with training_lock(Path("n.kbdisk")):
        pass


def test_a_place_that_cannot_be_is_told(model):
    Path("file").write_text("")
    assert refused(Path("file/m.kbdisk")).startswith("file/m.kbdisk: cannot be made: ")
