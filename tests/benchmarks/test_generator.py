"""Generated knowledge bases: the same for the same settings, and their truth is true."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest
import rich_click as click

import kbdisk
from benchmarks.cli import main
from benchmarks.generator import CURRENCIES, RELATIONS, UNITS, Generated, GeneratorOptions, generate, turtle
from kbdisk.entity import Date, walk

SMALL = GeneratorOptions(entities=150, properties=40, classes=12, relations=len(RELATIONS), noise=4, exceptions=0.1)


@cache
def small() -> Generated:
    return generate(SMALL)


def day(value: Date):
    from datetime import date

    return date(value.year, value.month, value.day)


CHECKS = {  # of a relation: (value, source values, factor) -> whether it holds
    "copy": lambda t, a, factor: t == a,
    "conversion": lambda t, a, factor: math.isclose(t, a * factor, rel_tol=1e-8),
    "sum": lambda t, a, b, factor: t == a + b,
    "difference": lambda t, a, b, factor: t == a - b,
    "product": lambda t, a, b, factor: math.isclose(t, a * b, rel_tol=1e-8),
    "ratio": lambda t, a, b, factor: math.isclose(t, a / b, rel_tol=1e-8),
    "years": lambda t, a, b, factor: t == b.year - a.year,
    "shifted": lambda t, a, factor: (day(t) - day(a)).days == 30,
    "latest": lambda t, series, factor: t == max(series, key=lambda part: part["year"])["count"],
    "template": lambda t, a, b, factor: t == f"{a} {b}",
}


def test_every_kind_of_relation_is_planted():
    assert {relation.kind for relation in small().relations} == RELATIONS.keys()


@pytest.mark.parametrize("kind", CHECKS)
def test_a_planted_relation_holds_but_for_its_exceptions(kind):
    (relation,) = (one for one in small().relations if one.kind == kind)
    broken = set()
    for entity in small().complete:
        tree = entity.tree
        if relation.target in tree:
            given = [tree[name] for name in relation.sources]
            if not CHECKS[kind](tree[relation.target], *given, factor=relation.factor):
                broken.add(entity.id)
    assert broken == set(relation.exceptions)
    assert relation.holds > 10


def test_one_label_determines_another_but_for_exceptions():
    (relation,) = (one for one in small().relations if one.kind == "dependency")
    pairs = {
        (one.tree[relation.sources[0]], one.tree[relation.target])
        for one in small().complete
        if relation.target in one.tree and one.id not in relation.exceptions
    }
    assert len(pairs) == len({source for source, _ in pairs}) > 1


def test_links_are_inverse_symmetric_and_transitive_but_for_exceptions():
    relations = {one.kind: one for one in small().relations}
    links = {
        (entity.id, path[0], value.id)
        for entity in small().complete
        for path, value in walk(entity.tree)
        if type(value).__name__ == "Link"
    }
    inverse, symmetric, transitive = (relations[kind] for kind in ("inverse", "symmetric", "transitive"))
    forth = {(one, other) for one, name, other in links if name == inverse.sources[0]}
    back = {(other, one) for one, name, other in links if name == inverse.target}
    assert back <= forth
    assert len(forth - back) == len(inverse.exceptions)
    pairs = {(one, other) for one, name, other in links if name == symmetric.target}
    assert sum((other, one) not in pairs for one, other in pairs) == len(symmetric.exceptions)
    steps = {(one, other) for one, name, other in links if name == transitive.target}
    after: dict[str, set[str]] = {}
    for one, other in steps:
        after.setdefault(one, set()).add(other)
    lost = {(a, c) for a, b in steps for c in after.get(b, ()) if (a, c) not in steps}
    assert {a for a, _ in lost} <= set(transitive.exceptions)


def test_exceptions_and_missing_values_are_as_many_as_is_said():
    held = sum(one.holds for one in small().relations)
    broken = sum(len(one.exceptions) for one in small().relations)
    assert abs(broken / (held + broken) - 0.1) < 4 * math.sqrt(0.09 / (held + broken))  # four standard errors
    singles = [{path for path, _ in walk(one.tree) if len(path) == 1} for one in small().complete]
    left = sum(
        path in dict(walk(one.tree)) for one, paths in zip(small().entities, singles, strict=True) for path in paths
    )
    total = sum(map(len, singles))
    assert abs(left / total - 0.7) < 4 * math.sqrt(0.21 / total)


def test_units_and_currencies_are_mixed_or_one():
    def units(generated: Generated) -> set[str]:
        return {
            value for one in generated.complete for path, value in walk(one.tree) if path[-1] in ("unit", "currency")
        }

    assert units(small()) >= {*CURRENCIES}
    alone = generate(GeneratorOptions(entities=60, properties=40, classes=4, relations=0, noise=0, mixed=False))
    assert units(alone) <= {"EUR", *(next(iter(own)) for own in UNITS.values())}


def test_links_are_skewed_and_entities_have_several_classes():
    degrees: dict[str, int] = {}
    for one in small().complete:
        for _, value in walk(one.tree):
            if type(value).__name__ == "Link":
                degrees[value.id] = degrees.get(value.id, 0) + 1
    ordered = sorted(degrees.values(), reverse=True)
    assert sum(ordered[:15]) > 0.3 * sum(ordered)
    assert max(len(one.classes) for one in small().complete) >= 3
    assert small().superclasses


def test_the_same_seed_is_the_same_file_and_another_seed_another(tmp_path, run):
    call = ("--entities", 40, "--properties", 24, "--classes", 6, "--relations", 4, "--noise", 2, "-q")
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert run("generate", tmp_path / f"{name}.ttl", *call, "--seed", seed) == (0, "", "")
    a, b, c = ((tmp_path / f"{name}.ttl").read_bytes() for name in "abc")
    assert a == b != c
    truth = json.loads((tmp_path / "a.ttl.truth.json").read_text())
    assert len(truth["values"]) == 40
    assert len(truth["relations"]) == 4
    assert truth["noise"] == ["noise0", "noise1"]


def test_what_is_given_is_read_back_from_both_formats(tmp_path, run):
    call = ("--entities", 40, "--properties", 24, "--classes", 6, "--relations", 4, "--noise", 2, "-q")
    found = []
    for name in ("kb.ttl", "kb.jsonl"):
        run("generate", tmp_path / name, *call)
        found.append({one.id: one for one in kbdisk.load(tmp_path / name) if one.classes})
    rdf, rows = found
    assert rdf.keys() == rows.keys()
    for id, entity in rdf.items():
        assert set(entity.classes) == set(rows[id].classes)
        assert {key for key in entity.tree if key != "label"} == {
            key for key in rows[id].tree if key[0] != "@" and key != "label"
        }


def test_turtle_has_the_classes_above_each_class():
    assert any("rdfs:subClassOf" in line for line in turtle(small()))


SEEN = {  # option, arguments, what is then seen of the truth
    "--entities": (("--entities", "20"), lambda truth: len(truth["values"]) == 20),
    "--properties": (("--properties", "30"), lambda truth: truth["options"]["properties"] == 30),
    "--classes": (("--classes", "3"), lambda truth: truth["options"]["classes"] == 3),
    "--relations": (("--relations", "2"), lambda truth: len(truth["relations"]) == 2),
    "--noise": (("--noise", "3"), lambda truth: len(truth["noise"]) == 3),
    "--exceptions": (("--exceptions", "0"), lambda truth: not any(one["exceptions"] for one in truth["relations"])),
    "--missing": (("--missing", "0"), lambda truth: truth["options"]["missing"] == 0),
    "--one-unit": (("--one-unit",), lambda truth: truth["options"]["mixed"] is False),
    "--seed": (("--seed", "9"), lambda truth: truth["options"]["seed"] == 9),
    "--force": (("--force",), lambda truth: True),
    "--quiet": ((), lambda truth: True),
}


@pytest.mark.parametrize("option", SEEN)
def test_an_option_does_what_it_says(option, tmp_path, run):
    arguments, is_seen = SEEN[option]
    base = ("--entities", 30, "--properties", 24, "--classes", 6, "--relations", 4, "--noise", 2, "-q")
    assert run("generate", tmp_path / "kb.jsonl", *base, *arguments) == (0, "", "")
    assert is_seen(json.loads((tmp_path / "kb.jsonl.truth.json").read_text()))


def test_every_option_of_the_command_has_a_row():
    own = {max(one.opts, key=len) for one in main.commands["generate"].params if isinstance(one, click.Option)}
    assert own == SEEN.keys()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("kb.txt",), "kb.txt: expected a name that ends in .ttl or .jsonl, got 'kb.txt'."),
        (("there.ttl",), "there.ttl: exists already. Say --force to replace it."),
        (("kb.ttl", "--missing", "1"), "--missing: expected at least 0 and less than 1, got 1."),
        (("kb.ttl", "--properties", "9"), "--properties: expected 76 at least"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(arguments, complaint, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("there.ttl").write_text("")
    status, _, err = run("generate", *arguments)
    assert (status, len(err.splitlines())) == (2, 1)
    assert complaint in err
    assert [one.name for one in tmp_path.iterdir()] == ["there.ttl"]
