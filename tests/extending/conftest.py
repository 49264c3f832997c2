"""The modules of docs/extending.md as files, and tables that are as before after each test."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from extending.moneys import MONEY

from kbdisk import plugins
from kbdisk.evaluation import BASELINES
from kbdisk.experts import EXPERTS
from kbdisk.extend import register_composite
from kbdisk.loaders import FORMATS
from kbdisk.schemas.composites import COMPOSITES
from kbdisk.schemas.importers import IMPORTERS
from kbdisk.schemas.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
MODULES = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
[ENTRY_POINTS] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TABLES = (KINDS, COMPOSITES, FORMATS, EXPERTS, BASELINES, IMPORTERS)


def write_modules(folder: Path) -> None:
    """The modules of the page as files."""
    folder.mkdir(exist_ok=True)
    for name, code in MODULES.items():
        (folder / f"{name}.py").write_text(code)


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """All modules of the page, and money, registered by their own calls; gone once the tests of a module are done."""
    names = {id(table): set(table) for table in TABLES}
    folder = tmp_path_factory.mktemp("modules")
    write_modules(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        modules = SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
        register_composite("money", MONEY)
        yield modules
    for name in MODULES:
        del sys.modules[name]
    for table in TABLES:
        for name in set(table) - names[id(table)]:
            del table[name]


@pytest.fixture
def unloaded(monkeypatch) -> Iterator[None]:
    """Entry points are looked for anew."""
    monkeypatch.setattr(plugins, "_INSTALLED", {})
    for table in TABLES:
        monkeypatch.setattr(table, "_rows", dict(table._rows))
        monkeypatch.setattr(table, "_is_complete", False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)
