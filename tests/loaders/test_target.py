"""A target is written whole or not at all, and nothing half-written ever has its name."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard
from tables import for_each

import kbdisk
from kbdisk import loaders
from kbdisk.errors import ConfigError, WriteError
from kbdisk.loaders.files import compressing, compression_of, keep_before, without_compression, writing

DECOMPRESS = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "zst": lambda stored: zstandard.ZstdDecompressor().decompressobj().decompress(stored),
}


def names(folder: Path) -> list[str]:
    """What stands in a folder, hidden or not."""
    return [one.name for one in folder.iterdir()]


def python(code: str, **settings) -> subprocess.CompletedProcess:
    head = "from kbdisk.loaders.files import writing\nimport sys, os, signal, resource\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, **settings)


def test_the_target_takes_its_name_once_it_is_whole(tmp_path):
    target = tmp_path / "a.txt"
    with writing(target) as stream:
        stream.write(b"one")
        stream.flush()
        assert not target.exists()
    assert target.read_bytes() == b"one"
    assert names(tmp_path) == ["a.txt"]


def test_several_take_their_names_once_all_are_whole_and_the_last_one_first(tmp_path):
    first, last = tmp_path / "first.txt", tmp_path / "last.txt"
    with contextlib.ExitStack() as several:
        several.callback(lambda: order.append(names(tmp_path)))
        order: list[list[str]] = []
        for target in (first, last):
            with writing(target, several=several) as stream:
                stream.write(b"new")
            several.callback(lambda: order.append([one for one in names(tmp_path) if not one.startswith(".")]))
    assert order[0] == []
    assert order[1] == ["last.txt"]
    assert sorted(order[2]) == ["first.txt", "last.txt"]


def test_of_several_none_takes_its_name_where_one_fails(tmp_path):
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")

    def write() -> None:
        with contextlib.ExitStack() as several:
            with writing(target, several=several) as stream:
                stream.write(b"new")
            kept = keep_before(str(target), several)
            assert (kept, names(tmp_path).count("a.txt.before")) == (f"{target}.before", 0)
            with writing("/dev/full", several=several) as stream:
                stream.write(b"x")

    with pytest.raises(WriteError, match="/dev/full: cannot be written: no space left on device"):
        write()
    assert (target.read_bytes(), names(tmp_path)) == (b"old", ["a.txt"])


def test_an_error_while_writing_leaves_the_old_target_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), writing(target) as stream:
        stream.write(b"new %d" % (1 // 0))
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_a_target_that_exists_is_kept_unless_it_may_be_replaced(tmp_path):
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")
    refused = pytest.raises(WriteError, match=r"a\.txt: exists already\. Say force=True to replace it\.")
    with refused, writing(target, replace=False):
        pass
    with writing(target, replace=True) as stream:
        stream.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_full_disk_is_one_line_and_leaves_the_old_target(tmp_path):
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")
    code = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"with writing({str(target)!r}) as stream:\n"
        "    for _ in range(1000): stream.write(bytes(1000))\n"
    )
    done = python(code)
    assert done.stderr.strip().endswith(f"WriteError: {target}: cannot be written: file too large.")
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_what_is_kept_for_a_while_hides_no_fault_where_the_disk_is_full():
    code = (
        "from kbdisk.loaders.files import temporary\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "with temporary() as file:\n"
        "    file.write(bytes(2000)); raise ValueError('this')\n"
    )
    assert python(code).stderr.strip().endswith("ValueError: this")


def test_a_full_device_is_one_line():
    for code in (
        "with writing('/dev/full') as stream: stream.write(b'x')",
        "with writing('-') as stream: stream.write(b'x')",
    ):
        with Path("/dev/full").open("wb") as full:
            settings = {"stdout": full, "stderr": subprocess.PIPE, "text": True}
            done = subprocess.run(
                [sys.executable, "-c", f"from kbdisk.loaders.files import writing\n{code}"], **settings
            )
        assert "cannot be written: no space left on device." in done.stderr


def test_a_process_killed_while_writing_leaves_the_old_target(tmp_path):
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")
    code = f"with writing({str(target)!r}) as stream:\n    stream.write(bytes(1 << 20)); stream.flush(); print('x', flush=True); signal.pause()"
    head = "from kbdisk.loaders.files import writing\nimport signal\n"
    child = subprocess.Popen([sys.executable, "-c", head + code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"x\n"
    child.kill()
    child.wait()
    child.stdout.close()
    assert target.read_bytes() == b"old"


def test_an_interrupted_process_leaves_nothing_beside_the_target(tmp_path):
    code = (
        f"with writing({str(tmp_path / 'a.txt')!r}) as stream:\n    stream.write(b'x'); print('x', flush=True); wait()"
    )
    head = "import time\nfrom kbdisk.loaders.files import writing\ndef wait():\n  while True: time.sleep(0.01)\n"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([sys.executable, "-c", head + code], **pipes)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.wait()
    child.stdout.close()
    assert names(tmp_path) == []


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_bytes(b"old")
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "real" / "a.txt")
    with writing(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "a.txt").read_bytes() == b"new"


def test_permissions_are_those_of_the_old_target_or_the_usual_ones(tmp_path):
    old = tmp_path / "old.txt"
    old.touch()
    old.chmod(0o640)
    usual = tmp_path / "usual.txt"
    usual.touch()
    for name in ("old.txt", "new.txt"):
        with writing(tmp_path / name) as stream:
            stream.write(b"x")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert (tmp_path / "new.txt").stat().st_mode == usual.stat().st_mode


@for_each(
    ("target", "complaint"),
    [
        ("", "got a directory"),
        ("none/a.txt", "no such file or directory"),
        ("file/a.txt", "not a directory"),
        ("n" * 300, "file name too long"),
        ("a\0b", "is no name of a file"),
    ],
)
def test_a_target_that_cannot_be_is_refused_in_one_line(target, complaint, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=complaint), writing(f"{tmp_path}/{target}"):
        pass
    assert names(tmp_path) == ["file"]


def test_the_longest_name_of_a_file_can_be_written(tmp_path):
    with writing(tmp_path / ("n" * 255)) as stream:
        stream.write(b"x")
    with writing(tmp_path / ("語" * 85)) as stream:
        stream.write(b"x")


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch, unprivileged):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o555)
    with unprivileged(), pytest.raises(WriteError, match="permission denied"), writing("a.txt"):
        pass


def test_a_device_is_written_to_and_stays_one():
    with writing("/dev/null", replace=False) as stream:
        stream.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_standard_output_streams():
    code = "with writing('-') as stream:\n    stream.write(b'one\\n'); stream.flush(); sys.stdin.readline(); stream.write(b'two\\n')"
    head = "from kbdisk.loaders.files import writing\nimport sys\n"
    child = subprocess.Popen([sys.executable, "-c", head + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"one\n"  # before the end
    assert child.communicate(b"go on\n")[0] == b"two\n"


def test_closed_standard_output_is_one_line():
    assert "<stdout>: standard output is closed." in python("sys.stdout = None\nwith writing('-'): pass").stderr


@for_each("kind", DECOMPRESS)
def test_what_is_compressed_comes_out_again_the_same_bytes_every_time(kind, tmp_path):
    written = []
    for name in ("a", "b"):
        with writing(tmp_path / name) as file, compressing(file, kind) as stream:
            stream.write(b"text " * 10_000)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert DECOMPRESS[kind](written[0]) == b"text " * 10_000


def test_nothing_new_adds_not_even_an_empty_member(tmp_path):
    with writing(tmp_path / "a") as file:
        with compressing(file, "gz", lazily=True):
            pass
        with compressing(file, "gz", lazily=True) as stream:
            stream.write(b"text")
    assert gzip.decompress((tmp_path / "a").read_bytes()) == b"text"
    assert (tmp_path / "a").read_bytes().count(b"\x1f\x8b\x08") == 1


def test_the_suffix_tells_the_compression():
    assert [compression_of(name) for name in ("a.ttl.gz", "a.BZ2", "a.zst", "a.ttl", "gz")] == [
        "gz",
        "bz2",
        "zst",
        None,
        None,
    ]
    assert without_compression("a.ttl.gz") == "a.ttl"


@for_each("format", loaders.FORMATS)
def test_whatever_format_is_offered_is_written_and_no_other(format, tmp_path):
    item = kbdisk.Entity("http://www.wikidata.org/entity/Q1", {"P31": 1})
    with pytest.raises(ConfigError, match="the name does not tell the format") as error:
        kbdisk.write([item], tmp_path / "x.odd")
    offered = format in str(error.value).split("one of: ")[1].rstrip(".").split(", ")
    with contextlib.nullcontext() if offered else pytest.raises(WriteError, match=f"^{format}: .*Write "):
        kbdisk.write([item], tmp_path / "x", format=format)
    assert (tmp_path / "x").exists() == offered
