"""Import of JSON Schema: classes, properties, and the kind of value at each place.

    imported = jsonschema.read("phone.schema.json")      imported.schema, imported.left_out

Drafts 7, 2019-09 and 2020-12 are read, and draft 4 as far as its keywords are still in use. An object within an object has
dotted paths. An object without named properties is a map, one in an array a part of a list. Null fits everywhere: it is a gap.
The import of an exported schema (kbdisk.schemas.exporters.jsonschema) is that schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from kbdisk.entity import Path, read_path, show
from kbdisk.schemas.composites import Kind, composite_of, name_of
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.constraints import Constraint
from kbdisk.schemas.exporters.jsonschema import GAP, HINT, KEYS_IN_JSON_SCHEMA, NOVALUE, PART, SEVERAL
from kbdisk.schemas.importers.common import NO_KIND, Imported, Notes, ValueType, distinct, several
from kbdisk.schemas.importers.jsonschema_nodes import META_KEYS, Document, Node, hinted_kind, is_node, merge_parts
from kbdisk.schemas.kinds import MAX_NUMBER, Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property, spelling
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.yaml import shared_of
from kbdisk.schemas.yaml.build import Builder
from kbdisk.schemas.yaml.file_keys import ParsedProperty, PropertyKeys, read_constraint
from kbdisk.schemas.yaml.kind_keys import keys_of, known_kind, problems_of, read_kind, write_kind

HINTED_KEYS = {"role", "unique", "iri", "formula", "depends"}  # keys of a property that stand under our own keyword


def read(path: str | FilePath) -> Imported:
    """Import a JSON Schema file; SchemaError where it is none."""
    notes = Notes()
    return _Reader(Document(FilePath(path), notes), notes).imported()


class _Reader:
    """Reads one file."""

    def __init__(self, document: Document, notes: Notes) -> None:
        self.document = document
        self.notes = notes
        self.values = Values(document, notes)
        self.missing: tuple[str, ...] = ()  # the schema's spellings of a gap

    def imported(self) -> Imported:
        """The class of the root; of a root without properties, a class for each definition of an object."""
        root = self.document.node(self.document.root, "")
        while root.types() == {"array"}:
            root = self.values.inner(root, "items")
        settings = self._hints(root, "schema")
        texts = {name: settings.get(name, "") for name in ("title", "description")}
        self.missing = tuple(text for text in settings.get("missing", ()) if isinstance(text, str))
        if "properties" in root.keywords or self._hints(root, "class"):
            classes = [self._class(root, _class_name(root.keywords.get("title", "")))]
        else:
            texts = {name: root.keywords.get(name, "") for name in texts}
            classes = list(self._definitions(root))
        if not classes:
            raise self.document.wrong("", "expected a schema of objects with properties, got none.")
        named = {class_.name: class_ for class_ in classes}
        prefixes = settings.get("prefixes", {})
        schema = Schema(named, texts["title"], texts["description"], self.missing, prefixes)
        if "properties" in settings:
            shared = shared_of(settings["properties"], prefixes, f"{self.document.name}: {HINT}.schema")
            schema = replace(schema, properties=shared)
        return Imported(schema, self.notes.lines)

    def _definitions(self, root: Node) -> Iterator[Class]:
        for key in ("$defs", "definitions"):
            definitions = root.keywords.get(key, {})
            if not isinstance(definitions, dict):
                raise self.document.wrong(key, f"expected schemas by their names, got {definitions!r:.60}.")
            for name, raw in definitions.items():
                node = self.document.node(raw, f"{key}.{name}")
                if "properties" in node.keywords or self._hints(node, "class"):
                    yield self._class(node, name)

    def _class(self, node: Node, name: str) -> Class:
        hints = self._hints(node, "class")
        name = hints.get("name", name)
        properties = dict(self._properties(node, (), True))
        title = hints.get("title", node.keywords.get("title", ""))
        label = title if title != name else ""
        try:
            id = read_path(hints["id"]) if "id" in hints else None
        except ValueError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", f"{error}.".lstrip(".")) from None
        description = hints.get("description", node.keywords.get("description", ""))
        superclasses = tuple(text for text in hints.get("superclasses", ()) if isinstance(text, str))
        constraints = self._constraints(node, hints.get("constraints", ()))
        return Class(name, properties, hints.get("iri"), id, label, description, superclasses, constraints)

    def _constraints(self, node: Node, written: Iterable[Any]) -> tuple[Constraint, ...]:
        """The constraints that stand under our own keyword."""
        try:
            return tuple(map(read_constraint, written))
        except ValueError as error:
            first = next(iter(problems_of(error).values())) if isinstance(error, ValidationError) else str(error)
            raise self.document.wrong(f"{node.place}.{HINT}.constraints".lstrip("."), f"{first}.") from None

    def _hints(self, node: Node, key: str) -> dict[str, Any]:
        """The entries under our own keyword for a class or the whole schema."""
        hints = node.keywords.get(HINT, {}).get(key, {})
        kinds = {"missing": list, "prefixes": dict, "properties": dict, "superclasses": list, "constraints": list}
        if not isinstance(hints, dict) or not all(isinstance(hints[name], kinds.get(name, str)) for name in hints):
            raise self.document.wrong(
                ".".join(filter(None, (node.place, HINT, key))), f"expected its keys, got {hints!r:.60}."
            )
        return hints

    # ---------------------------------------------------------------- objects

    def _properties(self, parent: Node, at: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        """The properties of an object outside of lists; `required`: whether the object is always present."""
        names, known = parent.keywords.get("required", ()), parent.keywords.get("properties", {})
        self._note_object(parent, at)
        for key in names:
            if key not in known and key[:1] != "@":
                self.notes.add(show((*at, key)), "required, but without a schema: left out")
        for key in (key for key in known if key[:1] != "@"):
            path = (*at, key)
            if key in names and not required:
                self.notes.add(show(path), "required where the part is there, which is left out")
            yield from self._property(self.values.inner(parent, "properties", key), path, key in names and required)

    def _property(self, node: Node, path: Path, must: bool) -> Iterator[tuple[Path, Property]]:
        if node.keywords.get("enum") == []:
            self.notes.add(show(path), "no value fits: left out")
            return
        texts = {key: node.keywords.get(key, "") for key in ("title", "description")}
        hints = node.keywords.get(HINT, {})
        node, kind = self.values.resolve(node, path)
        if kind is not None:
            yield path, self._build_property(kind, node, {**texts, "required": must}, hints)
        elif node.is_part():
            yield from self._of_part(node, path, must)
        else:
            self.notes.add(show(path), NO_KIND)

    def _build_property(self, kind: Kind, node: Node, texts: Mapping[str, Any], hints: Mapping[str, Any]) -> Property:
        keys = {key: value for key, value in hints.items() if key in HINTED_KEYS}
        missing = [text for text in dict.fromkeys(node.missing) if text not in self.missing]
        keys |= {"missing": missing, "novalue": [*node.novalue], "required": texts["required"]}
        keys |= {"label": texts["title"], "description": texts["description"]} | (
            {"many": node.many} if node.many else {}
        )
        builder = Builder()
        try:
            property_ = builder.property((), ParsedProperty(kind, PropertyKeys.model_validate(keys)))
        except ValidationError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", problem_of(error)) from None
        for place, problem in builder.problems.items():
            raise self.document.wrong(f"{node.place}.{HINT}", f"{'.'.join(map(str, place))}: {problem}.")
        return property_

    def _of_part(self, node: Node, path: Path, required: bool) -> Iterator[tuple[Path, Property]]:
        self.values.note_unchecked(node, path)
        if required and not node.keywords.get("required"):
            self.notes.add(show(path), "that the part must be there is left out")
        yield from self._properties(node, path, required)

    def _note_object(self, node: Node, path: Path) -> None:
        additional = node.keywords.get("additionalProperties")
        if additional is False:
            self.notes.add(
                show(path), "additionalProperties: other properties are unknown to the schema, but no misfits"
            )
        elif isinstance(additional, dict) or "patternProperties" in node.keywords:
            self.notes.add(show(path), "other properties beside those that are named are left out")


def _class_name(title: str) -> str:
    """A title as the name of a class; empty where it is no identifier."""
    return title if title.isidentifier() else ""


# ---------------------------------------------------------------- the kind of a place


UNCHECKED_KEYWORDS = (
    "pattern", "not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas", "minProperties",
    "maxProperties", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "uniqueItems",
    "minItems", "contentEncoding", "$dynamicRef", "$recursiveRef", "prefixItems", "additionalItems",
)  # fmt: skip
SCALAR_TYPES = {"boolean", "integer", "number", "string"}
MAX_COMPOSITE_KEYS = 8  # names that a date, a place or a quantity has at most


@dataclass(frozen=True)
class Values:
    """Determines the kinds of places; constraints that no kind has are noted."""

    document: Document
    notes: Notes

    def kind(self, node: Node, path: Path) -> Kind | None:
        """The kind of a value; None where the schema does not determine it."""
        if node.either:
            node, kind = self.resolve(node, path)
            return self._record(node, path) if kind is None and node.is_part() else kind
        self.note_unchecked(node, path)
        kind = self._kind(node, path)
        try:
            return refined(kind, node.keywords)
        except ValueError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", problem_of(error)) from None

    def resolve(self, node: Node, path: Path) -> tuple[Node, Kind | None]:
        """The kind of the value at a place; None, with its node, of a part whose properties have paths of their own."""
        if not node.either:
            has_paths = node.is_part() and not is_node(node) and self.composite(node, path) is None
            return node, None if has_paths else self.kind(node, path)
        parts = merge_parts(node.either)
        alternatives, lines = [], []
        for part in parts:
            with self._apart() as notes:
                kind = self.kind(part, path)
            if kind is not None:
                alternatives.append((part, kind))
            lines.append((kind, notes))
        values, gap_spellings = split_words(alternatives)
        for text in gap_spellings:
            self.notes.add(show(path), f"{text!r} is taken for a gap")
        node = replace(node, either=(), missing=(*node.missing, *gap_spellings))
        kind = union_kind(values)
        part_ = next(
            (part for part, kind in values if part.is_part() and not isinstance(kind, SINGLE_COMPOSITES)), None
        )
        if part_ is not None and (kind is None or len(values) == 1):
            return self._as_part(node, part_, values, path)
        self._note(lines, kind, path)
        return node, kind

    def _as_part(self, node: Node, part: Node, values: Sequence[Any], path: Path) -> tuple[Node, None]:
        if len(values) > 1:
            self.notes.add(show(path), "what is no part is left out")
        titles: dict[str, Any] = {
            name: node.keywords[name] for name in ("title", "description") if name in node.keywords
        }
        return replace(part, keywords={**part.keywords, **titles}, missing=node.missing), None

    def _note(self, lines: Sequence[tuple[Kind | None, list[str]]], kind: Kind | None, path: Path) -> None:
        """Note the constraints of the alternatives that count, and the alternatives that do not."""
        item = kind
        while isinstance(item, Listed):
            item = item.fields.get("")
        for kind_, notes in lines:
            if kind_ is None and not isinstance(item, SINGLE_COMPOSITES):
                self.notes.add(show(path), "one of its alternatives is of no kind that is known here: left out")
            elif not (isinstance(kind_, Text | None) and isinstance(item, (Number, *SINGLE_COMPOSITES))):
                for line in notes:
                    self.notes.add("", line)
        if kind is None:
            self.notes.add(show(path), "its alternatives are of no one kind")
        elif (
            isinstance(kind, Category)
            and not kind.closed
            and not isinstance(kind, tuple(type(kind_) for kind_, _ in lines))
        ):
            self.notes.add(show(path), "any label fits")

    @contextmanager
    def _apart(self) -> Iterator[list[str]]:
        """Within this context notes are collected in a separate list."""
        earlier = vars(self.notes).copy()
        self.notes.lines, self.notes.known = [], set()
        try:
            yield self.notes.lines
        finally:
            self.notes.lines, self.notes.known = earlier["lines"], earlier["known"]

    # ---------------------------------------------------------------- parts

    def fields(self, parent: Node, path: Path) -> dict[str, Kind]:
        """The kinds of the fields of a part in a list or a map."""
        kinds = {}
        for key in parent.keywords["properties"]:
            node = self.inner(parent, "properties", key)
            kind = self.kind(node, (*path, key))
            if kind is None:
                self.notes.add(show((*path, key)), NO_KIND)
            else:
                kinds[key] = kind
            for text in node.missing:
                self.notes.add(show((*path, key)), f"that {text!r} is a gap is left out")
        if parent.keywords.get("required"):
            self.notes.add(show(path), f"{', '.join(parent.keywords['required'])}: that they are required is left out")
        return kinds

    def composite(self, node: Node, path: Path) -> Kind | None:
        """The quantity, coordinate or date of an object with its fields; None where it is none."""
        if len(node.keywords["properties"]) > MAX_COMPOSITE_KEYS or hinted_kind(node.keywords) == PART:
            return None
        with self._apart():
            nodes = {key: self.inner(node, "properties", key) for key in node.keywords["properties"]}
            kinds = {key: Category() if node_.is_null() else self.kind(node_, path) for key, node_ in nodes.items()}
        composite = None if None in kinds.values() else composite_of(kinds)
        if not isinstance(composite, Quantity):
            return composite
        value, unit = (next(name for name in nodes if name in known) for known in (VALUE_NAMES, UNIT_NAMES))
        is_closed = any(node_.is_null() for node_ in nodes.values())
        return replace(composite, names=(value, unit), any_unit=composite.any_unit and not is_closed)

    def _record(self, node: Node, path: Path) -> Listed | None:
        fields = self.fields(node, path)
        return Listed(fields, 1) if fields else None

    def _object(self, node: Node, path: Path) -> Kind | None:
        if is_node(node):
            return Link()
        if "properties" in node.keywords:
            return self.composite(node, path) or self._record(node, path)
        patterns = [key for key in node.keywords.get("patternProperties", {}) if key != META_KEYS]
        entries = [self.inner(node, "patternProperties", key) for key in patterns]
        if isinstance(node.keywords.get("additionalProperties"), dict):
            entries.append(self.inner(node, "additionalProperties"))
        if not entries:
            return None
        if len(entries) > 1:
            self.notes.add(show(path), "which of its kinds of entries a key has is left out: the first counts")
        return self._map(entries[0], path, self._keys(node, path))

    def _keys(self, node: Node, path: Path) -> Kind:
        """The kind of the keys of a map."""
        if "propertyNames" not in node.keywords:
            return Category()
        names = self.inner(node, "propertyNames")
        alternatives = [part for part in names.either or [names] if part.keywords.get("pattern") != META_KEYS]
        if any(set(part.keywords) - {"enum", "type", HINT} for part in alternatives) and not any(
            HINT in part.keywords for part in alternatives
        ):
            self.notes.add(show(path), "propertyNames is not checked")
            return Category()
        with self._apart():
            key = self.kind(
                alternatives[0] if len(alternatives) == 1 else replace(names, either=tuple(alternatives)), path
            )
        return Category() if key is None or key == Text() else key

    def _map(self, entry: Node, path: Path, key: Kind) -> Mapped | None:
        if entry.is_part() and self.composite(entry, path) is None:
            fields = self.fields(entry, path)
        else:
            kind = self.kind(entry, path)
            fields = {} if kind is None else {"": kind}
        return Mapped(fields, key) if fields else None

    # ---------------------------------------------------------------- values

    def _kind(self, node: Node, path: Path) -> Kind | None:
        types = node.types()
        if "enum" in node.keywords and "object" not in types and "array" not in types:
            return self._listed(node, path)
        if types == {"object"}:
            return self._object(node, path)
        if "array" in types and len(types) <= 2:
            items = self._array(node, path)
            node_without_lists = replace(node, keywords={**node.keywords, "type": [*(types - {"array"})]})
            return items if len(types) == 1 or items == several(self.kind(node_without_lists, path)) else None
        if hinted_kind(node.keywords) == "category" or (len(types) > 1 and types <= SCALAR_TYPES):
            if HINT not in node.keywords and types != {"boolean", "number", "string"}:
                self.notes.add(show(path), f"{' or '.join(sorted(types))}: any label fits")
            return Category()
        return scalar_type(node, types, show(path), self.notes).kind() if types <= SCALAR_TYPES else None

    def _listed(self, node: Node, path: Path) -> Kind | None:
        values = [value for value in node.keywords["enum"] if value is not None]
        if not values:
            return None
        if not all(isinstance(value, str | int | float) for value in values):
            self.notes.add(show(path), "values that are objects or arrays are left out")
            return None
        if hinted_kind(node.keywords) == "category":
            return Category(distinct(values), closed=True)
        return ValueType("link" if hinted_kind(node.keywords) == "link" else "", values=tuple(values)).kind()

    def _array(self, node: Node, path: Path) -> Kind | None:
        if not isinstance(node.keywords.get("items"), dict):
            return None
        item = self.inner(node, "items")
        most = node.keywords.get(
            "maxItems", node.keywords.get("maxContains") if hinted_kind(node.keywords) == "set" else None
        )
        if item.is_part() and self.composite(item, path) is None:
            fields = self.fields(item, path)
            kind: Kind | None = Listed(fields) if fields else None
        else:
            inner = self.kind(item, path)
            kind = (
                None
                if inner is None
                else Listed({"": inner})
                if hinted_kind(node.keywords) == "list"
                else several(inner)
            )
        if kind is None or most is None:
            return kind
        if isinstance(kind, Listed):
            self.notes.add(show(path), f"maxItems {most:g} is how many are learnt, and not checked")
        return replace(kind, most=int(most)) if isinstance(kind, Set | Listed) else kind

    def inner(self, parent: Node, key: str, name: str | None = None) -> Node:
        """A schema nested in another."""
        raw = parent.keywords.get(key, {}) if name is None else parent.keywords[key][name]
        place = ".".join(filter(None, (parent.place, key, name)))
        return self.document.node(raw, place, parent)

    def note_unchecked(self, node: Node, path: Path) -> None:
        """Note the keywords that no kind has."""
        read_keywords = (
            ("contains", "minContains", "maxContains") if hinted_kind(node.keywords) in ("set", SEVERAL) else ()
        )
        for key in UNCHECKED_KEYWORDS:
            if key in node.keywords and node.keywords[key] is not False and key not in read_keywords:
                self.notes.add(show(path), f"{key} is not checked")


# ---------------------------------------------------------------- single values


DATES = ("date", "date-time")


def scalar_type(node: Node, types: set[str], place: str, notes: Notes) -> ValueType:
    """The type of a boolean, a number or text."""
    if types == {"string"}:
        return ValueType("link") if hinted_kind(node.keywords) == "link" else _text_type(node, place, notes)
    if types == {"boolean"}:
        return ValueType("boolean")
    if not types:
        return ValueType()
    value_type = ValueType("integer" if types == {"integer"} else "number", **_bounds_of(node.keywords))
    return _with_step(value_type, node, place, notes)


def _text_type(node: Node, place: str, notes: Notes) -> ValueType:
    format = node.keywords.get("format")
    if format in DATES:
        return ValueType("date")
    if format is not None:
        notes.add(place, f"format {format} is not checked")
    longest = node.keywords.get("maxLength")
    return ValueType(
        "text", min_length=int(node.keywords.get("minLength", 0)), max_length=None if longest is None else int(longest)
    )


def _with_step(value_type: ValueType, node: Node, place: str, notes: Notes) -> ValueType:
    """A number type with the decimals of multipleOf."""
    step = node.keywords.get("multipleOf")
    if step is None or (step == 1 and value_type.type == "integer"):
        return value_type
    exact = Decimal(repr(step))
    sign, digits, exponent = exact.normalize().as_tuple()
    if step == 1:
        return replace(value_type, type="integer")
    if sign or digits != (1,) or not isinstance(exponent, int) or exponent > 0:
        notes.add(place, f"multipleOf {step} is not checked")
        return value_type
    notes.add(place, f"multipleOf {step} is how many decimals are written, and not checked")
    return replace(value_type, decimals=-exponent)


def _bounds_of(keywords: dict[str, Any]) -> dict[str, Any]:
    """Bounds as fields of a ValueType; in draft 4 an exclusive bound is a truth beside the bound."""
    bounds = {"minimum": keywords.get("minimum"), "maximum": keywords.get("maximum")}
    for name, inclusive, field in (("exclusiveMinimum", "minimum", "above"), ("exclusiveMaximum", "maximum", "below")):
        if keywords.get(name) is True:
            bounds |= {field: bounds[inclusive], inclusive: None}
        elif not isinstance(keywords.get(name, False), bool):
            bounds[field] = keywords[name]
    return {key: bound for key, bound in bounds.items() if bound is not None and abs(bound) < MAX_NUMBER}


# ---------------------------------------------------------------- the union of alternatives


NUMERALS = ("5", "12"), ("x", "", "5 x")  # texts that a pattern of numbers matches, and that it does not match
SINGLE_COMPOSITES = (Quantity, Date, Coordinate)
LEAF_KINDS = (Number, Category, Boolean, Text, Link)


def union_kind(alternatives: Sequence[tuple[Node, Kind]]) -> Kind | None:
    """The kind that takes the values of all alternatives; None where there is none."""
    kinds = [kind for _, kind in alternatives]
    different = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    if len(different) <= 1:
        return different[0] if different else None
    lists = [kind for kind in different if isinstance(kind, Set | Listed)]
    if lists == [Listed({"": Number()})] and Coordinate() in different:
        lists, different = [], [kind for kind in different if kind not in lists]  # a pair
    if lists:
        return _union_of_list(lists, alternatives) or (_union_of_lists(lists) if len(lists) == len(different) else None)
    if any(isinstance(kind, Mapped) for kind in different):
        return None
    return (
        _union_of_composite(alternatives, different)
        or _union_of_numbers(alternatives, different)
        or _union_of_leaves(different)
    )


def split_words(alternatives: Sequence[tuple[Node, Kind]]) -> tuple[list[tuple[Node, Kind]], tuple[str, ...]]:
    """The alternatives without words, and these words (unknown, N/A), where all other alternatives are numbers, dates, ..."""
    words = [kind for node, kind in alternatives if _is_words(node, kind)]
    others = [
        (node, kind)
        for node, kind in alternatives
        if not _is_words(node, kind) and getattr(kind, "of", None) not in words
    ]
    has_composite = any(isinstance(kind, SINGLE_COMPOSITES) for _, kind in others)
    if not others or not all(
        _takes_no_words(kind) or (isinstance(kind, Text) and (has_composite or is_numeral(node)))
        for node, kind in others
    ):
        return list(alternatives), ()
    items = [kind.fields.get("") for _, kind in others if isinstance(kind, Listed)]
    if any(item in words or getattr(item, "of", None) in words for item in items if item is not None):
        return list(alternatives), ()
    spellings = (value for kind in words for value in kind.values)
    return others, tuple(dict.fromkeys(text for value in spellings if (text := spelling(value)) is not None))


def _is_words(node: Node, kind: Kind) -> bool:
    """Whether labels are words, or stand beside null, so that they are spellings of a gap."""
    if not (isinstance(kind, Category) and kind.closed):
        return False
    return None in node.keywords["enum"] or all(isinstance(value, str) for value in kind.values)


def _takes_no_words(kind: Kind) -> bool:
    return isinstance(kind, (Number, Boolean, Mapped, Listed, *SINGLE_COMPOSITES))


def is_numeral(node: Node) -> bool:
    """Whether the pattern of a text is that of numbers."""
    try:
        pattern = re.compile(node.keywords.get("pattern", ""))
    except (re.error, TypeError, OverflowError, RecursionError):
        return False
    return all(map(pattern.search, NUMERALS[0])) and not any(map(pattern.search, NUMERALS[1]))


def _union_of_list(lists: Sequence[Set | Listed], alternatives: Sequence[tuple[Node, Kind]]) -> Kind | None:
    """The list whose item is the only other alternative."""
    for list_kind in lists:
        item = union_kind([(node, kind) for node, kind in alternatives if kind != list_kind])
        if item is not None and _is_item_of(item, list_kind):
            return list_kind
    return None


def _union_of_lists(lists: Sequence[Set | Listed]) -> Listed | None:
    """The list of parts, where a single part is the only other alternative."""
    same = [kind for kind in lists if isinstance(kind, Listed) and kind.fields == getattr(lists[0], "fields", None)]
    return max(same, key=lambda kind: kind.most != 1, default=None) if len(same) == len(lists) else None


def _is_item_of(kind: Kind, several: Set | Listed) -> bool:
    if isinstance(several, Set):
        return kind == several.of or (isinstance(kind, Text) and several.of == Category())
    return bool(kind == several.fields.get(""))


def _union_of_composite(alternatives: Sequence[tuple[Node, Kind]], different: Sequence[Kind]) -> Kind | None:
    """The quantity, date or coordinate of which the other alternatives are spellings. A bare number has a quantity's bounds."""
    composites = [kind for kind in different if isinstance(kind, SINGLE_COMPOSITES)]
    others = [kind for kind in different if not isinstance(kind, SINGLE_COMPOSITES)]
    if len(composites) != 1 or not all(isinstance(kind, Number | Text) for kind in others):
        return None
    composite, numbers = composites[0], [kind for kind in others if isinstance(kind, Number)]
    if isinstance(composite, Date) and any(_is_any_text(node) for node, kind in alternatives if kind in others):
        return None
    return replace(composite, value=numbers[0]) if isinstance(composite, Quantity) and len(numbers) == 1 else composite


def _is_any_text(node: Node) -> bool:
    return "pattern" not in node.keywords and "string" in node.types()


def _union_of_numbers(alternatives: Sequence[tuple[Node, Kind]], different: Sequence[Kind]) -> Kind | None:
    """The number of several ranges, some of them as text."""
    numbers = [kind for kind in different if isinstance(kind, Number)]
    others = [node for node, kind in alternatives if not isinstance(kind, Number)]
    if not numbers or not all(map(is_numeral, others)):
        return None
    union, *further = numbers
    for number in further:
        union = Number(
            union.integer and number.integer,
            None if None in (union.minimum, number.minimum) else min(union.minimum, number.minimum),  # type: ignore[type-var]
            None if None in (union.maximum, number.maximum) else max(union.maximum, number.maximum),  # type: ignore[type-var]
            decimals=union.decimals if union.decimals == number.decimals else None,
        )
    return union


def _union_of_leaves(different: Sequence[Kind]) -> Kind | None:
    """The text of several lengths; else the labels of a mixture of leaves."""
    if all(isinstance(kind, Text | Date) for kind in different):
        texts = [kind for kind in different if isinstance(kind, Text)]
        lengths = [text.max_length for text in texts]
        only_texts = len(texts) == len(different)
        return Text(
            None,
            None if None in lengths or not only_texts else max(lengths),  # type: ignore[type-var]
            min(text.min_length for text in texts) if only_texts else 0,
        )
    if not all(isinstance(kind, LEAF_KINDS) for kind in different):
        return None
    labels = [value for kind in different if isinstance(kind, Category) for value in kind.values]
    closed = all(isinstance(kind, Category) and kind.closed for kind in different)
    return Category(distinct(labels), closed)


# ---------------------------------------------------------------- hints


def refined(kind: Kind | None, keywords: Mapping[str, Any]) -> Kind | None:
    """A kind with the keys of the hint; unchanged where the hint is of another kind. ValueError of a wrong hint."""
    name = hinted_kind(keywords)
    if not name or name in (GAP, NOVALUE, SEVERAL, PART):
        return kind
    known_kind(name)
    if kind is None:
        return None if name in KEYS_IN_JSON_SCHEMA or name in ("boolean", "coordinate") else read_kind(keywords[HINT])
    if name_of(kind) != name:
        return kind
    written = write_kind(kind)
    known = {key: value for key, value in keywords[HINT].items() if key in keys_of(name).names()}
    if isinstance(kind, Quantity):
        known |= _units(kind, known)
    return read_kind({**(written if isinstance(written, dict) else {}), **known, "kind": name})


def _units(kind: Quantity, known: Mapping[str, Any]) -> dict[str, Any]:
    """The units that the schema itself names, with the main unit and the factors of the hint."""
    main, others = known.get("unit"), known.get("units", {})
    if not isinstance(others, dict):
        return {}
    extra_units = [unit for unit, factor in others.items() if kind.any_unit or (known.get("normal") and not factor)]
    units = dict.fromkeys([*kind.units(), *extra_units])
    main = main if kind.any_unit or main in units else None
    return {"unit": main, "units": {unit: others.get(unit) for unit in units if unit != main}}


def problem_of(error: ValueError) -> str:
    """The problem of a hint."""
    if not isinstance(error, ValidationError):
        return f"{error}."
    place, problem = next(iter(problems_of(error).items()))
    return f"{'.'.join(map(str, place))}: {problem}".strip(": ").rstrip(".") + "."
