"""What the emitter costs a training job per op, on the host's clock: `python -m tests.benchmarks.emitter`."""

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Final

from jobs.emitter import Rank, RankLogWriter, Recorder, Run
from jobs.emitter.megatron import RankLogTimers

OPS: Final = 1_000
STEPS: Final = 50


def cost_us(train: Callable[[int], None], steps: range) -> float:
    """Median time of a step by the number of its ops. [us]"""
    costs = []
    for number in steps:
        began = time.perf_counter_ns()
        train(number)
        costs.append((time.perf_counter_ns() - began) / OPS / 1000)
    return sorted(costs)[len(costs) // 2]


def main() -> None:
    """Print the cost of an op, recorded and not, through a recorder alone and through Megatron's timers."""
    with tempfile.TemporaryDirectory() as landing:
        writer = RankLogWriter(landing, Run("j", "r", dp_size=1), Rank(0, 0))
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


if __name__ == "__main__":
    main()
