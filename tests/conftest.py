"""Shared fixtures: the data folder that not everybody has, and a fixed seed."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from portable import NUMERIC
from tables import FEW, seed_all
from transcripts import reader_folder as reader_folder

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell begins in the background
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):  # how wide and colourful rich prints
    os.environ.pop(name, None)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: threads wait for each other more than they work
# No timed assertions: the first call of many a layer is slow. `make test-slow` looks at twenty times as many examples.
settings.register_profile("unhurried", deadline=None, max_examples=FEW)
settings.register_profile("thorough", deadline=None, max_examples=20 * FEW)
settings.load_profile(os.environ.get("KBDISK_HYPOTHESIS", "unhurried"))

NO_ID = 65534  # the user id that owns nothing
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def seed():
    seed_all()


def shared_data() -> Path | None:
    """The folder of real knowledge bases: KBDISK_DATA, or beside the checkout."""
    places = [os.environ.get("KBDISK_DATA"), ROOT.parent / "shared" / "data"]
    return next((Path(place) for place in places if place and Path(place).is_dir()), None)


def pytest_collection(session):
    gc.disable()  # what is imported and collected stays


def pytest_collection_finish(session):
    gc.enable()  # and is not frozen: full collections would then come much too often


def pytest_collection_modifyitems(items):
    numeric = [ROOT / "tests" / path for path in NUMERIC]
    files = {path for path in {item.path for item in items} if any(path.is_relative_to(one) for one in numeric)}
    for item in items:
        if item.path in files:
            item.add_marker(pytest.mark.numeric)
    if shared_data() is None:
        reason = "needs the shared data: set KBDISK_DATA, or put it in ../shared/data"
        for item in items:
            if item.get_closest_marker("shared"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def data() -> Path:
    folder = shared_data()
    assert folder is not None, "mark the test as shared"
    return folder


@pytest.fixture
def unprivileged():
    """Within it a process of root is nobody, for tests of permissions, which root has all of."""

    @contextmanager
    def unprivileged():
        try:
            os.seteuid(NO_ID if os.geteuid() == 0 else os.geteuid())
        except OSError:
            pytest.skip("root cannot be another user here")
        try:
            yield
        finally:
            os.seteuid(os.getuid())

    return unprivileged


@pytest.fixture
def program():
    """The program whose commands `run` runs, and its name."""
    from kbdisk.cli import main

    return main, "kbdisk"


@pytest.fixture
def run(program, capfd, monkeypatch):
    """Run a command; returns its exit status, standard output and standard error."""
    main, name = program
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments], prog_name=name)
        out, err = capfd.readouterr()
        return ended.value.code, out, err

    return run


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A model of the example phones after five steps; copy it before doing it harm.

    All processes that test side by side have the same one: the first trains it.
    """
    from models import calibrated, phones, tiny

    from kbdisk.store.folder import save

    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = common / "tiny" / "phones.kbdisk"
    folder.parent.mkdir(exist_ok=True)
    with (common / "tiny.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            trained = calibrated(tiny(*phones(), nearest=8))
            trained.record.source = {"name": "examples/phones.jsonl", "entities": 63}
            save(trained, folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder):
    """The same, opened; read it, never change it."""
    import torch

    from kbdisk.store.folder import open_folder

    return open_folder(tiny_folder, torch.device("cpu"))
