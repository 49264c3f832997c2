"""One writer at a time changes a file, whatever it is called, and a lock goes with its process."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

import kbdisk
from kbdisk import locks
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders.files import writing


def names(folder: Path) -> list[str]:
    """What stands in a folder, hidden or not."""
    return sorted(one.name for one in folder.iterdir())


def in_a_child(work) -> int:
    """Do something in a process of its own; its number, once it has begun."""
    begun, ready = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not need
        child = os.fork()
    if not child:
        try:
            work(lambda: os.write(ready, b"x"))
        finally:
            os._exit(0)
    os.close(ready)
    os.read(begun, 1)
    os.close(begun)
    return child


def hold(target: Path):
    """What locks a file until it is killed."""

    def work(ready) -> None:
        with kbdisk.locked(target):
            ready()
            signal.pause()

    return work


@pytest.fixture
def target(tmp_path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    (place / "kb.jsonl").write_text('{"id": "a", "size": null}\n')
    return place / "kb.jsonl"


def test_a_writer_waits_for_another_process_and_says_which(target, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    child = in_a_child(hold(target))
    told = []

    def wait() -> None:
        with kbdisk.locked(target):
            told.append(os.waitpid(child, 0)[0])

    def warn(message, *_, **__) -> None:
        assert str(message) == f"{target}: waiting for process {child}, which is changing it"
        os.kill(child, signal.SIGKILL)  # its lock goes with it

    monkeypatch.setattr(locks.warnings, "warn", warn)
    wait()
    assert told == [child]
    assert names(target.parent) == ["kb.jsonl"]


@pytest.mark.parametrize("way", ["link", "folder", "relative"])
def test_two_names_of_one_file_have_one_lock(way, target, tmp_path, monkeypatch):
    (tmp_path / "link.jsonl").symlink_to(target)
    (tmp_path / "other").symlink_to(target.parent)
    monkeypatch.chdir(tmp_path)
    other = {"link": tmp_path / "link.jsonl", "folder": tmp_path / "other" / target.name, "relative": "folder/kb.jsonl"}
    child = in_a_child(hold(target))
    file = locks._lock_file(other[way])
    assert file is not None
    assert locks.take(file) is None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with kbdisk.locked(other[way]):  # what the killed process left is taken, and removed
        assert names(target.parent) == [".kb.jsonl.kbdisk-lock", "kb.jsonl"]
    assert names(target.parent) == ["kb.jsonl"]


def test_a_thread_may_take_a_lock_again_and_another_one_waits(target):
    order = []

    def work() -> None:
        with kbdisk.locked(target):
            order.append("second")

    with kbdisk.locked(target):
        thread = threading.Thread(target=work)
        thread.start()
        with kbdisk.locked(target):
            order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert names(target.parent) == ["kb.jsonl"]


def test_a_forked_child_holds_no_lock_of_its_parent(target):
    with kbdisk.locked(target):
        child = in_a_child(lambda ready: (ready(), signal.pause()))
        file = locks._lock_file(target)
        assert file is not None
        assert locks.take(file) is None
    descriptor = locks.take(file)  # though the child lives
    assert descriptor is not None
    locks.release(file, descriptor)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_what_is_no_file_has_no_lock(tmp_path):
    for target in ("-", "/dev/null", str(tmp_path), "a\0b"):
        with kbdisk.locked(target):
            assert names(tmp_path) == []


def test_a_long_name_has_a_lock_of_its_own(tmp_path):
    for end in "ab":
        with kbdisk.locked(tmp_path / ("語" * 84 + end)):
            assert len(names(tmp_path)) == 1


def filled(kb: kbdisk.KB) -> list[kbdisk.Completion]:
    """A value for the first entity."""
    return [kbdisk.Completion(next(iter(kb)), {("size",): kbdisk.Filled(1)})]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("to", ["kb.jsonl", "done.jsonl"])
def test_a_source_that_changed_since_it_was_read_is_refused(when, to, target):
    kb = kbdisk.load(target)
    completions = filled(kb)
    changed = target.read_bytes() + b'{"id": "b"}\n'

    def items():
        yield from completions
        if when == "meanwhile":
            target.write_bytes(changed)

    if when == "before":
        target.write_bytes(changed)
    with pytest.raises(LoadError, match=r"kb\.jsonl: changed since it was read; run again\."):
        kbdisk.write(items(), target.with_name(to), in_place=to == target.name)
    assert target.read_bytes() == changed
    assert names(target.parent) == ["kb.jsonl"]


def test_a_source_that_was_only_touched_or_changed_by_us_is_not_refused(target):
    kb = kbdisk.load(target)
    completions = filled(kb)
    os.utime(target, ns=(1, 1))
    assert kbdisk.write(completions, target, in_place=True).written == 1
    assert kbdisk.write(kb, target.with_name("copy.jsonl")).unwritable == []


def test_a_file_with_two_names_is_not_changed_in_place(target, run):
    other = target.with_name("other.jsonl")
    other.hardlink_to(target)
    with pytest.raises(WriteError, match=r"kb\.jsonl: has 2 names \(hard links\), of which only this one would get"):
        kbdisk.write(filled(kbdisk.load(target)), target, in_place=True)
    status, out, err = run("write", target, "--out", target, "--in-place")
    assert (status, out, err.count("\n")) == (2, "", 1)
    status, _, err = run("complete", target, "--in-place")
    assert (status, err.count("\n")) == (2, 1)
    assert target.samefile(other)
    assert names(target.parent) == ["kb.jsonl", "other.jsonl"]


# ---------------------------------------------------------------- attributes


def test_what_is_replaced_keeps_its_extended_attributes_and_its_mode(target):
    target.chmod(0o604)
    try:
        os.setxattr(target, "user.origin", b"a list")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    kbdisk.write(filled(kbdisk.load(target)), target, in_place=True)
    for file in (target, target.with_name("kb.jsonl.before")):
        assert os.getxattr(file, "user.origin") == b"a list"
        assert file.stat().st_mode & 0o7777 == 0o604


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_replaces_keeps_its_owner_and_its_group(target):
    os.chown(target, 1234, 2345)
    target.chmod(0o640)
    kbdisk.write(filled(kbdisk.load(target)), target, in_place=True)
    for file in (target, target.with_name("kb.jsonl.before")):
        assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o7777) == (1234, 2345, 0o640)


@pytest.fixture
def open_folder():
    """A folder that other users may write to, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_an_owner_that_cannot_be_kept_is_told_and_another_group_may_do_no_more(open_folder):
    target = open_folder / "kb.jsonl"
    target.touch()
    os.chown(target, 1234, 2345)
    target.chmod(0o664)
    heard, says = os.pipe()

    def work(ready) -> None:
        os.setgroups([])
        os.setgid(3456)
        os.setuid(4567)
        with warnings.catch_warnings(record=True) as told, writing(target) as stream:
            warnings.simplefilter("always")
            stream.write(b"new")
            ready()
        os.write(says, "\n".join(str(one.message) for one in told).encode())

    os.waitpid(in_a_child(work), 0)
    os.close(says)
    told = os.read(heard, 1000).decode()
    os.close(heard)
    assert "belonged to user 1234, group 2345: it is yours now, as only root could keep that" in told
    now = target.stat()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o7777) == (4567, 3456, 0o644)
    assert target.read_bytes() == b"new"


# ---------------------------------------------------------------- parts


def test_a_part_of_a_killed_writer_is_removed_by_the_next_one_and_that_of_a_living_one_stays(target):
    def write(ready) -> None:
        with writing(target) as stream:
            stream.write(b"new")
            ready()
            signal.pause()

    child = in_a_child(write)
    mine = target.with_name(".kb.jsonl.download.part")  # no name of ours
    mine.touch()
    parts = [name for name in names(target.parent) if name.endswith(".part") and name != mine.name]
    assert len(parts) == 1
    with writing(target) as stream:
        stream.write(b"living")
    assert parts[0] in names(target.parent)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with writing(target) as stream:
        stream.write(b"dead")
    assert names(target.parent) == [mine.name, "kb.jsonl"]
    assert target.read_bytes() == b"dead"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("length", [254, 239])
def test_a_name_that_leaves_no_room_for_the_sidecar_is_refused_before_anything_is_written(length, target, run):
    out = target.with_name("n" * (length - 6) + ".jsonl")
    for words in (["write", target], ["complete", target, "--model", "none"]):
        status, _, err = run(*words, "--out", out)
        assert (status, err.count("\n")) == (2, 1)
        assert f"expected a name of at most 238 bytes, got {length}" in err
    with pytest.raises(WriteError, match="expected a name of at most 238 bytes"):
        kbdisk.write(kbdisk.load(target), out)
    assert names(target.parent) == ["kb.jsonl"]


def test_the_longest_name_that_has_room_is_written_and_read(target, run):
    out = target.with_name("n" * 232 + ".jsonl")
    assert run("write", target, "--out", out, "-q")[0] == 0
    assert names(target.parent) == sorted(["kb.jsonl", out.name])
    long = target.with_name("n" * 249 + ".jsonl")
    target.rename(long)
    assert run("write", long, "--out", target, "-q")[0] == 0
