"""Import of SHACL shapes: node shapes with a class become classes, their property shapes properties.

    imported = shacl.read("shapes.ttl")      imported.schema, imported.left_out

Keys are those that the RDF loaders give to predicates (docs/decisions/0003). The shapes of a class, of its superclasses in the
same file, and under sh:node and sh:and hold together: their statements on one path make one property. Conditions on
several properties, or on several values of one, become constraints of the class. OWL's functional and inverse properties of
the same file are read, too. Every constraint of the file that becomes neither is listed in `left_out`.
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
from kbdisk.schemas.composites import Kind, composite_of, quantity_of
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import UNIT_NAMES, VALUE_NAMES, Quantity
from kbdisk.schemas.constraints import Constraint, ValueShape, item_kind
from kbdisk.schemas.importers.common import BY_KIND, NO_KIND, RDF, Imported, Notes
from kbdisk.schemas.importers.shacl_shapes import (
    ANY_VALUE,
    DASH,
    OWL,
    RDFS,
    SH,
    Graph,
    Shape,
    Term,
    is_iri,
    is_off,
    kind_of_values,
    value_of,
    value_shape_of,
    values_of,
)
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import last_word

Properties: TypeAlias = dict[Path, Property]

GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
COORDINATE_KEY = ("coordinate",)  # the loaders' key for geo:lat and geo:long of one thing
TARGETS = frozenset({"targetNode", "targetSubjectsOf", "targetObjectsOf", "target"})
NODE_PREDICATES = frozenset({"property", "targetClass", "node", "and", "deactivated", "severity"})
IGNORED_PREDICATES = frozenset({
    "message", "name", "description", "order", "group", "defaultValue", "ignoredProperties", "flags", "prefixes", "declare",
})  # fmt: skip
PAIRS = {"lessThan": "less_than", "lessThanOrEquals": "less_than_or_equals", "equals": "equals", "disjoint": "disjoint"}
QUALIFIED = ("qualifiedValueShape", "qualifiedMinCount", "qualifiedMaxCount", "qualifiedValueShapesDisjoint")
READ_PREDICATES = NODE_PREDICATES | IGNORED_PREDICATES | {
    "path", "closed", "minCount", "maxCount", "nodeKind", "datatype", "class", "in", "hasValue", "or", "xone", "minInclusive",
    "maxInclusive", "minExclusive", "maxExclusive", "minLength", "maxLength", "languageIn", "uniqueLang", "pattern",
    *PAIRS, *QUALIFIED,
}  # fmt: skip
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
    """Import a file of SHACL shapes; SchemaError where it is none."""
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
        self.constraints: list[tuple[str, str, Constraint]] = []  # of a class: place, name, constraint
        self.kindless: dict[Path, tuple[Shape, Property, int | None]] = {}  # of a class, with their maximal number
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
        iris_used = [iri for iri in (*self.names, *self.words.values()) if iri]
        prefixes = {
            prefix: space
            for prefix, space in self.graph.prefixes.items()
            if prefix and any(iri.startswith(space) for iri in iris_used)
        }
        return Imported(Schema(classes, prefixes=prefixes), self.notes.lines)

    # ---------------------------------------------------------------- classes

    def _targets(self, node: Term) -> None:
        """Note the classes of which a node is a shape."""
        facts = self.graph.facts[node]
        types = {term.value for term in facts.get(RDF + "type", ()) if is_iri(term)}
        is_shape = types & {SH + "NodeShape", SH + "PropertyShape"} or SH + "property" in facts
        targets = [term.value for term in self.graph.objects(node, SH + "targetClass") if is_iri(term)]
        if is_shape and types & {RDFS + "Class", OWL + "Class"} and is_iri(node):
            targets.append(node.value)
        if is_off(self.graph, node):
            return
        for iri in targets:
            self.shapes.setdefault(iri, []).append(node)
        for key in facts:
            if key.startswith(SH) and key[len(SH) :] in TARGETS:
                self.notes.add(str(node), f"sh:{key[len(SH) :]} names entities by no class: that target is left out")

    def _class(self, iri: str, name: str) -> Class:
        nodes = [node for class_iri in self._ancestry(iri) for node in self.shapes.get(class_iri, ())]
        shape = Shape(self.graph, nodes, name)
        self.constraints, self.kindless = [], {}
        self._note_foreign(shape)
        for predicate in shape.predicates():
            on_node = predicate in {"closed", *NODE_PREDICATES} | IGNORED_PREDICATES | TARGETS
            if not on_node and not (predicate in READ_PREDICATES and shape.all("path")):
                self.notes.add(name, f"sh:{predicate} of the whole entity is left out")
        targeted = [node for node in shape.nodes if self.graph.objects(node, SH + "path")]
        properties = dict(self._properties(name, (), self._property_nodes(shape, targeted)))
        properties |= dict(self._of_partners(properties))
        described = [*(self.shapes[iri]), NamedNode(iri)]
        label = self.graph.text(described, RDFS + "label", SH + "name")
        description = self.graph.text(described, SH + "description", RDFS + "comment")
        superclasses = tuple(self._ancestry(iri)[1:])
        properties = self._placed(properties)
        distinct: list[Constraint] = []  # a kind in one may have no hash
        for constraint in (*self._enforced(properties), *self._closed(shape, properties)):
            distinct += [constraint] if constraint not in distinct else []
        return Class(name, properties, iri, None, label, description, superclasses, tuple(distinct))

    def _enforced(self, properties: Properties) -> Iterator[Constraint]:
        """The constraints whose properties the class has; all others are noted."""
        class_ = Class("", properties)
        for where, name, constraint in self.constraints:
            unknown = [path for path in constraint.paths if not class_.has(path)]
            if not unknown or constraint.most == 0:
                yield constraint
            else:
                problem = f"the kind of {_shown_paths(unknown)} is not determined"
                if any(path[: len(head)] == head for path in unknown for head in properties):
                    problem = f"{_shown_paths(unknown)} is part of one value here"
                self.notes.add(where, f"{name} is not checked: {problem}")

    def _closed(self, shape: Shape, properties: Properties) -> Iterator[Constraint]:
        """The constraint for each closed shape: an entity has no properties except those that the shape names."""
        for node in shape.nodes:
            closed = Shape(self.graph, [], shape.where)
            closed.nodes = [node]
            if not closed.is_true("closed"):
                continue
            paths = [path for inner in closed.all("property") for path in self.graph.objects(inner, SH + "path")]
            paths += [path for ignored in closed.lists("ignoredProperties") for path in ignored]
            iris = [path.value for path in paths if is_iri(path) and path.value != RDF + "type"]
            keys = dict.fromkeys((self._word(iri, self.words),) for iri in iris)
            if {GEO + "lat", GEO + "long"} & set(iris):
                keys[COORDINATE_KEY] = None
            is_all = set(keys) == {path[:1] for path in properties}
            if keys or not properties:
                yield Constraint("closed", allowed=() if is_all else tuple(keys))
            else:
                self.notes.add(shape.where, "sh:closed of a shape without properties is not checked")

    def _ancestry(self, iri: str) -> list[str]:
        """A class and its superclasses, as far as the file has them."""
        ancestry = [iri]
        for class_iri in ancestry:
            supers = (
                term.value for term in self.graph.objects(NamedNode(class_iri), RDFS + "subClassOf") if is_iri(term)
            )
            ancestry += [term for term in supers if term not in ancestry]
        return ancestry

    def _placed(self, properties: Properties) -> Properties:
        """The properties with geo:lat and geo:long as one coordinate, as the loaders read them."""
        places = {property_.iri: path for path, property_ in properties.items() if len(path) == 1}
        pair = [places.get(GEO + "lat"), places.get(GEO + "long")]
        if None in pair or COORDINATE_KEY in properties:
            return properties
        required = all(property_.required for path, property_ in properties.items() if path in pair)
        coordinate = {COORDINATE_KEY: Property(Coordinate(), required=required)}
        return {path: property_ for path, property_ in properties.items() if path not in pair} | coordinate

    # ---------------------------------------------------------------- properties

    def _property_nodes(self, shape: Shape, targeted: Iterable[Term] = ()) -> dict[str, list[Term]]:
        """The property shapes of a shape by their paths, in order; `targeted` are those with a target of their own."""
        nodes_by_path: dict[str, list[Term]] = {}
        for node in [*targeted, *shape.all("property")]:
            self.notes.step(self.graph.name)
            if is_off(self.graph, node):
                continue
            paths = self.graph.objects(node, SH + "path")
            if len(paths) != 1:
                raise SchemaError(self.graph.name, f"{shape.where}: expected one sh:path, got {len(paths)} in {node}.")
            if is_iri(paths[0]):
                nodes_by_path.setdefault(paths[0].value, []).append(node)
            else:
                self.notes.add(shape.where, f"{self._shown(node, paths[0])}: only paths of one predicate are read")
        return dict(sorted(nodes_by_path.items(), key=lambda item: self._order(item[1])))

    def _order(self, nodes: list[Term]) -> float:
        return min([*Shape(self.graph, nodes, "sh:order").numbers("order"), float("inf")])

    def _shown(self, node: Term, path: Term) -> str:
        name = self.graph.text([node], SH + "name")
        kinds = [key[len(SH) :] for key in self.graph.facts.get(path, ()) if key.startswith(SH)]
        return f"{'sh:' + kinds[0] if kinds else 'a sequence path'}{f' ({name})' if name else ''}"

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

    def _add(self, shape: Shape, name: str, constraint: Constraint) -> None:
        """Add a constraint of the current class, whose properties may follow later."""
        self.constraints.append((shape.where, name, constraint))

    def _pairs(self, path: Path, shape: Shape) -> None:
        """Add the constraints between a property and another of the same node."""
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
        """Add the constraints on several values of a property."""
        if shape.is_true("uniqueLang"):
            self._add(shape, "sh:uniqueLang", Constraint("unique_language", path))
        for node in shape.nodes:
            self._qualified(path, shape, node)
        if self._is_owl(iri, "InverseFunctionalProperty") or DASH + "uniqueValueForClass" in shape.other_predicates():
            self._add(shape, "that values are unique", Constraint("unique", path))

    def _qualified(self, path: Path, shape: Shape, node: Term) -> None:
        """Add the constraint on the number of values with a qualified shape."""
        node_shape = Shape(self.graph, [], shape.where)
        node_shape.nodes = [node]
        least = max(node_shape.counts("qualifiedMinCount"), default=0)
        most = min(node_shape.counts("qualifiedMaxCount"), default=None)
        shapes = node_shape.all("qualifiedValueShape")
        if not shapes:
            return
        where = value_shape_of(Shape(self.graph, shapes, shape.where), self.names) if len(shapes) == 1 else None
        if where is None:
            self.notes.add(
                shape.where, "sh:qualifiedValueShape is not checked: it has more than conditions on a single value"
            )
        elif node_shape.is_true("qualifiedValueShapesDisjoint"):
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
        kind = kind_of_values(shape, self.names, self.notes, most, beside)
        for where in (restriction for restriction in beside if restriction != ANY_VALUE):
            self._add(shape, f"that values are {where.text}", Constraint("values", path, where=where))
        if shape.all("hasValue") and most != 1:
            values = values_of(shape.all("hasValue"))
            if values:
                self._add(shape, "sh:hasValue", Constraint("has_value", path, values=values))
            else:
                self.notes.add(shape.where, "sh:hasValue of a blank node or of another datatype is not checked")
        composite = _composite(kind, fields or {})
        if fields and composite is None:
            yield from self._of_part(path, shape, fields, required, most)
            return
        kind = composite or kind or self._kind_of_others(shape)
        property_ = Property(kind, required=required, iri=iri, label=label, description=description)
        if kind is None and len(path) == 1:
            self.kindless[path] = shape, property_, most
        elif kind is None:
            self.notes.add(shape.where, NO_KIND)
        else:
            yield path, self._counted(path, shape, property_, most)

    def _of_partners(self, properties: Properties) -> Iterator[tuple[Path, Property]]:
        """The properties without a kind, with that of another property with which a constraint compares them."""
        pairs = [constraint for _, _, constraint in self.constraints if constraint.kind in PAIRS.values()]
        for path, (shape, constraint, most) in self.kindless.items():
            partners = [pair.other if pair.path == path else pair.path for pair in pairs if path in pair.paths]
            kinds = (_unbounded(item_kind(properties[other].kind)) for other in partners if other in properties)
            kind = next((kind for kind in kinds if kind is not None and not isinstance(kind, Listed)), None)
            if kind is None:
                self.notes.add(shape.where, NO_KIND)
            else:
                yield path, self._counted(path, shape, replace(constraint, kind=kind), most)

    def _kind_of_others(self, shape: Shape) -> Kind | None:
        """The kind of values whose shape has none: that of sh:hasValue, or of a qualified shape."""
        values = [value for value in map(value_of, shape.all("hasValue")) if value is not None]
        kinds = [kind for value in values if (kind := _kind_of(value)) is not None]
        for node in shape.all("qualifiedValueShape"):
            where = value_shape_of(Shape(self.graph, [node], shape.where), self.names)
            kinds += [_unbounded(where.kind)] if where is not None and where.kind is not None else []
        return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None

    def _counted(self, path: Path, shape: Shape, property_: Property, most: int | None) -> Property:
        """A property for the allowed number of values."""
        kind = property_.kind
        if most == 1:
            return property_
        if isinstance(kind, Category | Link) or kind == Text(""):
            return replace(property_, kind=Set(Category() if isinstance(kind, Text) else kind, most))
        if most is not None:
            self._add(shape, f"sh:maxCount {most}", Constraint("count", path, most=most))
        many = "median" if isinstance(kind, Number) else "latest" if isinstance(kind, Date) else "first"
        allowed_count = "several" if most is None else f"up to {most}"
        self.notes.add(shape.where, f"{allowed_count} values are allowed: of several, {many} counts")
        return replace(property_, many=many)  # type: ignore[arg-type]

    def _note_unsaid(self, shape: Shape) -> None:
        self._note_foreign(shape)
        for predicate in shape.predicates():
            if predicate == "severity" and any(last_word(iri) != "Violation" for iri in shape.iris("severity")):
                self.notes.add(shape.where, "sh:severity: what is but a warning there is a misfit here")
            elif predicate == "closed":
                if shape.is_true("closed"):
                    self.notes.add(shape.where, "sh:closed of the nodes that are values is not checked")
            elif predicate not in READ_PREDICATES:
                self.notes.add(shape.where, f"sh:{predicate} is not checked")

    def _note_foreign(self, shape: Shape) -> None:
        """Note the constraints outside of SHACL: those of DASH, and of components that the file defines."""
        for iri in shape.other_predicates():
            name = iri.removeprefix(DASH)
            if iri in self.components or (name != iri and name not in {*FOR_EDITORS, "uniqueValueForClass"}):
                self.notes.add(shape.where, f"{'dash:' * (name != iri)}{name} is not checked")

    def _component_parameters(self) -> set[str]:
        """The predicates of the parameters of constraint components in the file."""
        parameters = [
            parameter
            for node, facts in self.graph.facts.items()
            if any(kind.value == SH + "ConstraintComponent" for kind in facts.get(RDF + "type", ()))
            for parameter in self.graph.objects(node, SH + "parameter")
        ]
        return {path.value for parameter in parameters for path in self.graph.objects(parameter, SH + "path")}

    # ---------------------------------------------------------------- OWL

    def _is_owl(self, iri: str, kind: str) -> bool:
        """Whether a property is of an OWL class of properties."""
        return NamedNode(OWL + kind) in self.graph.objects(NamedNode(iri), RDF + "type")

    def _with_inverses(self, classes: dict[str, Class]) -> dict[str, Class]:
        """The classes with the constraints of inverse and symmetric properties, in both directions."""
        inverses: dict[str, set[str]] = {}
        for node in self.graph.facts:
            for other in self.graph.objects(node, OWL + "inverseOf"):
                if is_iri(node) and is_iri(other):
                    inverses.setdefault(node.value, set()).add(other.value)
                    inverses.setdefault(other.value, set()).add(node.value)
            if is_iri(node) and self._is_owl(node.value, "SymmetricProperty"):
                inverses.setdefault(node.value, set()).add(node.value)
        paths = {property_.iri: path for class_ in classes.values() for path, property_ in class_.properties.items()}
        completed: dict[str, Class] = {}
        for name, class_ in classes.items():
            added: list[Constraint] = []
            for path, property_ in class_.properties.items():
                for iri in sorted(inverses.get(property_.iri or "", ())):
                    if iri in paths and len(path) == 1:
                        added.append(Constraint("inverse", path, paths[iri]))
                    else:
                        self.notes.add(f"{name}.{show(path)}", f"owl:inverseOf {last_word(iri)} is not checked")
            completed[name] = replace(class_, constraints=(*class_.constraints, *added))
        return completed

    def _note_owl(self) -> None:
        for node in self.graph.facts:
            for kind, problem in UNREAD_OWL.items():
                if NamedNode(OWL + kind) in self.graph.objects(node, RDF + "type"):
                    where = f"{last_word(node.value)}: " if is_iri(node) and node.value in self.words.values() else ""
                    self.notes.add("", f"{where}owl:{kind}: {problem}")

    # ---------------------------------------------------------------- parts

    def _fields(self, path: Path, shape: Shape) -> dict[Path, Property] | None:
        """The properties of a nested node; None where the value is no nested node, or another entity."""
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
        return {inner[len(path) :]: property_ for inner, property_ in fields.items()}

    def _of_part(
        self, path: Path, shape: Shape, fields: Properties, required: bool, most: int | None
    ) -> Iterator[tuple[Path, Property]]:
        """The properties of a part, or the list of parts."""
        for inner in (inner for inner, property_ in fields.items() if property_.required):
            if most != 1 or not required:  # the keys of every part that is present
                self._add(shape, f"that {show(inner)} is there", Constraint("count", (*path, *inner), least=1))
        if required:
            self._add(shape, "sh:minCount 1", Constraint("count", path, least=1))
        if most is not None:
            self._add(shape, f"sh:maxCount {most}", Constraint("count", path, most=most))
        if most == 1:
            for inner, property_ in fields.items():
                yield (*path, *inner), replace(property_, required=property_.required and required)
            return
        listed = Listed(_fields_of_parts(fields), most)
        label = self.graph.text(shape.nodes, SH + "name")
        yield path, Property(listed, required=required, iri=self.words[str(path[-1])], label=label)

    def _word(self, iri: str, taken: dict[str, str]) -> str:
        """The key of an IRI: its last word; if another IRI has this key, with its prefix; else the whole IRI."""
        word = last_word(iri)
        prefix = next((name for name, space in self.graph.prefixes.items() if name and space + word == iri), "")
        keys = (word, f"{prefix}:{word}" if prefix else iri, iri)
        key = next(key for key in keys if taken.get(key, iri) == iri)
        taken[key] = iri
        return key


def _kind_of(value: Value) -> Kind | None:
    """The kind of a value."""
    kinds: dict[type, Kind] = {bool: Boolean(), str: Text(""), LanguageText: Text(), Day: Date(), LinkValue: Link()}
    return Number() if numerals.is_number(value) else kinds.get(type(value))


def _unbounded(kind: Kind) -> Kind:
    """A kind without bounds and labels, for values of which only some have a qualified shape."""
    if isinstance(kind, Category):
        return _kind_of(kind.values[0]) if kind.values else None
    if isinstance(kind, Text):
        return Text(kind.language)
    return type(kind)() if isinstance(kind, Number | Link | Date) else kind


def _shown_paths(paths: Iterable[Path]) -> str:
    return ", ".join(map(show, paths))


def _composite(kind: Kind | None, fields: Properties) -> Kind | None:
    """The composite of a part, by the kind of its class or by its fields; None where it is none."""
    kinds = {str(path[0]): property_.kind for path, property_ in fields.items() if len(path) == 1}
    if isinstance(kind, Quantity) and kinds:
        units = [unit for name, unit in kinds.items() if name in UNIT_NAMES]
        return quantity_of(next((kinds[name] for name in kinds if name in VALUE_NAMES), None), units)
    if isinstance(kind, Coordinate):
        return kind
    return composite_of(kinds) if len(kinds) == len(fields) else None


def _fields_of_parts(fields: Properties) -> dict[str, Kind]:
    """The fields of a list's parts, by key; deeper properties become a list of one part."""
    heads = dict.fromkeys(str(path[0]) for path in fields)
    kinds: dict[str, Kind] = {}
    for head in heads:
        inner = {path[1:]: property_ for path, property_ in fields.items() if path[0] == head}
        property_of_head = inner.pop((), None)
        if property_of_head is not None:
            kinds[head] = Listed({"": property_of_head.kind}) if property_of_head.many else property_of_head.kind
        elif inner:
            kinds[head] = Listed(_fields_of_parts(inner), 1)
    return kinds
