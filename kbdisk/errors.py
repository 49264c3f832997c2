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
"""

from __future__ import annotations

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
