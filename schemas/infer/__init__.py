"""Schema inference: `infer(kb)` reads entities once, in bounded memory, and decides on the property at each path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kbdisk.entity import Entity, Path, show
from kbdisk.notebook import html_table
from kbdisk.schemas.composites import kind_name
from kbdisk.schemas.infer.decision import Decision, counted
from kbdisk.schemas.infer.paths import ClassInference
from kbdisk.schemas.infer.read import EntityReader
from kbdisk.schemas.infer.sharing import share
from kbdisk.schemas.infer.statistics import Node
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text.names import last_word, refuse_unmet

__all__ = ["Inference", "infer"]

Place = tuple[str, Path]  # a class and a path in it


@dataclass(frozen=True)
class Inference:
    """An inferred schema, with the reason for each property and for each path that was left out."""

    schema: Schema
    reasons: Mapping[Place, str] = field(default_factory=dict)
    left_out: Mapping[Place, str] = field(default_factory=dict)
    rule_notes: tuple[str, ...] = ()  # beside each rule of the schema: some of its exceptions
    counts: Mapping[Place, int] = field(default_factory=dict)  # the values that each property has

    def __repr__(self) -> str:
        """The line of the schema."""
        return f"<Inference of {repr(self.schema)[1:-1]}>"

    def _repr_html_(self) -> str:
        rows = [
            (name, show(path), kind_name(known.kind), self.reasons.get((name, path), ""))
            for name, schema_class in self.schema.classes.items()
            for path, known in schema_class.properties.items()
        ]
        rows += [(name, show(path), "left out", reason) for (name, path), reason in self.left_out.items()]
        return html_table("Inferred schema", ("class", "property", "kind", "why"), rows)

    def to_yaml(self) -> str:
        """The schema as YAML, the reasons as comments."""
        comments: dict[tuple[str | None, Path], str] = dict(self.reasons.items())
        comments.update(self._shared_reasons())
        return self.schema.to_yaml(comments=comments, rule_notes=self.rule_notes)

    def _shared_reasons(self) -> dict[tuple[str | None, Path], str]:
        """For each shared property the number of its classes, and the reason in the class with most values."""
        shared: dict[tuple[str | None, Path], str] = {}
        for path in self.schema.properties or ():
            names = [name for name, class_ in self.schema.classes.items() if path in class_.properties]
            largest = max(names, key=lambda name: self.counts.get((name, path), 0))
            shared[None, path] = (
                f"{counted(len(names), 'class', 'classes')}; of {largest}: {self.reasons[largest, path]}"
            )
        return shared


def infer(
    kb: Iterable[Entity], *, classes: Iterable[str] = (), label: str = "", entities: Iterable[Entity] | None = None
) -> Inference:
    """Infer the schema of a knowledge base or of any entities; only of `classes`, where some are named.

    `entities` are those of the knowledge base, if the caller has read them.
    """
    reader = EntityReader(tuple(classes or ()))
    reader.read(kb if entities is None else entities)
    refuse_unmet(getattr(kb, "name", "the entities"), reader.wanted, reader.classes_found)
    nodes = dict(reader.classes()) or {"": Node(reader.budget)}
    names = _names(nodes)
    reader.targets.names = names
    iris: Mapping[str, str] = getattr(getattr(kb, "names", None), "iris", {})
    reasons: dict[Place, str] = {}
    left_out: dict[Place, str] = {}
    schema_classes: dict[str, Class] = {}
    counts: dict[Place, int] = {}
    unlisted: set[Place] = set()
    for name, node in nodes.items():
        properties: dict[Path, Property] = {}
        for path, decision in _decisions(node, reader.id_key(name), reader):
            (left_out if decision.kind is None else reasons)[names[name], path] = decision.reason
            if decision.kind is not None:
                key_name = str(path[-1])
                properties[path] = decision.property(iris.get(key_name), reader.labels.get(key_name, ""))
                property_node = _node_at(node, path)
                counts[names[name], path] = property_node.filled if property_node is not None else 0
                if property_node is not None and property_node.values.total:
                    unlisted.add((names[name], path))
        id_key = reader.id_key(name)
        iri = name if name != names[name] else None
        schema_classes[names[name]] = Class(names[name], properties, iri, None if id_key is None else (id_key,))
    prefixes = getattr(kb, "prefixes", None)
    schema = Schema(schema_classes, label, prefixes=dict(prefixes) if prefixes else {})
    return Inference(share(schema, counts, unlisted), reasons, left_out, counts=counts)


def _node_at(node: Node, path: Path) -> Node | None:
    """The node at a path below a node."""
    below: Node | None = node
    for key in path:
        below = below and below.children.get(str(key))
    return below


def _decisions(node: Node, id_key: str | None, reader: EntityReader) -> Iterator[tuple[Path, Decision]]:
    """The decisions on the paths of a class; the id is an ignored property."""
    for path, decision in ClassInference(reader.targets, node).properties(node, (), node.parts):
        if id_key is not None and path == (id_key,) and decision.kind is not None:
            sketches = node.children[id_key].values.sketches.values()
            repeated = any(sketch.exact and sketch.distinct() < sketch.seen for sketch in sketches)
            reason = "the id of each entity" + (", though some share one" if repeated else "")
            decision = replace(decision, role="ignore", unique=not repeated, reason=reason)
        yield path, decision


def _names(nodes: Iterable[str]) -> dict[str, str]:
    """The name of each class: the last word of its IRI, unless an earlier class has this name."""
    names: dict[str, str] = {}
    for name in nodes:
        word = last_word(name)
        names[name] = name if word in names.values() else word
    return names
