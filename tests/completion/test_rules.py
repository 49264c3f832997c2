"""Rules fill gaps before the model is asked: exactly, in the source's form, within the schema."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
from tables import for_each

from kbdisk.completion import rules as rule_module
from kbdisk.completion.decide import ABSENT
from kbdisk.completion.rules import RuleFiller, no_presence
from kbdisk.data.parse import read_all
from kbdisk.entity import NOVALUE, Date, Entity, Link, Quantity
from kbdisk.schemas.yaml import loads

SCHEMA = """
kbdisk: 1
classes:
  Thing:
    properties:
      above: {kind: number, integer: true}
      below: {kind: number, integer: true}
      living: {kind: number, integer: true, max: 500}
      weight: {kind: quantity, unit: g, units: {kg: 1000}}
      grams: number
      code: {kind: category, unique: true}
      capital: {kind: link, to: Thing}
      country: category
      neighbours: {kind: set, of: link, to: Thing}
      born: date
      year: {kind: number, integer: true}
      copy: {kind: category, values: [a, b], closed: true}
rules:
"""


def filled(rules, *trees, fill="all", gaps=(), presence_at=no_presence):
    """What rules give for the first of some entities, by property."""
    schema = loads(SCHEMA + "".join(f"  - {{{rule}}}\n" for rule in rules))
    entities = [Entity(f"e{n}", tree, ("Thing",)) for n, tree in enumerate(trees)]
    closed = {(key,) for key, value in trees[0].items() if value is NOVALUE}
    readings = list(read_all(schema, entities))
    found = RuleFiller(schema, readings, fill).filled(readings[0], gaps, closed, presence_at)
    return {one.path[0]: (one.value, round(one.confidence, 3)) for one in found}


LIVING = "target: living, rule: sum, of: [above, below], support: 97, exceptions: 1"
COUNTRY = "target: country, rule: determined, of: [capital]"
FILLS = [  # a rule, entities, and what it gives for the first
    (LIVING, [{"above": 100, "below": 20}], {"living": (120, 0.98)}),
    (LIVING, [{"above": 100}], {}),
    (LIVING, [{"above": 100, "below": 20, "living": 7}], {}),
    (LIVING, [{"above": 100, "below": 20, "living": NOVALUE}], {}),
    (LIVING, [{"above": 400, "below": 200}], {}),  # above the maximum of the schema
    (LIVING + ", class: Thing", [{"above": 1, "below": 2}], {"living": (3, 0.98)}),
    ("target: weight, rule: linear, of: [grams], factor: 2", [{"grams": 8}], {"weight": (Quantity(16, "g"), 1)}),
    ("target: grams, rule: copy, of: [weight]", [{"weight": Quantity(8, "g")}], {"grams": (8, 1)}),
    ("target: year, rule: copy, of: [born.year]", [{"born": Date(1950, 1, 2)}], {"year": (1950, 1)}),
    ("target: born, rule: copy, of: [year]", [{"year": 1950}], {"born": (Date(1950), 1)}),
    ("target: copy, rule: copy, of: [country]", [{"country": "c"}], {}),  # no label of the closed ones
    ("target: code, rule: copy, of: [country]", [{"country": "c"}, {"code": "c"}], {}),  # unique
    (COUNTRY, [{"capital": Link("e9")}, *[{"capital": Link("e9"), "country": "A"}] * 3], {"country": ("A", 0.8)}),
    (COUNTRY, [{"capital": Link("e9")}, *({"capital": Link("e9"), "country": label} for label in "ABAB")], {}),
    ("target: country, rule: linked, of: [capital, code]", [{"capital": Link("e1")}, {"code": "x"}], {"country": ("x", 0.5)}),
    ("target: capital, rule: inverse, of: [capital]", [{}, {"capital": Link("e0")}], {"capital": (Link("e1"), 1)}),
    ("target: capital, rule: inverse, of: [capital]", [{}, *[{"capital": Link("e0")}] * 2], {}),  # two for one place
    (
        "target: neighbours, rule: inverse, of: [neighbours]",
        [{}, *[{"neighbours": [Link("e0")]}] * 2],
        {"neighbours": ([Link("e1"), Link("e2")], 1)},
    ),
    ("target: neighbours, rule: inverse, of: [neighbours]", [{"neighbours": [Link("e2")]}, {"neighbours": [Link("e0")]}], {}),
]  # fmt: skip


@for_each("case", range(len(FILLS)))
def test_a_rule_fills_what_follows_and_no_more(case):
    rule, trees, expected = FILLS[case]
    assert filled([rule], *trees) == expected


def test_a_value_by_a_rule_counts_in_others_with_the_confidence_of_both():
    grams = "target: grams, rule: copy, of: [living], support: 8"
    assert filled([grams, LIVING], {"above": 1, "below": 2}) == {
        "living": (3, 0.98),
        "grams": (3, round(0.9 * 0.98, 3)),
    }


OTHERS = [{"capital": Link("e9")}] * 9 + [{"capital": Link("e9"), "country": "A"}]  # one in ten has a country


@for_each("fill", ["asked", "likely", "all"])
def test_a_label_that_few_have_is_as_sure_as_that_there_is_one(fill):
    assert filled([COUNTRY], *OTHERS, fill=fill) == ({} if fill == "asked" else {"country": ("A", round(2 / 11, 3))})
    assert filled([COUNTRY], *OTHERS, fill=fill, gaps=[("country",)]) == {"country": ("A", 1)}  # it has a place


def test_what_a_rule_presumes_is_as_sure_as_the_model_is_and_so_is_what_follows():
    copy = "target: copy, rule: copy, of: [country], support: 8"
    others = [{"capital": Link("e9"), "country": "a"}] * 3
    found = filled([COUNTRY, copy], {"capital": Link("e9")}, *others, presence_at={("country",): 0.3}.get)
    assert found == {"country": ("a", 0.3), "copy": ("a", 0.27)}
    exact = filled([LIVING], {"above": 100, "below": 20}, presence_at={("living",): 0.3}.get)
    assert exact == {"living": (120, 0.98)}  # of a sum whose terms are there the sum is there


def test_a_rule_that_was_found_presumes_a_property_that_few_have():
    having, lacking = {"above": 1, "below": 2, "living": 3}, {"above": 1, "below": 2}
    presence_at = {("living",): 0.3}.get
    for few_have_it, confidence in ((True, 0.294), (False, 0.98)):
        trees = [lacking, *[having] * (10 if few_have_it else 20), *[lacking] * 19]
        assert filled([LIVING], *trees, presence_at=presence_at) == {"living": (3, confidence)}
    stated = "target: living, rule: sum, of: [above, below]"
    assert filled([stated], lacking, *[lacking] * 30, presence_at=presence_at) == {"living": (3, 1)}


SECOND = "target: year, rule: copy, of: [living], support: 60"


def copies(count, missing, seed=0):
    """Entities with a label and two numbers that are equal; `missing` says of which the second is blank."""
    rng = random.Random(seed)
    for n in range(count):
        tree = {"living": 1 + n % 50, "country": rng.choice("ABC"), "grams": rng.random()}
        yield tree if missing(tree, rng) else tree | {"year": tree["living"]}


def confidence_for(rule, tree, *others, **options):
    """The confidence of the year that a rule gives for an entity beside others."""
    return filled([rule], tree, *others, gaps=[("year",)], **options)["year"][1]


IN_A, LIGHT = {"living": 7, "country": "A", "grams": 0.9}, {"living": 7, "country": "B", "grams": 0.01}
IN_B = {"living": 7, "country": "B", "grams": 0.9}


@for_each(
    ("missing", "lacking", "having"),
    [
        (lambda tree, rng: tree["country"] == "A", IN_A, IN_B),
        (lambda tree, rng: tree["grams"] < 0.25, LIGHT, IN_B),
        (lambda tree, rng: tree["country"] == "A" or rng.random() < 0.3, IN_A, IN_B),  # and some at random
    ],
)
def test_a_found_rule_gives_no_value_where_entities_like_this_one_never_have_any(missing, lacking, having):
    others = list(copies(200, missing))
    assert confidence_for(SECOND, lacking, *others) < 0.1
    assert confidence_for(SECOND, having, *others) > 0.9
    stated = "target: year, rule: copy, of: [living]"
    assert confidence_for(stated, lacking, *others) == 1


@for_each("share", [0.05, 0.3, 0.8])
@for_each("seed", range(5))
def test_values_that_are_missing_at_random_are_as_sure_as_the_rule_is(share, seed):
    others = list(copies(200, lambda tree, rng: rng.random() < share, seed))
    at_random = partial(confidence_for, SECOND, IN_A, *others, presence_at={("year",): 1.0}.get)
    assert at_random() == round(61 / 62, 3)


def test_a_value_that_follows_from_the_target_is_missing_because_the_target_is():
    others = [
        tree | ({"weight": tree["year"] * 2} if "year" in tree else {})
        for tree in copies(200, lambda tree, rng: rng.random() < 0.3)
    ]
    twice = "target: weight, rule: linear, of: [year], factor: 2, support: 60"
    found = filled([SECOND, twice], IN_A, *others)
    assert [confidence for _, confidence in found.values()] == [round(61 / 62, 3), round((61 / 62) ** 2, 3)]


def test_what_follows_from_that_in_turn_is_missing_for_the_same_reason():
    others = [
        {**tree, "grams": 0.0, **({"weight": tree["year"] * 2, "grams": tree["year"] * 6} if "year" in tree else {})}
        for tree in copies(200, lambda tree, rng: rng.random() < 0.3)
    ]
    for tree in others:
        if "year" not in tree:
            del tree["grams"]
    twice = "target: weight, rule: linear, of: [year], factor: 2, support: 60"
    thrice = "target: grams, rule: linear, of: [weight], factor: 3, support: 60"
    lacking = {"living": 7, "country": "A"}
    found = filled([SECOND, twice, thrice], lacking, *others, fill="all")
    assert list(found) == ["year", "weight", "grams"]
    assert found["year"][1] == round(61 / 62, 3)


def test_of_a_rare_rule_in_a_large_class_few_have_the_target_and_the_model_is_asked(monkeypatch):
    monkeypatch.setattr(rule_module, "MAX_SAMPLED", 30)  # entities, of which the rule applies to hardly any
    plain_ones = [{"country": "B", "grams": 0.5}] * 500
    rare = [{"living": 7, "country": "A"}] * 60 + [{"living": 7, "year": 7, "country": "A"}] * 20
    presence_at = {("year",): 0.02}.get
    assert confidence_for(SECOND, IN_A, *rare, *plain_ones, presence_at=presence_at) < 0.03
    often = [{"living": 7, "year": 7, "country": "A"}] * 60
    assert confidence_for(SECOND, IN_A, *often, *plain_ones, presence_at=presence_at) > 0.9


def test_what_the_schema_requires_is_there_whatever_others_lack():
    required = SCHEMA.replace("year: {kind: number,", "year: {kind: number, required: true,")
    schema = loads(f"{required}  - {{{SECOND}}}\n")
    trees = [IN_A, *copies(200, lambda tree, rng: tree["country"] == "A")]
    readings = list(read_all(schema, (Entity(f"e{n}", tree, ("Thing",)) for n, tree in enumerate(trees))))
    [ruled] = RuleFiller(schema, readings, "likely").filled(readings[0], (), ())
    assert ruled.presence == 1


def houses(tmp_path):
    """A table with a sum and a label that another determines; too few rows for a model to learn from."""
    rows = [[f"h{n}", 50 + n * n % 97, n * 7 % 31, f"city {n % 5}", f"land {n % 5}"] for n in range(28)]
    rows = [[*row[:3], row[1] + row[2], *row[3:]] for row in rows]
    rows[4][3], rows[6][5], rows[8][1] = "", "", ""
    file = tmp_path / "houses.csv"
    lines = ["id,above,below,living,city,country", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file, lines


@pytest.fixture
def complete(run):
    return partial(run, "complete")


def test_the_rules_of_a_source_are_found_and_fill_its_gaps_exactly(complete, tmp_path):
    file, lines = houses(tmp_path)
    out = tmp_path / "out.csv"
    status, told, _ = complete(str(file), "--out", str(out), "--json")
    assert status == 0
    new = out.read_text().splitlines()
    assert new[5] == "h4,66,28,94,city 4,land 4"
    assert new[7] == "h6,86,11,97,city 1,land 1"
    assert new[9].startswith("h8,114,25,139,")
    assert [line for n, line in enumerate(new) if n not in (5, 7, 9)] == [
        line for n, line in enumerate(lines) if n not in (5, 7, 9)
    ]
    rows = {row["path"]: row for row in json.loads(told)["properties"]}
    assert rows["living"]["rules"] == {"living = above + below (26 of 26)": 1}
    sidecar = [json.loads(line) for line in (tmp_path / "out.csv.provenance.jsonl").read_text().splitlines()]
    assert {(row["path"], row["estimate"], row["rule"], row["confidence"]) for row in sidecar if row["id"] == "h4"} == {
        ("living", "rule", "living = above + below (26 of 26)", round(27 / 28, 6))
    }


def test_blank_cells_with_nothing_to_state_stay_blank_and_the_summary_says_so(complete, tmp_path):
    """Of a decay with 100 % of the nuclei there is no uncertainty, though that of the other decay is its copy elsewhere."""
    rng, lines = random.Random(0), ["first,error,second,other error"]
    for n in range(120):
        error = 1 + rng.randrange(1, 90)
        if n % 2:
            lines.append(f"100,,{rng.randrange(1, 99)},{error}")
        else:
            lines.append(f"{rng.randrange(1, 99)},{error if n > 10 else ''},{rng.randrange(1, 99)},{error}")
    (tmp_path / "decays.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out.csv"
    options = ("--preset", "fast", "--budget", "0.3s", "--json")
    status, told, _ = complete(str(tmp_path / "decays.csv"), "--out", str(out), *options)
    assert status == 0
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    assert all(error == other for first, error, _, other in rows if first != "100")
    assert not any(error for first, error, _, _ in rows if first == "100")
    [row] = [row for row in json.loads(told)["properties"] if row["path"] == "error"]
    assert (row["filled"], row["held_back"]) == (6, {ABSENT: 60})


def test_text_that_no_model_writes_is_put_together_by_a_template(complete, tmp_path):
    rows = [[f"{'ABCDEFG'[n % 7]}{n}a", f"{'KLMNO'[n % 5]}b{n}"] for n in range(60)]
    lines = [
        "given,family,full name",
        *(f"{a},{b},{a} {b}" if n != 7 else f"{a},{b}," for n, (a, b) in enumerate(rows)),
    ]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out.csv"
    assert complete(str(tmp_path / "people.csv"), "--out", str(out), "--preset", "fast", "--budget", "0.3s")[0] == 0
    assert out.read_text().splitlines()[8] == "{0},{1},{0} {1}".format(*rows[7])


def test_the_rules_of_a_schema_file_are_used_as_given_and_none_where_it_says_none(complete, tmp_path):
    file, _ = houses(tmp_path)
    kinds = "".join(f"      {name}: number\n" for name in ("above", "below", "living"))
    for rules, expected in (("[]", ""), ("[{target: living, rule: difference, of: [above, below]}]", "38")):
        schema = tmp_path / "house.yaml"
        schema.write_text(f"kbdisk: 1\nrules: {rules}\nclasses:\n  '':\n    id: id\n    properties:\n{kinds}")
        out = tmp_path / f"out {len(rules)}.csv"
        assert complete(str(file), "--out", str(out), "--schema", str(schema))[0] == 0
        assert out.read_text().splitlines()[5] == f"h4,66,28,{expected},city 4,land 4"
