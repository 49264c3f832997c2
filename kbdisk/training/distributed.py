"""The processes of a job, as torchrun starts them, and what they exchange.

In data-parallel training every process has the same data and the same network. The chunks of a step's entities are divided
among the processes, gradients are summed over them (all-reduce), and each process takes the same step. Decisions that
depend on time or on the validation loss are made by process 0, which sends them to the others. So all take the same
steps. Process 0 alone writes files and messages; the others end after the networks.

Masks are drawn for a whole chunk by every process, so the sum of the gradients is that of one process. Where the processes
divide the chunks of a step evenly, each works on whole chunks, and dropout is that of one process as well.

gloo connects CPUs and nccl GPUs. Processes that wait for each other use no processor time on a CPU. Only functions import torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from kbdisk.errors import ConfigError, KBDiskError, TrainingError, setting

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
LONGEST_WAIT = timedelta(days=365)  # for processes that read or fit for long; one that ends closes its connection


class ProcessEnded(Exception):  # noqa: N818 - it is no error
    """Ends a process other than the first: after its part of training, or where process 0 reports why all end."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


class Piece(NamedTuple):
    """A part of the entities of a chunk, from `start` to before `end`."""

    chunk: int
    start: int
    end: int
    is_whole: bool = True


@dataclass(frozen=True)
class Processes:
    """The processes of a job by the variables that torchrun and others set: this one is number `rank` of `size`."""

    rank: int = 0
    size: int = 1

    @classmethod
    def of_environment(cls) -> Self:
        """By RANK and WORLD_SIZE; one process without them."""
        rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
        if not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
            raise ConfigError("RANK, WORLD_SIZE", f"expected a number below another, got {rank!r}, {size!r}.")
        return cls(int(rank), int(size))

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, which decides and writes."""
        return self.rank == 0

    @property
    def can_connect(self) -> bool:
        """Whether the processes can exchange data, as those of torchrun can."""
        return self.size > 1 and "MASTER_ADDR" in os.environ

    @contextmanager
    def connected(self, device: str = "cpu") -> Iterator[None]:
        """Connects the processes for the length of the block; `device` as in `device_here`."""
        if self.size == 1:
            yield
            return
        if not self.can_connect:
            problem = (
                f"expected processes that torchrun has started, got {self.size} that do not know each other's address."
            )
            raise ConfigError("WORLD_SIZE", f"{problem} Say: torchrun --nproc-per-node {self.size} -m kbdisk ...")
        import torch
        from torch import distributed

        backend = "gloo"
        name = device_here(device)
        if name.startswith("cuda:") and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count():
            torch.cuda.set_device(name)
            backend = "cpu:gloo,cuda:nccl"  # nccl refuses two processes on one GPU
        distributed.init_process_group(backend, timeout=LONGEST_WAIT)
        try:
            yield
        finally:
            distributed.destroy_process_group()

    # ------------------------------------------------------------ division of work

    def part(self, items: Sequence[T]) -> Sequence[T]:
        """Every `size`-th item, from this process's number on."""
        return items[self.rank :: self.size]

    def pieces(self, chunk_sizes: Sequence[int]) -> list[Piece]:
        """The entities of the chunks of a step that this process works on.

        Chunks count equally, and each process has as many: whole ones where the processes divide them evenly.
        """
        pieces = []
        for chunk, size in enumerate(chunk_sizes):
            start, end = (
                min(max((rank * len(chunk_sizes) - chunk * self.size) * size // self.size, 0), size)
                for rank in (self.rank, self.rank + 1)
            )
            if start < end:
                pieces.append(Piece(chunk, start, end, end - start == size))
        return pieces

    # ------------------------------------------------------------ exchange

    def share(self, compute: Callable[[], T]) -> T:
        """What process 0 computes, in all processes."""
        if self.size == 1:
            return compute()
        from torch import distributed

        values: list[Any] = [compute() if self.is_first else None]
        with self._exchange():
            distributed.broadcast_object_list(values)
        shared: T = values[0]
        return shared

    def share_number(self, number: float) -> float:
        """The number of process 0, in all processes."""
        if self.size == 1:
            return number
        import torch
        from torch import distributed

        numbers = torch.tensor([number], dtype=torch.float64)
        with self._exchange():
            distributed.broadcast(numbers, 0)
        return float(numbers)

    def largest(self, number: int) -> int:
        """The largest of the numbers of all processes."""
        if self.size == 1:
            return number
        import torch
        from torch import distributed

        numbers = torch.tensor([number])
        with self._exchange():
            distributed.all_reduce(numbers, distributed.ReduceOp.MAX)
        return int(numbers)

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, the same in each to the bit."""
        from torch import distributed

        with self._exchange():
            distributed.all_reduce(tensor)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by their numbers."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.size
        with self._exchange():
            distributed.all_gather_object(values, value)
        return values

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Turns a lost connection into one error, which process 0 reports."""
        try:
            yield
        except RuntimeError as error:  # torch's errors of connections are RuntimeErrors
            if not self.is_first:
                raise ProcessEnded(2) from error
            problem = f"another process has ended: {str(error).strip().splitlines()[0]}."
            raise TrainingError(
                "process 0", f"{problem} {setting('resume')} continues a run that was saved."
            ) from error

    @contextmanager
    def end_together(self) -> Iterator[None]:
        """Ends all processes where one has an error in the block: process 0 reports it."""
        problem: KBDiskError | None = None
        try:
            yield
        except KBDiskError as error:
            if self.size == 1:
                raise
            problem = error
        problems = self.gather(None if problem is None else str(problem))
        if problem is not None and self.is_first:
            raise problem
        rank, text = next(((rank, text) for rank, text in enumerate(problems) if text is not None), (0, None))
        if text is not None:
            raise TrainingError(f"process {rank}", text) if self.is_first else ProcessEnded(2)


def device_here(device: str) -> str:
    """The device of this process: under torchrun each process of a machine has a GPU of its own."""
    local_rank = os.environ.get("LOCAL_RANK", "")
    if device not in ("auto", "cuda") or not local_rank.isdigit():
        return device
    import torch

    return f"cuda:{int(local_rank) % torch.cuda.device_count()}" if torch.cuda.is_available() else device
