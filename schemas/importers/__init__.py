"""Import of schemas in other languages: SHACL, JSON Schema, LinkML. Each has a module with `read(path)`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path as FilePath

from kbdisk.errors import SchemaError
from kbdisk.schemas.importers.common import Imported
from kbdisk.schemas.schema import Schema

LANGUAGES = {"shacl": "SHACL", "jsonschema": "JSON Schema", "linkml": "LinkML"}  # by the names of the modules
SHACL = b"http://www.w3.org/ns/shacl#"
KBDISK = re.compile(rb"^kbdisk\s*:", re.MULTILINE)
LINKML = re.compile(rb"^(classes|slots|enums|types)\s*:", re.MULTILINE)


def read(path: str | FilePath, language: str | None = None) -> Imported:
    """Import a file; by default in the language that its content shows."""
    path = FilePath(path)
    module = importlib.import_module(f"kbdisk.schemas.importers.{language or language_of(path)}")
    imported: Imported = module.read(path)
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
    if SHACL in data:
        return "shacl"
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return "jsonschema"
    if KBDISK.search(data):
        raise SchemaError(str(path), "is a schema of kbdisk's already. Use it as it is.")
    if LINKML.search(data):
        return "linkml"
    raise SchemaError(
        str(path), f"expected {', '.join(LANGUAGES.values())}, got none of them. Say --from where it is one."
    )
