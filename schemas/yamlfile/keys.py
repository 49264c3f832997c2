"""Mappings that know their keys, and the keys of a kind, found by its name.

A kind of somebody else's needs nothing here: its keys are its dataclass's fields.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from kbdisk.schemas.composites import COMPOSITES
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.kinds import KINDS
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yamlfile.text import Place
from kbdisk.schemas.yamlfile.told import Real, Truth, Whole, Words, got

Written: TypeAlias = dict[str, Any]  # keys and plain values, as a file has them

SPELT = {"min": "minimum", "max": "maximum"}  # keys that are shorter than the fields they fill
TYPES: dict[Any, Any] = {bool: Truth, int: Whole, float: Real, str: Words}
SHORT = 10**15  # whole numbers below are written without an exponent
SHAPES = {"tuple_type": "a list", "list_type": "a list", "dict_type": "a mapping"}


class Keys(BaseModel):
    """A mapping with the keys that it has, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, told: Any) -> Any:
        known = cls.names()
        refuse({(key,): unknown_key(key, known) for key in mapping(told) if key not in known})
        return told

    @classmethod
    def names(cls) -> list[str]:
        """The keys as a file spells them, in their order."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class KindKeys(Keys):
    """The keys of a kind, beside `kind` itself. They are named like the dataclass's fields, but for SPELT."""

    makes: ClassVar[type[Any]]

    def made(self) -> Kind:
        """The kind that these keys tell."""
        told = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        return self.makes(**{SPELT.get(key, key): value for key, value in told.items()})

    @classmethod
    def written(cls, kind: Kind) -> Written:
        """The keys that tell a kind, but for those that go without saying."""
        told = {field.alias or name: field.default for name, field in cls.model_fields.items()}
        values = {key: getattr(kind, SPELT.get(key, key)) for key in told}
        return {key: value for key, value in values.items() if value != told[key]}


# ---------------------------------------------------------------- kinds by their names


def kinds() -> list[str]:
    """Every kind that a file may name."""
    return [*KINDS, *COMPOSITES]


def keys_of(name: str) -> type[KindKeys]:
    """The keys of a kind: ours, or those of its dataclass."""
    from kbdisk.schemas.yamlfile import compositekeys, leafkeys  # which need what stands here

    ours = leafkeys.LEAVES | compositekeys.COMPOSITES
    made: Any = KINDS[name].leaf if name in KINDS else COMPOSITES[name].composite
    return ours[name] if name in ours else _keys_like(made)


def read_kind(told: Any) -> Kind:
    """A kind by its name alone, or as a mapping with `kind`."""
    name, rest = named(told)
    keys = keys_of(name)
    refuse({(key,): unknown_key(key, ["kind", *keys.names()], name) for key in rest if key not in keys.names()})
    return keys.model_validate(rest).made()


def write_kind(kind: Kind) -> str | Written:
    """The short form where the name says it all."""
    name = kind_called(kind)
    rest = keys_of(name).written(kind)
    return {"kind": name, **_short(rest)} if rest else name


def _short(value: Any) -> Any:
    """Bounds and factors as whole numbers where they are; labels stay what they are, 1.0 is not 1."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < SHORT else value


def kind_called(kind: Kind) -> str:
    """What a kind is called."""
    made = {name: row.leaf for name, row in KINDS.items()} | {name: row.composite for name, row in COMPOSITES.items()}
    return next(name for name, one in made.items() if one is type(kind))


def named(told: Any) -> tuple[str, Written]:
    """The kind that is named, and the other keys."""
    if isinstance(told, str) and told:
        return kind_name(told), {}
    if not isinstance(told, dict):
        raise ValueError(f"expected a kind such as category, or a mapping with kind, got {got(told)}")
    if "kind" not in told:
        refuse({("kind",): f"expected a kind, got none.{_meant(told)} Known kinds: {', '.join(kinds())}."})
    try:
        name = kind_name(told["kind"])
    except ValueError as error:
        refuse({("kind",): str(error)})
    return name, {key: value for key, value in told.items() if key != "kind"}


def _meant(told: Written) -> str:
    """What somebody may have meant who told no kind."""
    near = next((key for key in told if did_you_mean(key, ["kind"])), None)
    if near is not None:
        return f" Did you mean 'kind' for {near!r}?"
    parts = told and all(isinstance(one, dict) or one in kinds() for one in told.values())
    return " Properties of a part are written with their paths, such as launch.year." if parts else ""


def kind_name(told: Any) -> str:
    """The name of a kind that there is."""
    if isinstance(told, str) and told in kinds():
        return str(told)
    guess = did_you_mean(told, kinds()) if isinstance(told, str) else ""
    raise ValueError(f"expected a kind, got {got(told)}.{guess} Known kinds: {', '.join(kinds())}.")


@functools.cache
def _keys_like(made: type[Any]) -> type[KindKeys]:
    """The keys of a kind that is not ours: the fields of its dataclass."""
    hints = get_type_hints(made)
    fields: dict[str, Any] = {}
    for n, field in enumerate(dataclasses.fields(made)):
        default = ... if field.default is dataclasses.MISSING else field.default
        factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        told = Field(default_factory=factory, alias=field.name) if factory else Field(default, alias=field.name)
        fields[f"key{n}"] = (_typed(hints[field.name]), told)
    keys = create_model(f"{made.__name__}Keys", __base__=KindKeys, __doc__=made.__doc__, **fields)
    keys.makes = made
    return keys


def _typed(hint: Any) -> Any:
    """A type that reads scalars as a schema file has them."""
    origin, args = get_origin(hint), get_args(hint)
    if not args or origin is Literal:
        return TYPES.get(hint, hint)
    typed = tuple(_typed(arg) for arg in args)
    return Union[typed] if origin in (Union, types.UnionType) else origin[typed]  # noqa: UP007


# ---------------------------------------------------------------- what is wrong, and where


def mapping(told: Any) -> dict[str, Any]:
    """A mapping, not anything else."""
    if not isinstance(told, dict):
        raise ValueError(f"expected a mapping, got {got(told)}")
    return told


def is_key(key: str) -> bool:
    """Whether some kind has a key."""
    return any(key in keys_of(name).names() for name in kinds())


def unknown_key(key: str, known: Iterable[str], kind: str = "") -> str:
    """What to say of a key that there is not."""
    known = list(known)
    owners = [name for name in kinds() if kind and key in keys_of(name).names()]
    problem = f"{key} is for {' and '.join(owners)}." if owners else f"unknown key.{did_you_mean(key, known)}"
    return f"{problem} Known keys{f' of {kind}' if kind else ''}: {', '.join(known)}."


def refuse(problems: Mapping[Place, str]) -> None:
    """Say what is wrong at these places, where something is."""
    if problems:
        raise ValidationError.from_exception_data("schema", [_detail(*problem) for problem in problems.items()])


def problems_of(error: ValidationError) -> dict[Place, str]:
    """What is wrong, in our words."""
    return {problem["loc"]: _in_words(problem) for problem in error.errors(include_url=False)}


def _in_words(problem: Any) -> str:
    if problem["type"] in SHAPES:
        return f"expected {SHAPES[problem['type']]}, got {got(problem['input'])}"
    if problem["type"] == "missing":
        begins = problem["loc"] == ("kbdisk",)
        return "expected `kbdisk: 1`, with which a schema begins, got none" if begins else "expected a value, got none"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return str(problem["msg"])


def _detail(place: Place, problem: str) -> InitErrorDetails:
    wrong = PydanticCustomError("wrong", "{problem}", {"problem": problem})
    return InitErrorDetails(type=wrong, loc=place, input=None)
