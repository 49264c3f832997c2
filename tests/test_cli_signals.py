"""A signal ends a command: nothing half-written stays, and the status is what shells have for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kbdisk.cli.main import SIGNALS, Stopped, stoppable

NUMBERS = [getattr(signal, name) for name in SIGNALS]

WAITS = """
import signal, sys, time
from kbdisk.loaders.json import read as jsonl
from kbdisk.cli import main

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # the tests may run where these are ignored: nohup, &
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

def write(items, stream, *rest):
    stream.write(bytes(1 << 20)); stream.flush()
    print("x", flush=True)
    while True:
        time.sleep(0.01)  # not pause, which would sleep on where the signal comes just before it
jsonl.write = write
main(["write", sys.argv[1], "--out", sys.argv[2]])
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_while_a_target_is_written_leaves_nothing_beside_it(number, tmp_path):
    source = tmp_path / "kb.csv"
    source.write_text("id,size\na,1\nb,2\n")
    words = [sys.executable, "-c", WAITS, str(source), str(tmp_path / "done.jsonl")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"x\n"
    assert len(list(tmp_path.iterdir())) == 3  # and its lock
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (128 + number, b"interrupted\n")
    assert [one.name for one in tmp_path.iterdir()] == ["kb.csv"]


class Finalised:
    """Something in the finalizer of which a signal comes, where Python drops exceptions."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def test_a_signal_that_a_finalizer_drops_is_sent_again():
    def work() -> None:
        finalised = Finalised(signal.SIGINT)
        del finalised
        signal.pause()

    with pytest.raises(Stopped) as caught, stoppable():
        work()
    assert caught.value.number == signal.SIGINT


def test_afterwards_the_handlers_are_those_before_and_what_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        handlers = [signal.getsignal(number) for number in NUMBERS]
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) is not handlers[1]
        assert [signal.getsignal(number) for number in NUMBERS] == handlers
    finally:
        signal.signal(signal.SIGHUP, before)
