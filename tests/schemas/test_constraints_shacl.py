"""Constraints read from SHACL agree with pyshacl on which entities violate them, on many small random graphs of each kind."""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import settings

import kbdisk
from kbdisk.schemas.importers import shacl
from kbdisk.schemas.validate import CrossEntityValidator

PREFIXES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix ex: <http://example.org/> .
"""
ENTITIES = 25  # of a graph
GRAPHS = 2 if settings.default.max_examples <= 30 else 20  # of each kind

NUMBERS = ["1", "2", "3", "2.5", "-1", "1e0", "123456789012345678901", "123456789012345678902", "0.1"]
STRINGS = ['"a"', '"b"', '"B"', '"ab"', '"abc"', '""']
TEXTS = [*STRINGS, '"a"@en', '"b"@en', '"a"@de', '"c"@en-GB', '"a"@fr']
DATES = [f'"{day}"^^xsd:date' for day in ("1990-05-01", "1990-05-02", "1989-12-31", "2001-01-01", "1066-10-14")]
YEARS = [f'"{year}"^^xsd:gYear' for year in ("1990", "1991", "0900")]
LINKS = ["ex:p1", "ex:p2", "ex:q1", "ex:pq", "ex:none"]
TARGETS = "ex:p1 a ex:P . ex:p2 a ex:P . ex:q1 a ex:Q . ex:pq a ex:P, ex:Q . ex:none a ex:Other ."


def pair(name, datatype):
    return (
        f"sh:property [ sh:path ex:a ; {datatype} ; sh:{name} ex:b ], [ sh:path ex:b ; {datatype} ], "
        f"[ sh:path ex:c ; {datatype} ; sh:maxCount 1 {f'; sh:{name} ex:a' * (name != 'equals')} ]"
    )


def qualified(what):
    counts = "sh:qualifiedMinCount 1 ; sh:qualifiedMaxCount 2"
    return f"sh:property [ sh:path ex:a ; {counts} ; sh:qualifiedValueShape [ {what} ] ], [ sh:path ex:a ; KIND ]"


def one(what):
    return f"sh:property [ sh:path ex:a ; {what} ]"


PART = "sh:property [ sh:path ex:a ; sh:nodeKind sh:BlankNode ; %s sh:node [ sh:property %s ] ]"
STEP = "[ sh:path ex:b ; sh:datatype xsd:integer ; sh:maxCount 1 ; sh:lessThanOrEquals ex:c ]"
END = "[ sh:path ex:c ; sh:datatype xsd:integer ; sh:minCount 1 ; sh:maxCount 1 ]"
PATTERN = " ; sh:pattern '[1q]$'"
LITERAL = "sh:datatype xsd:string"
LINK = "sh:nodeKind sh:BlankNodeOrIRI"

CASES = {  # shapes of ex:Thing, and what its properties may be
    "less than, numbers": (pair("lessThan", "sh:minExclusive -5"), NUMBERS),
    "less than, dates": (pair("lessThan", "sh:datatype xsd:date"), DATES),
    "less than, years": (pair("lessThan", "sh:datatype xsd:gYear"), YEARS),
    "less than or equal, strings": (pair("lessThanOrEquals", LITERAL), STRINGS),
    "less than or equal, dates": (pair("lessThanOrEquals", "sh:datatype xsd:date"), DATES),
    "equals, links": (pair("equals", LINK), LINKS[:2]),
    "equals, strings": (pair("equals", LITERAL), STRINGS[:2]),
    "equals, dates": (pair("equals", "sh:datatype xsd:date"), DATES[:2]),
    "disjoint, links": (pair("disjoint", LINK), LINKS),
    "disjoint, texts": (pair("disjoint", "sh:languageIn ( 'en' 'de' )"), [*TEXTS[6:9], '"b"@de']),
    "disjoint, integers": (pair("disjoint", "sh:datatype xsd:integer"), NUMBERS[:3]),
    "two to three values": (one(f"{LINK} ; sh:minCount 2 ; sh:maxCount 3"), LINKS),
    "at most two numbers": (one("sh:datatype xsd:integer ; sh:maxCount 2"), ["1", "2", "3"]),
    "none at all": (one("sh:maxCount 0"), LINKS),
    "qualified by class": (qualified("sh:class ex:P").replace("KIND", LINK), LINKS),
    "qualified by two classes": (qualified("sh:class ex:P ; sh:class ex:Q").replace("KIND", LINK), LINKS),
    "qualified by labels": (qualified("sh:in ( 'a' 'b' )").replace("KIND", LITERAL), STRINGS),
    "qualified by links": (qualified("sh:in ( ex:p1 ex:p2 )").replace("KIND", LINK), LINKS),
    "qualified by a value": (qualified("sh:hasValue ex:p1").replace("KIND", LINK), LINKS),
    "qualified by a range": (qualified("sh:minInclusive 1 ; sh:maxExclusive 3").replace("KIND", "sh:minExclusive -9"), NUMBERS),
    "qualified by dates": (qualified("sh:maxInclusive '1990-05-01'^^xsd:date").replace("KIND", "sh:datatype xsd:date"), DATES),
    "qualified by a pattern": (qualified("sh:pattern '^A' ; sh:flags 'i'").replace("KIND", LITERAL), STRINGS),
    "qualified by a length": (qualified("sh:minLength 2").replace("KIND", LITERAL), STRINGS),
    "qualified by a language": (qualified("sh:languageIn ( 'en' )").replace("KIND", "sh:datatype rdf:langString"), TEXTS[6:]),
    "qualified by datatype": (qualified("sh:datatype xsd:string").replace("KIND", "sh:hasValue 'a'"), ['"a"', '"b"', "1", "true"]),
    "qualified by node kind": (qualified("sh:nodeKind sh:IRI").replace("KIND", "sh:hasValue ex:p1"), LINKS),
    "a link among several": (one("sh:hasValue ex:p1"), LINKS),
    "two labels among several": (one("sh:hasValue 'a', 'b' ; sh:datatype xsd:string"), STRINGS),
    "one of dates": (one(f"sh:in ( {DATES[0]} {DATES[1]} ) ; sh:datatype xsd:date"), DATES),
    "pattern": (one("sh:datatype xsd:string ; sh:pattern '^[A-B]+$' ; sh:flags 'i'"), STRINGS),
    "pattern of links": (one(f"{LINK} ; sh:pattern 'p[0-9]$'"), LINKS),
    "length of links": (one(f"{LINK} ; sh:maxLength 21"), LINKS),
    "length of several strings": (one("sh:datatype xsd:string ; sh:minLength 1 ; sh:maxLength 2"), STRINGS),
    "languages": (one("sh:languageIn ( 'en' 'de' )"), TEXTS),
    "one language": (one("sh:languageIn ( 'en' ) ; sh:maxCount 2"), TEXTS),
    "unique languages": (one("sh:datatype rdf:langString ; sh:uniqueLang true"), TEXTS[6:]),
    "bounds within a year": (one(f"sh:datatype xsd:date ; sh:minInclusive {DATES[0]} ; sh:maxExclusive {DATES[3]}"), DATES),
    "IRIs alone": (one("sh:nodeKind sh:IRI"), [*LINKS, "[ ex:d 1 ]"]),
    "of two classes": (one("sh:class ex:P ; sh:class ex:Q"), LINKS),
    "closed": ("sh:closed true ; sh:ignoredProperties ( rdf:type ex:c ) ; " + one(LINK), LINKS),
    "all of several shapes": (
        f"sh:and ( [ {one('sh:minCount 1')} ] [ {one(LINK + PATTERN)} ] [ {one('sh:hasValue ex:p1')} ] )",
        LINKS,
    ),
    "kinds that the other property tells": (
        "sh:property [ sh:path ex:a ; sh:lessThan ex:b ], [ sh:path ex:b ; sh:datatype xsd:date ]",
        DATES,
    ),
    "parts of a list": (PART % ("", f"{STEP}, {END}"), ["[ ex:b 1 ; ex:c 2 ]", "[ ex:b 2 ; ex:c 1 ]", "[ ex:c 1 ]", "[ ex:b 1 ]"]),
    "a part": (
        PART % ("sh:maxCount 1 ;", f"{STEP}, {END}"),
        ["[ ex:b 1 ; ex:c 2 ]", "[ ex:b 2 ; ex:c 1 ]", "[ ex:c 1 ]", "[ ex:b 1 ]", "[ ex:b 1 ; ex:c 1 ]"],
    ),
}  # fmt: skip


def random_graph(draw, values):
    """Entities with none to three values of each property."""
    lines = []
    for number in range(ENTITIES):
        said = ["a ex:Thing"]
        for name in "abc":
            chosen = draw.sample(values, draw.choice([0, 1, 1, 2, 3][: len(values) + 2]))
            said += [f"ex:{name} {', '.join(chosen)}"] if chosen else []
        lines.append(f"ex:thing{number} {' ; '.join(said)} .")
    return "\n".join(lines)


def violating(path, schema):
    """The entities that violate the schema."""
    across, found = CrossEntityValidator(schema), set()
    kb = kbdisk.load(path)
    for entity in kb:
        of = next((one for one in schema.classes.values() if one.iri in entity.classes), None)
        misfits = [*(schema.check(entity) if of else ()), *across.take(entity, of)]
        found |= {entity.id} if misfits else set()
    return found | {id for _, _, id in across.at_the_end(kb.hierarchy)}


@pytest.mark.parametrize("name", CASES)
def test_it_agrees_with_pyshacl_on_which_entities_violate_a_constraint(name, tmp_path):
    import pyshacl
    import rdflib

    told, values = CASES[name]
    shapes = f"{PREFIXES} ex:S a sh:NodeShape ; sh:targetClass ex:Thing ; {told} ."
    (tmp_path / "shapes.ttl").write_text(shapes, encoding="utf-8")
    imported = shacl.read(tmp_path / "shapes.ttl")
    assert not [line for line in imported.left_out if "not checked" in line or "left out" in line]
    assert kbdisk.Schema.read(imported.schema.to_yaml()) == imported.schema
    draw, seen = random.Random(name), set()
    for _ in range(GRAPHS):
        text = f"{PREFIXES}\n{TARGETS}\n{random_graph(draw, values)}"
        (tmp_path / "data.ttl").write_text(text, encoding="utf-8")
        graphs = [rdflib.Graph().parse(data=part, format="turtle") for part in (text, shapes)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, results, _ = pyshacl.validate(graphs[0], shacl_graph=graphs[1])
            ours = violating(tmp_path / "data.ttl", imported.schema)
        theirs = {str(node) for node in results.objects(predicate=rdflib.SH.focusNode)}
        wrong = sorted(ours ^ {node for node in theirs if "/thing" in node})
        lines = [line for line in text.splitlines() if any(f"ex:{id.rpartition('/')[2]} " in line for id in wrong[:3])]
        assert not wrong, "\n".join([*lines, imported.schema.to_yaml()])
        seen |= {id in ours for id in map("http://example.org/thing{}".format, range(ENTITIES))}
    assert seen == {True, False}
