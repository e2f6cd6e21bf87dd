"""Start two runs at the same time on one warehouse, and check the warehouse after both.

`python -m tests.together --times 20 --seed 1` starts pairs of nights, backfills, refreshes of late data and
upkeep. After each pair, the tables must be as if the two runs had followed each other. In every second pair,
the second run does not wait for the lock, and may end with the lock's error. The exit status is 1 if a check
failed. With --store, landing and warehouse are in a local S3 server. With --first 7, the series begins with
the seventh pair of the same seed.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from tests.kills import Run, ground, scenario, seen, start
from tests.support.stores import copied, removed

_PAIRS: Final = ((0, 0), (1, 5), (3, 3), (4, 5), (1, 4))
"""Pairs of runs that are started together, as indices of the runs of tests.kills.scenario."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run pairs of commands, each pair at the same time, and print the results; return the exit status."""
    parser = argparse.ArgumentParser(prog="together", description=__doc__)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first pair")
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args(argv)
    started, failures = time.monotonic(), 0
    numbers = range(args.first, args.first + args.times)
    with ground(store=args.store) as (folder, root):
        wanted = 1 + max(max(_pair(number)) for number in numbers)
        runs = list(islice(scenario(folder, root), wanted))
        for number in numbers:
            first, second = (runs[place] for place in _pair(number))
            waits = number % 2 == 1
            apart_s = random.Random(f"{args.seed} {number}").uniform(0.0, 3.0)  # noqa: S311  # not a secret
            wrong = at_a_time(first, second, f"{root}/warehouse-{number}", apart_s, waits=waits)
            failures += bool(wrong)
            how = "waiting" if waits else "not waiting"
            verdict = wrong or "as it should be"
            sys.stdout.write(f"{number} {first.name} and {second.name}, {how}: {verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{args.times} pairs: {failures} wrong, {time.monotonic() - started:.0f} s\n")
    return bool(failures)


def _pair(number: int) -> tuple[int, int]:
    return _PAIRS[(number - 1) % len(_PAIRS)]


def at_a_time(first: Run, second: Run, warehouse: str, apart_s: float, *, waits: bool) -> str:
    """Run two commands at the same time on a copy of a warehouse; return an error, or empty text."""
    copied(first.before, warehouse)
    one = start(first, warehouse)
    time.sleep(apart_s)
    other = start(second, warehouse, *([] if waits else ["--no-wait"]))
    statuses = one.wait(), other.wait()
    if waits and statuses != (0, 0):
        return f"exit statuses {statuses}"
    if not waits and statuses not in {(0, 1), (1, 0), (0, 0)}:
        return f"exit statuses {statuses}"
    is_right = seen(warehouse) == first.states[-1]
    removed(warehouse)
    return "" if is_right else "the tables are not those of two runs in turn"


if __name__ == "__main__":
    sys.exit(main())
