"""Transfers that a framework starts now and waits for later."""

from typing import Any

from .recorder import Recorder
from .step_clocks import Mark


class Request:
    """A pending transfer; it is complete once it has been waited for."""

    def __init__(self, request: Any, recorder: Recorder, op: str, start: Mark | None) -> None:
        self._request, self._recorder, self._op, self._start = request, recorder, op, start

    def wait(self, *args: Any) -> Any:
        """Wait, and record the transfer once."""
        start, self._start = self._start, None
        return self._recorder.wait(self._op, start, self._request, *args)

    def is_left(self) -> None:
        """Record a transfer that is never waited for, such as Megatron's last send."""
        start, self._start = self._start, None
        self._recorder.add(self._op, start, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)
