"""Tests over a table of cases: one test goes through all rows and reports every row that fails.

`@for_each` is written as `pytest.mark.parametrize` is. Collecting and setting up a test costs some milliseconds, so a
table of two hundred small rows is one test. Each case starts afresh: seeded, in the same folder, with `tmp_path` as
the fixtures left it, with a monkeypatch of its own, and with nothing printed or warned of before. What a fixture
holds in memory is shared by all cases. `@for_each` stands above `@given` and below any `parametrize`.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

FEW = 30  # examples of a property in the fast suite
MAX_SHOWN = 20  # failed cases that a report lists; all are counted


def seed_all() -> None:
    """Seeds what draws at random, torch only where it is imported already."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def examples(count: int) -> int:
    """How many examples a property takes that has a number of its own: the count in the fast suite, more in the slow."""
    return count * settings.default.max_examples // FEW


def for_each(names: str | tuple[str, ...], table: Iterable[Any], *, ids: Callable[[Any], str] = repr) -> Callable:
    """A decorator that runs a test once for each row of a table, within one test."""
    single = isinstance(names, str)
    names = (names,) if isinstance(names, str) else names
    rows = [(row,) if single else tuple(row) for row in table]

    def decorate(test: Callable) -> Callable:
        parameters = inspect.signature(test).parameters
        assert rows, f"{test.__name__} has no cases"
        assert all(len(row) == len(names) for row in rows), f"{test.__name__} has cases of another length"
        assert set(names) <= parameters.keys(), f"{test.__name__} does not take {', '.join(names)}"

        @functools.wraps(test, updated=())
        def over_all_cases(request: pytest.FixtureRequest, **fixtures: Any) -> None:
            __tracebackhide__ = True
            if "request" in parameters:
                fixtures["request"] = request
            failed: list[tuple[str, BaseException]] = []
            skipped: list[BaseException] = []
            start = Start(request)
            for index, row in enumerate(rows):
                values = dict(zip(names, row, strict=True))
                try:
                    with start.again(fixtures, index) as fresh:
                        test(**fresh, **values)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    if str(error).startswith("Timeout"):  # pytest-timeout, which stops a test once
                        raise
                    case = ", ".join(f"{name}={cut(ids(value))}" for name, value in values.items())
                    failed.append((f"case {index}: {case}", error))
            if failed:
                raise AssertionError(report(failed, len(rows))) from failed[0][1]
            if len(skipped) == len(rows):
                raise skipped[0]

        request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        kept = [parameter for name, parameter in parameters.items() if name not in (*names, "request")]
        over_all_cases.__signature__ = inspect.Signature([request, *kept])
        over_all_cases.pytestmark = list(getattr(test, "pytestmark", []))
        if getattr(test, "is_hypothesis_test", False):
            over_all_cases.pytestmark.append(pytest.mark.hypothesis)
        return over_all_cases

    return decorate


class Start:
    """What all cases of a test begin with: the working directory and the files in `tmp_path`."""

    def __init__(self, request: pytest.FixtureRequest):
        self.directory = Path.cwd()
        self.folder: Path | None = None
        if "tmp_path" in request.fixturenames:
            self.folder = request.getfixturevalue("tmp_path")
            self.copy = self.folder.with_name(f"{self.folder.name}.start")
            if not self.copy.exists():  # another table of the same test has made it
                shutil.copytree(self.folder, self.copy, symlinks=True)

    @contextmanager
    def again(self, fixtures: dict[str, Any], index: int) -> Iterator[dict[str, Any]]:
        """The fixtures of a case, none of which holds what an earlier case left."""
        if index:
            seed_all()
            self.clear()
        for name, fixture in fixtures.items():
            if name in ("capsys", "capfd", "capsysbinary", "capfdbinary"):
                fixture.readouterr()
            elif name == "recwarn":
                fixture.clear()
                warnings.simplefilter("default")  # what was warned of once is warned of again
            elif name == "caplog":
                fixture.clear()
        if "monkeypatch" not in fixtures:
            yield fixtures
        else:
            with fixtures["monkeypatch"].context() as monkeypatch:
                yield {**fixtures, "monkeypatch": monkeypatch}

    def clear(self) -> None:
        os.chdir(self.directory)
        if self.folder is None:
            return
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(self.copy, self.folder, symlinks=True, dirs_exist_ok=True)


def cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:150]} ... {text[-40:]}"


def report(failed: list[tuple[str, BaseException]], count: int) -> str:
    """Every failed case, what it says and where, the first one's traceback standing above."""
    lines = [f"{len(failed)} of {count} cases failed; the traceback is that of {failed[0][0]}"]
    for case, error in failed[:MAX_SHOWN]:
        frame = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if "test_" in f.filename), None)
        place = f" ({Path(frame.filename).name}:{frame.lineno})" if frame else ""
        lines.append(f"{case}{place}: {type(error).__name__}: {cut(str(error))}")
    if len(failed) > MAX_SHOWN:
        lines.append(f"and {len(failed) - MAX_SHOWN} more")
    return "\n".join(lines)
