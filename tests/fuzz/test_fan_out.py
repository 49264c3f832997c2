"""A small file that names its parts over and over, or one behind the other, is refused before it takes long or overflows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

import kbdisk
from kbdisk.errors import LoadError, SchemaError
from kbdisk.schemas import importers

LEVELS = 27  # 2^27 where every level names the next one twice
SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix e: <http://e/> .
e:s0 sh:targetClass e:C .
"""


def doubled(keyword: str) -> str:
    names = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(LEVELS)}
    return json.dumps(
        {"$defs": names | {f"d{LEVELS}": {"properties": {"a": {}}}}, "$ref": "#/$defs/d0", "$schema": "x"}
    )


def parts() -> str:
    names = {f"d{i}": {"properties": {key: {"$ref": f"#/$defs/d{i + 1}"} for key in "ab"}} for i in range(LEVELS)}
    return json.dumps({"$defs": names | {f"d{LEVELS}": {"type": "number"}}, "$ref": "#/$defs/d0", "$schema": "x"})


def shapes() -> str:
    return SHAPES + "".join(
        f"e:s{i} a sh:NodeShape; sh:property [ sh:path e:a; sh:node e:s{i + 1} ], [ sh:path e:b; sh:node e:s{i + 1} ] .\n"
        for i in range(LEVELS)
    )


def slots() -> str:
    classes = "".join(
        f"  A{i}:\n    attributes:\n" + "".join(f"      {name}: {{range: A{i + 1}, inlined: true}}\n" for name in "ab")
        for i in range(LEVELS)
    )
    return f"id: http://e/\nname: x\nclasses:\n{classes}  A{LEVELS}:\n    attributes:\n      a: {{range: integer}}\n"


def ancestors() -> str:
    return "id: http://e/\nname: x\nclasses:\n" + "".join(f"  A{i}: {{is_a: A{i + 1}}}\n" for i in range(300))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("all.schema.json", doubled("allOf")),
        ("any.schema.json", doubled("anyOf")),
        ("parts.schema.json", parts()),
        ("shapes.ttl", shapes()),
        ("slots.yaml", slots()),
        ("ancestors.yaml", ancestors()),
    ],
)
def test_a_schema_file_that_unfolds_beyond_measure_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match="expected at most"):
        importers.read(tmp_path / name)


@pytest.mark.parametrize("how", ['{{"@id": "http://e/{0}", "@type": "k{1}"}}', '"k{1}:x"'])
def test_terms_of_a_context_that_stand_for_one_another_without_end_are_refused(how):
    terms = ", ".join(f'"k{i}": ' + how.format(i, i + 1) for i in range(2_000))
    document = '{"@context": {' + terms + '}, "@id": "http://e/a", "k0": 1}'
    with pytest.raises(LoadError, match="at most 100 others in a row"):
        list(kbdisk.load(document.encode(), format="jsonld"))


def calls(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile, in Python and beneath."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def star(length: int) -> tuple[str, str]:
    return "ntriples", "".join(
        f'<http://e/a> <http://e/p> _:x{i} .\n_:x{i} <http://e/q> "{i}" .\n' for i in range(length)
    )


def dotted(length: int) -> tuple[str, str]:
    return "csv", ".".join("c" * length) + ",b\n1,2\n"


def marks(length: int) -> tuple[str, str]:
    return "turtle", "# kbdisk: begin\n# kbdisk: end\n" * length + "<http://e/a> <http://e/p> 1 ."


@pytest.mark.parametrize("document", [star, dotted, marks])
def test_twice_the_length_takes_at_most_three_times_the_calls(document):
    def load(length: int) -> int:
        format, text = document(length)
        return calls(lambda: list(kbdisk.load(text.encode(), format=format)))

    load(10)  # what is imported or remembered once
    assert load(600) <= 3 * load(300)
