"""Ctrl-C belongs to the command, whatever Spark sets."""

import signal

from jobs.runtime.interrupts import own_handler


def test_a_handler_that_is_set_within_is_not_kept() -> None:
    before = signal.getsignal(signal.SIGINT)
    with own_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == before
