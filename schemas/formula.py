"""Formulas of derived properties, such as `weight.value / height.value ** 2`, evaluated over a syntax tree, never by `eval`.

A formula has numbers, paths, + - * / // % **, comparisons, `a if b else c`, the functions below, and nothing else.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbdisk.entity import Path
from kbdisk.schemas.text.numerals import as_float

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "round": lambda number, places=0: round(number, int(places)),
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
}
ARGUMENT_COUNTS: dict[str, tuple[int, int]] = {  # the least and the greatest number of arguments; of other functions 1
    "min": (2, 50),
    "max": (2, 50),
    "round": (1, 2),
    "log": (1, 2),
}
MAX_LENGTH = 500  # characters
MAX_DEPTH = 200  # operations within each other


@dataclass(frozen=True)
class Formula:
    """A formula, with the paths of the values that it needs."""

    text: str
    paths: tuple[Path, ...]
    tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def read(cls, text: str) -> Formula:
        """Parse a formula; ValueError where the text is none."""
        if len(text) > MAX_LENGTH:
            raise ValueError(f"expected a formula of at most {MAX_LENGTH} characters, got {len(text)}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # of `2if a else 3`
                tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"expected a formula such as weight.value / height.value ** 2, got {text!r}") from None
        paths: dict[Path, None] = {}
        _check_depth(tree)
        _check(tree, paths)
        return cls(text, tuple(paths), tree)

    def of(self, values: Mapping[Path, Any]) -> float | bool | None:
        """The result; None where a path has no value, or where the arithmetic has no result."""
        if any(values.get(path) is None for path in self.paths):
            return None
        try:
            value = _value(self.tree, values)
        except (ArithmeticError, ValueError, TypeError):
            return None
        return value if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)) else None


def _check_depth(tree: ast.AST) -> None:
    """Refuse a formula that is too deep for recursion. The check itself is a loop."""
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise ValueError(f"expected a formula of at most {MAX_DEPTH} operations within each other, got more")


def _check(node: ast.AST, paths: dict[Path, None]) -> None:
    """Refuse everything that is no formula; gather the paths."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            if not math.isfinite(as_float(value)):
                raise ValueError("expected numbers below 1.8e308, got a greater one")
        case ast.Name() | ast.Attribute():
            paths[_path(node)] = None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS or isinstance(op, ast.Pow):
            _check(left, paths)
            _check(right, paths)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            _check(operand, paths)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            _check(left, paths)
            _check(right, paths)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            for operand in (test, body, orelse):
                _check(operand, paths)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            least, most = ARGUMENT_COUNTS.get(name, (1, 1))
            if not least <= len(args) <= most:
                expected = (
                    f"{least} number" if most == 1 else f"{least} numbers or more" if most > 2 else "1 or 2 numbers"
                )
                raise ValueError(f"expected {expected} in {name}(), got {len(args)}")
            for operand in args:
                _check(operand, paths)
        case _:
            raise ValueError(
                f"expected numbers, paths, + - * / ** and {', '.join(FUNCTIONS)}, got {ast.unparse(node)!r}"
            )


def _path(node: ast.AST) -> Path:
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=parent, attr=name):
            return (*_path(parent), name)
    raise ValueError(f"expected a path, got {ast.unparse(node)!r}")


def _value(node: ast.AST, values: Mapping[Path, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return math.pow(
                float(_value(left, values)), float(_value(right, values))
            )  # a float cannot grow without end
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return OPERATORS[type(op)](_number(left, values), _number(right, values))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_number(operand, values))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values) else orelse, values)
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_number(operand, values) for operand in args))
    return values[_path(node)]


def _number(node: ast.AST, values: Mapping[Path, Any]) -> float:
    return float(_value(node, values))
