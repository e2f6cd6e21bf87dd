"""Measure how much host time the emitter costs a training job: `python -m tests.benchmarks.emitter`.

The cost is measured for one op, and for a training loop of realistic length. Ops of the loop sleep, as if
they waited for a GPU. The size of the log is printed too.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from jobs.emitter import Rank, RankLogWriter, Recorder, Run
from jobs.emitter.megatron import RankLogTimers

OPS: Final = 1_000
STEPS: Final = 50

LOOP_OPS: Final = 160
LOOP_STEPS: Final = 8
LOOP_STEP_S: Final = 2.0
"""Most steps of large jobs take longer, so the emitter's share of their time is smaller."""
EVERY: Final = 10
"""One step in ten is recorded."""


def cost_us(train: Callable[[int], None], steps: range) -> float:
    """Return the time of a step whose ops do no work, divided by the number of ops. [us]

    The median over the steps is returned.
    """
    costs = []
    for number in steps:
        began = time.perf_counter_ns()
        train(number)
        costs.append((time.perf_counter_ns() - began) / OPS / 1000)
    return sorted(costs)[len(costs) // 2]


def ops_alone(writer: RankLogWriter) -> None:
    """Print the emitter's time per op [us] in recorded and in unrecorded steps, by recorder and by timers."""
    with Recorder(writer, every=1000, burst=STEPS) as recorder:
        timers = RankLogTimers(None, recorder)

        def by_recorder(number: int) -> None:
            with recorder.step(number):
                for _ in range(OPS):
                    with recorder.op("forward-compute"):
                        pass

        def by_timers(number: int) -> None:
            recorder.begin(number)
            for _ in range(OPS):
                timers("forward-send", log_level=2).start()
                timers("forward-send").stop()
            recorder.end()

        for name, train in (("recorder.op", by_recorder), ("Megatron's timers", by_timers)):
            recorded, skipped = cost_us(train, range(STEPS)), cost_us(train, range(500, 500 + STEPS))
            sys.stdout.write(f"{name}: {recorded:.1f} us an op, {skipped:.1f} us in steps not recorded\n")


def busy_s(step: Callable[[], None]) -> float:
    """Return the CPU time that the calling thread, which is the training's, uses in a step. [s]"""
    began = time.thread_time()
    step()
    return time.thread_time() - began


def loop_with_waits(writer: RankLogWriter) -> None:
    """Print the CPU time that recording one step in EVERY adds to a training loop whose ops sleep.

    Recorded steps, skipped steps and steps without a recorder take turns, and medians are compared, because
    the machine may be busy with other work.
    """
    wait_s = LOOP_STEP_S / LOOP_OPS
    names = ("forward-compute", "forward-send", "backward-compute", "backward-recv")
    bare: list[float] = []
    by_kind: dict[bool, list[float]] = {True: [], False: []}
    with Recorder(writer, every=EVERY) as recorder:

        def step(number: int) -> None:
            with recorder.step(number):
                for place in range(LOOP_OPS):
                    with recorder.op(names[place % len(names)], microbatch=place // len(names)):
                        time.sleep(wait_s)

        def without() -> None:
            for place in range(LOOP_OPS):
                with nullcontext(names[place % len(names)]):
                    time.sleep(wait_s)

        for number in range(0, LOOP_STEPS * EVERY, EVERY):
            bare.append(busy_s(without))
            by_kind[True].append(busy_s(partial(step, number)))
            by_kind[False].append(busy_s(partial(step, number + 1)))
    recorded_s, skipped_s = (median(by_kind[kind]) - median(bare) for kind in (True, False))
    share = (recorded_s + (EVERY - 1) * skipped_s) / (EVERY * LOOP_STEP_S)
    sys.stdout.write(
        f"a loop of {LOOP_OPS} ops in {LOOP_STEP_S} s: {1e3 * recorded_s:.2f} ms a recorded step, "
        f"{1e3 * skipped_s:.2f} ms another; with one of {EVERY} recorded {share:.3%}\n"
    )


def main() -> None:
    """Print all measured costs, and the size of a recorded step's log line, plain and compressed. [bytes]"""
    with tempfile.TemporaryDirectory() as landing:
        ops_alone(RankLogWriter(landing, Run("j", "ops", dp_size=1), Rank(0, 0)))
        for is_packed in (False, True):
            run = Run("gpt-175b", f"loop-{is_packed}", dp_size=1)
            writer = RankLogWriter(landing, run, Rank(17, 4, 1), compress=is_packed)
            loop_with_waits(writer)
            (log,) = Path(landing).rglob(f"run_id={run.run_id}/rank-*")
            size = log.stat().st_size / LOOP_STEPS
            sys.stdout.write(f"{log.suffix}: {size:,.0f} bytes a recorded step of {LOOP_OPS} ops\n")


if __name__ == "__main__":
    main()
