"""SHACL shapes to a schema: node shapes with a class are classes, property shapes their properties.

    imported = shacl.read("shapes.ttl")      imported.schema, imported.left_out

Keys are what the RDF loaders call predicates (docs/decisions/0003). Shapes of the same class, of its superclasses in the
same file, and under sh:node and sh:and hold together; what several of them say of one path is one property.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TypeAlias

from pyoxigraph import NamedNode

from kbdisk.entity import Path, show
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.imported import BY_KIND, RDF, Imported, Notes, composite_of, quantity_of
from kbdisk.schemas.iris import last_word
from kbdisk.schemas.leaf import Category, Link, Number, Set, Text
from kbdisk.schemas.schema import Class, Property, Schema
from kbdisk.schemas.shapes import OWL, RDFS, SH, Graph, Shape, Term, is_iri, is_off
from kbdisk.schemas.shapevalue import value_told

Properties: TypeAlias = dict[Path, Property]

GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
PLACE = ("coordinate",)  # the loaders' key for geo:lat and geo:long of one thing
TARGETS = frozenset({"targetNode", "targetSubjectsOf", "targetObjectsOf", "target"})
ON_NODES = frozenset({"property", "targetClass", "node", "and", "deactivated", "severity"})
SILENT = frozenset({
    "message", "name", "description", "order", "group", "defaultValue", "ignoredProperties", "flags", "prefixes", "declare",
})  # fmt: skip
SAID = ON_NODES | SILENT | {
    "path", "closed", "minCount", "maxCount", "nodeKind", "datatype", "class", "in", "hasValue", "or", "xone", "minInclusive",
    "maxInclusive", "minExclusive", "maxExclusive", "minLength", "maxLength", "languageIn", "uniqueLang",
}  # fmt: skip


def read(path: str | FilePath) -> Imported:
    """The schema that a file of shapes tells; SchemaError where it is no such file."""
    return _Reader(Graph.read(FilePath(path))).imported()


class _Reader:
    """Reads one graph of shapes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.notes = Notes()
        self.words: dict[str, str] = {}  # key -> IRI, of predicates
        self.names: dict[str, str] = {}  # class IRI -> name
        self.shapes: dict[str, list[Term]] = {}  # class IRI -> its shapes
        self.open: list[frozenset[Term]] = []  # the shapes of parts that are being read

    def imported(self) -> Imported:
        """All classes."""
        for node in list(self.graph.facts):
            self._targets(node)
        if not self.shapes:
            raise SchemaError(self.graph.name, "expected SHACL shapes with sh:targetClass, got none.")
        taken: dict[str, str] = {}
        self.names = {iri: self._word(iri, taken) for iri in self.shapes}
        classes = {name: self._class(iri, name) for iri, name in self.names.items()}
        if any(self.graph.objects(node, SH + "datatype") for node in self.graph.facts):
            self.notes.add("", BY_KIND)
        if any(self.graph.objects(node, OWL + "imports") for node in self.graph.facts):
            self.notes.add("owl:imports", "other files are not read")
        used = [iri for iri in (*self.names, *self.words.values()) if iri]
        prefixes = {
            prefix: space
            for prefix, space in self.graph.prefixes.items()
            if prefix and any(iri.startswith(space) for iri in used)
        }
        return Imported(Schema(classes, prefixes=prefixes), self.notes.lines)

    # ---------------------------------------------------------------- classes

    def _targets(self, node: Term) -> None:
        """Note which classes a node is a shape of."""
        facts = self.graph.facts[node]
        kinds = {one.value for one in facts.get(RDF + "type", ()) if is_iri(one)}
        shape = kinds & {SH + "NodeShape", SH + "PropertyShape"} or SH + "property" in facts
        targets = [one.value for one in self.graph.objects(node, SH + "targetClass") if is_iri(one)]
        if shape and kinds & {RDFS + "Class", OWL + "Class"} and is_iri(node):
            targets.append(node.value)
        if is_off(self.graph, node):
            return
        for iri in targets:
            self.shapes.setdefault(iri, []).append(node)
        for key in facts:
            if key.startswith(SH) and key[len(SH) :] in TARGETS:
                self.notes.add(str(node), f"sh:{key[len(SH) :]} names entities by no class: that target is left out")

    def _class(self, iri: str, name: str) -> Class:
        nodes = [node for one in self._ancestry(iri) for node in self.shapes.get(one, ())]
        shape = Shape(self.graph, nodes, name)
        for said in shape.told():
            if said == "closed":
                self._note_closed(shape)
            elif said not in ON_NODES | SILENT | TARGETS and not (said in SAID and shape.all("path")):
                self.notes.add(name, f"sh:{said} of the whole entity is left out")
        own = [node for node in shape.nodes if self.graph.objects(node, SH + "path")]
        properties = dict(self._properties(name, (), self._property_nodes(shape, own)))
        about = [*(self.shapes[iri]), NamedNode(iri)]
        label = self.graph.text(about, RDFS + "label", SH + "name")
        description = self.graph.text(about, SH + "description", RDFS + "comment")
        above = tuple(self._ancestry(iri)[1:])
        return Class(name, self._placed(properties), iri, label=label, description=description, superclasses=above)

    def _ancestry(self, iri: str) -> list[str]:
        """A class and the superclasses that the file tells."""
        found = [iri]
        for one in found:
            supers = (above.value for above in self.graph.objects(NamedNode(one), RDFS + "subClassOf") if is_iri(above))
            found += [above for above in supers if above not in found]
        return found

    def _placed(self, properties: Properties) -> Properties:
        """geo:lat and geo:long of one thing are one coordinate, as the loaders read them."""
        places = {one.iri: path for path, one in properties.items() if len(path) == 1}
        pair = [places.get(GEO + "lat"), places.get(GEO + "long")]
        if None in pair or PLACE in properties:
            return properties
        required = all(one.required for path, one in properties.items() if path in pair)
        whole = {PLACE: Property(Coordinate(), required=required)}
        return {path: one for path, one in properties.items() if path not in pair} | whole

    # ---------------------------------------------------------------- properties

    def _property_nodes(self, shape: Shape, own: Iterable[Term] = ()) -> dict[str, list[Term]]:
        """The property shapes of a shape, by their paths, in their order; `own` are such that have a target themselves."""
        found: dict[str, list[Term]] = {}
        for node in [*own, *shape.all("property")]:
            self.notes.step(self.graph.name)
            if is_off(self.graph, node):
                continue
            paths = self.graph.objects(node, SH + "path")
            if len(paths) != 1:
                raise SchemaError(self.graph.name, f"{shape.where}: expected one sh:path, got {len(paths)} in {node}.")
            if is_iri(paths[0]):
                found.setdefault(paths[0].value, []).append(node)
            else:
                self.notes.add(shape.where, f"{self._shown(node, paths[0])}: only paths of one predicate are read")
        return dict(sorted(found.items(), key=lambda item: self._order(item[1])))

    def _order(self, nodes: list[Term]) -> float:
        return min([*Shape(self.graph, nodes, "sh:order").numbers("order"), float("inf")])

    def _shown(self, node: Term, path: Term) -> str:
        named = self.graph.text([node], SH + "name")
        kinds = [key[len(SH) :] for key in self.graph.facts.get(path, ()) if key.startswith(SH)]
        return f"{'sh:' + kinds[0] if kinds else 'a sequence path'}{f' ({named})' if named else ''}"

    def _properties(self, where: str, at: Path, shapes: dict[str, list[Term]]) -> Iterator[tuple[Path, Property]]:
        for iri, nodes in shapes.items():
            if iri == RDF + "type":
                self.notes.add(where, "rdf:type is no property but the class")
                continue
            path = (*at, self._word(iri, self.words))
            place = f"{where.partition('.')[0]}.{show(path)}"
            shape = Shape(self.graph, nodes, place)
            self._note_unsaid(shape)
            if any(most < 1 for most in shape.counts("maxCount")):
                self.notes.add(place, "sh:maxCount 0: that it must not be there is left out")
                continue
            yield from self._property(path, iri, shape)

    def _property(self, path: Path, iri: str, shape: Shape) -> Iterator[tuple[Path, Property]]:
        least = max(shape.counts("minCount"), default=0)
        most = min(shape.counts("maxCount"), default=None)
        required = least >= 1 or (bool(shape.all("hasValue")) and most == 1)
        label, description = (
            self.graph.text(shape.nodes, SH + "name"),
            self.graph.text(shape.nodes, SH + "description"),
        )
        if least > 1:
            self.notes.add(shape.where, f"sh:minCount {least}: that there must be more than one is left out")
        fields = self._fields(path, shape)
        kind = value_told(shape, self.names, self.notes, most)
        whole = _whole(kind, fields or {})
        if fields and whole is None:
            yield from self._of_part(path, shape, fields, required, most)
            return
        kind = whole or kind
        if kind is None:
            self.notes.add(shape.where, "nothing tells the kind of its values: left out")
        else:
            one = Property(kind, required=required, iri=iri, label=label, description=description)
            yield path, self._counted(shape, one, most)

    def _counted(self, shape: Shape, one: Property, most: int | None) -> Property:
        """A property with as many values as are allowed."""
        kind = one.kind
        if most == 1:
            return one
        if isinstance(kind, Category | Link) or kind == Text(""):
            return replace(one, kind=Set(Category() if isinstance(kind, Text) else kind, most))
        many = "median" if isinstance(kind, Number) else "latest" if isinstance(kind, Date) else "first"
        allowed = "several" if most is None else f"up to {most}"
        self.notes.add(shape.where, f"{allowed} values are allowed: of several, {many} counts")
        return replace(one, many=many)  # type: ignore[arg-type]

    def _note_unsaid(self, shape: Shape) -> None:
        for said in shape.told():
            if said == "severity" and any(last_word(one) != "Violation" for one in shape.iris("severity")):
                self.notes.add(shape.where, "sh:severity: what is but a warning there is a misfit here")
            elif said == "uniqueLang" and any(one.value in ("true", "1") for one in shape.all("uniqueLang")):
                self.notes.add(shape.where, "sh:uniqueLang is not checked")
            elif said == "closed":
                self._note_closed(shape)
            elif said not in SAID:
                self.notes.add(shape.where, f"sh:{said} is not checked")

    def _note_closed(self, shape: Shape) -> None:
        if any(one.value in ("true", "1") for one in shape.all("closed")):
            self.notes.add(shape.where, "sh:closed: other properties are unknown to the schema, but no misfits")

    # ---------------------------------------------------------------- parts

    def _fields(self, path: Path, shape: Shape) -> dict[Path, Property] | None:
        """The properties of the node that is the value; None where the value is no such node, or another entity."""
        nested = self._property_nodes(shape)
        kinds = {last_word(iri) for iri in shape.iris("nodeKind")}
        known = any(iri in self.shapes for iri in shape.iris("class"))
        if not nested or "IRI" in kinds or (known and "BlankNode" not in kinds):
            if nested:
                self.notes.add(shape.where, "what must hold of the entity that it links to is left to its class")
            return None
        if frozenset(shape.nodes) & frozenset().union(*self.open) or len(self.open) > 20:
            self.notes.add(shape.where, "a shape within itself: cut here")
            return None
        self.open.append(frozenset(shape.nodes))
        fields = dict(self._properties(shape.where, path, nested))
        self.open.pop()
        return {inner[len(path) :]: one for inner, one in fields.items()}

    def _of_part(
        self, path: Path, shape: Shape, fields: Properties, required: bool, most: int | None
    ) -> Iterator[tuple[Path, Property]]:
        """A part's own properties, or a list of parts."""
        must = [inner for inner, one in fields.items() if one.required]
        if most == 1:
            if must and not required:
                self.notes.add(shape.where, f"{_names(must)}: required where the part is there, which is left out")
            if required and not must:
                self.notes.add(shape.where, "that the part must be there is left out")
            for inner, one in fields.items():
                yield (*path, *inner), replace(one, required=one.required and required)
            return
        if must:
            self.notes.add(shape.where, f"{_names(must)}: that they are required in each part is left out")
        if most is not None:
            self.notes.add(shape.where, f"sh:maxCount {most} is how many are learnt, and not checked")
        listed = Listed(_nested(fields), most)
        label = self.graph.text(shape.nodes, SH + "name")
        yield path, Property(listed, required=required, iri=self.words[str(path[-1])], label=label)

    def _word(self, iri: str, taken: dict[str, str]) -> str:
        """The last word of an IRI; where another has it, with its prefix; else the IRI."""
        word = last_word(iri)
        prefix = next((name for name, space in self.graph.prefixes.items() if name and space + word == iri), "")
        key = next(one for one in (word, f"{prefix}:{word}" if prefix else iri, iri) if taken.get(one, iri) == iri)
        taken[key] = iri
        return key


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(map(show, paths))


def _whole(kind: Kind | None, fields: Properties) -> Kind | None:
    """The composite that a part with these fields, or of a class that tells it, is as a whole."""
    kinds = {str(path[0]): one.kind for path, one in fields.items() if len(path) == 1}
    if isinstance(kind, Quantity) and kinds:
        units = [unit for name, unit in kinds.items() if name in UNIT_NAMES]
        return quantity_of(next((kinds[name] for name in kinds if name in VALUE_NAMES), None), units)
    if isinstance(kind, Coordinate):
        return kind
    return composite_of(kinds) if len(kinds) == len(fields) else None


def _nested(fields: Properties) -> dict[str, Kind]:
    """Fields of a list's parts: one key each; what is deeper is a list of one."""
    heads = dict.fromkeys(str(path[0]) for path in fields)
    found: dict[str, Kind] = {}
    for head in heads:
        inner = {path[1:]: one for path, one in fields.items() if path[0] == head}
        own = inner.pop((), None)
        if own is not None:
            found[head] = Listed({"": own.kind}) if own.many else own.kind
        elif inner:
            found[head] = Listed(_nested(inner), 1)
    return found
