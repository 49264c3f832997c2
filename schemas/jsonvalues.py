"""The kind of what stands in a place of a JSON Schema: values, lists, maps, parts, and alternatives of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kbdisk.entity import Path, show
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.imported import Notes, Told, composite_of, distinct, several
from kbdisk.schemas.jsonchoices import WHOLES, constants, is_node, one_part, united
from kbdisk.schemas.jsonhints import HINT, PART, SEVERAL, kind_told, problem_of, refined
from kbdisk.schemas.jsonnodes import Document, Node
from kbdisk.schemas.jsonscalars import scalar
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text

UNSAID = (
    "pattern", "not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas", "minProperties",
    "maxProperties", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "uniqueItems",
    "minItems", "contentEncoding", "$dynamicRef", "$recursiveRef", "prefixItems", "additionalItems",
)  # fmt: skip
SCALARS = {"boolean", "integer", "number", "string"}
LARGEST_WHOLE = 8  # names that a date, a place or a quantity has at most
ASIDE = "^@"


@dataclass(frozen=True)
class Values:
    """Finds out kinds; what they cannot say is noted."""

    document: Document
    notes: Notes

    def kind(self, node: Node, path: Path) -> Kind | None:
        """The kind of a value; None where nothing tells it."""
        if node.either:
            node, kind = self.settled(node, path)
            return self._record(node, path) if kind is None and node.is_part() else kind
        self.note_unsaid(node, path)
        kind = self._kind(node, path)
        try:
            return refined(kind, node.told)
        except ValueError as error:
            raise self.document.wrong(f"{node.place}.{HINT}", problem_of(error)) from None

    def settled(self, node: Node, path: Path) -> tuple[Node, Kind | None]:
        """A place as the kind of its value, or as a part whose properties have places of their own."""
        if not node.either:
            alone = node.is_part() and not is_node(node) and self.whole(node, path) is None
            return node, None if alone else self.kind(node, path)
        parts = one_part(node.either)
        found, lines = [], []
        for part in parts:
            with self._aside() as told:
                kind = self.kind(part, path)
            if kind is not None:
                found.append((part, kind))
            lines.append((kind, told))
        values, spelt = constants(found)
        for text in spelt:
            self.notes.add(show(path), f"{text!r} is taken for a gap")
        node = replace(node, either=(), missing=(*node.missing, *spelt))
        kind = united(values)
        inner = next((part for part, kind in values if part.is_part() and not isinstance(kind, WHOLES)), None)
        if inner is not None and (kind is None or len(values) == 1):
            return self._as_part(node, inner, values, path)
        self._note(lines, kind, path)
        return node, kind

    def _as_part(self, node: Node, inner: Node, values: Sequence[Any], path: Path) -> tuple[Node, None]:
        if len(values) > 1:
            self.notes.add(show(path), "what is no part is left out")
        titles: dict[str, Any] = {name: node.told[name] for name in ("title", "description") if name in node.told}
        return replace(inner, told={**inner.told, **titles}, missing=node.missing), None

    def _note(self, lines: Sequence[tuple[Kind | None, list[str]]], kind: Kind | None, path: Path) -> None:
        """What the alternatives that count cannot say."""
        item = kind
        while isinstance(item, Listed):
            item = item.fields.get("")
        for one, told in lines:
            if one is None and not isinstance(item, WHOLES):
                self.notes.add(show(path), "one of its alternatives is of no kind that is known here: left out")
            elif not (isinstance(one, Text | None) and isinstance(item, (Number, *WHOLES))):
                for line in told:
                    self.notes.add("", line)
        if kind is None:
            self.notes.add(show(path), "its alternatives are of no one kind")
        elif (
            isinstance(kind, Category)
            and not kind.closed
            and not isinstance(kind, tuple(type(one) for one, _ in lines))
        ):
            self.notes.add(show(path), "any label fits")

    @contextmanager
    def _aside(self) -> Iterator[list[str]]:
        """What is noted meanwhile, apart."""
        kept = vars(self.notes).copy()
        self.notes.lines, self.notes.known = [], set()
        try:
            yield self.notes.lines
        finally:
            self.notes.lines, self.notes.known = kept["lines"], kept["known"]

    # ---------------------------------------------------------------- parts

    def fields(self, of: Node, path: Path) -> dict[str, Kind]:
        """The kinds of the fields of a part in a list or a map."""
        found = {}
        for key in of.told["properties"]:
            node = self.inner(of, "properties", key)
            kind = self.kind(node, (*path, key))
            if kind is None:
                self.notes.add(show((*path, key)), "nothing tells the kind of its values: left out")
            else:
                found[key] = kind
            for text in node.missing:
                self.notes.add(show((*path, key)), f"that {text!r} is a gap is left out")
        if of.told.get("required"):
            self.notes.add(show(path), f"{', '.join(of.told['required'])}: that they are required is left out")
        return found

    def whole(self, node: Node, path: Path) -> Kind | None:
        """The quantity, coordinate or date that an object is as a whole."""
        if len(node.told["properties"]) > LARGEST_WHOLE or kind_told(node.told) == PART:
            return None
        with self._aside():
            nodes = {key: self.inner(node, "properties", key) for key in node.told["properties"]}
            kinds = {key: Category() if one.is_null() else self.kind(one, path) for key, one in nodes.items()}
        found = None if None in kinds.values() else composite_of(kinds)
        if not isinstance(found, Quantity):
            return found
        value, unit = (next(name for name in nodes if name in known) for known in (VALUE_NAMES, UNIT_NAMES))
        closed = any(one.is_null() for one in nodes.values())
        return replace(found, names=(value, unit), any_unit=found.any_unit and not closed)

    def _record(self, node: Node, path: Path) -> Listed | None:
        fields = self.fields(node, path)
        return Listed(fields, 1) if fields else None

    def _object(self, node: Node, path: Path) -> Kind | None:
        if is_node(node):
            return Link()
        if "properties" in node.told:
            return self.whole(node, path) or self._record(node, path)
        patterns = [key for key in node.told.get("patternProperties", {}) if key != ASIDE]
        entries = [self.inner(node, "patternProperties", key) for key in patterns]
        if isinstance(node.told.get("additionalProperties"), dict):
            entries.append(self.inner(node, "additionalProperties"))
        if not entries:
            return None
        if len(entries) > 1:
            self.notes.add(show(path), "which of its kinds of entries a key has is left out: the first counts")
        return self._map(entries[0], path, self._keys(node, path))

    def _keys(self, node: Node, path: Path) -> Kind:
        """The kind of the keys of a map."""
        if "propertyNames" not in node.told:
            return Category()
        names = self.inner(node, "propertyNames")
        told = [part for part in names.either or [names] if part.told.get("pattern") != ASIDE]
        if any(set(part.told) - {"enum", "type", HINT} for part in told) and not any(
            HINT in part.told for part in told
        ):
            self.notes.add(show(path), "propertyNames is not checked")
            return Category()
        with self._aside():
            key = self.kind(told[0] if len(told) == 1 else replace(names, either=tuple(told)), path)
        return Category() if key is None or key == Text() else key

    def _map(self, entry: Node, path: Path, key: Kind) -> Mapped | None:
        if entry.is_part() and self.whole(entry, path) is None:
            fields = self.fields(entry, path)
        else:
            kind = self.kind(entry, path)
            fields = {} if kind is None else {"": kind}
        return Mapped(fields, key) if fields else None

    # ---------------------------------------------------------------- values

    def _kind(self, node: Node, path: Path) -> Kind | None:
        types = node.types()
        if "enum" in node.told and "object" not in types and "array" not in types:
            return self._listed(node, path)
        if types == {"object"}:
            return self._object(node, path)
        if "array" in types and len(types) <= 2:
            items = self._array(node, path)
            rest = replace(node, told={**node.told, "type": [*(types - {"array"})]})
            return items if len(types) == 1 or items == several(self.kind(rest, path)) else None
        if kind_told(node.told) == "category" or (len(types) > 1 and types <= SCALARS):
            if HINT not in node.told and types != {"boolean", "number", "string"}:
                self.notes.add(show(path), f"{' or '.join(sorted(types))}: any label fits")
            return Category()
        return scalar(node, types, show(path), self.notes).kind() if types <= SCALARS else None

    def _listed(self, node: Node, path: Path) -> Kind | None:
        values = [value for value in node.told["enum"] if value is not None]
        if not values:
            return None
        if not all(isinstance(value, str | int | float) for value in values):
            self.notes.add(show(path), "values that are objects or arrays are left out")
            return None
        if kind_told(node.told) == "category":
            return Category(distinct(values), closed=True)
        return Told("link" if kind_told(node.told) == "link" else "", values=tuple(values)).kind()

    def _array(self, node: Node, path: Path) -> Kind | None:
        if not isinstance(node.told.get("items"), dict):
            return None
        item = self.inner(node, "items")
        most = node.told.get("maxItems", node.told.get("maxContains") if kind_told(node.told) == "set" else None)
        if item.is_part() and self.whole(item, path) is None:
            fields = self.fields(item, path)
            kind: Kind | None = Listed(fields) if fields else None
        else:
            inner = self.kind(item, path)
            kind = None if inner is None else Listed({"": inner}) if kind_told(node.told) == "list" else several(inner)
        if kind is None or most is None:
            return kind
        if isinstance(kind, Listed):
            self.notes.add(show(path), f"maxItems {most:g} is how many are learnt, and not checked")
        return replace(kind, most=int(most)) if isinstance(kind, Set | Listed) else kind

    def inner(self, of: Node, key: str, name: str | None = None) -> Node:
        """A schema within another."""
        raw = of.told.get(key, {}) if name is None else of.told[key][name]
        place = ".".join(filter(None, (of.place, key, name)))
        return self.document.node(raw, place, of)

    def note_unsaid(self, node: Node, path: Path) -> None:
        """Note the keywords that no kind of ours can say."""
        ours = ("contains", "minContains", "maxContains") if kind_told(node.told) in ("set", SEVERAL) else ()
        for key in UNSAID:
            if key in node.told and node.told[key] is not False and key not in ours:
                self.notes.add(show(path), f"{key} is not checked")
