"""SHACL shapes to a schema: node shapes with a class are classes, property shapes their properties.

    imported = shacl.read("shapes.ttl")      imported.schema, imported.left_out

Keys are what the RDF loaders call predicates (docs/decisions/0003). Shapes of the same class, of its superclasses in the
same file, and under sh:node and sh:and hold together; what several of them say of one path is one property. What holds of
several properties, or of several values of one, are constraints of the class. OWL's functional and inverse properties of the
same file are read, too. Every constraint of the file that neither says is listed in `left_out`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TypeAlias

from pyoxigraph import NamedNode

from kbdisk.entity import Date as Day
from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Path, Value, show
from kbdisk.entity import Text as LanguageText
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.constraints import Constraint, ValueShape, item_kind
from kbdisk.schemas.imported import BY_KIND, RDF, Imported, Notes, composite_of, quantity_of
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.shapes import DASH, OWL, RDFS, SH, Graph, Shape, Term, is_iri, is_off, value_of
from kbdisk.schemas.shapevalue import EVERY, qualifying, value_told, values_of
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import last_word

Properties: TypeAlias = dict[Path, Property]

GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
PLACE = ("coordinate",)  # the loaders' key for geo:lat and geo:long of one thing
TARGETS = frozenset({"targetNode", "targetSubjectsOf", "targetObjectsOf", "target"})
ON_NODES = frozenset({"property", "targetClass", "node", "and", "deactivated", "severity"})
SILENT = frozenset({
    "message", "name", "description", "order", "group", "defaultValue", "ignoredProperties", "flags", "prefixes", "declare",
})  # fmt: skip
PAIRS = {"lessThan": "less_than", "lessThanOrEquals": "less_than_or_equals", "equals": "equals", "disjoint": "disjoint"}
QUALIFIED = ("qualifiedValueShape", "qualifiedMinCount", "qualifiedMaxCount", "qualifiedValueShapesDisjoint")
SAID = ON_NODES | SILENT | {
    "path", "closed", "minCount", "maxCount", "nodeKind", "datatype", "class", "in", "hasValue", "or", "xone", "minInclusive",
    "maxInclusive", "minExclusive", "maxExclusive", "minLength", "maxLength", "languageIn", "uniqueLang", "pattern",
    *PAIRS, *QUALIFIED,
}  # fmt: skip
KINDLESS = "nothing tells the kind of its values: left out"
FOR_EDITORS = frozenset({  # of DASH: how a form shows a property
    "editor", "viewer", "propertyRole", "hidden", "readOnly", "abstract", "facet", "indexed", "icon", "detailsEditor",
    "defaultViewForRole", "propertySuggestionGenerator", "neverMaterialize", "applicableToClass",
})  # fmt: skip
UNREAD_OWL = {
    "Restriction": "restrictions of OWL classes are not read",
    "TransitiveProperty": "transitive properties are no constraint here",
    "AsymmetricProperty": "is not checked",
    "IrreflexiveProperty": "is not checked",
    "ReflexiveProperty": "is not checked",
}


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
        self.constraints: list[tuple[str, str, Constraint]] = []  # of a class: where they stand, what they are called
        self.kindless: dict[Path, tuple[Shape, Property, int | None]] = {}  # of a class, with their greatest number
        self.components = self._component_parameters()

    def imported(self) -> Imported:
        """All classes."""
        for node in list(self.graph.facts):
            self._targets(node)
        if not self.shapes:
            raise SchemaError(self.graph.name, "expected SHACL shapes with sh:targetClass, got none.")
        taken: dict[str, str] = {}
        self.names = {iri: self._word(iri, taken) for iri in self.shapes}
        classes = {name: self._class(iri, name) for iri, name in self.names.items()}
        classes = self._with_inverses(classes)
        self._note_owl()
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
        self.constraints, self.kindless = [], {}
        self._note_foreign(shape)
        for said in shape.told():
            on_node = said in {"closed", *ON_NODES} | SILENT | TARGETS
            if not on_node and not (said in SAID and shape.all("path")):
                self.notes.add(name, f"sh:{said} of the whole entity is left out")
        own = [node for node in shape.nodes if self.graph.objects(node, SH + "path")]
        properties = dict(self._properties(name, (), self._property_nodes(shape, own)))
        properties |= dict(self._of_partners(properties))
        about = [*(self.shapes[iri]), NamedNode(iri)]
        label = self.graph.text(about, RDFS + "label", SH + "name")
        description = self.graph.text(about, SH + "description", RDFS + "comment")
        above = tuple(self._ancestry(iri)[1:])
        properties = self._placed(properties)
        distinct: list[Constraint] = []  # a kind in one may have no hash
        for constraint in (*self._enforced(properties), *self._closed(shape, properties)):
            distinct += [constraint] if constraint not in distinct else []
        return Class(name, properties, iri, None, label, description, above, tuple(distinct))

    def _enforced(self, properties: Properties) -> Iterator[Constraint]:
        """The constraints of a class on properties that it has; the others are noted."""
        of = Class("", properties)
        for where, named, constraint in self.constraints:
            absent = [path for path in constraint.paths if not of.has(path)]
            if not absent or constraint.most == 0:
                yield constraint
            else:
                what = f"nothing tells the kind of {_names(absent)}"
                if any(path[: len(head)] == head for path in absent for head in properties):
                    what = f"{_names(absent)} is part of one value here"
                self.notes.add(where, f"{named} is not checked: {what}")

    def _closed(self, shape: Shape, properties: Properties) -> Iterator[Constraint]:
        """A constraint for each closed shape: an entity has the properties that this shape names, and no others."""
        for node in shape.nodes:
            closed = Shape(self.graph, [], shape.where)
            closed.nodes = [node]
            if not closed.is_true("closed"):
                continue
            named = [path for inner in closed.all("property") for path in self.graph.objects(inner, SH + "path")]
            named += [path for ignored in closed.lists("ignoredProperties") for path in ignored]
            iris = [path.value for path in named if is_iri(path) and path.value != RDF + "type"]
            keys = dict.fromkeys((self._word(iri, self.words),) for iri in iris)
            if {GEO + "lat", GEO + "long"} & set(iris):
                keys[PLACE] = None
            is_all = set(keys) == {path[:1] for path in properties}
            if keys or not properties:
                yield Constraint("closed", allowed=() if is_all else tuple(keys))
            else:
                self.notes.add(shape.where, "sh:closed of a shape without properties is not checked")

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
                self._add(shape, "sh:maxCount", Constraint("count", path, most=0))
                continue
            self._pairs(path, shape)
            self._of_values(path, iri, shape)
            yield from self._property(path, iri, shape)

    def _add(self, shape: Shape, named: str, constraint: Constraint) -> None:
        """A constraint of the class that is read, whose properties may come later."""
        self.constraints.append((shape.where, named, constraint))

    def _pairs(self, path: Path, shape: Shape) -> None:
        """Constraints of two properties of one node."""
        for name, kind in PAIRS.items():
            for term in shape.all(name):
                if not is_iri(term) and not hasattr(term, "datatype"):
                    self.notes.add(shape.where, f"sh:{name} of a path of several predicates is not checked")
                    continue
                iri = shape.checked(name, term, "an IRI", is_iri(term))
                other = (*path[:-1], self._word(iri, self.words))
                if other == path:
                    self.notes.add(shape.where, f"sh:{name} of a property and itself is not checked")
                else:
                    self._add(shape, f"sh:{name} {show(other)}", Constraint(kind, path, other))

    def _of_values(self, path: Path, iri: str, shape: Shape) -> None:
        """Constraints of several values of a property."""
        if shape.is_true("uniqueLang"):
            self._add(shape, "sh:uniqueLang", Constraint("unique_language", path))
        for node in shape.nodes:
            self._qualified(path, shape, node)
        if self._is_owl(iri, "InverseFunctionalProperty") or DASH + "uniqueValueForClass" in shape.foreign():
            self._add(shape, "that values are unique", Constraint("unique", path))

    def _qualified(self, path: Path, shape: Shape, node: Term) -> None:
        """How many of the values have a shape."""
        own = Shape(self.graph, [], shape.where)
        own.nodes = [node]
        least = max(own.counts("qualifiedMinCount"), default=0)
        most = min(own.counts("qualifiedMaxCount"), default=None)
        shapes = own.all("qualifiedValueShape")
        if not shapes:
            return
        where = qualifying(Shape(self.graph, shapes, shape.where), self.names) if len(shapes) == 1 else None
        if where is None:
            self.notes.add(shape.where, "sh:qualifiedValueShape is not checked: it says more than what a value is")
        elif own.is_true("qualifiedValueShapesDisjoint"):
            self.notes.add(shape.where, "sh:qualifiedValueShape is not checked: it is disjoint from its siblings")
        elif most is not None and most < least:  # no number of values is both
            for limit in (
                Constraint("count", path, least=least, where=where),
                Constraint("count", path, most=most, where=where),
            ):
                self._add(shape, "sh:qualifiedValueShape", limit)
        elif least or most is not None:
            self._add(shape, "sh:qualifiedValueShape", Constraint("count", path, least=least, most=most, where=where))

    def _property(self, path: Path, iri: str, shape: Shape) -> Iterator[tuple[Path, Property]]:
        least = max(shape.counts("minCount"), default=0)
        most = min([*shape.counts("maxCount"), *([1] if self._is_owl(iri, "FunctionalProperty") else [])], default=None)
        required = least >= 1 or (bool(shape.all("hasValue")) and most == 1)
        label, description = (
            self.graph.text(shape.nodes, SH + "name"),
            self.graph.text(shape.nodes, SH + "description"),
        )
        if least > 1:
            self._add(shape, f"sh:minCount {least}", Constraint("count", path, least=least))
        fields = self._fields(path, shape)
        beside: list[ValueShape] = []
        kind = value_told(shape, self.names, self.notes, most, beside)
        for where in (restriction for restriction in beside if restriction != EVERY):
            self._add(shape, f"that values are {where.text}", Constraint("values", path, where=where))
        if shape.all("hasValue") and most != 1:
            values = values_of(shape.all("hasValue"))
            if values:
                self._add(shape, "sh:hasValue", Constraint("has_value", path, values=values))
            else:
                self.notes.add(shape.where, "sh:hasValue of a blank node or of another datatype is not checked")
        whole = _whole(kind, fields or {})
        if fields and whole is None:
            yield from self._of_part(path, shape, fields, required, most)
            return
        kind = whole or kind or self._kind_of_others(shape)
        one = Property(kind, required=required, iri=iri, label=label, description=description)
        if kind is None and len(path) == 1:
            self.kindless[path] = shape, one, most
        elif kind is None:
            self.notes.add(shape.where, KINDLESS)
        else:
            yield path, self._counted(path, shape, one, most)

    def _of_partners(self, properties: Properties) -> Iterator[tuple[Path, Property]]:
        """Properties whose kind nothing tells but that of another, with which they are compared."""
        pairs = [one for _, _, one in self.constraints if one.kind in PAIRS.values()]
        for path, (shape, one, most) in self.kindless.items():
            partners = [pair.other if pair.path == path else pair.path for pair in pairs if path in pair.paths]
            kinds = (_unbounded(item_kind(properties[other].kind)) for other in partners if other in properties)
            kind = next((kind for kind in kinds if kind is not None and not isinstance(kind, Listed)), None)
            if kind is None:
                self.notes.add(shape.where, KINDLESS)
            else:
                yield path, self._counted(path, shape, replace(one, kind=kind), most)

    def _kind_of_others(self, shape: Shape) -> Kind | None:
        """The kind of values that nothing else tells: that of a value which must be there, or of those that qualify."""
        others = [value for value in map(value_of, shape.all("hasValue")) if value is not None]
        kinds = [kind for value in others if (kind := _kind_of(value)) is not None]
        for node in shape.all("qualifiedValueShape"):
            where = qualifying(Shape(self.graph, [node], shape.where), self.names)
            kinds += [_unbounded(where.kind)] if where is not None and where.kind is not None else []
        return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None

    def _counted(self, path: Path, shape: Shape, one: Property, most: int | None) -> Property:
        """A property with as many values as are allowed."""
        kind = one.kind
        if most == 1:
            return one
        if isinstance(kind, Category | Link) or kind == Text(""):
            return replace(one, kind=Set(Category() if isinstance(kind, Text) else kind, most))
        if most is not None:
            self._add(shape, f"sh:maxCount {most}", Constraint("count", path, most=most))
        many = "median" if isinstance(kind, Number) else "latest" if isinstance(kind, Date) else "first"
        allowed = "several" if most is None else f"up to {most}"
        self.notes.add(shape.where, f"{allowed} values are allowed: of several, {many} counts")
        return replace(one, many=many)  # type: ignore[arg-type]

    def _note_unsaid(self, shape: Shape) -> None:
        self._note_foreign(shape)
        for said in shape.told():
            if said == "severity" and any(last_word(one) != "Violation" for one in shape.iris("severity")):
                self.notes.add(shape.where, "sh:severity: what is but a warning there is a misfit here")
            elif said == "closed":
                if shape.is_true("closed"):
                    self.notes.add(shape.where, "sh:closed of the nodes that are values is not checked")
            elif said not in SAID:
                self.notes.add(shape.where, f"sh:{said} is not checked")

    def _note_foreign(self, shape: Shape) -> None:
        """Constraints of no SHACL: of DASH, and of components that the file defines."""
        for iri in shape.foreign():
            name = iri.removeprefix(DASH)
            if iri in self.components or (name != iri and name not in {*FOR_EDITORS, "uniqueValueForClass"}):
                self.notes.add(shape.where, f"{'dash:' * (name != iri)}{name} is not checked")

    def _component_parameters(self) -> set[str]:
        """The predicates that give parameters to the constraint components of the file."""
        parameters = [
            one
            for node, facts in self.graph.facts.items()
            if any(kind.value == SH + "ConstraintComponent" for kind in facts.get(RDF + "type", ()))
            for one in self.graph.objects(node, SH + "parameter")
        ]
        return {path.value for one in parameters for path in self.graph.objects(one, SH + "path")}

    # ---------------------------------------------------------------- OWL

    def _is_owl(self, iri: str, kind: str) -> bool:
        """Whether a property is of a kind of OWL's."""
        return NamedNode(OWL + kind) in self.graph.objects(NamedNode(iri), RDF + "type")

    def _with_inverses(self, classes: dict[str, Class]) -> dict[str, Class]:
        """The classes with the constraints of inverse and symmetric properties, both ways."""
        inverses: dict[str, set[str]] = {}
        for node in self.graph.facts:
            for other in self.graph.objects(node, OWL + "inverseOf"):
                if is_iri(node) and is_iri(other):
                    inverses.setdefault(node.value, set()).add(other.value)
                    inverses.setdefault(other.value, set()).add(node.value)
            if is_iri(node) and self._is_owl(node.value, "SymmetricProperty"):
                inverses.setdefault(node.value, set()).add(node.value)
        paths = {property_.iri: path for of in classes.values() for path, property_ in of.properties.items()}
        completed: dict[str, Class] = {}
        for name, of in classes.items():
            added: list[Constraint] = []
            for path, property_ in of.properties.items():
                for iri in sorted(inverses.get(property_.iri or "", ())):
                    if iri in paths and len(path) == 1:
                        added.append(Constraint("inverse", path, paths[iri]))
                    else:
                        self.notes.add(f"{name}.{show(path)}", f"owl:inverseOf {last_word(iri)} is not checked")
            completed[name] = replace(of, constraints=(*of.constraints, *added))
        return completed

    def _note_owl(self) -> None:
        for node in self.graph.facts:
            for kind, what in UNREAD_OWL.items():
                if NamedNode(OWL + kind) in self.graph.objects(node, RDF + "type"):
                    where = f"{last_word(node.value)}: " if is_iri(node) and node.value in self.words.values() else ""
                    self.notes.add("", f"{where}owl:{kind}: {what}")

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
        for inner in (inner for inner, one in fields.items() if one.required):
            if most != 1 or not required:  # each part has them that is there
                self._add(shape, f"that {show(inner)} is there", Constraint("count", (*path, *inner), least=1))
        if required:
            self._add(shape, "sh:minCount 1", Constraint("count", path, least=1))
        if most is not None:
            self._add(shape, f"sh:maxCount {most}", Constraint("count", path, most=most))
        if most == 1:
            for inner, one in fields.items():
                yield (*path, *inner), replace(one, required=one.required and required)
            return
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


def _kind_of(value: Value) -> Kind | None:
    """The kind that a value has."""
    kinds: dict[type, Kind] = {bool: Boolean(), str: Text(""), LanguageText: Text(), Day: Date(), LinkValue: Link()}
    return Number() if numerals.is_number(value) else kinds.get(type(value))


def _unbounded(kind: Kind) -> Kind:
    """The kind of values of which some qualify."""
    if isinstance(kind, Category):
        return _kind_of(kind.values[0]) if kind.values else None
    if isinstance(kind, Text):
        return Text(kind.language)
    return type(kind)() if isinstance(kind, Number | Link | Date) else kind


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
