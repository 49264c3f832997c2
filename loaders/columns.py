"""Named columns as paths, for files and frames of rows: which hold ids, labels, classes; how a row becomes a tree.

A dotted name is a path: `launch.year`, `prizes[0].share`. A name is one key as it stands where it is no
path, or does not go with the others: under a column of values (`a.1` beside `a`), a list that counts
with gaps (`a[7]` alone), an index where another column has a key.

A list ends at its last element with any value; a list without any keeps one element, asked for.

A first column without a name is an index, as pandas and R write it. It holds the ids where all rows have one and no two
the same; one of whole numbers, which may be no more than a count, only where no column is named as that of ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kbdisk.entity import Path, Tree, read_path, show, walk
from kbdisk.errors import LoadError
from kbdisk.loaders.naming import ID_KEYS, LABEL_KEYS
from kbdisk.loaders.tagged import DEEPEST

IDS: tuple[Path, ...] = tuple((key,) for key in ID_KEYS)
LABELS: tuple[Path, ...] = tuple((key,) for key in LABEL_KEYS)
Index: TypeAlias = Literal["", "count", "names"]  # what an index tells of the rows
INDEX: Path = ("@index",)
LEFT_OUT = "the index is left out, as it does not tell all rows apart"
CLASS = "@type"


def paths_of(names: Sequence[str]) -> list[Path]:
    """The path of each column; ValueError where a name is missing or stands twice."""
    if len(names) > 1 and not names[0]:
        names = [show(INDEX), *names[1:]]
    if blank := [str(i) for i, name in enumerate(names, start=1) if not name]:
        raise ValueError(
            f"expected a name for every column, got none for column {', '.join(blank)}. Name it, @id if it names the rows."
        )
    paths = [_path(name) for name in names]
    while misfits := _misfits(paths):
        for i in misfits:
            paths[i] = (names[i],)
    if twice := [show(path) for path, count in Counter(paths).items() if count > 1]:
        raise ValueError(
            f"expected a different name for each column, got {', '.join(map(repr, twice))} more than once. Rename it."
        )
    return paths


def name_of(path: Path) -> str:
    """What a column of a path is called, such that it is read as that: a key as it stands, if it may."""
    key = str(path[0])
    return key if len(path) == 1 and key and key == key.strip() and _path(key) == path else show(path)


def _path(name: str) -> Path:
    try:
        path = read_path(name)
    except ValueError:
        return (name,)
    return path if isinstance(path[0], str) and len(path) <= DEEPEST else (name,)


def _misfits(paths: Sequence[Path]) -> list[int]:
    """The columns, among those of more than one key, that cannot stand in one tree with the others."""
    following: dict[Path, set[str | int]] = defaultdict(set)
    for path in paths:
        for i in range(1, len(path)):
            following[path[:i]].add(path[i])
    values = set(paths)
    lists = {prefix for prefix, keys in following.items() if any(isinstance(key, int) for key in keys)}
    broken = {prefix for prefix in lists if following[prefix] != set(range(len(following[prefix])))}

    def fits(path: Path, i: int) -> bool:
        prefix = path[:i]
        return prefix not in values and not (isinstance(path[i], int) and prefix in broken)

    return [n for n, path in enumerate(paths) if not all(fits(path, i) for i in range(1, len(path)))]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a row become an entity's id, label, classes and tree."""

    columns: Mapping[Path, int]
    id: int | None  # the column of the id; None: the row's number
    label: int | None
    classes: tuple[int, ...]
    keys: tuple[str, ...] | None  # where each column is one key of the tree, those
    steps: tuple[tuple[int, Path, str | int], ...]  # a column, the keys to its part, and its own
    lists: tuple[Path, ...]  # the deepest first
    doubt: str  # what is odd about the index; or nothing

    @classmethod
    def of(
        cls, paths: Sequence[Path], id: Path | None, complete: Callable[[int], bool], index: Callable[[int], Index]
    ) -> Layout:
        """Asks whether a column has a value in every row, and what an index is good for; ValueError where `id` is none."""
        columns = {path: i for i, path in enumerate(paths)}
        if id is not None and id not in columns:
            known = ", ".join(map(show, columns))
            raise ValueError(f"expected a column {show(id)!r} for the ids, got {known}. Say --id, one of these.")
        inside = [path for path in paths if path[0] != CLASS and path not in (IDS[0], INDEX)]
        lists = {path[:i] for path in inside for i in range(1, len(path)) if isinstance(path[i], int)}
        place = columns.get(INDEX)
        good = "" if place is None else index(place)
        named = None if good == "names" else _first(columns, IDS, complete)
        plain = len(inside) == len(paths) and all(len(path) == 1 for path in paths)
        return cls(
            columns=columns,
            id=columns[id] if id is not None else place if good and named is None else named,
            label=_first(columns, LABELS, lambda _: True),
            classes=tuple(i for i, path in enumerate(paths) if path[0] == CLASS),
            keys=tuple(str(path[0]) for path in paths) if plain else None,
            steps=tuple((columns[path], path[:-1], path[-1]) for path in inside),
            lists=tuple(sorted(lists, key=len, reverse=True)),
            doubt="" if place is None or good or place == (id and columns[id]) else LEFT_OUT,
        )

    def tree(self, values: Sequence[Any]) -> Tree:
        """The tree of a row; ids and classes of the entity itself stay out of it."""
        if self.keys is not None:
            return dict(zip(self.keys, values, strict=True))
        tree: Tree = {}
        for i, parents, key in self.steps:
            place: Any = tree
            for parent in parents:
                if parent not in place:
                    place[parent] = {}
                place = place[parent]
            place[key] = values[i]
        for path in self.lists:
            _make_list(tree, path)
        return tree

    def label_of(self, values: Sequence[Any]) -> str:
        """The name that a row gives its entity, or an empty string."""
        value = None if self.label is None else values[self.label]
        return value if isinstance(value, str) else ""

    def classes_of(self, values: Sequence[Any]) -> tuple[str, ...]:
        """The classes that a row gives its entity."""
        return tuple(str(values[i]) for i in self.classes if values[i] is not None)

    def check_classes(self, wanted: Collection[str], name: str) -> None:
        """Classes can be chosen only where a column tells them."""
        if wanted and not self.classes:
            raise LoadError(name, "expected a column @type to choose classes by, got none. Leave --class out.")


def _first(columns: Mapping[Path, int], wanted: Sequence[Path], fits: Callable[[int], bool]) -> int | None:
    return next((columns[path] for path in wanted if path in columns and fits(columns[path])), None)


def index_of(cells: Iterable[Any]) -> Index:
    """What an index of such cells is good for."""
    seen, count = set[str](), True
    for cell in cells:
        if cell is None or str(cell) in seen:
            return ""
        seen.add(str(cell))
        count = count and type(cell) is int
    return "count" if count else "names"


def _make_list(tree: Tree, path: Path) -> None:
    """What was gathered by index at a path becomes a list."""
    place: Any = tree
    for key in path[:-1]:
        place = place[key]
    elements = [place[path[-1]][i] for i in range(len(place[path[-1]]))]
    while len(elements) > 1 and all(value is None for _, value in walk({"": elements[-1]})):
        elements.pop()
    place[path[-1]] = elements
