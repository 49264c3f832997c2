"""A map whose items are divided among processes that are forked from this one.

A forked process has all that this one has in memory, so nothing is copied to it but the items. Each takes the next item once
it is done with one, also while this process computes something else. A process computes with a single thread, as the threads
of torch do not survive a fork. An item whose process was killed, or whose function has raised an exception, is done again in
this process: so the exception is raised here.

Only Linux forks safely. Elsewhere, on a GPU, and in a daemonic process, which may have no children, this process does all.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import chain, islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")
MAX_PROCESSES = 8  # each needs memory for what it computes
MAX_ITEMS_AHEAD = 16  # for each process, that are begun before their results are asked for


def usable_processes(device: torch.device | str = "cpu") -> int:
    """How many processes a map may have: as many as torch may have threads; 1 where it may not fork."""
    may_fork = sys.platform == "linux" and not multiprocessing.current_process().daemon
    return min(torch.get_num_threads(), MAX_PROCESSES) if may_fork and torch.device(device).type == "cpu" else 1


def parallel_map(function: Callable[[T], R], items: Iterable[T], processes: int) -> Iterator[R]:
    """The results of a function for items, in order. Items are taken a while before they are needed; items and results are pickled."""
    remaining = iter(items)
    first = list(islice(remaining, 2))
    remaining = chain(first, remaining)
    if processes < 2 or len(first) < 2:
        yield from map(function, remaining)
        return
    with ExitStack() as ending:
        workers: list[_Worker[T, R]] = []
        ending.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # the cores are busy
        for _ in range(processes):
            workers.append(_Worker(function, [worker.connection for worker in workers]))
            ending.callback(workers[-1].end)
        yield from _divided(function, remaining, workers)


def _divided(function: Callable[[T], R], items: Iterator[T], workers: Sequence[_Worker[T, R]]) -> Iterator[R]:
    """The results, each by the worker that is free first. A thread for each worker waits for it."""
    idle: SimpleQueue[_Worker[T, R]] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def computed(item: T) -> bytes | None:
        worker = idle.get()
        try:
            return worker.computed(item)
        finally:
            idle.put(worker)

    begun: deque[tuple[T, Future[bytes | None]]] = deque()
    with ThreadPoolExecutor(len(workers)) as threads:
        try:
            while True:
                for item in islice(items, MAX_ITEMS_AHEAD * len(workers) - len(begun)):
                    begun.append((item, threads.submit(computed, item)))
                if not begun:
                    return
                item, future = begun.popleft()
                yield _result(function, item, future.result())
        finally:
            for _, future in begun:
                future.cancel()
            for worker in workers:
                worker.end()


def _result(function: Callable[[T], R], item: T, computed: bytes | None) -> R:
    """The result that a process has computed, with its warnings; without one the function is called here."""
    if computed is None:
        return function(item)
    result, caught = pickle.loads(computed)
    for message, category in caught:
        warnings.warn(message, category, stacklevel=4)
    computed_result: R = result
    return computed_result


class _Worker(Generic[T, R]):
    """A forked process."""

    def __init__(self, function: Callable[[T], R], others: Sequence[Connection]) -> None:
        """`others` are the connections of earlier workers, which the process inherits."""
        self.connection, far = multiprocessing.Pipe()
        arguments = (function, far, [*others, self.connection])
        self.process = multiprocessing.get_context("fork").Process(target=_work, args=arguments, daemon=True)
        with warnings.catch_warnings():  # of threads that the process will not have
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        far.close()

    def computed(self, item: T) -> bytes | None:
        """The pickled result and warnings of an item; None where the function has raised an exception, or the process was killed."""
        try:
            self.connection.send(item)
            return self.connection.recv_bytes() or None
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.terminate()
        self.process.join()


def _work(function: Callable[[Any], Any], connection: Connection, inherited: Sequence[Connection]) -> None:
    """Compute the items that come over a connection, until it ends: then the process that has forked this one has ended."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to the process that has forked this one, too
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # the collector would write to memory that the processes share
    torch.set_num_threads(1)
    try:
        with suppress(EOFError, OSError):
            while True:
                connection.send_bytes(_computed(function, connection.recv()))
    finally:
        os._exit(0)  # without what this process would do at its end


def _computed(function: Callable[[T], Any], item: T) -> bytes:
    """The pickled result of a function, and its warnings; empty where it has raised an exception."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            result = function(item)
            return pickle.dumps((result, [(str(warning.message), warning.category) for warning in caught]))
        except Exception:  # it is raised again where the item is done again
            return b""
