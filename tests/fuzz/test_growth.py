"""No text takes a regular expression more than linear time: a run twice as long, at most three times the steps.

Steps are counted by a machine that backtracks as `re` does (tests/backtracking.py), never by the clock.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from backtracking import Machine, superlinear
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
METHODS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
BUDGET = 10_000  # steps for each pattern and method in the fast suite

BUILT = [  # patterns that a function puts together, as they come out
    (rb'(?:"(?:[^"]++|"")*+"|(?!")[^,\r\n]*+)(,|\r\n?|\n|\Z)', "match"),  # loaders/table/read.py
    (r"-?(?:[0-9]*|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]*)?(?:[eE].+)?", "fullmatch"),  # kbdisk/styles/numbers.py
    (rb"[\"']\^\^(?:<http://e/integer>|[\w.-]*:integer\b)", "findall"),  # loaders/rdf/turtle.py
    (r"[A-Z]{0,3}[$€£¥₹₽₩₺]", "fullmatch"),  # schemas/measures.py
]
PLANTED = [
    (r"(a+)+$", "match"),
    (r"\s*x?\s*$", "search"),
    (r"(\w+\s*)+:", "match"),
    (r"\s*(\d+)\s*[-/. ]\s*(\d+)\s*", "fullmatch"),
    (r"(?:ab)*(?:ab)*c", "match"),
    (r"<(script|style)\b.*?</\1>", "sub"),
    (rb'"(?:[^"\\]|\\.)*"', "finditer"),
    (r"\s*(\d+)(\s*)([a-z])?\s*", "fullmatch"),
]


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Every module of kbdisk that mentions regular expressions, by its installed name."""
    found = []
    for top, prefix in [("kbdisk", ()), ("loaders", ("loaders",)), ("schemas", ("schemas",))]:
        for file in sorted((ROOT / top).rglob("*.py")):
            names = [*prefix, *file.relative_to(ROOT / top).with_suffix("").parts]
            text = file.read_text()
            if re.search("|".join(METHODS), text):
                found.append((".".join(["kbdisk", *names]).removesuffix(".__init__"), ast.parse(text)))
    return found


def within(value: Any, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    """The patterns that a module's value holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for key, inner in value.items():
            yield from within(key, depth - 1)
            yield from within(inner, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from within(inner, depth - 1)


def is_pattern(value: object) -> bool:
    return isinstance(value, re.Pattern)


@cache
def uses() -> dict[tuple[Any, str], re.Pattern[Any]]:
    """Every pattern of the package with each method that it is used by; one in a table is taken to be matched."""
    found: dict[tuple[Any, str], re.Pattern[Any]] = {}
    tabled: dict[Any, re.Pattern[Any]] = {}
    for name, tree in trees():
        module = importlib.import_module(name)
        for value in vars(module).values():
            tabled |= {pattern.pattern: pattern for pattern in within(value)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in METHODS:
                continue
            owner = node.value
            value = getattr(module, owner.id, None) if isinstance(owner, ast.Name) else None
            if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name):
                value = getattr(getattr(module, owner.value.id, None), owner.attr, None)
            if isinstance(value, re.Pattern):
                found[value.pattern, node.attr] = value
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=text), *_]
                ) if method in METHODS:
                    found[text, method] = re.compile(text)
    found |= {(text, method): re.compile(text) for text, method in BUILT}
    used = {text for text, _ in found}
    return found | {(text, "fullmatch"): pattern for text, pattern in tabled.items() if text not in used}


def too_slow(budget: float) -> list[str]:
    return [
        f"{pattern.pattern!r} {method}: {text}"
        for (_, method), pattern in uses().items()
        if (text := superlinear(pattern, method, budget))
    ]


def test_no_expression_takes_more_than_linear_time():
    assert not too_slow(BUDGET)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_expression_takes_more_than_linear_time_on_any_run_that_we_can_think_of():
    assert not too_slow(math.inf)


def test_the_expressions_are_all_found():
    assert len(uses()) > 130
    unresolved = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if ast.unparse(node.func.value) == "re" and node.func.attr in METHODS
        if not isinstance(node.args[0], ast.Constant)
    ]
    assert len(unresolved) == 3, unresolved  # they stand in BUILT


@pytest.mark.parametrize(("pattern", "method"), PLANTED)
def test_an_expression_that_takes_longer_is_found(pattern, method):
    assert superlinear(re.compile(pattern), method, BUDGET)


@pytest.mark.parametrize(
    "pattern", [r"(a|b)*?c", r"(?i:[a-c]+)(?=D)\w", r"(x*)*y|\bq(?<=q)", r"(\w)\1{2,}+z", r"^(?>a+)b$"]
)
@settings(max_examples=40)
@given(text=st.text("abcdDqxyz\n", max_size=12))
def test_the_machine_matches_as_re_does(pattern, text):
    assert Machine(re.compile(pattern)).agrees(text)
