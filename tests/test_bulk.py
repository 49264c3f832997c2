"""Many files completed by one trained model: each by itself, all or not at all, the same bytes however they are distributed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from crash.processes import command, status

import kbdisk
from kbdisk.api.bulk import RECORDS
from kbdisk.errors import ConfigError, LoadError, WriteError

ROOT = Path(__file__).parents[1]
PHONES = ROOT / "examples" / "phones.jsonl"
EPOCH = "1700000000"
SHARDS, PER_SHARD = 3, 3


@pytest.fixture
def place(tmp_path, monkeypatch, tiny_folder) -> Path:
    """A folder with some shards of the phones, and a model of all phones."""
    shutil.copytree(tiny_folder, tmp_path / "phones.kbdisk")
    write_shards(tmp_path / "shards", SHARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    return tmp_path


def write_shards(folder: Path, count: int, suffix: str = "jsonl") -> None:
    """Shards with six of the phones each, from the first one on again where there are too few."""
    lines = PHONES.read_text().splitlines(keepends=True)
    folder.mkdir()
    for number in range(count):
        ring = [lines[(number * PER_SHARD + place) % len(lines)] for place in range(PER_SHARD)]
        (folder / f"{number:02}.{suffix}").write_text("".join(ring))


@pytest.fixture
def run(run):
    """Run `kbdisk complete ... --model phones.kbdisk`; returns its exit status, standard output and standard error."""
    return partial(run, "complete", "--model", "phones.kbdisk")


def contents(folder: str | Path) -> dict[str, bytes]:
    """The visible files of a folder with their bytes."""
    files = (file for file in Path(folder).iterdir() if file.is_file() and not file.name.startswith("."))
    return {file.name: file.read_bytes() for file in files}


def completed_alone(place: Path, shards: Iterable[str] = ()) -> dict[str, bytes]:
    """The files that one process makes of the shards."""
    kbdisk.complete_shards(shards or "shards/*.jsonl", "alone/", model="phones.kbdisk")
    return contents("alone")


# ---------------------------------------------------------------- what comes out


def test_each_shard_is_completed_as_it_is_by_itself(run, place):
    status, out, err = run("shards/*.jsonl", "--out", "done/")
    assert (status, out) == (0, "")
    assert err.startswith("wrote 3 files to done/ (0 skipped, 0 failed): 9 entities, ")
    for name in (f"{number:02}.jsonl" for number in range(SHARDS)):
        run(f"shards/{name}", "--out", name)
        assert Path("done", name).read_bytes() == Path(name).read_bytes()
        many, single = (rows_without_time(f"{prefix}{name}.provenance.jsonl") for prefix in ("done/", ""))
        assert many == single
    assert len(contents("done")) == 2 * SHARDS


def rows_without_time(file: str) -> list[dict]:
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert rows
    return [{key: value for key, value in row.items() if key != "time"} for row in rows]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "nt", "jsonl.zst"])
def test_a_target_has_the_name_and_the_format_of_its_shard(run, place, suffix):
    pytest.importorskip({"parquet": "pyarrow", "jsonl.zst": "zstandard"}.get(suffix, "kbdisk"))
    Path("other").mkdir()
    kbdisk.write(kbdisk.load("shards/00.jsonl"), f"other/x.{suffix}")
    status, _, err = run(f"other/*.{suffix}", "--out", "done/", "--fill", "all")
    assert status == 0, err
    before, after = kbdisk.load(f"other/x.{suffix}"), kbdisk.load(f"done/x.{suffix}")
    assert before.format == after.format
    assert len(before) == len(after) == PER_SHARD
    assert Path(f"done/x.{suffix}.provenance.jsonl").stat().st_size


def test_all_sidecars_of_a_job_have_the_time_at_which_it_began(place):
    kbdisk.complete_shards("shards/00.jsonl", "done", model="phones.kbdisk")
    os.environ["SOURCE_DATE_EPOCH"] = "1800000000"  # put back by the fixture
    kbdisk.complete_shards("shards/*.jsonl", "done", model="phones.kbdisk")
    rows = [
        json.loads(line) for file in Path("done").glob("*.provenance.jsonl") for line in file.read_text().splitlines()
    ]
    assert {row["time"] for row in rows} == {"2023-11-14T22:13:20+00:00"}


def test_json_counts_the_shards_and_lists_each(run, place):
    run("shards/00.jsonl", "--out", "done/")
    Path("shards/01.jsonl").write_text("{")
    status, out, err = run("shards/*", "--out", "done/", "--json")
    summary = json.loads(out)
    assert status == 2
    assert [summary[name] for name in ("done", "skipped", "failed")] == [1, 1, 1]
    assert [shard["status"] for shard in summary["shards"]] == ["skipped", "failed", "done"]
    assert summary["entities"] == 2 * PER_SHARD
    assert summary["filled"] == sum(shard["filled"] for shard in summary["shards"]) <= summary["missing"]
    assert err.startswith("failed: shards/01.jsonl:1: ")


# ---------------------------------------------------------------- a job that goes on


def test_what_is_done_is_skipped_and_what_is_missing_is_made(run, place):
    whole = completed_alone(place)
    run("shards/*", "--out", "done/")
    Path("done/02.jsonl").unlink()
    kept = Path("done/01.jsonl").stat().st_mtime_ns
    _, _, err = run("shards/*", "--out", "done/")
    assert "wrote 1 file to done/ (2 skipped, 0 failed): 9 entities" in err
    assert Path("done/01.jsonl").stat().st_mtime_ns == kept
    assert contents("done") == whole


def test_a_copied_shard_is_the_same_by_its_content(run, place):
    run("shards/*", "--out", "done/")
    for file in Path("shards").iterdir():
        os.utime(file, ns=(1, 1))
    assert " (3 skipped, 0 failed)" in run("shards/*", "--out", "done/")[2]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda: ["--fill", "all"], "was made with another --fill."),
        (lambda: ["--skip-errors"], "was made with another way to read it."),
        (
            lambda: append("shards/00.jsonl", '{"id": "new"}\n'),
            "was made of shards/00.jsonl as it was before a change.",
        ),
        (lambda: append("done/00.jsonl", " "), "was changed since it was made, or its sidecar was."),
        (lambda: append("done/00.jsonl.provenance.jsonl", " "), "was changed since it was made, or its sidecar was."),
        (lambda: shutil.rmtree(f"done/{RECORDS}"), "exists already, and was not made by completing shards."),
    ],
    ids=["options", "reading", "source", "target", "sidecar", "no record"],
)
def test_what_was_made_in_another_way_is_replaced_only_by_force(run, place, change, problem):
    run("shards/00.jsonl", "--out", "done/")
    options = change() or []
    before = contents("done")
    status, out, err = run("shards/00.jsonl", "--out", "done/", *options)
    assert (status, out, err) == (2, "", f"error: done/00.jsonl: {problem} Say --force to replace it.\n")
    assert contents("done") == before
    status, _, err = run("shards/00.jsonl", "--out", "done/", *options, "--force")
    assert (status, "wrote 1 file to done/ (0 skipped, 0 failed)" in err) == (0, True)
    assert " (1 skipped, 0 failed)" in run("shards/00.jsonl", "--out", "done/", *options)[2]


def append(file: str, text: str) -> None:
    with Path(file).open("a") as stream:
        stream.write(text)


def test_a_shard_that_another_model_has_made_is_replaced_only_by_force(place):
    from models import calibrated, phones, tiny

    from kbdisk.store.folder import save

    save(calibrated(tiny(*phones(), seed=1)), "other.kbdisk")
    kbdisk.complete_shards("shards/00.jsonl", "done", model="phones.kbdisk")
    with pytest.raises(WriteError, match=r"00\.jsonl: was made with another model. Say force=True to replace it"):
        kbdisk.complete_shards("shards/*", "done", model="other.kbdisk")
    assert not Path("done/01.jsonl").exists()
    assert len(kbdisk.complete_shards("shards/00.jsonl", "done", model="other.kbdisk", force=True).done) == 1


def test_a_job_that_was_killed_in_its_second_shard_goes_on(place):
    whole = completed_alone(place)
    names = sorted(str(file) for file in Path("shards").iterdir())
    content = Path(names[1]).read_bytes()
    Path(names[1]).unlink()
    os.mkfifo(names[1])  # whoever reads it waits
    arguments = ["complete", *names, "--model", "phones.kbdisk", "--out", "done/", "-q"]
    child = command(*arguments, log=place / "log")
    record = Path("done/.kbdisk-job/00.jsonl.json")
    while not record.exists() or b'"result"' not in record.read_bytes():
        assert os.waitpid(child, os.WNOHANG) == (0, 0), Path("log").read_text()
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    assert status(child) == -signal.SIGKILL
    Path(names[1]).unlink()
    Path(names[1]).write_bytes(content)
    first = Path("done/00.jsonl").read_bytes()
    assert status(command(*arguments, log=place / "log")) == 0, Path("log").read_text()
    assert Path("done/00.jsonl").read_bytes() == first
    assert contents("done") == whole


# ---------------------------------------------------------------- what goes wrong


def test_a_shard_that_cannot_be_read_does_not_stop_the_others(run, place):
    whole = completed_alone(place)
    Path("shards/01.jsonl").write_text('{"id": "a"}\n{"id": ')
    Path("shards/02.jsonl").write_text("")
    status, _, err = run("shards/*", "--out", "done/")
    assert status == 2
    *_, first, second = err.splitlines()
    assert first.startswith("failed: shards/01.jsonl:2: ")
    assert second == "failed: shards/02.jsonl: expected some data, got an empty file."
    assert contents("done") == {name: data for name, data in whole.items() if name[:2] == "00"}


def test_a_shard_unlike_the_model_fails_only_with_strict_also_where_it_is_skipped(run, place):
    shard = Path("shards/00.jsonl")
    shard.write_text(shard.read_text().replace('"brand": "Motorola"', '"brand": "No Such"'))
    assert run("shards/00.jsonl", "--out", "done/")[0] == 0
    status, out, _ = run("shards/00.jsonl", "--out", "done/", "--strict", "--json")
    summary = json.loads(out)
    assert (status, summary["skipped"], summary["unlike"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["shards/*", "--out", "done/", "--keep", "m"], "error: --keep: says how to train, and --model what was trained."),
        (["shards/*", "--out", "done/", "--steps", "1"], "error: --steps: says how to train, and --model what was"),
        (["shards/*", "--out", "done/", "--review", "r.csv"], "error: --review: is for one target, and done/ is a folder."),
        (["shards/*", "--out", "done/", "--to", "csv"], "error: --to: is for one target, and done/ is a folder."),
        (["shards/*", "--out", "done/", "--dry-run"], "error: --dry-run: is for one target, and done/ is a folder."),
        (["shards/*", "--out", "done/", "--workers", "2"], "error: --workers: is for Ray. Say --engine ray, or leave it"),
        (["shards/*", "--out", "done/", "--address", "a"], "error: --address: is for Ray. Say --engine ray, or leave it"),
        (["shards/*", "--out", "done/", "--encoding", "latin-1"], "error: --encoding: changes nothing where SOURCE is jsonl"),
        (["shards/*.csv", "--out", "done/"], "error: shards/*.csv: no file matches this pattern."),
        (["shards/9", "--out", "done/"], "error: shards/9: no such file."),
        (["shards", "--out", "done/"], "error: shards: expected a file, got a directory. Name the files in it: shards/*"),
        (["-", "--out", "done/"], "error: -: expected a file, as each shard is read again where a job goes on."),
        (["shards/*", "--out", "no/done/"], "error: no/done: cannot be made: no such file or directory."),
        (["shards/*", "--out", "shards/"], "error: shards/00.jsonl: is the shard itself. Choose another folder."),
        (["shards/00.jsonl", "--out", "a.jsonl", "--engine", "local"], "error: --engine: is for many files, and --out names"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line_before_any_work(run, place, arguments, complaint):
    before = sorted(place.rglob("*"))
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(complaint)
    assert sorted(place.rglob("*")) == before


def test_without_a_model_it_says_to_train_on_a_sample_first(place, program, capfd):
    with pytest.raises(SystemExit, match="2"):
        program[0](["complete", "shards/*", "--out", "done/"], prog_name="kbdisk")
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert message.endswith("Train on a sample first (kbdisk train), and say --model.\n")


def test_two_shards_of_one_name_are_refused(place):
    shutil.copytree("shards", "more")
    with pytest.raises(ConfigError, match=r"shards/00\.jsonl and more/00\.jsonl would both be written there"):
        kbdisk.complete_shards(["shards/*", "more/*"], "done", model="phones.kbdisk")


def test_files_that_kbdisk_writes_beside_a_shard_are_no_shards(place):
    for suffix in (".provenance.jsonl", ".reviewed.jsonl", ".before"):
        Path(f"shards/00.jsonl{suffix}").touch()
    assert len(kbdisk.complete_shards("shards/*", "done", model="phones.kbdisk").done) == SHARDS
    with pytest.raises(LoadError, match="expected files, got none but those that kbdisk writes"):
        kbdisk.complete_shards("shards/00.jsonl.before", "done", model="phones.kbdisk")


# ---------------------------------------------------------------- several processes


@pytest.mark.slow
def test_two_processes_of_torchrun_make_the_same_bytes_as_one(place):
    whole = completed_alone(place)
    done = torchrun(2, "complete", "shards/*", "--model", "phones.kbdisk", "--out", "done/")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("wrote 3 files to done/ (0 skipped, 0 failed): 9 entities") == 1
    assert contents("done") == whole


def torchrun(processes: int, *arguments: str) -> subprocess.CompletedProcess:
    """Run kbdisk under torchrun."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run([*launch, "-m", "kbdisk", *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_workers_of_ray_make_the_same_bytes_as_one_process_though_one_is_killed(place):
    pytest.importorskip("ray", reason="needs Ray: pip install 'kbdisk[ray]'")
    shutil.rmtree("shards")
    write_shards(place / "shards", 16)
    seed = int(os.environ.get("KBDISK_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"KBDISK_SEED={seed}")
    whole = completed_alone(place)
    arguments = [
        "complete",
        "shards/*",
        "--model",
        "phones.kbdisk",
        "--out",
        "done/",
        "--engine",
        "ray",
        "--workers",
        "2",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with Path("log").open("w") as log:
        job = subprocess.Popen([sys.executable, "-m", "kbdisk", *arguments], env=environment, stdout=log, stderr=log)
        moment = random.Random(seed).randrange(8)  # how many shards are done by then
        while len([*Path("done").glob("*.provenance.jsonl")]) < moment or not workers_of_ray(job.pid):
            assert job.poll() is None, Path("log").read_text()
            time.sleep(0.01)
        os.kill(random.Random(seed).choice(workers_of_ray(job.pid)), signal.SIGKILL)
        assert job.wait() == 0, Path("log").read_text()
    assert "wrote 16 files to done/ (0 skipped, 0 failed)" in Path("log").read_text()
    assert contents("done") == whole


def workers_of_ray(ancestor: int) -> list[int]:
    """The processes of our actors below a process."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            names[int(folder.name)] = (folder / "cmdline").read_text()
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])

    def is_below(process: int) -> bool:
        return process == ancestor or (process in parents and is_below(parents[process]))

    return sorted(process for process, name in names.items() if "ray::RayWorker" in name and is_below(process))


def test_ray_is_named_where_it_is_not_installed(run, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    status, _, err = run("shards/*", "--out", "done/", "--engine", "ray")
    assert (status, err) == (2, "error: --engine: ray is not installed. Run: pip install 'kbdisk[ray]'\n")
    assert not Path("done").exists()


def test_processes_that_know_only_their_number_take_their_shards_and_nothing_else(run, place, monkeypatch):
    whole = completed_alone(place)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, shards in enumerate((["00", "02"], ["01"])):
        monkeypatch.setenv("RANK", str(rank))
        before = contents("done") if rank else {}
        status, _, err = run("shards/*", "--out", "done/")
        assert (status, err.startswith(f"wrote {len(shards)} file")) == (0, True)
        assert contents("done").keys() - before.keys() == {
            f"{shard}.jsonl{suffix}" for shard in shards for suffix in ("", ".provenance.jsonl")
        }
    assert contents("done") == whole
    monkeypatch.setenv("RANK", "2")
    assert run("shards/*", "--out", "done/")[::2] == (
        2,
        "error: RANK, WORLD_SIZE: expected a number below another, got '2', '2'.\n",
    )
