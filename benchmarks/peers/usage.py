"""CPU seconds and peak memory of this process. The standard library alone, as peers run it in environments of their own.

The kernel keeps the highest resident memory of a process (VmHWM), and forgets it when asked to. Only Linux does; elsewhere memory
is not measured. It is that of the whole process, with Python, the packages and the table.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK_MEMORY = "5"  # what is written into clear_refs so that VmHWM is the present memory
PEAK_LINE = "VmHWM:"
KILOBYTES_A_MEGABYTE = 1024

CPU, MEMORY = "cpu", "memory"  # what phases use: seconds of CPU time, megabytes of memory at its peak


class Meter:
    """Measures the CPU seconds and the peak memory since it was made; a new meter ends the one before."""

    def __init__(self) -> None:
        self.begun = cpu_seconds()
        if FORGET.exists():
            FORGET.write_text(PEAK_MEMORY)

    def read(self) -> dict[str, float]:
        """CPU seconds and megabytes; without memory where the kernel does not keep it."""
        used = {CPU: cpu_seconds() - self.begun}
        if FORGET.exists():
            (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(PEAK_LINE))
            used[MEMORY] = int(line.split()[1]) / KILOBYTES_A_MEGABYTE
        return used


def cpu_seconds() -> float:
    """Seconds of CPU time so far, of all threads and of the children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
