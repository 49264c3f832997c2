"""A source is read whole or refused in one line, whatever it comes from and whatever compresses it."""

from __future__ import annotations

import bz2
import gzip
import os
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

import pytest
import zstandard
from tables import for_each

from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source

TEXT = b"".join(b"line %d of some text that compresses\n" % number for number in range(20_000))

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.fixture(params=COMPRESS)
def kind(request) -> str:
    return request.param


def failure(*args) -> str:
    """The line that reading something to its end fails with."""
    with pytest.raises(LoadError) as caught:
        Source(*args).read()
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_file_is_read_again_and_again(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    source = Source(tmp_path / "a.txt")
    assert source.read() == source.read() == TEXT
    assert source.plain_path == tmp_path / "a.txt"
    assert source.size == len(TEXT)


def test_compression_is_told_by_the_bytes_and_not_by_the_name(kind, tmp_path):
    (tmp_path / "plain.txt").write_bytes(COMPRESS[kind](TEXT))
    source = Source(tmp_path / "plain.txt")
    assert source.compression == kind
    assert source.plain_path is None
    assert source.read() == TEXT


def test_a_plain_file_may_have_the_name_of_a_compressed_one(tmp_path):
    (tmp_path / "a.gz").write_bytes(TEXT)
    assert Source(tmp_path / "a.gz").read() == TEXT


def test_text_that_begins_like_bzip2_is_text(tmp_path):
    assert Source(b"BZh9 is how bzip2 begins").read() == b"BZh9 is how bzip2 begins"


def test_several_compressed_members_are_one_text(kind):
    assert Source(COMPRESS[kind](TEXT[:7000]) + COMPRESS[kind](b"") + COMPRESS[kind](TEXT[7000:])).read() == TEXT


def test_a_compressed_file_that_ends_in_the_middle_is_refused(kind):
    whole = COMPRESS[kind](TEXT)
    for length in (len(whole) - 1, len(whole) // 2, 12):
        assert "the compressed file ends in the middle. Get all of it again." in failure(whole[:length])


def test_a_second_member_that_ends_in_the_middle_is_refused(kind):
    whole = COMPRESS[kind](TEXT)
    assert "ends in the middle" in failure(whole + whole[: len(whole) // 2])


def test_a_damaged_compressed_file_is_refused(kind):
    damaged = bytearray(COMPRESS[kind](os.urandom(50_000) + TEXT))
    damaged[30_000] ^= 0xFF
    damaged[31_000:31_050] = bytes(50)
    line = failure(bytes(damaged))
    assert line.startswith("<memory>: the compressed file ")


def test_rubbish_behind_a_gzip_member_is_refused():
    assert "damaged" in failure(gzip.compress(TEXT) + b"rubbish")


def test_a_wrong_checksum_is_refused():
    whole = bytearray(gzip.compress(TEXT))
    whole[-5] ^= 0xFF
    assert "damaged" in failure(bytes(whole))


def test_deflated_bytes_that_are_no_gzip_are_read_as_they_are():
    assert Source(zlib.compress(TEXT)).compression is None


def test_an_empty_source_is_refused_where_that_is_asked_for(kind, tmp_path):
    (tmp_path / "a.txt").touch()
    assert Source(tmp_path / "a.txt").read() == b""
    with pytest.raises(LoadError, match=r"a\.txt: expected some data, got an empty file\."):
        Source(tmp_path / "a.txt").refuse_empty()
    with pytest.raises(LoadError, match=f"<memory>: expected some data, got nothing inside its {kind}"):
        Source(COMPRESS[kind](b"")).refuse_empty()


def test_a_directory_is_refused(tmp_path):
    assert failure(tmp_path).endswith("expected a file, got a directory. Name the files in it.")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert failure(tmp_path / "none.ttl").endswith("none.ttl: no such file.")
    (tmp_path / "file").write_bytes(b"x")
    assert failure(tmp_path / "file" / "below").endswith("cannot be read: not a directory.")


@for_each("name", ["n" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name):
    assert "file" in failure(name)


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch, unprivileged):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    Path("a.txt").write_bytes(TEXT)
    Path("a.txt").chmod(0)
    with unprivileged():
        assert failure("a.txt").endswith("cannot be read: permission denied.")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_system_that_fails_while_reading_is_one_line():
    assert failure("/proc/self/mem").endswith("cannot be read: input/output error.")


def test_a_pipe_can_be_read_twice(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    source = Source(pipe)
    writer.join()
    assert source.read() == source.read() == TEXT
    assert source.name == str(pipe)


def test_standard_input_can_be_read_twice_and_leaves_nothing_behind(tmp_path):
    code = "from kbdisk.loaders.files import Source; s = Source('-'); assert s.read() == s.read(); print(len(s.read()), s.name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=gzip.compress(TEXT),
        capture_output=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.stdout.decode() == f"{len(TEXT)} <stdin>\n", done.stderr.decode()
    assert not list(tmp_path.iterdir())


def test_closed_standard_input_is_refused():
    code = "import sys; from kbdisk.loaders.files import Source; sys.stdin = None; Source('-')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("<stdin>: expected some data, got a closed standard input.")


def test_progress_counts_the_bytes_as_stored_up_to_all_of_them(kind):
    stored = COMPRESS[kind](os.urandom(600_000) + TEXT)
    source = Source(stored)
    steps: list[tuple[int, int]] = []
    source.progress = lambda done, total: steps.append((done, total))
    source.read()
    assert steps[-1] == (len(stored), len(stored))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_zstandard_that_expands_a_thousandfold_is_read_in_pieces():
    source = Source(zstandard.compress(bytes(40 << 20)))
    with source.open() as stream:
        assert sum(len(piece) for piece in iter(lambda: stream.read(1 << 20), b"")) == 40 << 20


def test_no_room_for_standard_input_is_one_line(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    read, write = os.pipe()
    os.write(write, b"text")
    os.close(write)
    try:
        assert "cannot be kept in a temporary file" in failure(f"/dev/fd/{read}")
    finally:
        os.close(read)
