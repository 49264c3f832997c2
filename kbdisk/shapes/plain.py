"""What is learnt of how values are written as plain data, and back: a model takes it along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kbdisk.shapes.habit import Form, Habit, Numbers
from kbdisk.shapes.seeing import Places

Plain = dict[str, Any]


def to_json(places: Mapping[str, Places]) -> Plain:
    """The places of every class, and the usual forms of every kind, which all classes share."""
    usual = next((one.usual for one in places.values()), {})
    classes = {name: [[list(at), _of(habit)] for at, habit in one.own.items()] for name, one in places.items()}
    return {"classes": classes, "usual": {kind: _of(habit) for kind, habit in usual.items()}}


def from_json(told: Mapping[str, Any]) -> dict[str, Places]:
    """The places that were told so; some error where they were not."""
    usual = {str(kind): _habit(one) for kind, one in told["usual"].items()}
    return {
        str(name): Places(
            {tuple(key if type(key) is int else str(key) for key in at): _habit(one) for at, one in own}, usual
        )
        for name, own in told["classes"].items()
    }


def _of(habit: Habit) -> Plain:
    forms = [[form.name, form.detail, group, count] for (form, group), count in habit.forms.items()]
    counts = {name: getattr(habit, name) for name in ("padded", "alone", "listed", "empty")}
    return {"forms": forms, "numbers": asdict(habit.numbers), "keys": list(habit.keys), **counts}


def _habit(told: Mapping[str, Any]) -> Habit:
    forms = Counter({(Form(str(name), str(detail)), str(of)): int(count) for name, detail, of, count in told["forms"]})
    counts = {name: int(told[name]) for name in ("padded", "alone", "listed", "empty")}
    return Habit(forms, _numbers(told["numbers"]), **counts, keys=tuple(map(str, told["keys"])))


def _numbers(told: Mapping[str, Any]) -> Numbers:
    counts = {name: int(told[name]) for name in ("whole", "pointed", "commas", "shortest", "longest")}
    fewest = None if told["fewest"] is None else int(told["fewest"])
    return Numbers(**counts, fewest=fewest, zeros=bool(told["zeros"]))
