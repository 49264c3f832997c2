"""Many files in a store that fsspec opens: the bytes of files on this machine, and one line for what a store says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from crash.processes import command, status
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from test_bulk import SHARDS, completed_alone, contents, write_shards

import kbdisk
from kbdisk.api.stores import RemoteFiles
from kbdisk.errors import ConfigError, KBDiskWarning, LoadError, WriteError

DONE = "memory://kb/done/"
STORED = "memory://kb/shards/*.jsonl"
complete_shards = partial(kbdisk.complete_shards, model="phones.kbdisk")


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_folder) -> Path:
    """A folder with a model of the phones; some of their shards are there and in a store in memory."""
    shutil.copytree(tiny_folder, tmp_path / "phones.kbdisk")
    write_shards(tmp_path / "shards", SHARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    for file in Path("shards").iterdir():
        put(f"memory://kb/shards/{file.name}", file.read_bytes())
    return tmp_path


def put(name: str, content: bytes) -> None:
    with fsspec.open(name, "wb") as stream:
        stream.write(content)


def stored(folder: str = DONE) -> dict[str, bytes]:
    """The files of a folder in memory, without the records of a job."""
    files = MemoryFileSystem()
    return {name.rpartition("/")[2]: files.cat_file(name) for name in files.find(folder, maxdepth=1)}


def shard(name: str) -> str:
    return f"memory://kb/shards/{name}"


@pytest.mark.parametrize("sources", [STORED, "shards/*.jsonl"])
def test_a_store_gets_the_bytes_of_a_folder(place, sources):
    assert len(complete_shards(sources, DONE).done) == SHARDS
    assert stored() == completed_alone(place)


def test_shards_of_a_store_are_completed_into_a_folder(place):
    summary = complete_shards(STORED, "done")
    assert [result.source for result in summary.done] == [shard(f"{number:02}.jsonl") for number in range(SHARDS)]
    assert contents("done") == completed_alone(place)


def test_the_command_completes_a_store(run, place):
    status, out, err = run("complete", STORED, "--model", "phones.kbdisk", "--out", DONE)
    assert (status, out) == (0, "")
    assert err.startswith(f"wrote {SHARDS} files to {DONE} (0 skipped, 0 failed): 9 entities, ")


def test_what_is_done_in_a_store_is_skipped_and_what_is_missing_is_made(place):
    complete_shards(STORED, DONE)
    whole = stored()
    MemoryFileSystem().rm("/kb/done/01.jsonl")
    summary = complete_shards(STORED, DONE)
    assert [len(summary.done), len(summary.skipped)] == [1, SHARDS - 1]
    assert stored() == whole


def test_a_shard_that_is_the_same_by_its_content_is_skipped_and_a_changed_one_refused(place):
    complete_shards(STORED, DONE)
    content = MemoryFileSystem().cat_file("/kb/shards/00.jsonl")
    put(shard("00.jsonl"), content)  # at another time
    assert len(complete_shards(STORED, DONE).skipped) == SHARDS
    put(shard("00.jsonl"), content.replace(b"Motorola", b"motorola"))
    with pytest.raises(WriteError, match=f"was made of {shard('00.jsonl')} as it was before a change"):
        complete_shards(STORED, DONE)
    summary = complete_shards(STORED, DONE, force=True)
    assert [len(summary.done), len(summary.skipped)] == [1, SHARDS - 1]


def test_a_target_that_was_edited_in_a_store_is_refused(place):
    complete_shards(STORED, DONE)
    put(f"{DONE}01.jsonl", b"{}")
    with pytest.raises(WriteError, match=f"{DONE}01.jsonl: was changed since it was made"):
        complete_shards(STORED, DONE)


def test_provenance_beside_a_shard_goes_along(place):
    shutil.copytree("shards", "again")
    kbdisk.complete_shards(
        "shards/00.jsonl", "again", model="phones.kbdisk", force=True, fill="all", min_confidence=0.0
    )
    assert Path("again/00.jsonl.provenance.jsonl").stat().st_size
    for file in Path("again").glob("0*"):
        put(f"memory://kb/again/{file.name}", file.read_bytes())
    complete_shards("memory://kb/again/*.jsonl", DONE)
    kbdisk.complete_shards("again/*.jsonl", "local", model="phones.kbdisk")
    assert stored() == contents("local")


def test_a_job_that_was_killed_while_it_sent_a_target_goes_on(place, monkeypatch):
    whole = completed_alone(place)
    done = Path("stored/done")
    done.parent.mkdir()
    arguments = [
        "complete",
        "shards/*.jsonl",
        "--model",
        "phones.kbdisk",
        "--out",
        f"file://{place}/stored/done/",
        "-q",
    ]
    send = LocalFileSystem.put_file

    def send_half(files, local, name, **options):
        if name.endswith("/.01.jsonl.kbdisk-part"):
            Path(name.removeprefix("file://")).write_bytes(Path(local).read_bytes()[:10])
            time.sleep(3600)
        send(files, local, name, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "put_file", send_half)
        child = command(*arguments, log=place / "log")
    half = done / ".01.jsonl.kbdisk-part"
    while not half.exists() or half.stat().st_size < 10:
        assert os.waitpid(child, os.WNOHANG) == (0, 0), Path("log").read_text()
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    assert status(child) == -signal.SIGKILL
    first = contents(done)
    assert sorted(first) == ["00.jsonl", "00.jsonl.provenance.jsonl", "01.jsonl.provenance.jsonl"]
    assert all(whole[name] == content for name, content in first.items())
    assert status(command(*arguments, log=place / "log")) == 0, Path("log").read_text()
    assert contents(done) == whole
    assert not half.exists()


def test_a_target_that_could_not_be_sent_is_not_there_and_others_are(place, monkeypatch):
    whole = completed_alone(place)
    Path("stored").mkdir()
    out = f"file://{place}/stored/done/"
    send = LocalFileSystem.put_file

    def fail(files, local, name, **options):
        if "01.jsonl.kbdisk" in name:
            Path(name.removeprefix("file://")).write_bytes(b"half")
            raise RuntimeError("quota\nexceeded")
        send(files, local, name, **options)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "put_file", fail)
        [failed] = complete_shards(STORED, out).failed
    assert failed.problem == f"{out}01.jsonl: cannot be written: quota exceeded."
    there = {file.name for file in Path("stored/done").iterdir() if file.is_file()}
    assert there == {name for name in whole if name != "01.jsonl"}
    assert len(complete_shards(STORED, out).done) == 1
    assert contents("stored/done") == whole


def test_a_store_that_does_not_answer_has_nothing_replaced(place, monkeypatch):
    put(f"{DONE}00.jsonl", b"somebody else's")

    def info(files, path, **options):
        raise PermissionError("denied")

    monkeypatch.setattr(MemoryFileSystem, "info", info)
    with pytest.raises(LoadError, match=f"{DONE}.*: cannot be read: denied"):
        complete_shards("shards/*.jsonl", DONE)
    assert MemoryFileSystem().cat_file("/kb/done/00.jsonl") == b"somebody else's"


@pytest.mark.parametrize(
    ("path", "pattern", "path_of_pattern", "url"),
    [
        ("/data/a.nt", "sftp://user@host/data/*", "/data/*", "sftp://user@host/data/a.nt"),
        ("kb/a.nt", "s3://kb/*", "kb/*", "s3://kb/a.nt"),
        ("c/a.nt", "abfs://c@account.example/*", "c/*", "abfs://c/a.nt"),
    ],
)
def test_names_keep_the_host_of_a_pattern(path, pattern, path_of_pattern, url):
    files = SimpleNamespace(
        _strip_protocol=lambda name: path_of_pattern, unstrip_protocol=lambda path: f"abfs://{path}"
    )
    assert RemoteFiles(files, "any")._url(path, pattern) == url


def test_a_source_that_changes_while_it_is_completed_is_not_taken_for_done(place, monkeypatch):
    get = MemoryFileSystem.get_file

    def get_and_change(files, name, local, **options):
        get(files, name, local, **options)
        if name.endswith("00.jsonl"):
            put(shard("00.jsonl"), Path(local).read_bytes().replace(b"Motorola", b"motorola"))

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "get_file", get_and_change)
        complete_shards(shard("00.jsonl"), DONE)
    with pytest.raises(WriteError, match="as it was before a change"):
        complete_shards(shard("00.jsonl"), DONE)


def test_several_processes_need_one_time_in_a_store(place, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(complete_shards(STORED, DONE).done) == 1
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH: expected the time of the job"):
        complete_shards(STORED, DONE)


def test_messages_name_the_files_of_the_store(place):
    put(shard("01.jsonl"), b'{"id": "a"}\n{"id": ')
    line = json.dumps({"id": "x", "brand": "No Such", "weight": "120 g"}).encode()
    put(shard("02.jsonl"), line.replace(b'"id": "x"', b'"id": "x", "id": "y"'))
    with pytest.warns(KBDiskWarning) as caught:
        summary = complete_shards(STORED, DONE)
    assert summary.failed[0].problem.startswith(f"{shard('01.jsonl')}:2: ")
    assert any(str(warning.message).startswith(f"{shard('02.jsonl')}:1: ") for warning in caught)


@pytest.mark.parametrize(
    ("sources", "out", "complaint"),
    [
        ("memory://kb/none/*.jsonl", DONE, r"memory://kb/none/\*\.jsonl: no file matches this pattern\."),
        ("memory://kb/none", DONE, "memory://kb/none: no such file."),
        ("memory://kb/shards", DONE, r"expected a file, got a directory. Name the files in it: memory://kb/shards/\*"),
        (STORED, "memory://kb/shards/", r"00\.jsonl: is the shard itself\. Choose another folder\."),
        (
            "shards/*",
            f"file://{Path(__file__).parent}/none/done/",
            "none/done/: cannot be made: no such file, folder or bucket.",
        ),
        ("nosuch://kb/*", DONE, r"nosuch://kb/\*: cannot be opened: Protocol not known: nosuch\."),
        ("https://example.org/a", DONE, "expected a file, as each shard is read again where a job goes on."),
    ],
)
def test_what_makes_no_sense_in_a_store_is_refused_before_any_work(place, sources, out, complaint):
    before = MemoryFileSystem().find("/")
    with pytest.raises((ConfigError, LoadError, WriteError), match=complaint):
        complete_shards(sources, out)
    assert MemoryFileSystem().find("/") == before


def test_a_shard_that_vanished_since_it_was_listed_is_one_line(place, monkeypatch):
    listed = MemoryFileSystem.glob

    def glob(files, *args, **options):
        found = listed(files, *args, **options)
        files.rm_file("/kb/shards/02.jsonl")
        return found

    monkeypatch.setattr(MemoryFileSystem, "glob", glob)
    assert [result.problem for result in complete_shards(STORED, DONE).failed] == [
        f"{shard('02.jsonl')}: cannot be read: no such file, folder or bucket."
    ]


def test_packages_that_are_not_installed_are_named(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ConfigError, match=r"s3://kb/\*: the package of s3:// is not installed: .*s3fs"):
        complete_shards("s3://kb/*", "done")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigError, match=r"Run: pip install 'kbdisk\[remote\]'"):
        complete_shards(STORED, "done")
