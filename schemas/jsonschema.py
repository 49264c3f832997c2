"""JSON Schema to a schema, and the JSON Schema of the data that fits a schema of ours.

    imported = jsonschema.read("phone.schema.json")      jsonschema.export(schema)

Drafts 7, 2019-09 and 2020-12 (and what of draft 4 is still met). An object within an object has dotted paths; one whose
keys are not told is a map, one in an array a part of a list. Null fits everywhere: it is a gap. Reading what was exported
gives the same schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from kbdisk.entity import Path, read_path, show
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.constraints import Constraint
from kbdisk.schemas.imported import Imported, Notes
from kbdisk.schemas.jsonexport import export
from kbdisk.schemas.jsonhints import HINT, problem_of
from kbdisk.schemas.jsonnodes import Document, Node
from kbdisk.schemas.jsonvalues import Values
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.yaml import shared_of
from kbdisk.schemas.yaml.build import Builder
from kbdisk.schemas.yaml.file_keys import ParsedProperty, PropertyKeys, read_constraint
from kbdisk.schemas.yaml.kind_keys import problems_of

__all__ = ["export", "read"]

ASIDE = {"role", "unique", "iri", "formula", "depends"}  # keys of a property that stand under our own keyword


def read(path: str | FilePath) -> Imported:
    """The schema that a JSON Schema file tells; SchemaError where it is no such file."""
    notes = Notes()
    return _Reader(Document(FilePath(path), notes), notes).imported()


class _Reader:
    """Reads one file."""

    def __init__(self, document: Document, notes: Notes) -> None:
        self.document = document
        self.notes = notes
        self.values = Values(document, notes)
        self.missing: tuple[str, ...] = ()  # of the whole schema

    def imported(self) -> Imported:
        """One class, or (where the file is but definitions) one for each definition of an object."""
        root = self.document.node(self.document.root, "")
        while root.types() == {"array"}:
            root = self.values.inner(root, "items")
        whole = self._aside(root, "schema")
        told = {name: whole.get(name, "") for name in ("title", "description")}
        self.missing = tuple(text for text in whole.get("missing", ()) if isinstance(text, str))
        if "properties" in root.told or self._aside(root, "class"):
            classes = [self._class(root, _name(root.told.get("title", "")))]
        else:
            told = {name: root.told.get(name, "") for name in told}
            classes = list(self._definitions(root))
        if not classes:
            raise self.document.wrong("", "expected a schema of objects with properties, got none.")
        named = {one.name: one for one in classes}
        prefixes = whole.get("prefixes", {})
        schema = Schema(named, told["title"], told["description"], self.missing, prefixes)
        if "properties" in whole:
            shared = shared_of(whole["properties"], prefixes, f"{self.document.name}: {HINT}.schema")
            schema = replace(schema, properties=shared)
        return Imported(schema, self.notes.lines)

    def _definitions(self, root: Node) -> Iterator[Class]:
        for key in ("$defs", "definitions"):
            told = root.told.get(key, {})
            if not isinstance(told, dict):
                raise self.document.wrong(key, f"expected schemas by their names, got {told!r:.60}.")
            for name, raw in told.items():
                node = self.document.node(raw, f"{key}.{name}")
                if "properties" in node.told or self._aside(node, "class"):
                    yield self._class(node, name)

    def _class(self, node: Node, name: str) -> Class:
        of = self._aside(node, "class")
        name = of.get("name", name)
        properties = dict(self._properties(node, (), True))
        title = of.get("title", node.told.get("title", ""))
        label = title if title != name else ""
        try:
            id = read_path(of["id"]) if "id" in of else None
        except ValueError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", f"{error}.".lstrip(".")) from None
        description = of.get("description", node.told.get("description", ""))
        superclasses = tuple(text for text in of.get("superclasses", ()) if isinstance(text, str))
        constraints = self._constraints(node, of.get("constraints", ()))
        return Class(name, properties, of.get("iri"), id, label, description, superclasses, constraints)

    def _constraints(self, node: Node, written: Iterable[Any]) -> tuple[Constraint, ...]:
        """The constraints that stand under our own keyword."""
        try:
            return tuple(map(read_constraint, written))
        except ValueError as error:
            first = next(iter(problems_of(error).values())) if isinstance(error, ValidationError) else str(error)
            raise self.document.wrong(f"{node.place}.{HINT}.constraints".lstrip("."), f"{first}.") from None

    def _aside(self, node: Node, key: str) -> dict[str, Any]:
        """What stands under our own keyword for a class or the whole schema."""
        told = node.told.get(HINT, {}).get(key, {})
        kinds = {"missing": list, "prefixes": dict, "properties": dict, "superclasses": list, "constraints": list}
        if not isinstance(told, dict) or not all(isinstance(told[name], kinds.get(name, str)) for name in told):
            raise self.document.wrong(
                ".".join(filter(None, (node.place, HINT, key))), f"expected its keys, got {told!r:.60}."
            )
        return told

    # ---------------------------------------------------------------- objects

    def _properties(self, of: Node, at: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        """The properties of an object that is there once; `required`: it is certainly there."""
        names, known = of.told.get("required", ()), of.told.get("properties", {})
        self._note_object(of, at)
        for key in names:
            if key not in known and key[:1] != "@":
                self.notes.add(show((*at, key)), "required, but of no told kind: left out")
        for key in (key for key in known if key[:1] != "@"):
            path = (*at, key)
            if key in names and not required:
                self.notes.add(show(path), "required where the part is there, which is left out")
            yield from self._property(self.values.inner(of, "properties", key), path, key in names and required)

    def _property(self, node: Node, path: Path, must: bool) -> Iterator[tuple[Path, Property]]:
        if node.told.get("enum") == []:
            self.notes.add(show(path), "no value fits: left out")
            return
        told = {key: node.told.get(key, "") for key in ("title", "description")}
        aside = node.told.get(HINT, {})
        node, kind = self.values.settled(node, path)
        if kind is not None:
            yield path, self._made(kind, node, {**told, "required": must}, aside)
        elif node.is_part():
            yield from self._of_part(node, path, must)
        else:
            self.notes.add(show(path), "nothing tells the kind of its values: left out")

    def _made(self, kind: Kind, node: Node, told: Mapping[str, Any], aside: Mapping[str, Any]) -> Property:
        keys = {key: value for key, value in aside.items() if key in ASIDE}
        missing = [text for text in dict.fromkeys(node.missing) if text not in self.missing]
        keys |= {"missing": missing, "novalue": [*node.novalue], "required": told["required"]}
        keys |= {"label": told["title"], "description": told["description"]} | (
            {"many": node.many} if node.many else {}
        )
        builder = Builder()
        try:
            made = builder.property((), ParsedProperty(kind, PropertyKeys.model_validate(keys)))
        except ValidationError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", problem_of(error)) from None
        for place, problem in builder.problems.items():
            raise self.document.wrong(f"{node.place}.{HINT}", f"{'.'.join(map(str, place))}: {problem}.")
        return made

    def _of_part(self, node: Node, path: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        self.values.note_unsaid(node, path)
        if required and not node.told.get("required"):
            self.notes.add(show(path), "that the part must be there is left out")
        yield from self._properties(node, path, required)

    def _note_object(self, node: Node, path: Path) -> None:
        extra = node.told.get("additionalProperties")
        if extra is False:
            self.notes.add(
                show(path), "additionalProperties: other properties are unknown to the schema, but no misfits"
            )
        elif isinstance(extra, dict) or "patternProperties" in node.told:
            self.notes.add(show(path), "other properties beside those told are left out")


def _name(title: str) -> str:
    """A title that can be the name of a class."""
    return title if title.isidentifier() else ""
