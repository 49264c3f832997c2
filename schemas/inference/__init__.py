"""The schema that entities seem to have, and why: `infer(kb)` reads them once, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kbdisk.entity import Entity, Path
from kbdisk.schemas.inference.decision import Decision, counted
from kbdisk.schemas.inference.nodes import Node
from kbdisk.schemas.inference.reading import Reading
from kbdisk.schemas.inference.shapes import Shapes
from kbdisk.schemas.inference.sharing import share
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.schemas.text.names import last_word, refuse_unmet

__all__ = ["Inference", "infer"]

Place = tuple[str, Path]  # a class and a path in it


@dataclass(frozen=True)
class Inference:
    """A schema, and in plain words the reason for each property; for what was left out, too."""

    schema: Schema
    reasons: Mapping[Place, str] = field(default_factory=dict)
    left_out: Mapping[Place, str] = field(default_factory=dict)
    rule_notes: tuple[str, ...] = ()  # beside each rule of the schema: some of its exceptions
    counts: Mapping[Place, int] = field(default_factory=dict)  # the values that each property has

    def to_yaml(self) -> str:
        """The schema as YAML, the reasons as comments."""
        comments: dict[tuple[str | None, Path], str] = dict(self.reasons.items())
        comments.update(self._shared_reasons())
        return self.schema.to_yaml(comments=comments, rule_notes=self.rule_notes)

    def _shared_reasons(self) -> dict[tuple[str | None, Path], str]:
        """For each shared property, how many classes have it, and the reason of the one that has most values."""
        shared: dict[tuple[str | None, Path], str] = {}
        for path in self.schema.properties or ():
            names = [name for name, of in self.schema.classes.items() if path in of.properties]
            most = max(names, key=lambda name: self.counts.get((name, path), 0))
            shared[None, path] = f"{counted(len(names), 'class', 'classes')}; of {most}: {self.reasons[most, path]}"
        return shared


def infer(kb: Iterable[Entity], *, classes: Iterable[str] = (), label: str = "") -> Inference:
    """The schema of a knowledge base, or of any entities; of some classes alone where they are named."""
    reading = Reading(tuple(classes or ()))
    reading.read(kb)
    refuse_unmet(getattr(kb, "name", "the entities"), reading.wanted, reading.met)
    nodes = dict(reading.classes()) or {"": Node(reading.budget)}
    names = _names(nodes)
    reading.targets.names = names
    iris: Mapping[str, str] = getattr(getattr(kb, "names", None), "iris", {})
    reasons: dict[Place, str] = {}
    left_out: dict[Place, str] = {}
    found: dict[str, Class] = {}
    counts: dict[Place, int] = {}
    bare: set[Place] = set()
    for name, node in nodes.items():
        properties: dict[Path, Property] = {}
        for path, decision in _decided(node, reading.id_key(name), reading):
            (left_out if decision.kind is None else reasons)[names[name], path] = decision.reason
            if decision.kind is not None:
                last = str(path[-1])
                properties[path] = decision.property(iris.get(last), reading.labels.get(last, ""))
                here = _node_at(node, path)
                counts[names[name], path] = here.filled if here is not None else 0
                if here is not None and here.facts.total:
                    bare.add((names[name], path))
        key = reading.id_key(name)
        iri = name if name != names[name] else None
        found[names[name]] = Class(names[name], properties, iri, None if key is None else (key,))
    prefixes = getattr(kb, "prefixes", None)
    schema = Schema(found, label, prefixes=dict(prefixes) if prefixes else {})
    return Inference(share(schema, counts, bare), reasons, left_out, counts=counts)


def _node_at(node: Node, path: Path) -> Node | None:
    """What stands at a path below a node."""
    here: Node | None = node
    for key in path:
        here = here and here.children.get(str(key))
    return here


def _decided(node: Node, id_key: str | None, reading: Reading) -> Iterator[tuple[Path, Decision]]:
    """The properties of a class; its id among them, ignored."""
    for path, decision in Shapes(reading.targets, node).properties(node, (), node.parts):
        if id_key is not None and path == (id_key,) and decision.kind is not None:
            met = node.children[id_key].facts.labels.values()
            several = any(labels.exact and labels.distinct() < labels.seen for labels in met)
            reason = "the id of each entity" + (", though some share one" if several else "")
            decision = replace(decision, role="ignore", unique=not several, reason=reason)
        yield path, decision


def _names(nodes: Iterable[str]) -> dict[str, str]:
    """Classes by the last words of their IRIs, where no other has that one already."""
    names: dict[str, str] = {}
    for name in nodes:
        word = last_word(name)
        names[name] = name if word in names.values() else word
    return names
