"""Ctrl-C interrupts a command, even if Spark has replaced the signal handler."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

import jobs.runtime.session as module
from jobs.runtime.interrupts import interruptible, is_interruption, own_handler
from jobs.runtime.session import session
from jobs.runtime.settings import Settings


@pytest.fixture(autouse=True)
def handler() -> Iterator[object]:
    """Install the SIGINT handler of a foreground process during each test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def stub() -> SparkSession:
    context = SimpleNamespace(cancelAllJobs=lambda: None)
    return cast("SparkSession", SimpleNamespace(sparkContext=context, stop=lambda: None))


def interrupted_then(error: Exception) -> None:
    """Interrupt this process, swallow KeyboardInterrupt, and raise the given error."""
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(9)
    raise error


def test_a_handler_that_is_set_within_is_not_kept(handler: object) -> None:
    with own_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == handler


def test_a_new_session_is_interruptible(
    handler: object, monkeypatch: pytest.MonkeyPatch, test_settings: Settings
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(module, "make_session", lambda *_: stub())
    with pytest.raises(KeyboardInterrupt), session(test_settings, "test"):
        interrupted_then(RuntimeError("Query interrupted"))
    assert signal.getsignal(signal.SIGINT) == handler


def test_a_shell_may_keep_ctrl_c_from_what_it_starts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible(stub()):
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_an_error_after_an_interruption_that_was_handled_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such table"), interruptible(stub()):
        interrupted_then(ValueError("no such table"))


def test_what_follows_from_an_interruption() -> None:
    error = ValueError("[SPARK_JOB_CANCELLED]")
    assert not is_interruption(error)
    error.__context__ = OSError()
    error.__context__.__context__ = KeyboardInterrupt()
    assert is_interruption(error)
