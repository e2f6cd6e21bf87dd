"""Draw jobs with faults of many kinds, diagnose them, and report how often the diagnosis is right."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context

from tests.evaluation.shapes.judge import Judged, judge
from tests.evaluation.shapes.report import is_wrong, listing, markdown, tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.shapes", description=__doc__)
    parser.add_argument(
        "--jobs",
        type=int,
        default=100,
        help="number of jobs; the last digit of a seed decides the job's class",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first job; seeds below 100000 may be used for tuning"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    parser.add_argument(
        "--list-wrong", action="store_true", help="print each job for which the diagnosis is wrong"
    )
    parser.add_argument("--list-all", action="store_true", help="print every job")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.seed, chosen.seed + chosen.jobs)
    began = time.monotonic()
    judged = list(map(judge, seeds)) if chosen.processes == 1 else _in_processes(chosen.processes, seeds)
    if chosen.format == "json":
        print(json.dumps({"tables": tables(judged), "jobs": [asdict(job) for job in judged]}))
        return 0
    print(f"{chosen.jobs} jobs of seeds {seeds[0]} to {seeds[-1]}.\n\n{markdown(tables(judged))}")
    if chosen.list_wrong or chosen.list_all:
        listed = [listing(job) for job in judged if chosen.list_all or is_wrong(job)]
        print("\n## Jobs\n\n```\n" + "\n".join(listed) + "\n```")
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def _in_processes(processes: int, seeds: Sequence[int]) -> list[Judged]:
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(judge, seeds, chunksize=5))


if __name__ == "__main__":
    sys.exit(main())
