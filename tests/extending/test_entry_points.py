"""Installed packages add rows by entry points: loaded once, when needed; one that fails is an error in a line with its name."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from extending.conftest import ENTRY_POINTS, MODULES, write_modules

from kbdisk.errors import PluginError
from kbdisk.evaluation import BASELINES
from kbdisk.loaders import FORMATS
from kbdisk.schemas.composites import COMPOSITES
from kbdisk.schemas.importers import IMPORTERS
from kbdisk.schemas.kinds import KINDS


def install(folder: Path, name: str, points: str) -> Path:
    """A package as pip leaves it behind: the modules of the page, and metadata with these entry points."""
    write_modules(folder)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    ini = points.replace("[project.entry-points.", "[").replace('"', "")
    (info / "entry_points.txt").write_text(ini)
    return folder


@pytest.fixture
def installed(tmp_path, monkeypatch, unloaded):
    """Installs a package with some entry points."""

    def install_here(points: str) -> None:
        monkeypatch.syspath_prepend(install(tmp_path / "site", "film-kinds", points))

    return install_here


def test_the_page_names_every_module_and_table():
    points = [line.split('"')[1].partition(":")[0] for line in ENTRY_POINTS.splitlines() if "=" in line]
    assert sorted(points) == sorted(MODULES)
    groups = {table.group for table in (KINDS, COMPOSITES, FORMATS, BASELINES)}
    assert all(f'[project.entry-points."{group}"]' in ENTRY_POINTS for group in groups)


def test_rows_of_installed_packages_are_in_the_tables(installed):
    installed(ENTRY_POINTS)
    assert "count" in KINDS
    assert [*COMPOSITES][-1] == "duration"
    assert FORMATS["kv"].suffixes == (".kv",)
    assert "most-similar" in BASELINES


def test_they_are_loaded_only_when_a_name_is_looked_up_that_kbdisk_does_not_have(installed):
    installed(ENTRY_POINTS)
    assert FORMATS["csv"].suffixes == (".csv",)
    assert "number" in KINDS
    assert not sys.modules.keys() & MODULES.keys()
    assert "no such format" not in FORMATS
    assert "key_value" in sys.modules
    assert "durations" not in sys.modules


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ("[kbdisk.formats]\nkv = no_such_module:KV\n", "fails: ModuleNotFoundError: No module named 'no_such_module'"),
        ("[kbdisk.formats]\nkv = key_value:NOTHING\n", "fails: AttributeError"),
        (
            "[kbdisk.formats]\nkv = key_value:value_of\n",
            "expected a Format of its plug-in 'kv' (kbdisk.formats), got a function",
        ),
        ("[kbdisk.formats]\nkv = broken:KV\n", "fails: RuntimeError: two lines"),
    ],
)
def test_one_that_fails_is_an_error_with_the_name_of_its_package(installed, tmp_path, points, expected):
    installed(points)
    (tmp_path / "site" / "broken.py").write_text("raise RuntimeError('two\\nlines')")
    for _ in range(2):  # the second time as well
        with pytest.raises(PluginError) as raised:
            list(FORMATS)
        message = str(raised.value)
        assert message.startswith("film-kinds: ")
        assert "its plug-in 'kv' (kbdisk.formats)" in message
        assert expected in message
        assert message.endswith("Update the package, or uninstall it.")
        assert "\n" not in message


def test_a_row_of_a_package_does_not_replace_one_of_kbdisk(installed):
    installed('[kbdisk.formats]\ncsv = "key_value:KEY_VALUE"\n')
    assert "other" not in FORMATS
    assert FORMATS["csv"].suffixes == (".csv",)


def test_linkml_is_an_entry_point_of_kbdisk_itself():
    assert list(IMPORTERS) == ["shacl", "jsonschema", "linkml"]
    [point] = entry_points(group=IMPORTERS.group)
    assert (point.name, point.dist.name) == ("linkml", "kbdisk")


def test_the_commands_have_the_kinds_and_formats_of_installed_packages(tmp_path):
    site = install(tmp_path / "site", "film-kinds", ENTRY_POINTS)
    (tmp_path / "films.kv").write_text("\n".join(f"id = f{n}\nlength = {90 + n} min\n" for n in range(12)))
    done = subprocess.run(
        [sys.executable, "-m", "kbdisk", "schema", "infer", "films.kv"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert "length: duration" in done.stdout, done.stderr
