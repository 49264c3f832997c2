"""Numbers, labels, truths, texts and links: what one leaf is written as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbdisk.entity import Link, Path, Text
from kbdisk.schemas.composites import Kind, Parts
from kbdisk.shapes.habit import TYPED, Form, Habit

STRING = Form("string")


def given(raw: Any) -> ValueError:
    """Why nothing can be put where something stands."""
    return ValueError(f"{raw!r} is given, and has no place for more")


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth."""
    return not isinstance(value, str | bool | Text | Link) and hasattr(value, "__float__")


def see(kind: Kind, raw: Any, habit: Habit) -> None:
    """A number as text, a link by its id alone, a text in a language: whatever is not the value itself."""
    if is_number(raw):
        habit.numbers.see(raw)
    elif isinstance(raw, str):
        habit.numbers.see_text(raw)
    plain = isinstance(raw, str)
    habit.saw(STRING if plain else Form("typed", raw.language) if isinstance(raw, Text) else TYPED)


def ways(kind: Kind, value: Any, habit: Habit) -> Iterator[Form]:
    """As the others are."""
    return habit.ways()


def write_number(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A number, or its digits."""
    return habit.numbers.text(value) if form == STRING else habit.numbers.typed(value)


def write_label(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A label is spelt as it is; 1 is spelt 1.0 where the others are."""
    return habit.numbers.typed(value) if is_number(value) else value


def write_itself(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """The value as it is."""
    return value


def write_link(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A link, or its id."""
    id = value.id if isinstance(value, Link) else value
    return id if form == STRING else Link(id)


def write_text(kind: Kind, form: Form, value: Any, habit: Habit) -> Any:
    """A text in the language of the others, unless it says its own."""
    return Text(value, form.detail) if form.detail and isinstance(value, str) else value


def fill(kind: Kind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """A leaf is there or not."""
    raise given(raw)
