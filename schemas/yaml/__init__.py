"""Schemas as YAML files, version 1 of the format. An error names its place: file, line, and the keys to it.

pydantic and PyYAML are loaded with this package, so it is imported where it is used and not before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from pydantic import ValidationError

from kbdisk.atomic import write_bytes
from kbdisk.entity import Path, show
from kbdisk.errors import SchemaError, WriteError
from kbdisk.locks import locked
from kbdisk.schemas import library
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Comments, Schema
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yaml.build import Builder
from kbdisk.schemas.yaml.file_keys import VERSION, FileKeys, definitions_of
from kbdisk.schemas.yaml.json_schema import format_schema
from kbdisk.schemas.yaml.kind_keys import Written, problems_of
from kbdisk.schemas.yaml.parse import Document, Place, parsed
from kbdisk.schemas.yaml.serialize import text_of, written_schema

__all__ = ["format_schema", "loads", "read", "shared_of", "to_yaml", "write"]

SUFFIXES = (".yaml", ".yml")


def read(source: str | os.PathLike[str]) -> Schema:
    """A schema: a YAML file, the name of one in the library, or (with a line break in it) YAML itself."""
    if isinstance(source, str) and "\n" in source:
        return loads(source)
    path = _found(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = "expected a file, got a folder" if path.is_dir() else f"cannot be read: {error.strerror}"
        raise SchemaError(str(source), f"{reason}.") from None
    return _read(data, str(path))


def loads(text: str | bytes, name: str = "schema") -> Schema:
    """A schema from YAML text; `name` is that of the file in errors."""
    return _read(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, name)


def shared_of(properties: Written, prefixes: Mapping[str, str], name: str) -> Mapping[Path, Property]:
    """The shared properties under the key `properties` of a file; `name` is that of the file in errors."""
    tree = {"kbdisk": VERSION, "prefixes": dict(prefixes), "properties": properties, "classes": {}}
    return _built(tree, name, None).properties or {}


def to_yaml(schema: Schema, comments: Comments | None = None, head: str = "", rule_notes: Sequence[str] = ()) -> str:
    """A schema as YAML, with `comments` beside properties of classes and, by the path (), beside classes.

    A shared property that a class does not change is listed by its path, without a comment. Each rule has its formula as a
    comment, with its note of `rule_notes`.
    """
    tree = written_schema(schema)
    _built(tree, "schema", None)
    places = {_place(name, path): comment for (name, path), comment in (comments or {}).items()}
    for place, rule in enumerate(schema.rules or ()):
        note = rule_notes[place] if place < len(rule_notes) else ""
        places["rules", str(place)] = f"{rule.text}; {note}" if note else rule.text
    return text_of(tree, places, head)


def write(
    schema: Schema,
    path: str | os.PathLike[str],
    comments: Comments | None = None,
    head: str = "",
) -> None:
    """A schema as a YAML file."""
    text = to_yaml(schema, comments, head)
    try:
        with locked(path):
            write_bytes(FilePath(path), text.encode())
    except OSError as error:
        raise SchemaError(os.fspath(path), f"cannot be written: {error.strerror}.") from None
    except WriteError as error:
        raise SchemaError(error.where, error.problem) from None


def _place(name: str | None, path: Path) -> tuple[str, ...]:
    if name is None:
        return ("properties", show(path))
    return ("classes", name, "properties", show(path)) if path else ("classes", name)


def _found(source: str | os.PathLike[str]) -> FilePath:
    """The path of a schema file, given by its path or, of the library, by its name."""
    path = FilePath(source)
    name, known = os.fspath(source), library.names()
    if path.is_file() or (path.exists() and name not in known):
        return path
    if isinstance(source, str) and path.suffix not in SUFFIXES and path.name == name:
        return library.find(name)
    if path.stem in known:
        raise SchemaError(name, f"no such file. The library has {path.stem!r}: say that name alone.")
    raise SchemaError(name, f"no such file.{did_you_mean(path.stem, known)} The library has {', '.join(known)}.")


def _read(data: bytes, name: str) -> Schema:
    document = parsed(data, name)
    if not isinstance(document.tree, dict):
        got = "nothing" if document.tree in (None, "") else "a list" if isinstance(document.tree, list) else "text"
        raise SchemaError(name, f"expected a schema, a mapping that begins with `kbdisk: 1`, got {got}.")
    return _built(document.tree, name, document)


def _built(tree: Written, name: str, document: Document | None) -> Schema:
    """The schema of a tree of keys and values; SchemaError with its first problem, and the number of the others."""
    builder = Builder()
    try:
        schema = builder.schema(FileKeys.model_validate(tree, context=definitions_of(tree)))
        problems = builder.problems
    except ValidationError as error:
        problems = problems_of(error)
    if not problems:
        return schema
    place = min(problems, key=document.line) if document else next(iter(problems))
    where = f"{name}:{document.line(place)}" if document else name
    more = f" (And {len(problems) - 1} more.)" if len(problems) > 1 else ""
    shown = f": {_shown(place)}" if place else ""
    end = "" if problems[place].endswith((".", "?")) else "."
    raise SchemaError(where + shown, problems[place] + end + more)


def _shown(place: Place) -> str:
    """The keys to a place: Phone.properties.weight.unit."""
    keys = place[1:] if place[0] == "classes" and len(place) > 1 else place
    text = ""
    for n, key in enumerate(keys):
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            is_path = n > 0 and keys[n - 1] == "properties" and n == (1 if place[0] == "properties" else 2)
            text += ("." if n else "") + (key if is_path else show((key,)))
    return text
