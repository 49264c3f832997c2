"""What is learnt of values: sets, lists and maps are walked through, what there is one of stands alone or in a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kbdisk.entity import Known, Path
from kbdisk.schemas.composites import EACH, Kind
from kbdisk.schemas.composites.base import apply_kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Set
from kbdisk.shapes import leaves
from kbdisk.shapes.habit import Habit

Habits = dict[Path, Habit]  # of every place of a class, EACH for any place in a list or map
Usual = dict[str, Habit]  # of every kind, wherever it stands
NOTHING = Habit()


@dataclass(frozen=True, slots=True)
class Places:
    """The habits of one class."""

    own: Habits = field(default_factory=dict)
    usual: Usual = field(default_factory=dict)

    def habit(self, at: Path, kind: Kind) -> Habit:
        """Those of a place; where nothing stands, those of its kind."""
        found = self.own.get(at, NOTHING)
        row = leaves.ROWS.get(type(kind))
        return self.usual.get(type(kind).__name__, found) if row and row.shared and not found.forms else found

    def see(self, at: Path, kind: Kind, raw: Any) -> None:
        """Take note of a value that fits."""
        match kind:
            case Set():
                for one in self._several(at, raw):
                    self.see((*at, EACH), kind.of, one)
            case Listed():
                for one in self._several(at, raw):
                    self._see_item((*at, EACH), kind, one)
            case Mapped():
                for key, entry in raw.items():
                    if key[:1] != "@" and entry is not None:
                        self._see_item((*at, EACH), kind, entry)
            case _:
                alone = not isinstance(raw, list) or is_pair(kind, raw)
                for one in self._several(at, [raw] if alone else raw, alone):
                    if _fits(kind, one):
                        self._see_one(at, kind, one)

    def _see_item(self, at: Path, kind: Listed | Mapped, item: Any) -> None:
        if "" in kind.fields:
            self.see(at, kind.fields[""], item)
        elif item == []:
            self._own(at).empty += 1  # an empty part, as PHP writes it
        elif isinstance(item, dict):
            self._own(at).saw_keys(tuple(key for key in item if key in kind.fields))
            for key, inner in item.items():
                if key in kind.fields and not (inner is None or inner == [] or isinstance(inner, Known)):
                    self.see((*at, key), kind.fields[key], inner)

    def _see_one(self, at: Path, kind: Kind, raw: Any) -> None:
        row = leaves.ROWS[type(kind)]
        row.see(kind, raw, self._own(at))
        if row.shared:
            row.see(kind, raw, self.usual.setdefault(type(kind).__name__, Habit()))

    def _several(self, at: Path, raw: Any, alone: bool = False) -> list[Any]:
        """The values of a list that there are; of one that stands by itself, too."""
        habit, several = self._own(at), raw if isinstance(raw, list) else [raw]
        if len(several) == 1 and (alone or several is not raw):
            habit.alone += 1
        elif len(several) == 1:
            habit.listed += 1
        habit.empty += not several
        return [one for one in several if not (one is None or isinstance(one, Known))]

    def _own(self, at: Path) -> Habit:
        return self.own.setdefault(at, Habit())


def is_pair(kind: Kind, raw: list[Any]) -> bool:
    """Whether a list is one value: the two numbers of a coordinate."""
    numbers = len(raw) == 2 and raw != [None, None] and not any(isinstance(one, list | dict) for one in raw)
    return isinstance(kind, Coordinate) and numbers


def _fits(kind: Kind, raw: Any) -> bool:
    try:
        apply_kind(kind, raw)
    except ValueError:
        return False
    return True
