"""Whatever call of the system fails, or is the last one: a target is the old file or the new one, and nothing stays beside it."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.disk import STOPPED, Disk

import kbdisk
from kbdisk.cli import main
from kbdisk.store.files import refuse_output_path
from kbdisk.store.folder import save

SOURCE = b"<http://e/a> <http://e/p> 1 ; <http://e/q> 2 .\n<http://e/b> <http://e/p> 2 .\n"
VALUE = '{"id": "http://e/b", "path": "q", "value": 3}\n'
PHONES = Path(__file__).parents[2] / "examples" / "phones.jsonl"
ERRORS = [errno.ENOSPC, errno.EIO]


def command(*arguments: str) -> int:
    """The exit status of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments), prog_name="kbdisk")
    return ended.value.code


def failure(work: Callable[[], object]) -> str | None:
    """What a user is told of a call that fails."""
    try:
        work()
    except kbdisk.KBDiskError as error:
        return str(error)
    return None


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden or not."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def writes(folder: Path, source: str, out: str) -> Callable[[], int]:
    """A command that puts a value into a source, which is made anew."""
    text = SOURCE if source.endswith(".ttl") else b"id,size,weight\na,1,\nb,2,\n"
    value = VALUE if source.endswith(".ttl") else '{"id": "a", "path": "weight", "value": 3}\n'
    beside = folder.parent / f"{folder.name}.values"
    beside.write_text(value)
    for one in folder.iterdir():
        one.unlink()
    (folder / source).write_bytes(text)
    how = ("--in-place",) if source == out else ("--force",)
    id = () if source.endswith(".ttl") else ("--id", "id")
    if source != out:
        (folder / out).write_bytes(b"old")
    words = ("write", str(folder / source), "--values", str(beside), "--out", str(folder / out), *how, *id, "-q")
    return lambda: command(*words)


CASES = [("kb.ttl", "kb.ttl"), ("kb.csv", "done.csv.gz")]


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "folder"
    place.mkdir()
    return place


def unharmed(before: dict[str, bytes], after: dict[str, bytes], now: dict[str, bytes], out: str) -> bool:
    """Whether the target is the old or the new one, and all else is as it was before or will be after."""
    known = all(data in (before.get(name), after.get(name)) for name, data in now.items() if name in before | after)
    return out in now and known and before.keys() <= now.keys()


@pytest.mark.parametrize(("source", "out"), CASES)
def test_whatever_call_fails_the_target_is_the_old_or_the_new_file_and_nothing_stays(source, out, folder, capfd):
    go = writes(folder, source, out)
    before = contents(folder)
    with Disk(folder) as disk:
        assert go() == 0
    after = contents(folder)
    assert {"open", "write", "fsync", "replace"} <= set(disk.calls)
    capfd.readouterr()
    for number, call in enumerate(disk.calls):
        for error in ERRORS if call == "write" else ERRORS[:1]:
            go = writes(folder, source, out)
            with Disk(folder, fail_at=number, error=error):
                status = go()
            now, err = contents(folder), capfd.readouterr().err
            place = f"{call}, the {number}th call"
            assert (status, err.count("\n")) in ((2, 1), (0, 0)), (place, err)
            assert unharmed(before, after, now, out), place
            assert status or now[out] == after[out], place
            if call != "unlink":  # what cannot be removed stays until the next run
                assert now.keys() <= before.keys() | after.keys(), place
            assert go() == (1 if out == source and now[out] == after[out] else 0), (
                place
            )  # then the value is there already
            assert contents(folder).keys() - {f"{source}.before-2"} == after.keys(), place
            capfd.readouterr()


@pytest.mark.parametrize(("source", "out"), CASES)
def test_at_whatever_call_the_process_ends_the_next_run_finds_old_or_new_and_removes_the_rest(
    source, out, folder, capfd
):
    go = writes(folder, source, out)
    before = contents(folder)
    with Disk(folder) as disk:
        assert go() == 0
    after = contents(folder)
    for number, call in enumerate(disk.calls):
        go = writes(folder, source, out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads, which the child does not need
            child = os.fork()
        if not child:
            with Disk(folder, stop_at=number):
                go()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == STOPPED
        assert unharmed(before, after, contents(folder), out), (call, number)
        go()
        assert contents(folder).keys() - {f"{source}.before-2"} == after.keys(), (call, number)


def losses_are_safe(disk: Disk, target: Path, old: bytes | None, new: bytes) -> None:
    """Assert that at no moment a loss of power harms a target, and that at the end it is the new one for certain."""
    for number, several in enumerate(disk.losses):
        for left in several:
            assert left.get(target, old) in (old, new), f"after {disk.calls[: number + 1]}"
    assert [left.get(target) for left in disk.losses[-1]] == [new, new]


@pytest.mark.parametrize(("source", "out"), CASES)
def test_a_loss_of_power_at_any_moment_leaves_the_old_or_the_new_file(source, out, folder):
    go = writes(folder, source, out)
    old = (folder / out).read_bytes()
    with Disk(folder) as disk:
        assert go() == 0
    losses_are_safe(disk, folder / out, old, (folder / out).read_bytes())
    if source == out:
        losses_are_safe(disk, folder / f"{out}.before", None, old)


def test_a_schema_is_written_whole_or_not_at_all(folder):
    schema, target = kbdisk.infer(str(PHONES)).schema, folder / "kb.yaml"
    with Disk(folder) as disk:
        target.write_bytes(b"old")
        schema.write(target)
    new = target.read_bytes()
    for number, _ in enumerate(disk.calls):
        target.write_bytes(b"old")
        with Disk(folder, fail_at=number, error=errno.ENOSPC):
            told = failure(lambda: schema.write(target))
        assert told is None or "cannot be written: " in told
        assert target.read_bytes() in (b"old", new)
    schema.write(target)
    assert contents(folder) == {"kb.yaml": new}
    target.write_bytes(b"old")
    with Disk(folder) as disk:
        schema.write(target)
    losses_are_safe(disk, target, b"old", new)


def test_a_model_folder_is_the_old_or_the_new_one_whatever_call_fails(tiny_model, tiny_folder, folder):
    place = folder / "phones.kbdisk"
    with Disk(folder) as disk:
        save(tiny_model, place)
    names = contents(folder).keys()
    assert all(f in disk.calls for f in ("mkdir", "write", "fsync", "replace"))
    steps = [*range(0, len(disk.calls), 7), *range(len(disk.calls) - 5, len(disk.calls))]
    for number in steps:
        shutil.rmtree(place)
        shutil.copytree(tiny_folder, place)
        old = contents(folder)
        with Disk(folder, fail_at=number, error=errno.EIO):
            told = failure(lambda: save(tiny_model, place, force=True))
        assert told is None or "cannot be written: " in told
        now = contents(folder)
        assert now.keys() == names, disk.calls[number]
        assert now == old or all(data.startswith(b"{") for name, data in now.items() if name.endswith(".json"))
        refuse_output_path(place, force=True)


def test_every_file_of_a_model_is_on_the_disk_before_its_folder_has_its_name(tiny_model, folder):
    place = folder / "phones.kbdisk"
    with Disk(folder) as disk:
        save(tiny_model, place)
    new = {place / name.split("/", 1)[1]: data for name, data in contents(folder).items()}
    for several in disk.losses:
        for left in several:
            there = {path: data for path, data in left.items() if place in path.parents}
            assert not there or there == new
    written, _ = disk.losses[-1]  # this disk does not carry what a folder holds along when the folder is renamed
    assert all(written[path] == data for path, data in new.items())
    assert "fsync" in disk.calls[disk.calls.index("replace") :], "the folder's new name may be lost"


def completes(folder: Path, model: Path) -> Callable[[], int]:
    """A command that completes phones in place, by a model that is there."""
    for one in folder.iterdir():
        one.unlink()
    shutil.copyfile(PHONES, folder / "kb.jsonl")
    words = ("complete", str(folder / "kb.jsonl"), "--in-place", "--model", str(model), "--fill", "asked", "-q")
    return lambda: command(*words)


def test_a_completion_in_place_is_old_or_new_with_its_sidecar_after_a_loss_of_power(folder, tiny_folder):
    go = completes(folder, tiny_folder)
    target, old = folder / "kb.jsonl", PHONES.read_bytes()
    with Disk(folder) as disk:
        assert go() == 0
    new, sidecar = target.read_bytes(), folder / "kb.jsonl.provenance.jsonl"
    losses_are_safe(disk, target, old, new)
    losses_are_safe(disk, sidecar, None, sidecar.read_bytes())
    for several in disk.losses:
        for left in several:
            assert left.get(target, old) == old or (left.get(sidecar) and left.get(folder / "kb.jsonl.before"))


@pytest.mark.slow
def test_whatever_call_of_a_completion_in_place_fails_old_or_new_stays(folder, tiny_folder, capfd):
    go = completes(folder, tiny_folder)
    before = contents(folder)
    with Disk(folder) as disk:
        assert go() == 0
    after = contents(folder)
    for error in ERRORS:
        for number, call in enumerate(disk.calls):
            go = completes(folder, tiny_folder)
            capfd.readouterr()
            with Disk(folder, fail_at=number, error=error):
                status = go()
            now = contents(folder)
            assert (status, capfd.readouterr().err.count("\n")) in ((2, 1), (0, 0)), (call, number)
            assert now["kb.jsonl"] in (before["kb.jsonl"], after["kb.jsonl"]), (call, number)
            assert now["kb.jsonl"] == before["kb.jsonl"] or now.keys() >= after.keys(), (call, number)
            assert call == "unlink" or now.keys() <= after.keys(), (call, number)
