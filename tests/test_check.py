"""Checking a source against a schema: what does not fit, where, and what only one side knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tables import for_each

import kbdisk
from kbdisk.entity import Entity, read_path
from kbdisk.errors import LoadError, SchemaError
from kbdisk.inspection import MAX_MISFIT_EXAMPLES, Findings, check
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class

EXAMPLES_FOLDER = Path(__file__).parents[1] / "examples"


def schema_of(**kinds) -> Schema:
    """A schema of one class; `__` stands for a dot."""
    return of_one_class(
        {
            read_path(name.replace("__", ".")): kind if isinstance(kind, Property) else Property(kind)
            for name, kind in kinds.items()
        }
    )


@pytest.fixture
def found(tmp_path):
    """Check some JSON objects against a schema."""

    def found(schema: Schema, *lines: object, **told) -> Findings:
        file = tmp_path / "kb.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return check(schema, kbdisk.load(file, **told), name="the schema")

    return found


def only(findings: Findings) -> tuple[str, str, int]:
    (trouble,) = findings.misfits
    return trouble.path, trouble.problem, trouble.count


def test_a_value_that_does_not_fit_is_told_with_its_line(found, tmp_path):
    findings = found(schema_of(n=Number()), {"n": 1}, {"n": "heavy"}, {"n": 2}, {"n": "light"})
    assert only(findings) == ("n", "expected a number", 2)
    assert [(one.place, one.problem) for one in findings.misfits[0].examples] == [
        (f"{tmp_path}/kb.jsonl:2", "expected a number, got 'heavy'"),
        (f"{tmp_path}/kb.jsonl:4", "expected a number, got 'light'"),
    ]
    assert not findings.fits


def test_what_fits_has_no_findings(found):
    findings = found(schema_of(n=Number(), name=Text()), {"n": 1, "name": "a"}, {"n": 2.5})
    assert (findings.fits, findings.fits_exactly, findings.entities) == (True, True, 2)
    assert (findings.misfits, findings.unknown, findings.absent) == ([], [], [])


def test_the_first_of_many_misfits_are_kept_and_all_are_counted(found):
    findings = found(schema_of(n=Number(maximum=5)), *({"n": 100 + n} for n in range(50)))
    assert only(findings) == ("n", "expected a number of at most 5", 50)
    assert len(findings.misfits[0].examples) == MAX_MISFIT_EXAMPLES


def test_a_required_value_that_is_not_there_is_a_misfit(found):
    findings = found(schema_of(n=Property(Number(), required=True), m=Number()), {"n": 1, "m": 1}, {"m": 1})
    assert only(findings) == ("n", "expected a value", 1)


def test_a_gap_is_no_misfit(found):
    schema = schema_of(n=Property(Number(), missing=("-1", "?")), launch=Date(), w=Quantity("g"))
    findings = found(
        schema, {"n": -1, "launch": {"year": None}, "w": {"value": None, "unit": "g"}}, {"n": "?"}, {"n": None}
    )
    assert findings.fits


def test_paths_that_only_one_side_knows_are_told_and_are_no_misfits(found):
    findings = found(
        schema_of(n=Number(), depth=Number()), {"n": 1, "brand": "x", "at": [{"lat": 1}]}, {"n": 1, "brand": "y"}
    )
    assert [(one.path, one.count, one.near) for one in findings.unknown] == [("brand", 2, None), ("at.lat", 1, None)]
    assert [(one.path, one.near) for one in findings.absent] == [("depth", None)]
    assert (findings.fits, findings.fits_exactly) == (True, False)


@for_each(
    ("wrong", "tree", "right"),
    [
        ("wieght", {"weight": 1}, "weight"),
        ("launch_year", {"launch": {"year": 1999}}, "launch.year"),
        ("siez", {"size": {"width": 1, "height": 2}}, "size"),
    ],
)
def test_a_path_that_looks_misspelt_is_a_finding_and_the_right_one_is_named(wrong, tree, right, found):
    findings = found(of_one_class({("n",): Property(Number()), (wrong,): Property(Number())}), {"n": 1, **tree})
    assert [(one.path, one.near) for one in findings.absent] == [(wrong, right)]
    assert not findings.fits


def test_a_path_that_is_misspelt_now_and_then_is_told_with_the_right_one(found):
    findings = found(schema_of(brand=Text()), {"brand": "x"}, {"brnad": "y"})
    assert [(one.path, one.count, one.near) for one in findings.unknown] == [("brnad", 1, "brand")]


def test_weight_is_not_height_misspelt(found):
    findings = found(schema_of(n=Number(), height=Number()), {"n": 1, "weight": 2})
    assert [(one.path, one.near) for one in (*findings.absent, *findings.unknown)] == [
        ("height", None),
        ("weight", None),
    ]
    assert findings.fits


def test_fields_of_parts_and_maps_are_known_one_by_one(found):
    schema = schema_of(
        prizes=Listed({"year": Number(), "at": Listed({"city": Text()})}),
        names=Mapped({"common": Text()}),
        scores=Mapped({"": Number()}),
    )
    entity = {
        "prizes": [{"year": 1901, "yaer": 1, "at": [{"city": "x", "land": "y"}]}],
        "names": {"deu": {"common": "a", "official": "b"}},
        "scores": {"a": 1, "b": 2},
    }
    assert {one.path for one in found(schema, entity).unknown} == {
        "prizes.yaer",
        "prizes.at.land",
        "names.deu.official",
    }


def test_what_is_ignored_or_derived_need_not_be_there(found):
    schema = schema_of(
        n=Number(), notes=Property(Text(), role="ignore"), double=Property(Number(), formula=Formula.read("2 * n"))
    )
    assert found(schema, {"n": 1}).fits_exactly


def test_a_derived_value_that_its_formula_does_not_give_is_a_misfit_also_where_it_is_ignored(found):
    for role in ("value", "ignore"):
        schema = schema_of(n=Number(), double=Property(Number(), role=role, formula=Formula.read("2 * n")))
        findings = found(schema, {"n": 1, "double": 2}, {"n": 2, "double": 5})
        assert only(findings) == ("double", "expected 4 by 2 * n", 1)


def test_a_value_that_must_be_unique_is_told_the_second_time(found):
    schema = schema_of(symbol=Property(Text(), unique=True), at=Property(Date(), unique=True))
    findings = found(
        schema,
        {"id": "a", "symbol": "H", "at": {"year": 1, "month": 2}},
        {"id": "b", "symbol": "He", "at": {"year": 1, "day": 2}},
        {"id": "c", "symbol": "H"},
    )
    assert only(findings) == ("symbol", "expected a value of its own", 1)
    assert findings.misfits[0].examples[0].problem == "expected a value of its own, got that of 'a'"
    assert findings.misfits[0].examples[0].id == "c"


def test_an_id_that_is_ignored_must_be_unique_all_the_same(found):
    schema = schema_of(symbol=Property(Text(), role="ignore", unique=True))
    findings = found(schema, {"id": "a", "symbol": "H"}, {"id": "b", "symbol": "H"})
    assert only(findings) == ("symbol", "expected a value of its own", 1)


def test_what_depends_on_another_has_one_value_for_each_of_its_values(found):
    schema = schema_of(code=Category(), name=Property(Category(), depends=(("code",),)))
    findings = found(
        schema,
        *(
            {"code": code, "name": name}
            for code, name in [("EUR", "Euro"), ("USD", "Dollar"), ("EUR", "Euro"), ("USD", "Peso")]
        ),
    )
    assert only(findings) == ("name", "expected the value that others with the same code have", 1)
    assert "got Peso for Dollar" in findings.misfits[0].examples[0].problem


CITIES = Schema(
    {
        "City": Class("City", {("name",): Property(Text())}, iri="http://ex.org/City"),
        "Country": Class(
            "Country",
            {
                ("capital",): Property(Link("City")),
                ("cities",): Property(Set(Link("City"))),
                ("near",): Property(Link("Place")),
            },
        ),
    }
)
GRAPH = """
@prefix : <http://ex.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Town rdfs:subClassOf :City . :City rdfs:subClassOf :Place .
:Paris a :City ; :name "Paris" . :Vaduz a :Town ; :name "Vaduz" . :Seine a :River .
:F a :Country ; :capital :Paris ; :cities :Paris, :Seine ; :near :Paris .
:LI a :Country ; :capital :Vaduz ; :cities :Elsewhere .
"""


def test_a_link_to_another_class_is_told_and_subclasses_are_their_superclass():
    findings = check(CITIES, kbdisk.load(GRAPH.encode(), format="turtle"))
    assert only(findings) == ("cities", "expected a link to City", 1)
    (example,) = findings.misfits[0].examples
    assert example.problem == "expected a link to City, got 'http://ex.org/Seine', which is River"
    assert example.id == "http://ex.org/F"


def test_classes_that_the_schema_does_not_know_are_counted():
    findings = check(CITIES, kbdisk.load(GRAPH.encode(), format="turtle"))
    assert findings.strange["http://ex.org/River"] == 1
    assert dict(findings.classes) == {"City": 1, "Country": 2}


def test_one_class_can_be_checked_alone():
    kb = kbdisk.load(GRAPH.encode(), format="turtle")
    assert dict(check(CITIES, kb, classes=["City"]).classes) == {"City": 1}
    with pytest.raises(LoadError, match=r"no entity is of the class 'Citi'; .* Did you mean 'City'\?"):
        check(CITIES, kb, classes=["City", "Citi"])


@for_each(
    ("paths", "complaint"),
    [
        (
            ["launch_year", "x"],
            "the schema: none of its 2 paths is in {kb}. Did you mean 'launch.year' for 'launch_year'?",
        ),
        (["z", "x"], "the schema: expected one of z, x in {kb}, got id, name, brand, launch.year, weight.value, "),
    ],
)
def test_a_schema_of_something_else_is_an_error_that_names_what_is_near(paths, complaint):
    kb = kbdisk.load(EXAMPLES_FOLDER / "phones.jsonl")
    with pytest.raises(SchemaError) as error:
        check(of_one_class({(path,): Property(Number()) for path in paths}), kb, name="the schema")
    assert str(error.value).startswith(complaint.format(kb=kb.name))


def test_what_was_skipped_is_told(tmp_path):
    (tmp_path / "kb.jsonl").write_text('{"n": 1}\n{"n": \n')
    findings = check(schema_of(n=Number()), kbdisk.load(tmp_path / "kb.jsonl", skip_errors=True))
    assert len(findings.skipped) == 1


def test_a_link_to_an_entity_of_which_no_class_is_told_is_no_misfit():
    schema = Schema(
        {"City": Class("City", {("near",): Property(Link("City"))}), "": Class("", {("n",): Property(Number())})}
    )
    cities = [{"@id": "a", "@type": "City", "near": {"@id": "b"}}, {"@id": "b", "n": 1}]
    assert check(schema, kbdisk.load(cities)).misfits == []


@for_each("name", ["cities.json", "cities.csv"])
def test_links_are_to_the_ids_that_the_schema_names(name, tmp_path):
    rows = [("R", "Rome", "city", "I"), ("I", "Italy", "country", "R"), ("M", "Milan", "city", "R")]
    source = tmp_path / name
    if name.endswith(".json"):
        source.write_text(json.dumps([dict(zip(("code", "name", "@type", "of"), row, strict=True)) for row in rows]))
    else:
        source.write_text("\n".join(map(",".join, [("code", "name", "@type", "of"), *rows])))
    properties = {("code",): Property(Text()), ("name",): Property(Text()), ("of",): Property(Link("country"))}
    schema = Schema({of: Class(of, properties, id=("code",)) for of in ("city", "country")})
    found = check(schema, kbdisk.load(source)).misfits
    assert [(one.of, one.path, [each.id for each in one.examples]) for one in found] == [
        ("city", "of", ["M"]),
        ("country", "of", ["I"]),
    ]
    assert found[0].examples[0].problem == "expected a link to country, got 'R', which is city"


def test_an_id_that_the_source_says_itself_stays():
    schema = Schema({"": Class("", {("code",): Property(Text())}, id=("code",))}, missing=("-",))
    for id, tree, named in [
        ("1", {"code": "R"}, "R"),
        ("1", {"code": 7}, "7"),
        ("http://e.org/R", {"code": "R"}, "http://e.org/R"),
        ("_:b0", {"code": "R"}, "_:b0"),
        ("Q1", {"@id": "Q1", "code": "R"}, "Q1"),
        ("1", {}, "1"),
        ("1", {"code": "-"}, "1"),
        ("1", {"code": None}, "1"),
    ]:
        assert schema.id_of(Entity(id, tree)) == named
