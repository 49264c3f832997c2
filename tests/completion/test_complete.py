"""Completing: what is filled and what is not, with which values, and that nothing given changes."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import calibrated, tiny
from tables import examples
from things import COUNT, entities, schema, thing

from kbdisk.completion import complete, decide
from kbdisk.completion.answers import REJECTED, Answer, Answers
from kbdisk.completion.config import FILLS, CompletionConfig
from kbdisk.completion.why import why
from kbdisk.entity import NOVALUE, SOMEVALUE, Entity, at, walk
from kbdisk.errors import ConfigError, SchemaError
from kbdisk.evaluation.calibration import Line
from kbdisk.model.estimates import ESTIMATES
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.rules import Rule
from kbdisk.schemas.schema import Schema, of_one_class

PREDICTED = {"size", "mass", "born", "at", "colour", "new", "tags", "parts", "near"}


def filled(model, *trees, **choices) -> list[dict]:
    """What is filled in each of some things, by path."""
    return [dict(one.filled) for one in complete(model, entities(*trees), **choices)]


def values(model, *trees, **choices) -> list[dict]:
    return [{path: one.value for path, one in each.items()} for each in filled(model, *trees, **choices)]


def held(model, *trees, **choices) -> dict[tuple, dict]:
    completing = complete(model, entities(*trees), **choices)
    for _ in completing:
        pass
    return {row.path: dict(row.held_back) for row in completing.summary.shown()}


# ---------------------------------------------------------------- what is filled


def test_what_is_asked_is_filled_and_nothing_else(model, things):
    things[3]["size"] = None
    del things[4]["colour"]
    first, second = values(model, *things, fill="asked")[3:5]
    assert first.keys() == {("size",)}
    assert not second


def test_a_property_that_is_required_is_asked_for_where_it_is_absent(model, things):
    del things[3]["born"]
    [born] = values(model, *things, fill="asked")[3].items()
    assert born[0] == ("born",)
    assert born[1].keys() == {"year", "month", "day"}


def test_all_fills_whatever_an_entity_lacks_but_names_and_rare_properties(model, things):
    new = values(model, *things, {"id": "new"}, fill="all")[-1]
    assert {path[0] for path in new} == {*PREDICTED, "area", "prices"}


def test_an_entity_without_gaps_comes_out_as_it_is(model, things):
    assert not any(values(model, *things, fill="all", only=[("size",), ("parts",)]))


def test_an_absent_property_is_filled_where_the_entity_probably_has_it(model, things):
    for one in things[:20]:
        del one["colour"]
    by_presence = calibrated(model, presence=Line())  # as the model says it
    presences = [one["colour",].belief.presence for one in filled(by_presence, *things, fill="all")[:20]]
    middle = sorted(presences)[10]
    likely = complete(by_presence, entities(*things), only=[("colour",)], min_confidence=0.99 * middle)
    written = [bool(one.filled) for one in likely][:20]
    assert written == [chance >= 0.99 * middle for chance in presences]
    assert any(written)
    [row] = likely.summary.shown()
    assert row.filled + row.held_back[decide.ABSENT] + row.held_back[decide.below(0.99 * middle)] == 20


def test_presence_is_relative_to_entities_that_have_the_property_and_of_a_blank_wholly_so(model, things):
    absent = copy.deepcopy(things)
    things[3]["colour"] = None
    del absent[3]["colour"]

    def presence(usual: float, several: list) -> float:
        usually = calibrated(model, presence=Line(0.0, -1.0), usual={("", "colour"): usual})
        found: float = filled(usually, *several, fill="all")[3]["colour",].belief.presence
        return found

    def unrecorded(rate: float) -> float:
        has_property = 1 / (1 + math.exp(1.0)) / rate
        return has_property / (has_property + 3 * (1 - has_property))

    assert presence(0.4, things) == pytest.approx(unrecorded(0.4))
    assert presence(0.4, absent) == pytest.approx(unrecorded(0.8))  # few have it, so that absence may be a fact
    assert presence(0.9, things) == presence(0.9, absent) == pytest.approx(unrecorded(0.9))
    assert presence(0.1, things) == 1


def test_of_a_value_with_a_missing_part_presence_is_certain(model, things):
    things[3]["at"] = {"lat": 10.5}
    by_presence = calibrated(model, presence=Line())
    assert filled(by_presence, *things)[3]["at", "lon"].belief.presence == 1


def test_nothing_is_filled_without_evidence_but_where_all_is_wanted(model, things):
    for one in things[:9]:
        one["colour"] = None
    useless = calibrated(model, right=0.0)
    assert not any(values(useless, *things))
    assert held(useless, *things)["colour",] == {decide.TOO_OFTEN_WRONG: 9}
    unmeasured = replace(model, record=replace(model.record, calibration={}))
    assert held(unmeasured, *things)["colour",] == {decide.UNMEASURED: 9}
    assert all(("colour",) in one for one in values(useless, *things, fill="all")[:9])


def test_where_no_confidence_reached_a_precision_nothing_is_written_in_any_mode(model, things):
    for one in things[:9]:
        one["colour"] = None
    useless = calibrated(model, right=0.0)
    for fill in ("likely", "all"):
        assert not any(values(useless, *things, fill=fill, precision=0.9))
        [why] = held(useless, *things, fill=fill, precision=0.9)["colour",]
        assert why == "its held-out values never reached a precision of 0.9"


def test_confidence_is_presence_times_correctness(model, things):
    for one in things[:20]:
        del one["colour"], one["born"], one["mass"]
    lines = {"presence": Line(0.3, 2.0), "correctness": Line(0.3, 1.0)}
    for one in filled(calibrated(model, **lines), *things, fill="all")[:20]:
        for each in one.values():
            assert each.confidence == pytest.approx(each.belief.presence * each.belief.correctness)
            assert each.belief.calibrated


def test_completions_come_in_the_order_of_the_source_one_for_each_entity(model, things):
    ids = [one.entity.id for one in complete(model, entities(*things))]
    assert ids == [one["id"] for one in things]


def test_entities_of_no_class_of_the_schema_come_out_as_they_are(model):
    classes = Schema({"Thing": schema().classes[""].__class__("Thing", schema().classes[""].properties)})
    from dataclasses import replace

    other = replace(
        model,
        codec=replace(
            model.codec, schema=classes, slots=tuple(replace(slot, class_name="Thing") for slot in model.codec.slots)
        ),
    )
    stranger = Entity("x", {"size": None}, classes=("Other",))
    [one] = complete(other, [stranger], fill="all")
    assert one.entity is stranger
    assert not one.filled


# ---------------------------------------------------------------- what is given stays


BLANKS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(sorted(thing(20).keys() - {"id"})), st.booleans()))


@settings(max_examples=examples(12))
@given(blanks=BLANKS, fill=st.sampled_from(FILLS), estimate=st.sampled_from(sorted(ESTIMATES)), seed=st.integers(0, 9))
def test_whatever_is_missing_what_is_given_stays_and_the_summary_adds_up(model, blanks, fill, estimate, seed):
    some = [thing(i) for i in range(20, 26)]
    for i, key, there in blanks:
        some[i].pop(key, None)
        if there:
            some[i][key] = None
    completing = complete(model, entities(*some), fill=fill, estimate=estimate, seed=seed, least=1)
    for one, tree in zip(completing, some, strict=True):
        after = one.tree()
        assert all(value is None or at(after, path) == value for path, value in walk(tree))
        assert all(0 <= each.confidence <= 1 for each in one.filled.values())
    for row in completing.summary.shown():
        assert row.missing == row.filled + sum(row.held_back.values()), row.path


@pytest.mark.slow
@pytest.mark.parametrize("fill", ["asked", "likely", "all"])
def test_no_given_value_is_ever_changed(model, things, fill):
    for i, one in enumerate(things):
        for key in list(one)[1 + i % 3 :: 3]:
            one[key] = None
        one["born"] = {"year": 1950, "month": None}
        one["mass"] = {"value": None, "unit": "kg"}
        one["parts"] = [{"kind": "leg"}, {"length": 3.5}]
    before = copy.deepcopy(things)
    for one, tree in zip(complete(model, entities(*things), fill=fill), before, strict=True):
        after = one.tree()
        for path, value in walk(tree):
            assert value is None or at(after, path) == value


WHOLE = {"year", "month", "day"}


@pytest.fixture(scope="module")
def dated():
    """A model of things of which a third has a year alone, and a third a year and a month."""
    trees = [thing(i) for i in range(COUNT)]
    for i, tree in enumerate(trees):
        tree["born"] = {part: tree["born"][part] for part in list(tree["born"])[: 1 + i % 3]}
    return tiny(schema(), entities(*trees))


@pytest.mark.parametrize(
    "sure_of", [("year",), pytest.param(("year", "month"), marks=pytest.mark.slow), ("year", "month", "day")]
)
def test_a_date_has_as_many_parts_as_reach_the_threshold(dated, things, sure_of):
    doubts = {("", f"born.{part}"): -20.0 for part in ("year", "month", "day") if part not in sure_of}
    model = calibrated(dated, correctness=Line(0.05, 6.0, doubts))
    things[4]["born"] = None
    assert set(values(model, *things)[4]["born",]) == set(sure_of)
    assert values(model, *things, fill="all")[4]["born",].keys() == {"year", "month", "day"}


def test_of_a_date_only_the_missing_parts_are_filled(model, things):
    things[3]["born"] = {"year": 1999, "month": None}
    things[4]["born"] = {"year": 1999, "month": 2, "day": None}
    first, second = values(model, *things)[3:5]
    assert first.keys() == {("born", "month"), ("born", "day")}
    assert second.keys() == {("born", "day")}
    assert 1 <= second["born", "day"] <= 28


def test_a_quantity_keeps_its_unit_and_a_new_one_has_one(model, things):
    things[3]["mass"] = {"value": None, "unit": "kg"}
    things[4]["mass"] = None
    first, second = values(model, *things)[3:5]
    assert first.keys() == {("mass", "value")}
    assert second["mass",].keys() == {"value", "unit"}
    assert second["mass",]["unit"] in ("g", "kg")


def test_a_coordinate_gets_its_other_half(model, things):
    things[3]["at"] = {"lat": 10.5}
    things[4]["at"] = None
    first, second = values(model, *things)[3:5]
    assert first.keys() == {("at", "lon")}
    assert second["at",].keys() == {"lat", "lon"}


def test_known_places_of_a_list_get_their_fields_and_an_unknown_list_as_many_as_are_counted(model, things):
    things[3]["parts"] = [{"kind": "leg"}, {"length": 3.5}]
    things[4]["parts"] = None
    first, second = values(model, *things, fill="all")[3:5]
    assert first.keys() == {("parts", 0, "length"), ("parts", 1, "kind")}
    assert 1 <= len(second["parts",]) <= 3
    assert all(one.keys() == {"kind", "length"} for one in second["parts",])


def test_the_entries_of_a_map_that_is_filled_have_keys_of_their_own(model, things):
    things[3]["prices"] = {"EUR": None}
    things[4]["prices"] = None
    first, second = values(model, *things)[3:5]
    assert first.keys() == {("prices", "EUR")}
    assert second["prices",]
    assert second["prices",].keys() <= {"EUR", "USD"}


def test_what_is_known_not_to_exist_or_only_to_exist_is_no_gap(model, things):
    things[3]["colour"], things[4]["colour"] = NOVALUE, SOMEVALUE
    assert not any(values(model, *things, fill="all", only=[("colour",)]))
    assert held(model, *things, fill="all", only=[("colour",)]) == {}


def test_what_an_earlier_completion_made_is_no_gap(model, things):
    del things[3]["colour"]
    known = entities(*things)
    known[3].made = {("colour",): "red"}
    assert not any(one.filled for one in complete(model, known, fill="all"))


# ---------------------------------------------------------------- why not


def test_what_is_held_back_says_why(model, things):
    for one in things[:5]:
        for key in ("name", "rank", "code", "weather", "size"):
            del one[key]
    reasons = held(model, *things)
    assert reasons["name",] == {"text: written only where --only names it": 5}
    assert reasons["rank",] == {"unique: written only where --only names it": 5}
    assert list(reasons["code",]) == [
        "hardly a value comes again, as of an identifier: written only where --only names it"
    ]
    assert reasons["weather",] == {"given: read, but never predicted": 5}
    [why] = reasons["rare",]
    assert "known values to learn from, fewer than 30" in why
    assert ("id",) not in reasons


def test_text_and_identifiers_are_written_where_they_are_named(model, things):
    for key in ("name", "code"):
        things[3][key] = None
    only = [("name",), ("code",)]
    assert values(model, *things, only=only)[3].keys() <= {("name",), ("code",)}
    assert ("code",) in values(model, *things, only=only)[3]
    assert isinstance(values(model, *things, only=[("name",)])[3]["name",], str)


def test_a_unique_property_never_gets_a_value_that_another_entity_has(model, things):
    for one in things[3:9]:
        one["rank"] = None
    given = {one["rank"] for one in things} - {None}
    new = [one["rank",] for one in values(model, *things, only=[("rank",)]) if one]
    assert not given & set(new)
    assert len(set(new)) == len(new)


def test_what_an_earlier_completion_made_is_taken_and_not_computed_again(model, things):
    for one in things[3:9]:
        one["rank"] = one["area"] = None
    several = entities(*things)
    first = {one.entity.id: one for one in complete(model, several, only=[("rank",), ("area",)])}
    made = [
        replace(one, made={path: new.value for path, new in first[one.id].filled.items()}) if place < 6 else one
        for place, one in enumerate(several)
    ]
    again = [one.filled for one in complete(model, made, only=[("rank",), ("area",)])]
    assert not any(again[:6])
    assert all(("area",) in one for one in again[6:9])
    taken = {one.tree.get("rank") for one in several} | {one.made.get(("rank",)) for one in made[3:6]}
    assert not (taken - {None}) & {one["rank",].value for one in again[6:9] if ("rank",) in one}


def test_what_is_less_sure_than_wanted_is_held_back(model, things):
    for one in things[:20]:
        one["colour"] = None
    sure = [one["colour",].confidence for one in filled(model, *things)[:20]]
    middle = sorted(sure)[10]
    kept = filled(model, *things, min_confidence=middle)
    assert 0 < sum(map(len, kept)) < 20
    assert all(one.confidence >= middle for each in kept for one in each.values())
    [why] = held(model, *things, min_confidence=middle)["colour",]
    assert why == f"confidence below {middle:g}"


def test_a_part_of_a_date_that_is_written_as_one_word_has_no_place(model, things):
    for one in things:
        one["born"] = f"{one['born']['year']}-{one['born']['month']:02d}-01"
    things[3]["born"] = "1999-05"
    assert not values(model, *things)[3]
    assert held(model, *things)["born",].keys() == {"the given date has no place for a day"}


# ---------------------------------------------------------------- which values


def test_bounds_and_closed_labels_and_whole_numbers_hold(model, things):
    for one in things:
        for key in ("size", "area", "born", "colour", "at", "mass", "parts"):
            one[key] = None
    for one in complete(model, entities(*things), fill="all", estimate="sample", seed=3):
        misfits = schema().check(Entity(one.entity.id, one.tree()))
        assert [misfit for misfit in misfits if misfit.path != ("area",)] == []  # that is rounded


def test_a_property_with_a_formula_is_computed(model, things):
    things[3]["area"] = None
    [one] = filled(model, *things)[3].values()
    assert one.value == round(things[3]["size"] ** 2, 1)
    assert one.confidence == 1
    assert one.belief.formula == "size ** 2"


def test_what_is_computed_counts_for_every_threshold(model, things):
    for tree in things[:9]:
        tree["area"] = None
    completing = complete(model, entities(*things))
    assert sum(len(completion.filled) for completion in completing) == 9
    assert [row["values"] for row in completing.summary.thresholds()] == [9, 9, 9, 9]


def test_what_is_computed_counts_in_other_formulas_but_not_where_there_is_said_to_be_none():
    made = Schema.read(
        "kbdisk: 1\nclasses:\n  T:\n    properties:\n      four: {kind: number, formula: 2 * double}\n"
        "      double: {kind: number, formula: 2 * a, novalue: [none]}\n      a: number\n"
    )
    trees = [{"a": i % 9, "double": 2 * (i % 9), "four": 4 * (i % 9)} for i in range(60)]
    model = tiny(made, [Entity(str(i), tree, ("T",)) for i, tree in enumerate(trees)])
    asked = [{"a": 3}, {"a": None}, {"a": 3, "double": "none"}, {"a": 3, "four": None}]
    known, filled, none, alone = (
        dict(one.filled)
        for one in complete(model, [Entity(f"n{i}", tree, ("T",)) for i, tree in enumerate(asked)], fill="all")
    )
    assert (known["double",].value, known["four",].value, known["four",].confidence) == (6, 12, 1)
    assert filled["four",].value == pytest.approx(4 * filled["a",].value)
    assert filled["four",].confidence == filled["a",].confidence < 1
    assert ("four",) not in none
    assert alone["four",].value == 12


def test_what_is_computed_of_a_filled_value_is_no_surer_than_that(model, things):
    things[3]["area"] = things[3]["size"] = None
    new = filled(model, *things)[3]
    assert new["area",].value == round(new["size",].value ** 2, 1)
    assert new["area",].confidence == new["size",].confidence < 1


def test_each_estimate_says_another_number_within_the_same_interval_bounds(model, things):
    things[3]["size"] = None
    said = {name: filled(model, *things, estimate=name)[3]["size",] for name in ("mean", "median", "mode", "sample")}
    assert all(one.belief.estimate == name for name, one in said.items())
    assert all(0 <= one.value <= 100 for one in said.values())
    assert len({one.belief.interval for one in said.values()}) == 1
    assert len({one.value for one in said.values()}) > 1


def test_the_same_seed_says_the_same_and_another_another(model, things):
    for one in things[:10]:
        one["size"] = one["colour"] = one["tags"] = None
    choices = {"estimate": "sample", "order": "random", "draws": 2}
    first = filled(model, *things, seed=1, **choices)
    assert first == filled(model, *things, seed=1, **choices)
    assert first != filled(model, *things, seed=2, **choices)


@pytest.mark.slow
def test_confidence_and_interval_are_those_given_what_is_given_alone(model, things):
    """However many other gaps are filled before, and in whichever order."""
    things[3]["size"] = things[3]["colour"] = things[3]["tags"] = None
    alone = filled(model, *things, only=[("size",)])[3]["size",]
    for choices in ({}, {"order": "certain", "leap": 1}, {"order": "random", "leap": 1}, {"order": "certain"}):
        among = filled(model, *things, **choices)[3]["size",]
        assert among.belief.interval == pytest.approx(alone.belief.interval, rel=1e-4)
    assert filled(model, *things)[3]["size",].confidence == pytest.approx(alone.confidence, rel=1e-4)


def test_a_leap_is_for_values_that_are_filled_in_turn(model, things):
    with pytest.raises(ConfigError, match="--leap: is for values that are filled in turn"):
        complete(model, entities(*things), leap=2)
    assert CompletionConfig(leap=2, order="certain").leap == CompletionConfig(leap=2, draws=1).leap == 2


def test_draws_are_as_many_as_asked_for_and_differ(model, things):
    things[3]["size"] = things[3]["born"] = None
    new = filled(model, *things, draws=5)[3]
    assert len(new["size",].belief.draws) == 5
    assert len(set(new["size",].belief.draws)) > 1
    assert all(draw.keys() == {"year", "month", "day"} for draw in new["born",].belief.draws)


def test_draws_do_not_change_what_is_filled(model, things):
    things[3]["size"] = things[3]["colour"] = None
    assert values(model, *things)[3].keys() == values(model, *things, draws=4)[3].keys()
    assert values(model, *things)[3] == values(model, *things, draws=4)[3]


def test_entities_are_completed_alike_whoever_else_is_there(model, things):
    things[3]["size"] = things[3]["colour"] = None
    assert values(model, *things)[3] == values(model, *things[3:])[0]


def test_a_stream_that_can_be_read_once_is_completed_too(model, things):
    things[3]["size"] = None
    once = complete(model, iter(entities(*things)))
    assert [dict(one.filled).keys() for one in once][3] == {("size",)}


# ---------------------------------------------------------------- what is told


def test_the_summary_adds_up(model, things):
    for i, one in enumerate(things):
        for key in list(one)[1 + i % 4 :: 4]:
            one[key] = None
    completing = complete(model, entities(*things))
    done = list(completing)
    summary = completing.summary
    assert summary.entities == len(things)
    for row in summary.shown():
        assert row.missing == row.filled + sum(row.held_back.values()), row.path
    assert summary.filled >= sum(bool(one.filled) for one in done)


def test_the_expected_error_is_that_of_what_was_held_out(model, things):
    from dataclasses import replace

    row = {"class": "", "path": "mass.value", "metric": "MAE", "ours": 3.5, "constant": 9.0}
    known = replace(model, record=replace(model.record, quality=[row]))
    things[3]["mass"] = things[3]["size"] = None
    completing = complete(known, entities(*things))
    list(completing)
    told = {one["path"]: one for one in completing.summary.to_json()["properties"]}
    assert (told["mass"]["metric"], told["mass"]["expected_error"], told["mass"]["constant_error"]) == ("MAE", 3.5, 9.0)
    assert told["size"]["expected_error"] is None


def test_a_watcher_is_told_how_far_it_is(model, things):
    told = []
    list(complete(model, entities(*things), watch=lambda done, total: told.append((done, total))))
    assert told[-1] == (len(things), len(things))


# ---------------------------------------------------------------- what makes no sense


def test_a_path_that_no_class_has_is_refused_with_the_nearest(model, things):
    with pytest.raises(SchemaError, match="Did you mean 'colour'"):
        complete(model, entities(*things), only=[("color",)])


def test_a_class_that_the_model_does_not_know_is_refused(model, things):
    with pytest.raises(ConfigError, match="--class: the model has no class 'City'; its one class has no name"):
        complete(model, entities(*things), classes=["City"])


@pytest.mark.parametrize(
    ("name", "value"),
    [("fill", "some"), ("estimate", "max"), ("order", "first"), ("leap", 0), ("draws", -1), ("min_confidence", 2)],
)
def test_a_choice_that_there_is_not_is_refused(model, things, name, value):
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')}: expected"):
        complete(model, entities(*things), **{name: value})


# ---------------------------------------------------------------- rules that presume, and rejected labels


def with_king(model, presence):
    """A model of entities, half of which have a king that their kind determines, as sure of its presence as stated."""
    return calibrated(model, presence=Line(0.0, math.log(presence / (1 - presence))))


@pytest.fixture(scope="module")
def kingdoms():
    rule = Rule(("king",), "determined", (("kind",),), support=50)
    own = of_one_class({("kind",): Property(Category()), ("king",): Property(Category()), ("n",): Property(Number())})
    trees = [{"kind": "ab"[n % 2], "n": n % 7, **({"king": "AB"[n % 2]} if n % 4 < 2 else {})} for n in range(120)]
    return tiny(replace(own, rules=(rule,)), entities(*trees)), trees


def test_what_a_rule_presumes_is_written_where_the_model_is_sure_that_there_is_one(kingdoms):
    model, trees = kingdoms
    lacking = [n for n, tree in enumerate(trees) if "king" not in tree]
    for presence in (0.9, 0.2):
        completions = list(complete(with_king(model, presence), entities(*trees)))
        written = {n for n, one in enumerate(completions) if ("king",) in one.filled}
        assert written == (set(lacking) if presence > 0.5 else set())
    place = lacking[0]
    king = list(complete(with_king(model, 0.9), entities(*trees)))[place].filled["king",]
    assert king.value == "AB"[place % 2]
    assert king.confidence == pytest.approx(king.belief.presence * king.belief.correctness)
    reasons = why(with_king(model, 0.9), entities(*trees)[place], ("king",), entities(*trees))
    assert reasons.rule is not None
    assert reasons.presence == pytest.approx(king.belief.presence, abs=1e-3)
    assert reasons.correctness == pytest.approx(king.belief.correctness, abs=1e-3)


def test_a_rejected_label_leaves_the_belief_and_the_next_one_is_proposed(model, things):
    del things[3]["colour"]
    tree = calibrated(model, correctness=Line())
    [first] = [
        one.filled["colour",] for one in complete(tree, entities(*things), fill="all") if ("colour",) in one.filled
    ]
    answers = Answers()
    answers.add([Answer("t3", ("colour",), first.value, REJECTED)])
    completions = complete(tree, entities(*things), fill="all", answers=answers)
    [second] = [one.filled["colour",] for one in completions if ("colour",) in one.filled]
    assert second.value != first.value
    rest = 1 - first.belief.correctness
    assert second.belief.correctness <= 1
    assert second.belief.correctness * rest <= first.belief.correctness + 1e-6  # it was no likelier before
