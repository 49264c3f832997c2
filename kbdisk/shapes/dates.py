"""Dates: parts, years, ISO strings, or strings in the schema's order with the separators and zeros of the others.

A layout is the text of a date with Y, M and D in the place of its numbers: Y-M-D, D. M. Y, Y-00-00, Y-M-DT00:00:00Z. Where
most have the same time of day a new one has it, too; where each has its own, a date without one is none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kbdisk.entity import Date, Path
from kbdisk.schemas.composites import Parts
from kbdisk.schemas.composites.date import CARRIED, NUMBERS, NUMERIC_DATE
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.text import dates
from kbdisk.shapes.habit import TYPED, Form, Habit
from kbdisk.shapes.scalars import given

YEAR, ISO = Form("year"), Form("iso")
TIMED, CLOCK = "timed", "clock"  # a string with a time of day that is seen again; with one of too many
TIMES = 20  # different times of day that are told apart
UNKNOWN = "00"  # a part of a string that is not known


def group_of(day: Date) -> str:
    """Which parts are known: dates without a day may be written in another way."""
    return "".join(name[0].upper() for name in NUMBERS if getattr(day, name) is not None)


def see(kind: DateKind, raw: Any, habit: Habit) -> None:
    """A date that fits."""
    group = group_of(kind.apply(raw))
    if isinstance(raw, Date):
        _saw(habit, Form(TYPED.name, raw.time), group)
    elif isinstance(raw, dict):
        for name in NUMBERS:
            if raw.get(name) not in (None, []):
                habit.numbers.see(raw[name])
        habit.saw_keys(tuple(key for key in raw if key in NUMBERS))
        habit.saw(Form("parts"), group)
    elif isinstance(raw, str):
        _saw(habit, _form_of(kind, raw, habit), group)
    else:
        habit.numbers.see(raw)
        habit.saw(YEAR, group)


def _saw(habit: Habit, form: Form, group: str) -> None:
    """Times of day that are all different are no forms each."""
    if _is_timed(form) and (form, group) not in habit.forms:
        others = sum(map(_is_timed, (one for one, of in habit.forms if of == group)))
        form = Form(CLOCK, form.detail) if others >= TIMES else form
        form = next((one for one, of in habit.forms if of == group and one.name == form.name == CLOCK), form)
    habit.saw(form, group)


def _is_timed(form: Form) -> bool:
    return form.name == TIMED or (form.name == TYPED.name and form.detail != "")


def _form_of(kind: DateKind, text: str, habit: Habit) -> Form:
    pattern = dates.ISO if kind.order == "iso" else NUMERIC_DATE
    found = pattern.fullmatch(text)
    if found is None:
        return ISO
    letters = "YMD" if kind.order == "iso" else kind.order.upper()
    layout, last = "", 0
    for number, letter in enumerate(letters, 1):
        told = found[number]
        if told is None:
            break
        layout += text[last : found.start(number)] + "+" * (told[0] == "+") + (told if told == UNKNOWN else letter)
        last = found.end(number)
        if letter != "Y" and told != UNKNOWN:
            habit.padded += (told[0] == "0") - (len(told) == 1)
    time = found["time"] if kind.order == "iso" else None
    return Form(TIMED, layout + time) if time else Form("text", layout.strip())


def ways(kind: DateKind, value: Date, habit: Habit) -> Iterator[Form]:
    """As dates of the same parts are; where all are strings, a part that is not known is 00 or left out as it is elsewhere."""
    group = group_of(value)
    forms = {form: count for (form, of), count in habit.forms.items() if of == group} or _of_all(habit)
    timed = Counter({form: count for form, count in forms.items() if _is_timed(form) or form.name == CLOCK})
    is_usual = 2 * timed.total() > sum(forms.values())
    if is_usual:
        yield _usual(timed)
    yield from (form for form in habit.ways(group) if not _is_timed(form) and form.name != CLOCK)
    if timed and not is_usual:
        yield _usual(timed)
    texts = [form.detail for form, _ in habit.forms if form.name == "text"]
    if any(UNKNOWN in layout for layout in texts):
        yield Form("text", "Y-M-00" if value.month else "Y-00-00")
    if kind.order == "iso" and (texts or any(form == ISO for form, _ in habit.forms)):
        yield ISO


def _of_all(habit: Habit) -> Mapping[Form, int]:
    counts = Counter[Form]()
    for (form, _), count in habit.forms.items():
        counts[form] += count
    return counts


def _usual(timed: Counter[Form]) -> Form:
    """With the time of day that most have; a form that nothing can be written in where there is none such."""
    ((form, count),) = timed.most_common(1)
    return form if 2 * count > timed.total() and form.name != CLOCK else Form(CLOCK, form.detail)


def write(kind: DateKind, form: Form, value: Date, habit: Habit) -> Any:
    """A date in a form; ValueError where it is none of that."""
    match form.name:
        case "typed":
            return replace(value, time=value.time or form.detail)
        case "parts":
            return habit.ordered({str(name): _part(part, habit) for (name,), part in kind.split(value).items()})
        case "year":
            if value != Date(value.year) or value.year is None:
                raise ValueError("the others are years alone")
            return habit.numbers.typed(value.year)
        case "iso":
            return dates.write_iso(value)
        case "clock":
            raise ValueError("the others have a time of day each")
    texts = {"Y": _year(value.year), "M": _two(value.month, habit), "D": _two(value.day, habit)}
    written = [texts.get(letter, letter) for letter in form.detail]
    if None in written:
        raise ValueError(f"the others are whole dates, such as {_example(form.detail)}")
    return "".join(map(str, written))


def fill(kind: DateKind, raw: Any, new: Parts, habit: Habit) -> dict[Path, Any]:
    """The parts that are missing of a date in parts."""
    if not isinstance(raw, dict):
        missing = ", ".join(str(path[0]) for path in new if path[0] not in CARRIED)
        raise ValueError(f"{raw!r} is given, and has no place for a {missing}") if missing else given(raw)
    return {path: _part(part, habit) for path, part in new.items()}


def _part(part: Any, habit: Habit) -> Any:
    return part if isinstance(part, str) else habit.numbers.typed(part)


def _year(year: int | None) -> str | None:
    return None if year is None else f"{'-' * (year < 0)}{abs(year):04d}"


def _two(part: int | None, habit: Habit) -> str | None:
    return None if part is None else f"{part:02d}" if habit.padded >= 0 else str(part)


def _example(layout: str) -> str:
    return layout.replace("Y", "1912").replace("M", "11").replace("D", "28")
