"""Questions to a web server, asked patiently: what is busy is asked again, as late as it wants to be.

Every fault comes out as one LoadError that names the address.
"""

from __future__ import annotations

import gzip
import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import IO, Any

from kbdisk.errors import LoadError

TIMEOUT = 120.0  # seconds without a byte
TRIES = 5
PATIENCE = 300.0  # seconds, the longest wait that a server is granted
BUSY = {429, 502, 503}

_TAG = re.compile(r"<(style|script|title)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    body: bytes
    type: str  # the media type alone, in lower case


def post(url: str, form: Mapping[str, str], accept: str) -> Answer:
    """Send a form and return the answer."""
    request = _request(url, urllib.parse.urlencode(form).encode(), accept)
    problem = ""
    for tried in range(TRIES):
        try:
            return _asked(request)
        except _TryAgain as busy:
            problem = busy.problem
            wait = 2.0**tried if busy.wait is None else busy.wait
            if wait > PATIENCE:
                raise LoadError(url, f"{problem}, and it asks to wait {wait:.0f} seconds. Try again then.") from None
            if tried + 1 < TRIES:
                time.sleep(wait)
    raise LoadError(url, f"{problem}, {TRIES} times in a row. Try again later.")


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
        raise LoadError(url, f"expected a web address, got one that cannot be: {error}. Check it.") from None


@cache
def user_agent() -> str:
    """Who is asking."""
    from importlib import metadata

    return f"kbdisk/{metadata.version('kbdisk')}"


class _TryAgain(Exception):  # noqa: N818
    """Not now; perhaps after a wait of so many seconds."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.wait = wait


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A form that is sent elsewhere stays a form: by itself urllib would ask again without it."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise LoadError(req.full_url, f"expected to be sent on to a web address, got {newurl!r}.")
        return urllib.request.Request(newurl, req.data, req.headers, method="POST")

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def _asked(request: urllib.request.Request) -> Answer:
    url = request.full_url
    try:
        with urllib.request.build_opener(_Redirects()).open(request, timeout=TIMEOUT) as response:
            body = _whole(response)
            return Answer(body, response.headers.get_content_type())
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, error) from None
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason) from None
    except (http.client.IncompleteRead, ConnectionError, EOFError, zlib.error, gzip.BadGzipFile):
        raise _TryAgain("the answer broke off") from None
    except OSError as error:
        raise _unreachable(url, error) from None
    except (http.client.HTTPException, ValueError) as error:
        said = str(error) or type(error).__name__
        raise LoadError(url, f"expected an answer by HTTP, got {said}. Check the address.") from None


def _unreachable(url: str, reason: object) -> Exception:
    if isinstance(reason, TimeoutError):
        return LoadError(url, f"no answer within {TIMEOUT:g} seconds. Ask for less: --class or --query.")
    if isinstance(reason, ConnectionResetError):
        return _TryAgain("the connection broke off")
    said = getattr(reason, "strerror", None) or str(reason)
    return LoadError(url, f"cannot be reached: {str(said).lower()}. Check the address.")


def _whole(response: IO[bytes]) -> bytes:
    """The body, uncompressed; where it came in a length of its own, all of that."""
    body = response.read()
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    problem = f"HTTP {error.code} {error.reason}".rstrip()
    if error.code in BUSY:
        return _TryAgain(f"got {problem}", _retry_after(error.headers.get("Retry-After")))
    try:
        said = _first_line(_whole(error))
    except (http.client.HTTPException, OSError, EOFError, zlib.error):
        said = ""
    return LoadError(url, f"expected an answer, got {problem}{': ' + said if said else '.'}")


def _retry_after(header: str | None) -> float | None:
    """How many seconds to wait: the header has a number, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _first_line(body: bytes) -> str:
    """What a server says first, without its markup."""
    text = _TAG.sub(" ", body[:20_000].decode("utf-8", "replace"))
    line = next((line for line in map(str.strip, text.splitlines()) if line), "")
    return line if len(line) <= 200 else line[:200] + "..."
