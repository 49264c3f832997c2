"""Whatever call of the system fails, or is the last one, while a file is retracted or a review applied: no value stands
there that nothing tells of, and the same command then does the rest.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from completed import complete
from crash.disk import STOPPED, Disk
from crash.test_every_call import command, contents
from reviews import ACCEPT, REJECT, decide, propose

E = "http://e/"
SOURCES = {
    "kb.ttl": f"<{E}a> <{E}p> 1 ; <{E}q> 2 .\n<{E}b> <{E}p> 2 .\n<{E}c> <{E}p> 3 .",
    "kb.csv": f"id,p,q\n{E}a,1,2\n{E}b,2,\n{E}c,3,\n",
}
ERROR = errno.EIO


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def afresh(folder: Path, source: str) -> None:
    put_back(folder, {source: SOURCES[source].encode()})


def put_back(folder: Path, files: dict[str, bytes]) -> None:
    """A folder as it was with these files."""
    for file in folder.iterdir():
        file.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def retracts(folder: Path, source: str) -> Callable[[], int]:
    afresh(folder, source)
    complete(source, source, {E + "b": {"q": 5}, E + "c": {"q": 6}}, in_place=True)
    return lambda: command("retract", source, "-q")


def applies(folder: Path, source: str) -> Callable[[], int]:
    afresh(folder, source)
    propose(source, "review.csv", {E + "b": {"q": 5}, E + "c": {"q": 6}})
    decide("review.csv", ACCEPT, REJECT)
    return lambda: command("apply", "review.csv", "--in-place", "-q")


def at_every_call(
    folder: Path, prepare: Callable, source: str, **how: Any
) -> Iterator[tuple[dict[str, bytes], dict, dict]]:
    """The files before a command, after it, and where it failed or ended at one call after the other."""
    go = prepare(folder, source)
    before = contents(folder)
    assert {*before} == {file.name for file in folder.iterdir()}
    with Disk(folder) as disk:
        assert go() == 0
    after = contents(folder)
    for number in range(len(disk.calls)):
        put_back(folder, before)
        if how["ends"]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of threads, which the child does not need
                child = os.fork()
            if not child:
                with Disk(folder, stop_at=number):
                    go()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == STOPPED
        else:
            with Disk(folder, fail_at=number, error=ERROR):
                assert go() in (0, 2)
        now = contents(folder)
        yield before, after, now
        is_done = prepare is retracts and now[source] == after[source] and f"{source}.provenance.jsonl" not in now
        assert go() == (2 if is_done else 0)  # nothing tells any more that anything was filled in
        assert contents(folder)[source] == after[source]
        assert f"{source}.provenance.jsonl" in contents(folder) or f"{source}.provenance.jsonl" not in after


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_a_retraction_leaves_no_value_that_nothing_tells_of(source, ends, folder):
    sidecar = f"{source}.provenance.jsonl"
    for before, after, now in at_every_call(folder, retracts, source, ends=ends):
        assert now[source] in (before[source], after[source])
        told = source == "kb.ttl" or now.get(sidecar) == before[sidecar]  # blocks tell by themselves
        assert told or now[source] == after[source]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_an_application_leaves_no_value_that_nothing_tells_of(source, ends, folder):
    names = [f"{source}{suffix}" for suffix in (".provenance.jsonl", ".reviewed.jsonl")]
    for before, after, now in at_every_call(folder, applies, source, ends=ends):
        assert now[source] in (before[source], after[source])
        assert now[source] == before[source] or all(name in now for name in names)
