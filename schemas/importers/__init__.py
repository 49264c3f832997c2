"""IMPORTERS, the table of the languages of schemas: SHACL, JSON Schema, and those that installed packages add.

LinkML is added so, by an entry point of kbdisk's own distribution.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path as FilePath

from kbdisk.errors import SchemaError
from kbdisk.plugins import Table, load_part
from kbdisk.schemas.importers.common import Imported, Importer
from kbdisk.schemas.schema import Schema

__all__ = ["IMPORTERS", "Imported", "Importer", "is_kbdisk_schema", "language_of", "read", "read_constraints"]

SHACL = b"http://www.w3.org/ns/shacl#"
KBDISK = re.compile(rb"^kbdisk\s*:", re.MULTILINE)


def is_shacl(data: bytes) -> bool:
    """Whether a file has the namespace of SHACL."""
    return SHACL in data


def is_json(data: bytes) -> bool:
    """Whether a file has a JSON object."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


IMPORTERS: Table[Importer] = Table(
    "kbdisk.importers",
    {
        "shacl": Importer("SHACL", "kbdisk.schemas.importers.shacl:read", is_shacl),
        "jsonschema": Importer("JSON Schema", "kbdisk.schemas.importers.jsonschema:read", is_json),
    },
    Importer,
)


def read(path: str | FilePath, language: str | None = None) -> Imported:
    """Import a file; by default in the language that its content shows."""
    path = FilePath(path)
    if language is not None and language not in IMPORTERS:
        raise SchemaError(str(path), f"expected one of {', '.join(IMPORTERS)} as language, got {language!r}.")
    imported: Imported = load_part(IMPORTERS[language or language_of(path)].read)(path)
    return imported


def read_constraints(path: str | FilePath, report: Callable[[str], None]) -> Schema:
    """The schema of a file in any language, for its constraints; `report` gets a line for each that is not enforced."""
    if is_kbdisk_schema(FilePath(path)):
        return Schema.read(path)
    imported = read(path)
    for line in imported.left_out:
        report(f"{path}: not enforced: {line}")
    return imported.schema


def is_kbdisk_schema(path: FilePath) -> bool:
    """Whether a file is a schema of kbdisk itself."""
    return path.is_file() and SHACL not in (data := path.read_bytes()) and KBDISK.search(data) is not None


def language_of(path: FilePath) -> str:
    """The language of a file; SchemaError where it is none that is known."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}".lower()
        raise SchemaError(str(path), f"{reason}.") from None
    if not data.strip():
        raise SchemaError(str(path), "expected a schema, got an empty file.")
    if KBDISK.search(data) and not is_shacl(data) and not is_json(data):
        raise SchemaError(str(path), "is a schema of kbdisk's already. Use it as it is.")
    for name, importer in IMPORTERS.items():
        if load_part(importer.is_written_in)(data):
            return name
    labels = ", ".join(importer.label for importer in IMPORTERS.values())
    raise SchemaError(str(path), f"expected {labels}, got none of them. Say --from where it is one.")
