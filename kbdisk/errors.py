"""Everything that can be wrong with a user's input, one line each.

    KBDiskError
    ├── LoadError        a source that cannot be read: which file, which line
    ├── WriteError       a target that cannot be written
    ├── SchemaError      a schema that is wrong, or does not fit
    ├── ConfigError      an option or a run file
    ├── CheckpointError  a model folder, or a run that is kept in one
    ├── TrainingError    a run that cannot go on
    └── PluginError      an installed package that adds to kbdisk, and fails

The message is `where: expected X, got Y. What to do.` Any other exception is our own mistake.

A message that names an option spells it as its reader does: `setting("force")` is force=True in Python, and --force
within `messages_for_shell`, where the command line runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kbdisk.printable import printable


class KBDiskError(Exception):
    """A user's mistake: shown as its one line, exit status 2, never a traceback."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(printable(f"{where}: {problem}"))
        self.where = where
        self.problem = problem


class LoadError(KBDiskError):
    """A source that cannot be read."""

    def __init__(self, source: str, problem: str, line: int | None = None) -> None:
        super().__init__(source if line is None else f"{source}:{line}", problem)
        self.source = source
        self.line = line


class WriteError(KBDiskError):
    """A target that cannot be written, or a value that has no place in it."""

    @classmethod
    def without_room(cls, folder: str, fact: str) -> WriteError:
        """The error of a folder for scratch files, such as a full disk."""
        return cls(folder, f"expected room for what memory cannot hold, got {fact!r}. Make room there.")


class SchemaError(KBDiskError):
    """A schema that is wrong in itself, or that the data does not fit."""


class ConfigError(KBDiskError):
    """An option or a run file that makes no sense."""


class CheckpointError(KBDiskError):
    """A model folder that cannot be used."""


RESTORE = "Copy the whole folder again from where it is sound, or train again."  # what to do about a damaged folder


class TrainingError(KBDiskError):
    """A run that cannot go on."""


class PluginError(KBDiskError):
    """An installed package that adds a kind, a format or a baseline, and cannot be loaded."""


class KBDiskWarning(UserWarning):
    """Something in the input was odd, and was read all the same."""


# ---------------------------------------------------------------- options in messages

_is_for_shell: ContextVar[bool] = ContextVar("is_for_shell", default=False)


@contextmanager
def messages_for_shell() -> Iterator[None]:
    """Messages that are made within it name options as the command line has them."""
    before = _is_for_shell.set(True)
    try:
        yield
    finally:
        _is_for_shell.reset(before)


def option_name(name: str, *, shell: str | None = None) -> str:
    """The name of an option: `format` in Python, and `--format` or `--` with its `shell` name on the command line."""
    return f"--{(shell or name).replace('_', '-')}" if _is_for_shell.get() else name


def setting(name: str, value: Any = True, *, shell: str | None = None) -> str:
    """An option with its value: `items='data'` in Python, `--items data` on the command line; `--force` of a flag."""
    option = option_name(name, shell=shell)
    if not _is_for_shell.get():
        return f"{option}={value!r}"
    return option if value is True else f"{option} {value}"
