"""A source sends no more than it may, and the message says which option lifts the bound."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import http.server
import math
import threading

import pytest
import zstandard
from tables import for_each

import kbdisk
from kbdisk.errors import ConfigError, LoadError
from kbdisk.loaders import files
from kbdisk.loaders import http as requests
from kbdisk.loaders.files import Source, read_size, show_size, unpacked_limit
from kbdisk.loaders.http import Limits

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda data: zstandard.ZstdCompressor().compress(data)}


@for_each("kind", PACK)
def test_a_file_that_unpacks_to_more_than_it_may_is_refused_with_the_option(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_UNPACKED_SIZE", 5000)
    file = tmp_path / f"a.json.{kind}"
    file.write_bytes(PACK[kind](b'["' + b"x" * 200_000 + b'"]'))
    with pytest.raises(
        LoadError, match=r"expected at most 5(\.\d+)? kB|expected at most [\d.]+ kB once it is uncompressed"
    ) as error:
        list(kbdisk.load(file))
    assert str(error.value).endswith("If it is sound, say --max-size with a larger size, or none.")
    with pytest.raises(LoadError, match="at most 100 kB"):
        list(kbdisk.load(file, max_size=100_000))
    for enough in (math.inf, 300_000):
        source = Source(file)
        source.max_size = enough
        assert len(source.read()) == 200_004


def test_what_a_file_may_unpack_to_grows_with_its_compressed_size():
    assert unpacked_limit(1000, None) == 1 << 30
    assert unpacked_limit(1 << 30, None) == 100 << 30
    assert unpacked_limit(1 << 30, 7) == 7


@for_each(
    ("text", "size"), [("500MB", 5e8), ("20 gb", 2e10), ("1.5k", 1500), ("7", 7), ("none", math.inf), ("2T", 2e12)]
)
def test_a_size_is_read_as_people_write_it(text, size):
    assert read_size(text) == size


@for_each("text", ["", "0", "-1", "GB", "1 PB", "1e9", "nan"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="expected a size such as 500MB or 20GB, or none"):
        read_size(text)


def test_a_size_is_shown_in_words():
    assert [show_size(size) for size in (7, 1500, 2 << 30, 5e12)] == ["7 bytes", "1.5 kB", "2.147 GB", "5 TB"]


@contextlib.contextmanager
def serving(answer):
    """A server whose answer writes to the connection as it likes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sparql"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def replying(status, body=b"", **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def asked(url, **limits):
    return requests.post(url, {"query": "x"}, "text/plain", Limits(**limits)).body


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 10_000)


@for_each("answer", [endless, replying(200, b"x" * 50_000), replying(200, gzip.compress(b"x" * 1_000_000))])
def test_an_answer_longer_than_it_may_be_is_refused_with_the_option(answer):
    with (
        serving(answer) as url,
        pytest.raises(LoadError, match=r"expected an answer of at most 20 kB, got more\. .*--max-size"),
    ):
        asked(url, size=20_000)


def test_an_answer_just_as_long_as_it_may_be_is_read():
    with serving(replying(200, b"x" * 20_000)) as url:
        assert asked(url, size=20_000) == b"x" * 20_000


@for_each("headers", [True, False])
def test_a_server_that_trickles_is_left_when_the_time_is_up(headers):
    go_on = threading.Event()

    def trickle(handler):
        if headers:
            handler.send_response(200)
            handler.end_headers()
        while not go_on.wait(0.02):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    with serving(trickle) as url:
        try:
            with pytest.raises(
                LoadError, match=r"expected a whole answer within 0\.3 seconds, got less\. Ask for less"
            ):
                asked(url, seconds=0.3)
        finally:
            go_on.set()


def test_a_server_that_sends_on_to_another_host_is_followed_only_where_that_is_allowed():
    with serving(replying(200, b"there")) as other:
        elsewhere = other.replace("127.0.0.1", "localhost")
        with serving(replying(307, Location=elsewhere)) as url:
            with pytest.raises(
                LoadError, match=r"sends on to http://localhost, another host\. Name that address, or say --redirects"
            ):
                asked(url)
            assert asked(url, redirects=True) == b"there"


@for_each(
    ("answer", "problem"),
    [
        (replying(302, Location="/sparql"), "is sent on again and again"),
        (replying(302), "got HTTP 302 Found"),
        (replying(302, Location="file:///etc/passwd"), "is not allowed"),
        (replying(302, Location="javascript:x"), "is not allowed"),
        (replying(500, b"x" * 3_000_000), "got HTTP 500"),
        (replying(500, gzip.compress(b"\x1b[31m" * 900_000)), "got HTTP 500"),
        (replying(400, b"\x1f\x8bno gzip"), "got HTTP 400"),
    ],
)
def test_whatever_a_server_does_is_one_line(answer, problem):
    with serving(answer) as url, pytest.raises(LoadError) as error:
        asked(url)
    assert problem in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 500
