"""Environments of peers: a virtual environment each, with pinned packages, in a folder that git ignores.

An environment counts as installed when its last file is there, which names the requirements and the versions. So neither a killed
installation nor one of other requirements is taken for it; both are replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.peers.in_context import weights_problem
from kbdisk.atomic import write_bytes
from kbdisk.errors import ConfigError, LoadError
from kbdisk.locks import locked

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / ".peers"
UNUSED = ("torchvision", "torchaudio")  # packages bring them for another build of torch, which then fails to import
INSTALLED = "installed.json"


@dataclass(frozen=True)
class Environment:
    """A virtual environment by its name, and what it needs."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where it is."""
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def versions(self) -> dict[str, str]:
        """The versions of its packages; empty where it is not installed."""
        try:
            stored: dict[str, Any] = json.loads((self.folder / INSTALLED).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        is_current = self.python.exists() and stored.get("requirements") == list(self.requirements)
        return dict(stored["versions"]) if is_current else {}

    def install(self) -> None:
        """Make it, unless it is installed."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if self.versions:
                return
            shutil.rmtree(self.folder, ignore_errors=True)
            venv.create(self.folder, with_pip=True, symlinks=os.name != "nt")
            self.run("-m", "pip", "install", "--quiet", *self.requirements)
            self.run("-m", "pip", "uninstall", "--quiet", "--yes", *UNUSED)
            packages = json.loads(self.run("-m", "pip", "list", "--format", "json"))
            versions = {package["name"].lower(): package["version"] for package in packages}
            stored = {"requirements": list(self.requirements), "versions": versions}
            write_bytes(self.folder / INSTALLED, json.dumps(stored, indent=1).encode())

    def run(self, *arguments: object) -> str:
        """What its Python prints with some arguments; LoadError where that fails."""
        done = subprocess.run([self.python, *map(str, arguments)], check=False, capture_output=True, text=True)
        if done.returncode:
            command = " ".join(map(str, arguments[:3]))
            raise LoadError(self.name, f"expected python {command} to succeed, got: {last_line(done.stderr)}")
        return done.stdout


def last_line(text: str) -> str:
    """The last line of what a program printed."""
    return (text.strip().splitlines() or ["no message"])[-1].strip()


def environment(name: str) -> Environment:
    """The environment of a peer."""
    return Environment(PEERS[name].shares or name, PEERS[name].requirements)


def install(names: Sequence[str]) -> None:
    """Make the environments of some peers."""
    for name in names:
        if not PEERS[name].requirements:
            raise ConfigError("install", f"expected a peer with an environment of its own, got {name!r}. It has none.")
        if not environment(name).versions:
            print(f"installing {', '.join(PEERS[name].requirements)}: minutes, once", file=sys.stderr)
            environment(name).install()


def is_folder(path: str | None) -> bool:
    """Whether a path is there and leads to a folder."""
    return bool(path) and Path(str(path)).is_dir()


def versions(name: str) -> dict[str, str]:
    """The versions of a peer's packages, those that are installed."""
    if PEERS[name].requirements:
        installed = environment(name).versions
        return {package: installed[package.lower()] for package in PEERS[name].packages if package.lower() in installed}
    found = {}
    for package in PEERS[name].packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def missing(name: str) -> str | None:
    """Why a peer cannot run here, and what to do; None where it can."""
    peer = PEERS[name]
    if peer.requirements and not environment(name).versions:
        return f"expected its environment, got none. Say python -m benchmarks peers install {peer.shares or name}."
    if peer.has_weights and (problem := weights_problem(name)):
        return problem
    if peer.weights and not is_folder(os.environ.get(peer.weights)):
        return (
            f"expected {peer.weights} to name a folder with the weights of a causal language model, got none. "
            "Set it to a folder that transformers can load."
        )
    lacking = [package for package in peer.packages if package not in versions(name)]
    return f"expected {', '.join(lacking)}, got none. Install kbdisk again." if lacking else None
