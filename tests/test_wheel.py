"""What is installed is what is in the tree: no package forgotten, no deleted module shipped again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOPS = {"kbdisk": "kbdisk", "loaders": "kbdisk/loaders", "schemas": "kbdisk/schemas"}


def installed_as(file: Path) -> str:
    """Where a file of the checkout stands in the wheel."""
    top, *rest = file.relative_to(ROOT).parts
    return "/".join([TOPS[top], *rest])


def tree() -> set[str]:
    """Every file of the packages, as a wheel should have it."""
    files = (file for top in TOPS for file in (ROOT / top).rglob("*") if file.is_file())
    return {installed_as(file) for file in files if "__pycache__" not in file.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> set[str]:
    """The names of all files in a wheel built from a copy of the tree."""
    copy = tmp_path_factory.mktemp("checkout")
    for top in TOPS:
        shutil.copytree(ROOT / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "out").glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_the_list_of_packages_is_that_of_the_tree():
    packages = {str(Path(name).parent).replace("/", ".") for name in tree() if name.endswith("/__init__.py")}
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(packages)


def test_every_folder_with_modules_is_a_package():
    folders = {str(Path(name).parent) for name in tree() if name.endswith(".py")}
    assert not {folder for folder in folders if f"{folder}/__init__.py" not in tree()}


def test_the_wheel_holds_the_tree_and_nothing_else(wheel):
    assert {name for name in wheel if ".dist-info/" not in name} == tree()


def test_the_wheel_holds_the_licence_and_the_command(wheel):
    assert any(name.endswith("LICENSE") for name in wheel)
    assert any(name.endswith("entry_points.txt") for name in wheel)


def test_no_stale_build_folder_can_be_shipped():
    ignored = (ROOT / ".gitignore").read_text().split()
    assert "build/" in ignored
