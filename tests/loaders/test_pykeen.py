"""PyKEEN's triples in and out. Where PyKEEN is not installed, a class with the attributes of its factory stands in."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import kbdisk
from kbdisk import Completion, Entity, Filled, KBDiskError, Link, Quantity
from kbdisk.loaders.triples import FactoryKB

TRIPLES = [
    ("ada", "child", "byron"),
    ("byron", "parent", "ada"),
    ("ada", "child", "ralph"),
    ("byron", "child", "jack"),
    ("ada", "height", "1.5"),
    ("byron", "height", "2"),
]
TREES = {
    "ada": {"child": [Link("byron"), Link("ralph")], "height": 1.5},
    "byron": {"parent": Link("ada"), "child": Link("jack"), "height": 2},
}


class StandIn:
    """What kbdisk uses of pykeen.triples.TriplesFactory: names in the order of the alphabet, triples of their numbers."""

    def __init__(self, triples: np.ndarray[Any, Any]) -> None:
        assert triples.dtype.kind == "U"
        assert triples.shape[1:] == (3,)
        entities, relations = sorted({*triples[:, 0], *triples[:, 2]}), sorted({*triples[:, 1]})
        self.entity_id_to_label = dict(enumerate(map(str, entities)))
        self.relation_id_to_label = dict(enumerate(map(str, relations)))
        rows = [(entities.index(h), relations.index(r), entities.index(t)) for h, r, t in triples]
        self.mapped_triples = torch.tensor(sorted(rows), dtype=torch.long)

    @classmethod
    def from_labeled_triples(cls, triples: np.ndarray[Any, Any]) -> StandIn:
        return cls(triples)


@pytest.fixture
def factory_class(monkeypatch):
    """The class of PyKEEN, or the one that stands in."""
    try:
        from pykeen.triples import TriplesFactory
    except ImportError:
        module = ModuleType("pykeen.triples")
        module.TriplesFactory = StandIn  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pykeen", ModuleType("pykeen"))
        monkeypatch.setitem(sys.modules, "pykeen.triples", module)
        return StandIn
    return TriplesFactory


@pytest.fixture
def not_installed(monkeypatch):
    """An interpreter in which PyKEEN cannot be imported."""
    for name in ("pykeen", "pykeen.triples"):
        monkeypatch.setitem(sys.modules, name, None)


def labelled(factory):
    entities, relations = factory.entity_id_to_label, factory.relation_id_to_label
    return {(entities[h], relations[r], entities[t]) for h, r, t in factory.mapped_triples.tolist()}


def test_a_factory_is_read_as_a_file_of_its_triples(factory_class):
    kb = kbdisk.load(factory_class.from_labeled_triples(np.array(TRIPLES, dtype=str)))
    assert {entity.id: entity.tree for entity in kb} == TREES
    assert (kb.format, len(kb)) == ("memory", 2)
    assert "jack" not in kb


def test_what_has_the_attributes_of_a_factory_is_one_and_pykeen_is_not_imported(not_installed):
    kb = kbdisk.load(StandIn(np.array(TRIPLES, dtype=str)))
    assert isinstance(kb, FactoryKB)
    assert len(kb) == 2


def test_links_become_a_factory_and_numbers_are_left_out(factory_class):
    kb = kbdisk.load(factory_class.from_labeled_triples(np.array(TRIPLES, dtype=str)))
    assert labelled(kb.to_pykeen()) == set(TRIPLES[:4])
    items = [Entity("x", {"to": Link("y"), "name": "X", "mass": Quantity(1, "g"), "part": {"to": Link("z")}})]
    assert labelled(kbdisk.load(items).to_pykeen()) == {("x", "to", "y")}


def test_filled_links_are_in_the_factory(factory_class):
    kb = kbdisk.load([Entity("x", {"to": Link("y")})])
    [entity] = kb
    filled = {("near",): Filled([Link("a"), Link("b")]), ("to", 1): Filled(Link("z")), ("n",): Filled(5)}
    assert labelled(kb.to_pykeen([Completion(entity, filled)])) == {
        ("x", "to", "y"),
        ("x", "near", "a"),
        ("x", "near", "b"),
        ("x", "to", "z"),
    }


def test_a_source_without_links_is_no_factory(factory_class):
    with pytest.raises(KBDiskError, match="<memory>: expected some links, got none"):
        kbdisk.load([{"id": "a", "n": 1}]).to_pykeen()


def test_where_pykeen_is_not_installed_one_line_says_so(not_installed):
    with pytest.raises(KBDiskError, match=r"^pykeen: is not installed\. Run: pip install pykeen$"):
        kbdisk.load([Entity("x", {"to": Link("y")})]).to_pykeen()


def test_faults_of_a_factory_name_the_triple():
    odd = StandIn(np.array([("a", "@type", "b"), ("a", "r", "b")], dtype=str))
    with pytest.raises(KBDiskError, match="<triples>, triple 1: expected a relation without @ at its start"):
        list(kbdisk.load(odd))
    assert [entity.tree for entity in kbdisk.load(odd, skip_errors=True)] == [{"r": Link("b")}]
    odd.mapped_triples = torch.zeros((0, 3), dtype=torch.long)
    with pytest.raises(KBDiskError, match="<triples>: expected some triples, got none"):
        list(kbdisk.load(odd))
    with pytest.raises(KBDiskError, match="triples have none"):
        kbdisk.load(odd, classes=["X"])
