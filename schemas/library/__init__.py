"""Schemas that come with kbdisk, written by hand: `Schema.read("phone")` finds phone.yaml here by its name.

To add one: NAME.yaml in this folder, and its data in tests/schemas/test_library.py.
"""

from __future__ import annotations

from pathlib import Path

from kbdisk.errors import SchemaError
from kbdisk.schemas.text.names import did_you_mean

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of the schemas in the library."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def find(name: str) -> Path:
    """The file of a library schema; SchemaError where the library has none of that name."""
    if name in names():
        return FOLDER / f"{name}.yaml"
    known = f"The library has {', '.join(names())}; a file is named with its suffix, as in phone.yaml."
    raise SchemaError(name, f"unknown schema.{did_you_mean(name, names())} {known}")
