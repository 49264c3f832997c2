"""A map whose items are divided among forked processes, and a computation in a forked process beside this one.

A child process has the memory of its parent, so that only items are sent to it. It takes the next item when it has finished
one, also while the parent computes something else. It computes with one thread, as torch's threads do not survive a fork. The
parent repeats an item whose child was killed or raised an exception, so that the exception is raised in the parent.

Only Linux forks safely. Elsewhere, on a GPU, and in a daemonic process, which may have no children, the parent does all.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from kbdisk.heap import return_freed_memory

T = TypeVar("T")
R = TypeVar("R")
MAX_PROCESSES = 8  # each needs memory for what it computes
SECONDS_BETWEEN_RETURNS = 2.0  # of freed memory to the operating system, by a child
MAX_ITEMS_AHEAD = 8  # for each process, that are begun before their results are asked for
_forking = threading.Lock()  # a child of another thread would inherit both ends of a new connection


def usable_processes(device: torch.device | str = "cpu") -> int:
    """The number of processes for a map: one for each thread of torch, at most 8; 1 where a fork is not safe."""
    may_fork = sys.platform == "linux" and not multiprocessing.current_process().daemon
    return min(torch.get_num_threads(), MAX_PROCESSES) if may_fork and torch.device(device).type == "cpu" else 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the context torch computes with one thread: the processes of a map have the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parallel_map(function: Callable[[T], R], items: Iterable[T], processes: int) -> Iterator[R]:
    """The results of a function for items, in order. Items are taken a while before they are needed; items and results are pickled."""
    if processes < 2:
        return map(function, items)
    remaining = iter(items)
    first = list(islice(remaining, processes))
    return _mapped(function, chain(first, remaining), len(first))


def in_background(function: Callable[[], R], processes: int) -> Callable[[], R]:
    """Begin a function in a child process; the returned function waits for its result. With one process it is called at once."""
    workers: list[_Worker[None, R]] = _fork(lambda _: function(), 1) if processes > 1 else []
    if not workers:
        result = function()
        return lambda: result
    return cache(_Background(function, workers[0]))


def _mapped(function: Callable[[T], R], items: Iterator[T], processes: int) -> Iterator[R]:
    """The results, computed by at most so many child processes."""
    workers = _fork(function, processes) if processes > 1 else []
    if not workers:
        yield from map(function, items)
        return
    try:
        yield from _divided(function, items, workers)
    finally:
        for worker in workers:
            worker.end()


def _fork(function: Callable[[T], R], processes: int) -> list[_Worker[T, R]]:
    """Forks workers, until there are enough or the system refuses another."""
    workers: list[_Worker[T, R]] = []
    with suppress(OSError):
        for _ in range(processes):
            workers.append(_Worker(function, [worker.connection for worker in workers]))
    return workers


class _Outcome(NamedTuple):
    """The outcome of one item."""

    number: int
    pickled: bytes | None  # None: the function has raised an exception, or the child was killed
    is_alive: bool


def _divided(function: Callable[[T], R], items: Iterator[T], workers: Sequence[_Worker[T, R]]) -> Iterator[R]:
    """The results. Each worker takes the next item when it has finished one, and has a thread that waits for it."""
    requests: SimpleQueue[tuple[int, T] | None] = SimpleQueue()
    outcomes: SimpleQueue[_Outcome] = SimpleQueue()

    def serve(worker: _Worker[T, R]) -> None:
        while (request := requests.get()) is not None:
            outcome = worker.compute(*request)
            outcomes.put(outcome)
            if not outcome.is_alive:
                return

    for worker in workers:
        threading.Thread(target=serve, args=(worker,), daemon=True).start()
    begun: dict[int, T] = {}
    finished: dict[int, bytes | None] = {}
    numbers, alive = count(), len(workers)
    try:
        for place in count():
            for item in islice(items, MAX_ITEMS_AHEAD * len(workers) - len(begun)):
                number = next(numbers)
                begun[number] = item
                requests.put((number, item))
            if place not in begun:
                return
            while place not in finished and alive:
                outcome = outcomes.get()
                finished[outcome.number] = outcome.pickled
                alive -= not outcome.is_alive
            yield _result(function, begun.pop(place), finished.pop(place, None))
    finally:
        for _ in workers:
            requests.put(None)


def _result(function: Callable[[T], R], item: T, pickled: bytes | None) -> R:
    """The result that a child has computed, with its warnings; without one the function is called here."""
    if pickled is None:
        return function(item)
    result, caught = pickle.loads(pickled)
    for message, category in caught:
        warnings.warn(message, category, stacklevel=4)
    unpickled: R = result
    return unpickled


class _Background(Generic[R]):
    """A function that a child process computes."""

    def __init__(self, function: Callable[[], R], worker: _Worker[None, R]) -> None:
        self._function, self._worker = function, worker
        self._end = weakref.finalize(self, worker.end)
        worker.begin(None)

    def __call__(self) -> R:
        """The result, which can be asked for once."""
        outcome = self._worker.finish(0)
        self._end()
        return _result(lambda _: self._function(), None, outcome.pickled)


class _Worker(Generic[T, R]):
    """A child process."""

    def __init__(self, function: Callable[[T], R], others: Sequence[Connection]) -> None:
        """`others` are the connections of earlier workers, which the child inherits."""
        with _forking:
            self.connection, of_child = multiprocessing.Pipe()
            arguments = (function, of_child, [*others, self.connection])
            self.process = multiprocessing.get_context("fork").Process(target=_work, args=arguments, daemon=True)
            try:
                with warnings.catch_warnings():  # Python warns that a fork does not copy threads
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self.process.start()
            finally:
                of_child.close()

    def compute(self, number: int, item: T) -> _Outcome:
        """The pickled result and warnings of an item."""
        self.begin(item)
        return self.finish(number)

    def begin(self, item: T) -> None:
        """Send an item, unless the process has ended."""
        with suppress(OSError):
            self.connection.send(item)

    def finish(self, number: int) -> _Outcome:
        """The pickled result and warnings of the item that was sent."""
        try:
            return _Outcome(number, self.connection.recv_bytes() or None, is_alive=True)
        except (EOFError, OSError):
            return _Outcome(number, None, is_alive=False)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()


def _work(function: Callable[[Any], Any], connection: Connection, inherited: Sequence[Connection]) -> None:
    """Compute the items that come over a connection, until the parent ends and closes it."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # the collector would write to memory that the processes share
    torch.set_num_threads(1)
    next_return = time.monotonic() + SECONDS_BETWEEN_RETURNS
    try:
        with suppress(EOFError, OSError):
            while True:
                connection.send_bytes(_compute_pickled(function, connection.recv()))
                if time.monotonic() > next_return:
                    return_freed_memory()
                    next_return = time.monotonic() + SECONDS_BETWEEN_RETURNS
    finally:
        os._exit(0)  # skips the exit handlers inherited from the parent


def _compute_pickled(function: Callable[[T], Any], item: T) -> bytes:
    """The pickled result of a function, and its warnings; empty where it has raised an exception."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            result = function(item)
            return pickle.dumps((result, [(str(warning.message), warning.category) for warning in caught]))
        except Exception:  # it is raised again where the item is done again
            return b""
