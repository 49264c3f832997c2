"""Signals are noted once, obeyed the second time, and what was there before comes back."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from kbdisk.training.checkpoint import SIGNALS, stopping


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted_and_obeyed_at_the_end_where_nobody_did(number):
    obeyed = []
    before = signal.signal(number, lambda *signals: obeyed.append(signals[0]))
    try:
        with stopping() as stop:
            assert stop.signal is None
            signal.raise_signal(number)
            assert stop.signal == number
            assert obeyed == []
        assert obeyed == [number]
        with contextlib.suppress(ZeroDivisionError), stopping():
            signal.raise_signal(number)
            raise ZeroDivisionError  # which is raised for it
        assert obeyed == [number]
    finally:
        signal.signal(number, before)


def test_a_second_signal_is_obeyed():
    with pytest.raises(KeyboardInterrupt), stopping():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)


def test_afterwards_the_handlers_are_those_before():
    before = [signal.getsignal(one) for one in SIGNALS]
    with stopping():
        assert [signal.getsignal(one) for one in SIGNALS] != before
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.signal is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_train_without_noting_signals():
    found = []

    def work() -> None:
        with stopping() as stop:
            found.append(stop.signal)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]
