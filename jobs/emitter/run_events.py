"""Writer of the events of a run (format run-events/1) from one rank, without disturbing the training.

    with RunEvents(landing, run) as events:          # a failure if the block raises, a stop if it ends
        events.start()                               # or restart(step), where it goes on from a checkpoint
        for number in range(first_step, last_step):
            events.begin_step(number)
            train_step()
            with events.checkpoint():
                save()

A separate thread appends each event as a line to `log_date=.../job_id=.../run_id=.../events.jsonl`; a crash
loses at most the last line. Events that a stalled store does not accept are dropped, and the next line states
how many. After an error one warning is logged, and the training goes on.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

from .line_thread import LineThread, warn
from .rank_log_writer import EPOCH, RUN_EVENTS_FORMAT, Run, ends_with_newline, write_manifest, write_whole
from .recorder import never_raises


class RunEvents:
    """Writer that appends a run's events to a new file each UTC day. Use it on one rank only.

    mark_every_s : least time between two recorded starts of steps, after that of the first step. [s]
    """

    def __init__(self, landing: str | Path, run: Run, *, mark_every_s: float = 60.0) -> None:
        self.landing, self.run, self.mark_every_s = Path(landing), run, mark_every_s
        self.recorder = self  # `never_raises` calls its give_up
        self.number: int | None = None  # of the step that began last
        self._is_first = True
        self._marked_us = 0
        self._has_given_up = False
        self._lines = LineThread(f"events of {run.run_id}", "events", self._append, self.give_up)

    def __enter__(self) -> "RunEvents":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.stop() if error is None else self.failure()
        self.close()

    def start(self, step: int | None = None) -> None:
        """Record that the run starts with `step`; call it as early as possible."""
        self._begins("start", step)

    def restart(self, step: int | None = None) -> None:
        """Record that the run restarts; `step` is the first repeated step."""
        self._begins("restart", step)

    def begin_step(self, number: int) -> None:
        """Record the start of the first step, and later of one step in every `mark_every_s` seconds."""
        now_us, self.number = _now_us(), number
        if self._is_first or now_us - self._marked_us >= self.mark_every_s * 1e6:
            self._marked_us = now_us
            self._note("first_step" if self._is_first else "step", now_us, number)
            self._is_first = False

    @never_raises
    def submitted(self, at_s: float) -> None:
        """Record, before the start, when the run began to wait for GPUs, as Unix time. [s]"""
        self._note("submitted", round(at_s * 1e6), None, day_us=_now_us())

    def checkpoint(self, step: int | None = None) -> AbstractContextManager[None]:
        """Record the checkpoint that the block saves, and its duration; record nothing if the block raises.

        step : first step after the checkpoint; by default the step after the one that began last
        """
        return self._stands_still("checkpoint", step)

    def evaluation(self, step: int | None = None) -> AbstractContextManager[None]:
        """Record the evaluation that the block runs, and its duration; record nothing if the block raises."""
        return self._stands_still("evaluation", step)

    def data_loading(self, step: int | None = None) -> AbstractContextManager[None]:
        """Record the block's wait for data, outside of steps; record nothing if the block raises."""
        return self._stands_still("data_loading", step)

    @contextmanager
    def _stands_still(self, event: str, step: int | None) -> Iterator[None]:
        begun_us = _now_us()
        yield
        lasted_us = max(_now_us() - begun_us, 0)
        self._note(event, begun_us, self._next if step is None else step, lasted_us)

    def failure(self, step: int | None = None) -> None:
        """Record an unplanned end of training; if no step is given, the latest step that began has failed."""
        self._note("failure", _now_us(), self.number if step is None else step)
        self._is_first = True

    def stop(self, step: int | None = None) -> None:
        """Record the final end of training; if no step is given, the latest step that began was completed."""
        self._note("stop", _now_us(), self._next if step is None else step)

    def give_up(self, reason: str) -> None:
        """Stop writing, and warn once."""
        if not self._has_given_up:
            self._has_given_up = True
            warn("run %s: events are no longer written, training continues: %s", self.run.run_id, reason)

    def close(self, timeout_s: float = 10.0) -> None:
        """Wait at most `timeout_s` for the last lines to be written. [s]"""
        self._lines.close(timeout_s)

    @property
    def _next(self) -> int | None:
        return None if self.number is None else self.number + 1

    def _begins(self, event: str, step: int | None) -> None:
        self._is_first = True
        self._note(event, _now_us(), step)

    @never_raises
    def _note(
        self,
        event: str,
        at_us: int,
        step: int | None,
        duration_us: int | None = None,
        day_us: int | None = None,
    ) -> None:
        if self._has_given_up:
            return
        ids = {"format": RUN_EVENTS_FORMAT, "job_id": self.run.job_id, "run_id": self.run.run_id}
        facts = {"event": event, "at_us": at_us, "step": step, "duration_us": duration_us}
        known = {name: value for name, value in facts.items() if value is not None}
        self._lines.put((at_us if day_us is None else day_us, {**ids, **known}))

    def _append(self, event: tuple[int, dict[str, object]], left_out: int) -> None:
        day_us, facts = event
        said = {"left_out": left_out} if left_out else {}
        line = json.dumps({**facts, **said}, separators=(",", ":")).encode() + b"\n"
        log_date = EPOCH + timedelta(microseconds=day_us)
        path = self.run.folder(self.landing, log_date) / "events.jsonl"
        if not (path.parent / "job.json").exists():
            write_manifest(self.landing, self.run, log_date)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            write_whole(descriptor, line if ends_with_newline(descriptor) else b"\n" + line)
        finally:
            os.close(descriptor)


def _now_us() -> int:
    return time.time_ns() // 1000
