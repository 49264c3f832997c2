"""Further members of sets that have some, and further classes: what is proposed, written, held back and explained."""

from __future__ import annotations

import random
from dataclasses import replace

import crew
import pytest
from crew import E

import kbdisk
from kbdisk.api.source import LoadedSource
from kbdisk.api.train import run_of, untrained_model
from kbdisk.completion.answers import REJECTED, Answer, Answers
from kbdisk.completion.complete import complete
from kbdisk.completion.decide import FURTHER_MEMBER
from kbdisk.completion.fields import CLASS
from kbdisk.completion.members import (
    EXCEPTIONS,
    MAX_MISSING,
    FurtherMembers,
    missing_by_scores,
    missing_per_recorded,
    without_copied_classes,
)
from kbdisk.completion.why import why
from kbdisk.data.superclasses import ClassRelations
from kbdisk.data.triples import Columns, Relation, Triples
from kbdisk.entity import CLASSES, Entity, Link
from kbdisk.errors import ConfigError, SchemaError
from kbdisk.experts.linear_autoencoder import LinearAutoencoder


def model_of(kb):
    """A model that was not trained: further members do not depend on it."""
    return untrained_model(kb, kbdisk.infer(kb).schema, run_of("fast", 1.0, None, None, None)).trained


def source_of(text: str, format: str) -> tuple[object, list[Entity]]:
    kb = kbdisk.load(text.encode(), format=format)
    return model_of(kb), LoadedSource.of(kb).entities


@pytest.fixture(scope="module")
def rdf():
    return source_of(crew.turtle(), "turtle")


@pytest.fixture(scope="module")
def json_persons():
    return source_of(crew.json_lines(), "jsonl")


@pytest.fixture(scope="module")
def held_back(rdf):
    """A completion where no property is named, and its completions with what they hold back."""
    completing = complete(*rdf, keeps_held_back=True)
    return completing, list(completing)


def filled_of(completing) -> dict[str, dict]:
    return {
        completion.entity.id: {path: filled.value for path, filled in completion.filled.items()}
        for completion in completing
        if completion.filled
    }


def test_the_missing_member_of_a_set_is_added_behind_the_others(rdf):
    completing = complete(*rdf, only=[("skill",)])
    assert filled_of(completing) == {
        f"{E}p{number}": {("skill", 2): Link(E + crew.missing_skill(number))} for number in crew.LACKING_SKILL
    }
    assert completing.summary.members == len(crew.LACKING_SKILL)
    assert completing.summary.filled == 0
    assert completing.summary.members_measured > 0.9
    assert completing.summary.to_json()["members"] == len(crew.LACKING_SKILL)


def test_predicted_members_are_held_back_where_their_property_is_not_named(held_back):
    completing, several = held_back
    completions = {completion.entity.id: completion for completion in several}
    for number in crew.LACKING_SKILL:
        completion = completions[f"{E}p{number}"]
        assert ("skill", 2) not in completion.filled
        assert completion.held_back["skill", 2][1] == FURTHER_MEMBER
    assert completing.summary.members == 0


def test_no_members_are_predicted_where_they_could_not_be_written(rdf, monkeypatch):
    monkeypatch.setattr(LinearAutoencoder, "fit", None)
    completing = complete(*rdf)
    filled_of(completing)
    reasons = {reason for row in completing.summary.rows.values() for reason in row.members_held_back}
    assert reasons == {FURTHER_MEMBER, CLASS}
    assert completing.summary.members_measured is None


def test_sets_of_labels_are_completed_too(json_persons):
    filled = filled_of(complete(*json_persons, only=[("skills",)]))
    assert filled == {f"p{number}": {("skills", 2): crew.missing_skill(number)} for number in crew.LACKING_SKILL}


def test_no_member_is_added_where_only_asked_gaps_are_filled(rdf):
    assert not filled_of(complete(*rdf, only=[("skill",)], fill="asked"))


def test_filling_all_gaps_adds_no_more_members_than_the_default(rdf):
    likely, everything = (complete(*rdf, only=[("skill",)], fill=fill) for fill in ("likely", "all"))
    likely_members, all_members = (
        {id: values for id, values in filled_of(completing).items() if ("skill", 2) in values}
        for completing in (likely, everything)
    )
    assert likely_members == all_members


def test_members_that_few_lack_are_exceptions_and_held_back():
    lines = [f"<{E}e{n}> <{E}side> <{E}s{n % 2}> ; <{E}likes> <{E}a{n % 2}>, <{E}b{n % 2}> ." for n in range(100)]
    lines += [f"<{E}f{n}> <{E}side> <{E}s0> ; <{E}likes> <{E}a0> ." for n in range(2)]
    completing = complete(*source_of("\n".join(lines), "turtle"), only=[("likes",)])
    assert not filled_of(completing)
    [row] = [row for row in completing.summary.rows.values() if row.path == ("likes",)]
    assert row.members_held_back.total() >= 2


def test_entities_without_members_bound_how_many_members_are_missing():
    sizes = {"Often": [1] * 900 + [2] * 50 + [0] * 90, "Always": [1] * 900 + [2] * 50, "Large": [9] * 20}
    missing = missing_per_recorded(sizes)
    assert missing["Often"] == pytest.approx(90 / 900, rel=0.1)  # a class of its own hardly changes it
    assert missing["Always"] < 0.001
    assert missing["Always"] < missing["Large"] < missing["Often"]  # a class that says nothing goes by all
    assert missing_per_recorded({"Large": [9] * 20})["Large"] == MAX_MISSING
    assert missing_per_recorded({"Rare": [0] * 1000 + [1] * 10})["Rare"] == MAX_MISSING


def test_proposed_members_that_fit_as_well_as_known_ones_bound_it_too():
    known = [0.1] * 300 + [0.9] * 100
    assert missing_by_scores(known, [0.1] * 900 + [0.9] * 23, 1.0) == pytest.approx(0.23 - EXCEPTIONS)
    assert missing_by_scores(known, [0.1] * 900 + [0.9] * 23, 10.0) == 0.0  # each known one stands for ten
    assert missing_by_scores(known, [0.1] * 900, 1.0) == 0.0
    assert missing_by_scores([], [0.9], 1.0) == 0.0


def test_members_that_nothing_tells_are_held_back():
    generator = random.Random(1)
    words = [f"w{number}" for number in range(40)]
    lines = [
        f"<{E}e{number}> <{E}tag> {', '.join(f'<{E}{word}>' for word in generator.sample(words, 3))} ."
        for number in range(80)
    ]
    completing = complete(*source_of("\n".join(lines), "turtle"), only=[("tag",)], keeps_held_back=True)
    completions = list(completing)
    assert not any(completion.filled for completion in completions)
    [row] = [row for row in completing.summary.rows.values() if row.path == ("tag",)]
    assert row.members == 0
    assert row.members_held_back.total() > 0


def test_a_set_whose_members_nobody_else_has_gets_none(monkeypatch):
    asked, scores = [], LinearAutoencoder.scores

    def noted(autoencoder, relation, *of_entities):
        asked.append(autoencoder.has_members(relation))
        return scores(autoencoder, relation, *of_entities)

    monkeypatch.setattr(LinearAutoencoder, "scores", noted)
    lines = [f"<{E}e{number}> <{E}kind> <{E}k{number % 3}>, <{E}k{number % 5}> ." for number in range(200)]
    lines += [f"<{E}e{number}> <{E}twin> <{E}e{60 + 2 * number}>, <{E}e{61 + 2 * number}> ." for number in range(40)]
    completing = complete(*source_of("\n".join(lines), "turtle"), keeps_held_back=True)
    assert not any(path[:1] == ("twin",) for filled in filled_of(completing).values() for path in filled)
    assert set(asked) == {True}  # without columns torch fails or not, by the number of its threads


def test_a_rejected_member_is_not_proposed_again(rdf):
    model, entities = rdf
    id, member = f"{E}p5", Link(E + crew.missing_skill(5))
    answers = Answers()
    answers.add([Answer(id, ("skill", 2), member, REJECTED, None, None, "")])
    filled = filled_of(complete(model, entities, only=[("skill",)], answers=answers))
    assert id not in filled
    assert f"{E}p11" in filled


def test_a_set_that_was_added_to_before_is_left_alone(rdf):
    model, entities = rdf
    made = {("skill", 2): Link(f"{E}acting")}
    changed = [replace(entity, made=made) if entity.id == f"{E}p5" else entity for entity in entities]
    assert f"{E}p5" not in filled_of(complete(model, changed, only=[("skill",)]))


def test_an_inverse_link_gives_a_further_member():
    pairs = {(number, (number + step) % 40) for number in range(40) for step in (1, 2)}
    links = sorted({*pairs, *((b, a) for a, b in pairs)} - {(7, 8)})
    text = "".join(f"<{E}e{a}> <{E}near> <{E}e{b}> .\n" for a, b in links)
    completing = complete(*source_of(text, "turtle"))
    filled = filled_of(completing)
    assert filled[f"{E}e7"] == {("near", 3): Link(f"{E}e8")}
    assert completing.summary.to_json()["properties"][0]["rules"]


def test_a_hidden_link_is_not_told_by_its_copy_among_classes():
    entities = [Entity(f"e{number}", {"kind": [Link("a"), Link("b")]}, ("a", "b")) for number in range(6)]
    ids, links, labels = {entity.id: number for number, entity in enumerate(entities)}, Columns(), Columns()
    for number, entity in enumerate(entities):
        for link, name in zip(entity.tree["kind"], entity.classes, strict=True):
            links.add(number, ("kind",), link.id)
            labels.add(number, CLASSES, name)
    triples = Triples._numbered(ids, links, labels, 1, {})
    without = without_copied_classes(triples)
    of_classes = triples.relation_of[Relation(CLASSES, False)]
    assert not (without.numbered[:, 1] == of_classes).any()
    assert len(without) == len(triples.links)


# ---------------------------------------------------------------- classes


def test_missing_classes_are_written_only_where_they_are_named(rdf, held_back):
    wanted = {f"{E}p{number}": Link(E + crew.kind_of(number)) for number in crew.LACKING_CLASS} | {
        f"{E}c20": Link(f"{E}City")
    }
    named = complete(*rdf, only=[CLASSES])
    filled = filled_of(named)
    assert {id: value for id, values in filled.items() for value in values.values()} == wanted
    assert all(path[:1] == CLASSES for values in filled.values() for path in values)
    _, unnamed = held_back
    assert not any(path[:1] == CLASSES for completion in unnamed for path in completion.filled)
    proposed = {
        completion.entity.id: value.value
        for completion in unnamed
        for path, (value, reason) in completion.held_back.items()
        if path[:1] == CLASSES and "--only" in reason
    }
    assert proposed == wanted


def test_classes_of_classes_are_not_proposed(held_back):
    for completion in held_back[1]:
        if completion.entity.id in (f"{E}Actor", f"{E}Director"):
            assert not any(path[:1] == CLASSES for path in completion.held_back)


def test_a_superclass_of_a_class_that_one_entity_has_is_not_proposed():
    rare = ":Stunt rdfs:subClassOf :Person .\n:s1 a :Stunt ; :skill :acting, :singing, :dancing ; :born 1960 .\n"
    completions = complete(*source_of(crew.turtle() + rare, "turtle"), keeps_held_back=True)
    [stunt] = [completion for completion in completions if completion.entity.id == f"{E}s1"]
    proposed = {value.value for path, (value, _) in stunt.held_back.items() if path[:1] == CLASSES}
    assert Link(f"{E}Person") not in proposed


def test_only_rdf_has_classes_to_add(json_persons):
    with pytest.raises(SchemaError, match="expected RDF"):
        complete(*json_persons, only=[CLASSES])


def test_classes_exclude_their_superclasses_and_those_that_never_go_with_them():
    entities = [("Film",)] * 20 + [("Person", "Actor")] * 20 + [("Rare",)]
    relations = ClassRelations({"Actor": ("Person",), "Person": ("Agent",)}, {"Rare": ("Odd",)}, entities)
    assert relations.excludes("Person", ["Actor"])
    assert relations.excludes("Agent", ["Actor"])
    assert relations.excludes("Actor", ["Film"])
    assert relations.excludes("Film", ["Actor"])
    assert relations.excludes("Odd", ["Rare"])
    assert not relations.excludes("Actor", ["Person"])
    assert not relations.excludes("Rare", ["Film"])
    assert relations.below(["Person", "Actor", "Film"]) == [[1], [], []]
    assert relations.specific(("Person", "Actor")) == ["Actor"]
    assert relations.classifies("Person", ())


# ---------------------------------------------------------------- why


def test_the_reasons_for_a_member_are_what_the_entity_has(rdf):
    model, entities = rdf
    entity = next(entity for entity in entities if entity.id == f"{E}p5")
    reasons = why(model, entity, ("skill", 2), entities)
    assert reasons.value == Link(E + crew.missing_skill(5))
    assert reasons.confidence > 0.5
    assert reasons.held_back == FURTHER_MEMBER
    assert {similar.value for similar in reasons.similar} == {reasons.value}
    names = [influence.name for influence in reasons.influences]
    assert any(name.startswith("skill ") for name in names)
    assert all(0 < influence.distance <= 1 for influence in reasons.influences)


def test_a_given_member_is_hidden_before_it_is_explained(rdf):
    model, entities = rdf
    entity = next(entity for entity in entities if entity.id == f"{E}p0")
    reasons = why(model, entity, ("skill", 0), entities)
    assert reasons.is_hidden
    assert reasons.given == Link(E + crew.skills_of(0)[0])
    assert reasons.value == reasons.given
    assert len(entity.tree["skill"]) == 3


def test_a_class_is_explained_and_why_it_is_not_written(rdf):
    model, entities = rdf
    entity = next(entity for entity in entities if entity.id == f"{E}p3")
    reasons = why(model, entity, CLASSES, entities)
    assert reasons.value == Link(E + crew.kind_of(3))
    assert "--only" in reasons.held_back


def test_a_set_with_one_member_has_nothing_left_to_explain_it(rdf):
    model, entities = rdf
    entity = next(entity for entity in entities if entity.id == f"{E}c1")
    with pytest.raises((SchemaError, ConfigError)):
        why(model, entity, ("twin", 0), entities)


def test_without_sets_nothing_is_fitted(rdf):
    model, _ = rdf
    assert FurtherMembers.of(model.codec, [], [], ClassRelations({}, {}, []), 0) == FurtherMembers()
