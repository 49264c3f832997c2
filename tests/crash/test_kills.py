"""Killed at random moments, again and again: the source is whole, the target old or new, and the next run removes the rest.

The seed is printed; KBDISK_SEED=... reproduces the moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from crash.processes import command, killed, names, status

PHONES = Path(__file__).parents[2] / "examples" / "phones.jsonl"
KILLS = 100


@pytest.fixture
def moments() -> random.Random:
    seed = int(os.environ.get("KBDISK_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"KBDISK_SEED={seed}")
    return random.Random(seed)


def begun(folder: Path, log: Path) -> list[str | Path]:
    """A command that changes a source in place, which is made anew."""
    source = folder / "kb.jsonl"
    source.write_bytes(b"".join(b'{"id": "e%d", "size": null}\n' % n for n in range(2000)))
    (folder.parent / "values").write_text(
        "".join(json.dumps({"id": f"e{n}", "path": "size", "value": n}) + "\n" for n in range(2000))
    )
    return ["write", source, "--values", folder.parent / "values", "--out", source, "--in-place", "-q"]


def kill_writes(folder: Path, moments: random.Random, kills: int) -> int:
    """Kill so many writes in place, each at some moment of its way; how many were done by then."""
    log, done = folder.parent / "log", 0
    words = begun(folder, log)
    start = time.monotonic()
    assert status(command(*words, log=log)) == 0, log.read_text()
    whole, span = (folder / "kb.jsonl").read_bytes(), time.monotonic() - start
    before = folder / "kb.jsonl.before"
    for _ in range(kills):
        before.unlink(missing_ok=True)
        words = begun(folder, log)
        old = (folder / "kb.jsonl").read_bytes()
        assert killed(command(*words, log=log), moments.uniform(0, span)) in (-signal.SIGKILL, 0), log.read_text()
        now = (folder / "kb.jsonl").read_bytes()
        assert now in (old, whole)
        assert not before.exists() or before.read_bytes() == old
        done += now == whole
        assert status(command(*words, log=log)) == (1 if now == whole else 0), log.read_text()  # the values are there
        assert (folder / "kb.jsonl").read_bytes() == whole
        assert names(folder) == {"kb.jsonl", "kb.jsonl.before"}
    return done


def kill_completions(folder: Path, moments: random.Random, kills: int, budget: str) -> list[int]:
    """Kill so many completions, each at some moment of its training or after it; how many each run to its end took."""
    source, target, log, taken = folder / "kb.jsonl", folder / "done.jsonl", folder.parent / "log", [0]
    shutil.copyfile(PHONES, source)
    text = source.read_bytes()
    words = ["complete", source, "--out", target, "--force", "--preset", "fast", "--budget", budget, "-q"]
    begun = time.monotonic()
    assert status(command(*words, log=log)) == 0, log.read_text()
    span, lines = time.monotonic() - begun, target.read_bytes().count(b"\n")
    done = {"kb.jsonl", "kb.jsonl.kbdisk", "done.jsonl", "done.jsonl.provenance.jsonl"}
    assert names(folder) == done
    for turn in range(kills):
        if turn % 5 == 0 or not (folder / "kb.jsonl.kbdisk").exists():
            shutil.rmtree(folder / "kb.jsonl.kbdisk", ignore_errors=True)
        old = target.read_bytes()
        ended = killed(command(*words, log=log), moments.uniform(0, span))
        assert ended in (-signal.SIGKILL, 0), log.read_text()
        assert source.read_bytes() == text
        now = target.read_bytes()
        assert now == old or (now.count(b"\n") == lines and all(map(json.loads, now.splitlines())))
        if ended == 0 or turn % 5 == 4 or turn == kills - 1:  # now and then it may go on to its end
            assert status(command(*words, log=log)) == 0, log.read_text()
            assert names(folder) == done
            taken.append(0)
        taken[-1] += 1
    return taken


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    return place


def test_a_few_writes_in_place_that_are_killed_leave_old_or_new(folder, moments):
    kill_writes(folder, moments, 5)


@pytest.mark.slow
def test_writes_in_place_that_are_killed_leave_old_or_new(folder, moments):
    print(f"of {KILLS} killed writes {kill_writes(folder, moments, KILLS)} were done")


@pytest.mark.slow
def test_completions_that_are_killed_leave_old_or_new_and_go_on(folder, moments):
    import kbdisk.api.complete  # noqa: F401 - by the parent, once for all

    print(f"killed completions between two that went on to the end: {kill_completions(folder, moments, KILLS, '2s')}")
