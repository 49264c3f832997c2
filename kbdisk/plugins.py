"""Tables of rows by name, to which an installed package can add rows by an entry point.

A row holds all parts of a kind, a format or a baseline. A part is the object itself, or `module:attribute`, which is imported when
the part is first used: so a row in the ground can name parts that load torch.

A package adds a row by declaring an entry point in the group of a table, under the name of the row:

    [project.entry-points."kbdisk.formats"]
    kv = "my_package:KV"
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kbdisk.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part: TypeAlias = Any  # an object, or `module:attribute`
Row = TypeVar("Row")

# By group, the rows of installed packages by name; None while they are being loaded.
_INSTALLED: dict[str, dict[str, Any] | None] = {}
REMEDY = "Update the package, or uninstall it."


class Table(MutableMapping[str, Row]):
    """Rows by name, in order: those that kbdisk has, and those that were added.

    The rows of installed packages are added once, when a name is looked up that is none of the others, or all are listed.
    """

    def __init__(self, group: str, rows: Mapping[str, Row], type_: Any = object, group_type: Any = None) -> None:
        """`type_`: that of the rows here; `group_type`: that of all rows of the group, where several tables share it."""
        self.group, self.type, self.group_type = group, type_, group_type or type_
        self._rows = dict(rows)
        self._is_complete = False

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows:
            self._add_installed()
        return self._rows[name]

    def __setitem__(self, name: str, row: Row) -> None:
        self._rows[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        self._add_installed()
        return iter(list(self._rows))

    def __len__(self) -> int:
        self._add_installed()
        return len(self._rows)

    def register(self, name: str, row: Row) -> None:
        """Add a row; ValueError where there is one of that name already."""
        if name in self:
            raise ValueError(f"expected a new name, got {name!r}, which is taken. Choose another name.")
        self._rows[name] = row

    def _add_installed(self) -> None:
        if self._is_complete:
            return
        rows = installed_rows(self.group, self.group_type)
        if rows is not None:
            self._is_complete = True
            for name, row in rows.items():
                if isinstance(row, self.type):
                    self._rows.setdefault(name, row)


def installed_rows(group: str, type_: Any) -> dict[str, Any] | None:
    """The rows by name that installed packages declare in a group, loaded once; PluginError where one cannot be loaded.

    None while they are being loaded: a package may look into a table itself.
    """
    from importlib.metadata import entry_points  # takes longer to load than all else here

    if group not in _INSTALLED:
        _INSTALLED[group] = None
        try:
            _INSTALLED[group] = {point.name: _load(point, type_) for point in entry_points(group=group)}
        except BaseException:
            del _INSTALLED[group]
            raise
    return _INSTALLED[group]


def _load(point: EntryPoint, type_: Any) -> Any:
    package = point.dist.name if point.dist is not None else point.value
    try:
        row = point.load()
    except Exception as error:  # whatever goes wrong in another package
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(package, f"its plug-in {point.name!r} ({point.group}) fails: {reason}. {REMEDY}") from error
    if not isinstance(row, type_):
        problem = (
            f"expected a {type_.__name__} of its plug-in {point.name!r} ({point.group}), got a {type(row).__name__}"
        )
        raise PluginError(package, f"{problem}. {REMEDY}")
    return row


def load_part(part: Part) -> Any:
    """The part of a row: the object itself, or the object named by `module:attribute` or `module`."""
    return _load_object(part) if isinstance(part, str) else part


@functools.cache
def _load_object(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)
