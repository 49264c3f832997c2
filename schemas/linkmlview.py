"""LinkML's own view of a schema, with its errors as ours and nothing fetched."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

import yaml

from kbdisk.errors import SchemaError
from kbdisk.schemas.schema import Class

EXTRA = "reading LinkML needs its runtime. Run: pip install 'kbdisk[linkml]'"
LONGEST = 100  # the runtime asks all that stand above each, and each of these again
# what the runtime throws at a file that is wrong
FAULTS = (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError, yaml.YAMLError)


class View:
    """One LinkML file, and what it imports."""

    def __init__(self, path: FilePath) -> None:
        self.name = str(path)
        self._check(path)
        try:
            from linkml_runtime.utils.schemaview import SchemaView
        except ImportError:
            raise SchemaError(self.name, EXTRA) from None

        class Local(SchemaView):  # type: ignore[misc]
            """Imports from files and the runtime alone."""

            def load_import(view, imp: str, from_schema: Any = None) -> Any:  # noqa: N805
                if ":" in str(imp) and not str(imp).startswith("linkml:"):
                    raise SchemaError(self.name, f"imports: {imp!r} is no file beside it, and none is ever fetched.")
                return super().load_import(imp, from_schema)

        try:
            self.view = Local(str(path))
            self.view.imports_closure()
            self._slots = {name: list(self.view.class_induced_slots(name)) for name in self.view.all_classes()}
            self._classes, self._enums, self._types = (
                dict(found()) for found in (self.view.all_classes, self.view.all_enums, self.view.all_types)
            )
        except FAULTS as error:
            raise SchemaError(self.name, f"expected LinkML, but {_line(error)}.") from None

    def _check(self, path: FilePath) -> None:
        """Faults of YAML have their line."""
        try:
            told = yaml.safe_load(path.read_bytes())
        except OSError as error:
            raise SchemaError(self.name, f"cannot be read: {error.strerror}.") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = self.name if mark is None else f"{self.name}:{mark.line + 1}"
            raise SchemaError(where, f"expected YAML, but {getattr(error, 'problem', None) or _line(error)}.") from None
        except (ValueError, RecursionError) as error:
            raise SchemaError(self.name, f"expected YAML, but {_line(error)}.") from None
        if not isinstance(told, dict) or not isinstance(told.get("classes"), dict):
            raise SchemaError(self.name, "expected LinkML with classes, got none.")
        for kind in ("classes", "slots", "types"):
            if _has_long_chain(told.get(kind)):
                raise SchemaError(self.name, f"{kind}: expected at most {LONGEST} above one another, got more.")

    def told(self) -> tuple[str, str]:
        """Its label and description."""
        return self.view.schema.title or "", self.view.schema.description or ""

    def classes(self) -> list[Any]:
        """All classes, in order."""
        return list(self._classes.values())

    def slots(self, name: str) -> list[Any]:
        """The slots of a class with all that its ancestors and its usage of them tell, in the order of their ranks."""
        return sorted(self._slots[name], key=lambda slot: float("inf") if slot.rank is None else slot.rank)

    def superclasses(self, name: str) -> tuple[str, ...]:
        """The classes above a class by `is_a` and as mixins, the nearest first."""
        return tuple(str(above) for above in self.view.class_ancestors(name, reflexive=False))

    def is_class(self, name: str | None) -> bool:
        """Whether a range is a class."""
        return name in self._classes

    def is_inlined(self, slot: Any) -> bool:
        """Whether the value stands within, and not under its id elsewhere."""
        return bool(self.view.is_inlined(slot))

    def id_of(self, name: str) -> str | None:
        """The key of a class's id."""
        return next((self.key(slot) for slot in self._slots[name] if slot.identifier or slot.key), None)

    def key(self, slot: Any) -> str:
        """What a slot is called in data."""
        return str(slot.alias or slot.name).replace(" ", "_")

    def values(self, name: str | None) -> tuple[str, ...] | None:
        """The values of an enum; None where it is none."""
        found = self._enums.get(name)
        return None if found is None else tuple(map(str, found.permissible_values))

    def types(self, name: str | None) -> list[Any]:
        """A type and those it is made from."""
        found: list[Any] = []
        while name in self._types and self._types[name] not in found:
            found.append(self._types[name])
            name = self._types[name].typeof
        return found

    def unit(self, slot: Any) -> str | None:
        """The unit of a slot."""
        unit = slot.unit
        named = (unit.ucum_code, unit.symbol, unit.exact_mappings and unit.exact_mappings[0]) if unit else ()
        return next((str(one) for one in named if one), None)

    def number(self, bound: Any, place: str) -> float:
        """A bound that is a number."""
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
            raise SchemaError(self.name, f"{place}: expected a number as a bound, got {bound!r}.")
        return bound

    def iri(self, element: Any) -> str | None:
        """The IRI of a class or a slot."""
        try:
            return str(self.view.get_uri(element, expand=True))
        except FAULTS:
            return None  # its prefix is not told

    def expanded(self, name: str) -> str:
        """A prefixed name in full."""
        try:
            return str(self.view.expand_curie(name))
        except FAULTS:
            return name

    def prefixes(self, classes: Iterable[Class]) -> dict[str, str]:
        """The prefixes of the IRIs in use."""
        used = [one.iri for one in classes] + [each.iri for one in classes for each in one.properties.values()]
        told = {str(name): str(one.prefix_reference) for name, one in self.view.schema.prefixes.items()}
        return {name: space for name, space in told.items() if any(iri and iri.startswith(space) for iri in used)}


def _has_long_chain(named: Any) -> bool:
    """Whether elements stand above one another beyond what is read."""
    waiting = {name: _above(one) & named.keys() for name, one in named.items()} if isinstance(named, dict) else {}
    for _ in range(LONGEST):
        waiting = {name: above for name, above in waiting.items() if any(one in waiting for one in above)}
    return len(waiting) > LONGEST


def _above(element: Any) -> set[Any]:
    told = element if isinstance(element, dict) else {}
    mixins = told.get("mixins")
    return {
        name
        for name in (told.get("is_a"), told.get("typeof"), *(mixins if isinstance(mixins, list) else ()))
        if isinstance(name, str)
    }


def _line(error: BaseException) -> str:
    """The first line of an error, such as it is."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
