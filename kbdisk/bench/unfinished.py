"""The results of a run that has not ended, so that the same run goes on where it was stopped.

The file's first line says which run it is; each other line is a result. It goes when the run ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from kbdisk.bench.results import Result
from kbdisk.errors import WriteError


class Unfinished:
    """Results kept until their run ends."""

    def __init__(self, file: Path, identity: str, results: Sequence[Result]) -> None:
        self.file, self.identity, self.results = file, identity, list(results)

    @classmethod
    def of(cls, file: Path, identity: str) -> Self:
        """The results of a run of the same identity; none where the file is of another run, or damaged."""
        try:
            first, *lines = file.read_text("utf-8").splitlines()
            if json.loads(first) == {"run": identity}:
                return cls(file, identity, _complete(lines))
        except (OSError, ValueError):
            pass
        return cls(file, identity, [])

    def add(self, result: Result) -> None:
        """Keep another result."""
        self.results.append(result)
        lines = [json.dumps({"run": self.identity}), *(json.dumps(asdict(kept)) for kept in self.results)]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text("\n".join(lines) + "\n", "utf-8")
        except OSError as error:
            raise WriteError(str(self.file), f"cannot be written: {(error.strerror or str(error)).lower()}.") from None

    def end(self) -> None:
        """Forget them: the run is complete."""
        self.file.unlink(missing_ok=True)


def _complete(lines: Sequence[str]) -> list[Result]:
    """The results of lines, up to the first that was cut short."""
    results = []
    for line in lines:
        try:
            results.append(Result.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            break
    return results
