"""Habits: how the values at a place of a source are written. The protocol for formats, and the habits of paths as plain data.

A place is a path of a schema or a JSON source, a column of a table, a predicate of RDF. Its values are observed, and a new value
is written in the most common of their forms that can express it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from kbdisk.styles.numbers import NumberSpelling

MAX_FORMS = 200  # that are counted at each path; by then the common ones are among them
COUNTS = ("padded", "alone", "listed", "empty")  # of a habit, by their names in a file


FormT = TypeVar("FormT")
WrittenT = TypeVar("WrittenT")


@runtime_checkable
class PlaceStyle(Protocol):
    """The style of the values at a place of a source. Each format observes and writes its own objects: values, cells, terms.

    Each format has one: `Examples` (styles/kinds.py) for paths of JSON, `Column` (loaders/table/cells.py), `PredicateTemplates`
    (loaders/rdf/styles.py).
    """

    def observe(self, raw: Any, /, *args: Any, **kwargs: Any) -> None:
        """Observe a value at the place."""

    def write(self, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A new value as those are written; ValueError, with the reason, where none of their forms can express it."""


def write_in_first_form(forms: Iterable[FormT], write: Callable[[FormT], WrittenT]) -> WrittenT:
    """The result of `write` for the first form without a ValueError; if every form has one, the first of these errors."""
    reason = ""
    for form in forms:
        try:
            return write(form)
        except ValueError as error:
            reason = reason or str(error)
    raise ValueError(reason)


class Form(NamedTuple):
    """A way to write a value, such as text with the layout D.M.Y."""

    name: str
    detail: str = ""


TYPED = Form("typed")  # as what it is: a Date, a Quantity, a Link


@dataclass(slots=True)
class Habit:
    """The habit of a path: how its values are written."""

    forms: Counter[tuple[Form, str]] = field(
        default_factory=Counter
    )  # by form and group: the values of one unit, or the dates with the same parts
    numbers: NumberSpelling = field(default_factory=NumberSpelling)
    padded: int = 0  # months and days such as 05, less those such as 5
    alone: int = 0  # single values that stand by themselves
    listed: int = 0  # single values that stand in a list
    empty: int = 0  # empty lists
    keys: tuple[str, ...] = ()  # of the fullest part, in its order

    def observe(self, form: Form, group: str = "") -> None:
        """Count a value."""
        if (form, group) in self.forms or len(self.forms) < MAX_FORMS:
            self.forms[form, group] += 1

    def observe_keys(self, keys: tuple[str, ...]) -> None:
        """Keep the keys of a part where it is the fullest."""
        if len(keys) > len(self.keys):
            self.keys = keys

    def ordered(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part with its keys in the usual order; unknown keys come last."""
        return {key: part[key] for key in dict.fromkeys([*self.keys, *part]) if key in part}

    def ranked_forms(self, group: str = "") -> Iterator[Form]:
        """The forms of a group, the most common first, then those of other groups."""
        group_forms: Counter[Form] = Counter()
        other_forms: Counter[Form] = Counter()
        for (form, form_group), count in self.forms.items():
            (group_forms if form_group == group else other_forms)[form] += count
        ranked = [
            form
            for counts in (group_forms, other_forms)
            for form, _ in sorted(counts.items(), key=lambda counted: -counted[1])
        ]
        return iter(dict.fromkeys(ranked))

    def wrapped(self, raw: Any) -> Any:
        """A single value, in a list where most single values are in one."""
        return [raw] if self.listed > self.alone else raw

    def to_json(self) -> dict[str, Any]:
        """The habit as plain data."""
        forms = [[form.name, form.detail, group, count] for (form, group), count in self.forms.items()]
        counts = {name: getattr(self, name) for name in COUNTS}
        return {"forms": forms, "numbers": asdict(self.numbers), "keys": list(self.keys), **counts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The habit of plain data; an error of some kind where the data is malformed."""
        forms = Counter(
            {(Form(str(name), str(detail)), str(group)): int(count) for name, detail, group, count in data["forms"]}
        )
        counts = {name: int(data[name]) for name in COUNTS}
        return cls(forms, NumberSpelling.from_json(data["numbers"]), **counts, keys=tuple(map(str, data["keys"])))
