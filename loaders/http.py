"""HTTP requests with retries: a busy server is asked again, after the wait that it demands.

Every fault comes out as one LoadError that names the address. A server can send for ever, so a response has limits of
size and time; `--max-size` (`max_size=` in Python) lifts that of size.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from kbdisk.errors import LoadError
from kbdisk.loaders.files import show_size

MAX_RESPONSE_SIZE = 2 << 30  # bytes of one answer of an endpoint, uncompressed
MAX_ERROR_SIZE = 1 << 20  # bytes of a page with an error message
MAX_RESPONSE_SECONDS = 600.0  # for one response, from the request to its last byte


@dataclass(frozen=True)
class Limits:
    """The limits of one response."""

    size: float = MAX_RESPONSE_SIZE
    seconds: float = MAX_RESPONSE_SECONDS
    redirects: bool = False  # whether it may send on to another host


TIMEOUT = 120.0  # seconds without a byte
MAX_TRIES = 5
MAX_WAIT = 300.0  # seconds, the longest wait that a server is granted
BUSY_STATUS = {429, 502, 503}
DEFAULT_LIMITS = Limits()
READ_SIZE = 1 << 16  # bytes read, or unpacked, at once

_TAG = re.compile(r"<(style|script|title)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Response:
    """A response."""

    body: bytes
    type: str  # the media type alone, in lower case


def post(url: str, form: Mapping[str, str], accept: str, bounds: Limits = DEFAULT_LIMITS) -> Response:
    """Send a form and return the response, which must keep within the limits."""
    request = _request(url, urllib.parse.urlencode(form).encode(), accept)
    problem = ""
    for attempt in range(MAX_TRIES):
        try:
            return _send(request, bounds)
        except _TryAgain as busy:
            problem = busy.problem
            wait = 2.0**attempt if busy.wait is None else busy.wait
            if wait > MAX_WAIT:
                raise LoadError(url, f"{problem}, and it asks to wait {wait:.0f} seconds. Try again then.") from None
            if attempt + 1 < MAX_TRIES:
                time.sleep(wait)
    raise LoadError(url, f"{problem}, {MAX_TRIES} times in a row. Try again later.")


def _request(url: str, form: bytes, accept: str) -> urllib.request.Request:
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": accept,
        "Accept-Encoding": "gzip",
        "User-Agent": user_agent(),
    }
    try:
        return urllib.request.Request(url, form, headers, method="POST")
    except ValueError as error:
        raise LoadError(url, f"expected a valid web address, got an invalid one: {error}. Check it.") from None


@cache
def user_agent() -> str:
    """The User-Agent of requests."""
    from importlib import metadata

    return f"kbdisk/{metadata.version('kbdisk')}"


class _TryAgain(Exception):  # noqa: N818
    """The request may succeed later, after a wait of some seconds."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.wait = wait


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects keep the form, which urllib by itself would drop."""

    def __init__(self, bounds: Limits) -> None:
        self.bounds = bounds

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme not in ("http", "https"):
            raise LoadError(req.full_url, f"expected to be sent on to a web address, got {newurl!r}.")
        if not self.bounds.redirects and (new.hostname != old.hostname or new.scheme < old.scheme):
            problem = f"sends on to {new.scheme}://{new.hostname}, another host. Name that address, or say --redirects."
            raise LoadError(req.full_url, problem)
        return urllib.request.Request(newurl, req.data, req.headers, method="POST")

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


class _Clock:
    """Ends the connections of one request when its time is up, whatever they are waiting for."""

    def __init__(self, seconds: float) -> None:
        self.is_up = False
        self.sockets: list[socket.socket] = []
        self.timer = threading.Timer(seconds, self._end)
        self.timer.daemon = True

    def __enter__(self) -> _Clock:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()

    def _end(self) -> None:
        self.is_up = True
        for connection in self.sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """Handlers whose connections the clock can end."""
        sockets = self.sockets

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        class Secure(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        class PlainHandler(urllib.request.HTTPHandler):
            def http_open(self, req: Any) -> Any:
                return self.do_open(Plain, req)

        class SecureHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: Any) -> Any:
                return self.do_open(Secure, req)

        return [PlainHandler(), SecureHandler()]


def _send(request: urllib.request.Request, bounds: Limits) -> Response:
    url = request.full_url
    with _Clock(bounds.seconds) as clock:
        try:
            answer = _fetch(request, bounds, clock)
        except (LoadError, _TryAgain):
            if not clock.is_up:
                raise
    if clock.is_up:  # what was read by then is a part, whether or not that was to be seen
        problem = f"expected a whole answer within {bounds.seconds:g} seconds, got less."
        raise LoadError(url, f"{problem} Ask for less: --class or --query.")
    return answer


def _fetch(request: urllib.request.Request, bounds: Limits, clock: _Clock) -> Response:
    url = request.full_url
    try:
        opener = urllib.request.build_opener(_Redirects(bounds), *clock.handlers())
        with opener.open(request, timeout=TIMEOUT) as response:
            body = _read_body(response, bounds.size)
            return Response(body, response.headers.get_content_type())
    except urllib.error.HTTPError as error:
        with error:
            raise _fault_of_status(url, error) from None
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason) from None
    except _TooLarge:
        problem = f"expected an answer of at most {show_size(bounds.size)}, got more."
        raise LoadError(url, f"{problem} Ask for less (--class, --query), or say --max-size.") from None
    except (http.client.IncompleteRead, ConnectionError, EOFError, zlib.error, gzip.BadGzipFile):
        raise _TryAgain("the answer broke off") from None
    except OSError as error:
        raise _unreachable(url, error) from None
    except (http.client.HTTPException, ValueError) as error:
        message = str(error) or type(error).__name__
        raise LoadError(url, f"expected an answer by HTTP, got {message}. Check the address.") from None


def _unreachable(url: str, reason: object) -> Exception:
    if isinstance(reason, TimeoutError):
        return LoadError(url, f"no answer within {TIMEOUT:g} seconds. Ask for less: --class or --query.")
    if isinstance(reason, ConnectionResetError):
        return _TryAgain("the connection broke off")
    message = getattr(reason, "strerror", None) or str(reason)
    return LoadError(url, f"cannot be reached: {str(message).lower()}. Check the address.")


class _TooLarge(Exception):  # noqa: N818
    """A response is longer than its limit."""


def _read_body(response: Any, limit: float) -> bytes:
    """The decompressed body, checked against its announced length; _TooLarge beyond the limit."""
    expected = response.length  # bytes that are announced; None where they are not
    body, stored, unpacking = bytearray(), 0, None
    while expected is None or stored < expected:
        piece = response.read1(READ_SIZE if expected is None else min(READ_SIZE, expected - stored))
        if not piece:
            break
        if stored == 0 and piece[:2] == b"\x1f\x8b":
            unpacking = zlib.decompressobj(wbits=31)
        stored += len(piece)
        for plain in (piece,) if unpacking is None else _decompress(unpacking, piece):
            body += plain
            if len(body) > limit:
                raise _TooLarge
    if expected is not None and stored < expected:
        raise http.client.IncompleteRead(bytes(body), expected - stored)
    if unpacking is not None and not unpacking.eof:
        raise EOFError
    return bytes(body)


def _decompress(unpacking: Any, piece: bytes) -> Iterator[bytes]:
    """A piece of a gzip stream decompressed, in parts of bounded size."""
    while piece and not unpacking.eof:
        yield unpacking.decompress(piece, READ_SIZE)
        piece = unpacking.unconsumed_tail


def _fault_of_status(url: str, error: urllib.error.HTTPError) -> Exception:
    if str(error.reason).startswith(urllib.request.HTTPRedirectHandler.inf_msg):
        return LoadError(url, "expected an answer, is sent on again and again. Check the address.")
    problem = f"HTTP {error.code} {' '.join(str(error.reason).split())}".rstrip()
    if error.code in BUSY_STATUS:
        return _TryAgain(f"got {problem}", _retry_after(error.headers.get("Retry-After")))
    try:
        message = _first_line(_read_body(error.fp, MAX_ERROR_SIZE))
    except (http.client.HTTPException, OSError, EOFError, zlib.error, ValueError, _TooLarge, AttributeError):
        message = ""
    return LoadError(url, f"expected an answer, got {problem}{': ' + message if message else '.'}")


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait by the header Retry-After: a number, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _first_line(body: bytes) -> str:
    """The first line of a page, without markup."""
    text = _TAG.sub(" ", body[:20_000].decode("utf-8", "replace"))
    line = next((line for line in map(str.strip, text.splitlines()) if line), "")
    return line if len(line) <= 200 else line[:200] + "..."
