"""Processes of kbdisk that are begun, and killed, for real. They are forked, so that none has to import anything again."""

from __future__ import annotations

import os
import signal
import time
import traceback
import warnings
from pathlib import Path

from kbdisk.cli import main


def command(*words: str | Path, log: Path | None = None) -> int:
    """Begin a command in a process of its own; its number. What it prints goes to a log, or nowhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not need
        child = os.fork()
    if child:
        return child
    try:
        out = os.open(log or os.devnull, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o666)
        for standard in (1, 2):
            os.dup2(out, standard)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main([str(word) for word in words], prog_name="kbdisk")
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(70)
    os._exit(0)


def status(child: int) -> int:
    """The exit status of a process once it has ended; negative where a signal killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(child: int, seconds: float) -> int:
    """Kill a process after so many seconds, where it has not ended before; its exit status."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return status(child)


def names(folder: Path) -> set[str]:
    """What stands in a folder, hidden or not."""
    return {one.name for one in folder.iterdir()}
