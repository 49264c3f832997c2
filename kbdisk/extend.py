"""The interface for other packages, which can add kinds of leaves, composites, formats, experts and baselines.

Each is a row in a table, registered by one call in a script, or declared as an entry point of an installed package, so that the
commands have it, too: `kbdisk.kinds` for leaves and composites, `kbdisk.formats`, `kbdisk.experts`, `kbdisk.baselines`,
`kbdisk.importers`.
docs/extending.md has an example of each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbdisk.evaluation import BASELINES
from kbdisk.experts import EXPERTS, ExpertKind
from kbdisk.loaders.files import Source
from kbdisk.loaders.formats import FORMATS, Format
from kbdisk.loaders.kb import KB, Options, Report
from kbdisk.schemas.composites import COMPOSITES, CompositeKind, kind_rows
from kbdisk.schemas.composites.base import fields_of
from kbdisk.schemas.kinds import KINDS, LeafKind
from kbdisk.styles.habits import Form, Habit
from kbdisk.styles.kinds import DEFAULT_STYLE, PARTS, STRING, KindStyle

if TYPE_CHECKING:
    from kbdisk.api.belief import Belief
    from kbdisk.evaluation.baselines import Baseline, Prediction
    from kbdisk.experts.features import HashedColumns
    from kbdisk.leaves.base import Rows, Setting
    from kbdisk.metrics import Constant, Metric

LATER = {  # names that are imported when they are first used, because they import torch
    "Baseline": "kbdisk.evaluation.baselines",
    "Belief": "kbdisk.api.belief",
    "Constant": "kbdisk.metrics",
    "HashedColumns": "kbdisk.experts.features",
    "Metric": "kbdisk.metrics",
    "Prediction": "kbdisk.evaluation.baselines",
    "Rows": "kbdisk.leaves.base",
    "Setting": "kbdisk.leaves.base",
}

__all__ = [
    "DEFAULT_STYLE",
    "KB",
    "PARTS",
    "STRING",
    "Baseline",
    "Belief",
    "CompositeKind",
    "Constant",
    "ExpertKind",
    "Form",
    "Format",
    "Habit",
    "HashedColumns",
    "KindStyle",
    "LeafKind",
    "Metric",
    "Options",
    "Prediction",
    "Report",
    "Rows",
    "Setting",
    "Source",
    "fields_of",
    "register_baseline",
    "register_composite",
    "register_expert",
    "register_format",
    "register_leaf",
]


def register_leaf(name: str, row: LeafKind) -> None:
    """Add a kind of leaf, which schema files call by this name."""
    parts = {part: getattr(row, part) for part in ("codec", "encoder", "decoder")}
    given = [part for part, value in parts.items() if value is not None]
    if len(given) != (3 if row.learnt_as is None else 0):
        got = " and ".join(given if row.learnt_as is None else [*given, "learnt_as"]) or "none"
        raise ValueError(f"expected codec, encoder and decoder of {name!r}, or learnt_as alone, got {got}")
    _refuse_taken(name)
    KINDS.register(name, row)


def register_composite(name: str, row: CompositeKind) -> None:
    """Add a kind of values made of several leaves, which schema files call by this name."""
    _refuse_taken(name)
    COMPOSITES.register(name, row)


def register_format(name: str, row: Format) -> None:
    """Add a format, which --from and --to call by this name; files are recognised by their suffixes."""
    taken = {suffix: table_name for table_name, table_row in FORMATS.items() for suffix in table_row.suffixes}
    for suffix in row.suffixes:
        if suffix in taken:
            raise ValueError(f"expected new suffixes, got {suffix}, which is that of {taken[suffix]}")
    FORMATS.register(name, row)


def register_expert(name: str, row: ExpertKind) -> None:
    """Add a kind of expert, which run files call by this name. The last one is stacked last."""
    EXPERTS.register(name, row)


def register_baseline(name: str, make: str | Callable[[], Baseline]) -> None:
    """Add a baseline, which --against calls by this name: a class, or `module:attribute`, that is called without arguments."""
    BASELINES.register(name, make)


def _refuse_taken(name: str) -> None:
    if name in kind_rows():
        raise ValueError(f"expected a new name, got {name!r}, which is taken. Choose another name.")


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'kbdisk.extend' has no attribute {name!r}")
    return getattr(importlib.import_module(LATER[name]), name)
