"""How many values a property is to have before any is filled in: as many as its source has, held out or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models import tiny
from things import COUNT, entities, schema, thing

from kbdisk.api.source import LoadedSource
from kbdisk.api.train import untrained_model
from kbdisk.completion import complete
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import AXIOM, LABEL, fields_of, why_never
from kbdisk.entity import Entity
from kbdisk.entity import Link as EntityLink
from kbdisk.schemas.kinds import Link, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.store.folder import open_folder, save


def why(codec, **choices) -> str:
    """Why the rare property is not filled."""
    return fields_of(codec, CompletionConfig(**choices))[""].fields["rare",].why_not


@pytest.mark.slow
def test_the_values_of_the_held_out_count_as_those_trained_on(tmp_path):
    some = [{**thing(i), "rare": 1.5 * i} if i < 30 else thing(i) for i in range(COUNT)]
    model = tiny(schema(), entities(*some))
    [slot] = [slot for slot in model.codec.slots if slot.path == ("rare",)]
    assert slot.count < 30  # some are held out
    assert why(model.codec) == ""
    assert why(model.codec, least=31) == "30 known values to learn from, fewer than 31"
    save(model, tmp_path / "model")
    assert why(open_folder(Path(tmp_path / "model"), torch.device("cpu")).codec) == ""
    assert why(untrained_model(LoadedSource.of(some), schema(), model.run).trained.codec, least=31).startswith(
        "30 known"
    )


def test_the_count_that_is_told_is_that_of_the_source(model):
    assert why(model.codec) == "10 known values to learn from, fewer than 30"


def test_what_classes_are_and_what_things_are_called_is_never_filled_unless_it_is_named():
    axioms = ["http://www.w3.org/2000/01/rdf-schema#subClassOf", "http://www.w3.org/2002/07/owl#sameAs", "http://www.w3.org/2004/02/skos/core#broader", "http://www.wikidata.org/prop/direct/P279"]  # fmt: skip
    names = ["http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel", "https://schema.org/name", "http://purl.org/dc/terms/identifier"]  # fmt: skip
    others = ["http://www.wikidata.org/prop/direct/P31", "https://schema.org/genre", "http://purl.org/dc/terms/created"]
    assert [why_never(iri) for iri in axioms] == [AXIOM] * 4
    assert [why_never(iri) for iri in names] == [LABEL] * 4
    assert [why_never(iri) for iri in others] == [""] * 3


@pytest.mark.parametrize("choices", [{}, {"fill": "all"}, {"fill": "all", "only": (("above",),)}])
def test_an_axiom_is_held_back_in_every_mode(choices):
    above = Property(Link(), iri="http://www.w3.org/2000/01/rdf-schema#subClassOf")
    some = [Entity(f"e{n}", {"above": EntityLink(f"e{n % 3}"), "x": n % 5}) for n in range(60)]
    model = tiny(of_one_class({("above",): above, ("x",): Property(Number())}), some)
    field = fields_of(model.codec, CompletionConfig(**choices))[""].fields["above",]
    assert field.why_not == ("" if "only" in choices else AXIOM)
    filled = [one.filled for one in complete(model, [*some, Entity("new", {"x": 1})], **choices)][-1]
    assert (("above",) in filled) == ("only" in choices)
