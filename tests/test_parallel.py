"""A map that is divided among forked processes: the same results in the same order, whatever happens to a process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from kbdisk.errors import KBDiskWarning, TrainingError
from kbdisk.parallel import MAX_PROCESSES, in_background, parallel_map, usable_processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
PARENT_PID = os.getpid()
FORKS_AND_WAITS = """
import os, sys, time
from kbdisk.parallel import parallel_map
def computed(item):
    time.sleep(0.2)
    return os.getpid()
for process in parallel_map(computed, range(1_000_000), 2):
    print(process, flush=True)
"""


def test_results_are_in_the_order_of_the_items_and_come_from_several_processes():
    def computed(number: int) -> tuple[int, int, int]:
        time.sleep(0.05 * (number % 2))
        return number, os.getpid(), torch.get_num_threads()

    results = list(parallel_map(computed, range(40), 3))
    assert [number for number, _, _ in results] == list(range(40))
    processes = {process for _, process, _ in results}
    assert len(processes) > 1
    assert PARENT_PID not in processes
    assert {threads for _, _, threads in results} == {1}


@pytest.mark.parametrize(("items", "processes"), [([], 2), ([1], 2), ([1, 2], 1)])
def test_this_process_computes_what_cannot_be_divided(items, processes):
    assert list(parallel_map(lambda item: (item, os.getpid()), items, processes)) == [
        (item, PARENT_PID) for item in items
    ]


def test_an_exception_is_raised_here_after_the_results_before_it():
    def computed(number: int) -> int:
        if number == 3:
            raise TrainingError("kb.ttl", "no third item.")
        return number

    results = parallel_map(computed, range(6), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(TrainingError, match=r"kb\.ttl: no third item"):
        next(results)


def test_a_result_that_cannot_be_sent_is_computed_here():
    results = list(parallel_map(lambda number: lambda: number, range(4), 2))
    assert [result() for result in results] == [0, 1, 2, 3]


def test_warnings_of_other_processes_are_given_here():
    def computed(number: int) -> int:
        if number == 1:
            warnings.warn("the second item is rare", KBDiskWarning, stacklevel=1)
        return number

    with pytest.warns(KBDiskWarning, match="the second item is rare"):
        assert list(parallel_map(computed, range(4), 2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("killed", [{2}, set(range(8))])
def test_items_of_killed_processes_are_done_here(killed):
    def computed(number: int) -> int:
        if number in killed and os.getpid() != PARENT_PID:
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    assert list(parallel_map(computed, range(8), 2)) == [number * number for number in range(8)]


def test_items_are_taken_only_a_while_before_they_are_needed():
    taken = []

    def items() -> Iterator[int]:
        for number in range(10_000):
            taken.append(number)
            yield number

    results = parallel_map(abs, items(), 2)
    assert next(results) == 0
    assert len(taken) < 100


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads, until the end of the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_processes_end_with_the_map(set_threads):
    set_threads(2)
    results = parallel_map(lambda number: os.getpid(), range(100), 2)
    processes = {next(results) for _ in range(4)}
    assert torch.get_num_threads() == 2
    results.close()
    assert not any(map(is_running, processes))


def test_the_items_of_a_killed_process_are_left_to_the_others():
    def computed(number: int) -> int:
        if number == 3 and os.getpid() != PARENT_PID:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return os.getpid()

    assert list(parallel_map(computed, range(100), 3)).count(PARENT_PID) == 1


def test_without_room_for_processes_the_parent_computes_all(monkeypatch):
    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    assert list(parallel_map(lambda number: (number, os.getpid()), range(4), 3)) == [
        (number, PARENT_PID) for number in range(4)
    ]


def test_a_process_ends_whatever_the_handler_of_its_parent_does():
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        assert list(parallel_map(lambda number: number, range(2), 4)) == [0, 1]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_processes_end_where_this_one_is_killed():
    child = subprocess.Popen([sys.executable, "-c", FORKS_AND_WAITS], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    processes = {int(child.stdout.readline()) for _ in range(2)}
    assert child.pid not in processes
    child.kill()
    child.wait()
    child.stdout.close()
    while any(map(is_running, processes)):  # the timeout of all tests is the limit
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_map_has_as_many_processes_as_torch_may_have_threads(monkeypatch, set_threads):
    set_threads(3)
    assert usable_processes() == 3
    assert usable_processes("cuda") == 1
    set_threads(64)
    assert usable_processes(torch.device("cpu")) == MAX_PROCESSES
    monkeypatch.setattr(sys, "platform", "darwin")
    assert usable_processes() == 1


def test_a_forked_process_forks_no_others(set_threads):
    set_threads(3)
    assert list(parallel_map(lambda _: usable_processes(), range(2), 2)) == [1, 1]


# ---------------------------------------------------------------- one function beside this process


def test_a_function_is_computed_beside_this_process_and_its_result_can_be_asked_for_again():
    result = in_background(os.getpid, 2)
    process = result()
    assert process != PARENT_PID
    assert result() == process
    assert not is_running(process)


def test_with_one_process_a_function_is_computed_at_once():
    calls: list[int] = []
    result = in_background(lambda: calls.append(1), 1)
    assert calls == [1]
    assert result() is None
    assert calls == [1]


def test_an_exception_beside_this_process_is_raised_where_the_result_is_asked_for():
    def computed() -> int:
        raise TrainingError("kb.ttl", "no rules.")

    result = in_background(computed, 2)
    with pytest.raises(TrainingError, match=r"kb\.ttl: no rules"):
        result()


def test_the_function_of_a_killed_process_is_computed_here():
    def computed() -> int:
        if os.getpid() != PARENT_PID:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert in_background(computed, 2)() == PARENT_PID


def test_a_result_that_nobody_waits_for_ends_its_process(tmp_path):
    def computed() -> None:
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(60)

    result = in_background(computed, 2)
    while not (tmp_path / "process").exists() or not (tmp_path / "process").read_text():
        time.sleep(0.01)
    process = int((tmp_path / "process").read_text())
    assert is_running(process)
    del result
    gc.collect()
    assert not is_running(process)
