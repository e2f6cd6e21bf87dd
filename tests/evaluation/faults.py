"""Compare what the views drain and host_record assume about repeated failures with a log of real failures.

`python -m tests.evaluation.faults --log fault_trace.json` reads a list of events, each with node_id,
event_time in days, and event_type fault_start or fault_end. The public log has 584 faults of 400 hosts over
348 days. Because its faults are failures, the log shows how often a repaired host fails again, but not how
long slowness lasts.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from schemas.vocabulary import WORKER_SLOWDOWN, Exit
from tests.evaluation.drain_fleets import Warehouse
from tests.evaluation.report import FORMATS, Section, rendered
from tests.support.examples import table_rows

AFTER: Final = ((0.0, 1.0), (1.0, 8.0), (8.0, 31.0))
"""Ranges of days after a repair; the view drain assumes the probability of the second range."""
WEEK: Final = 7
MOST_EARLY: Final = 3
"""Hosts with at least this number of faults in the first half of the log are one group."""
FIRST: Final = date(2026, 1, 1)


class Fault(NamedTuple):
    """A period in which a host was down, in days since the log began; overlapping faults are merged."""

    host: str
    start: float
    end: float


class Quiet(NamedTuple):
    """The time between a host's n-th repair and its next fault, or the end of the log if no fault follows."""

    faults: int
    days: float
    failed: bool


def read(path: Path) -> list[Fault]:
    """Read the faults of a log, sorted by host and start."""
    events = json.loads(path.read_text())
    found, down = [], dict[str, list[float]]()
    for event in sorted(events, key=lambda each: (each["event_time"], each["event_type"] == "fault_start")):
        host, at = event["node_id"], float(event["event_time"])
        starts = down.setdefault(host, [])
        if event["event_type"] == "fault_start":
            starts.append(at)
        elif starts:
            first = starts[0]
            starts.pop()
            if not starts:
                found.append(Fault(host, first, at))
    return sorted(found)


def quiet_times(faults: Sequence[Fault], until: float) -> Iterator[Quiet]:
    """Yield, for each repair, how long the host then stayed up; `until` is the end of the log. [days]"""
    for place, fault in enumerate(faults):
        number = sum(each.host == fault.host for each in faults[: place + 1])
        following = faults[place + 1] if place + 1 < len(faults) else None
        if following is not None and following.host == fault.host:
            yield Quiet(number, following.start - fault.end, failed=True)
        else:
            yield Quiet(number, until - fault.end, failed=False)


def chances(times: Sequence[Quiet]) -> pd.DataFrame:
    """Daily probability of another fault, by number of faults so far and days since the last repair."""
    rows = []
    for name, is_meant in (("one", lambda n: n == 1), ("more", lambda n: n > 1), ("any", lambda _: True)):
        chosen = [each for each in times if is_meant(each.faults)]
        row: dict[str, Any] = {"faults before": name, "repairs": len(chosen)}
        for low, high in AFTER:
            again = sum(each.failed and low < each.days <= high for each in chosen)
            at_risk = sum(max(min(each.days, high) - low, 0.0) for each in chosen)
            row[f"day {low:.0f} to {high:.0f}"] = again / at_risk if at_risk else float("nan")
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_chance(faults: Sequence[Fault], hosts: Sequence[str], weeks: int) -> set[str]:
    """Return hosts with is_beyond_chance in host_record, if a host is slow in each week in which it fails."""
    slow = {(int(each.start // WEEK), each.host) for each in faults}
    struck = sorted({week for week, _ in slow if week < weeks})
    rows = [
        {"log_date": FIRST + timedelta(WEEK * week), "job_id": f"week {week}", "run_id": "r1", "host": host}
        | {"pp_rank": place, "is_slowest": (week, host) in slow, "slowdown": 1.5}
        for week in struck
        for place, host in enumerate(hosts)
    ]
    warehouse = Warehouse()
    warehouse.add({WORKER_SLOWDOWN: [table_rows(WORKER_SLOWDOWN, rows)]})
    return set(warehouse.ask("SELECT host FROM host_record WHERE is_beyond_chance")["host"])


def recurrence(faults: Sequence[Fault], hosts: int, until: float, draws: int, seed: int) -> pd.DataFrame:
    """Count the hosts beyond chance in the log, and the shuffled logs that have any such host.

    One row is for the whole log, and one for its first half.
    """
    names = sorted({each.host for each in faults})
    names += [f"never {number}" for number in range(hosts - len(names))]
    rng, rows = np.random.default_rng(seed), []
    for part, days in (("all", until), ("first half", until / 2)):
        seen = [each for each in faults if each.start < days]
        weeks = int(days // WEEK) + 1
        by_chance = [_moved(seen, rng.choice(names, len(seen)).tolist()) for _ in range(draws)]
        wrong = sum(bool(beyond_chance(each, names, weeks)) for each in by_chance)
        most = pd.Series([each.host for each in seen]).value_counts().iloc[0]
        named = len(beyond_chance(seen, names, weeks))
        rows.append({"part": part, "faults": len(seen), "most of a host": most, "beyond chance": named,
                     "fleets of chance with any named [%]": 100 * wrong / draws})  # fmt: skip
    return pd.DataFrame(rows)


def _moved(faults: Sequence[Fault], hosts: Sequence[str]) -> list[Fault]:
    return [each._replace(host=str(host)) for each, host in zip(faults, hosts, strict=True)]


def later(faults: Sequence[Fault], hosts: int, until: float) -> pd.DataFrame:
    """Mean number of faults per host in the second half of the log, by the number in the first half."""
    early, late = (
        pd.Series([each.host for each in faults if (each.start < until / 2) == is_early]).value_counts()
        for is_early in (True, False)
    )
    silent = hosts - len({each.host for each in faults})
    of_host = pd.DataFrame({"early": early, "late": late}).fillna(0)
    groups = of_host["early"].clip(upper=MOST_EARLY).astype(int)
    counts = groups.value_counts().add(pd.Series({0: silent}), fill_value=0).sort_index()
    summed = of_host["late"].groupby(groups).sum().reindex(counts.index, fill_value=0)
    return pd.DataFrame(
        {"faults in the first half": counts.index, "hosts": counts.to_numpy().astype(int),
         "later faults a host": (summed / counts).to_numpy()}
    )  # fmt: skip


@command(
    "tests.evaluation.faults",
    option("--log FILE", "log of faults, as JSON", Path, required=True),
    option("--hosts N", "hosts of the fleet, including those that never failed", positive, default=400),
    option("--draws N", "random logs, in which faults strike by chance", positive, default=40),
    option("--seed S", "of these", not_negative, default=0),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Print how often the hosts of a log fail again, and how many of them host_record marks."""
    faults = read(args.log)
    until = max(each.end for each in faults)
    prior = chances(list(quiet_times(faults, until)))
    test = recurrence(faults, args.hosts, until, args.draws, args.seed)
    heading = f"{len(faults)} faults of {args.hosts} hosts over {until:.0f} days."
    sections = [
        Section(
            "Chance a day of the next fault",
            "The table shows the daily probability of the next fault, by earlier faults of the host and by "
            "days since the repair.",
            prior,
        ),
        Section("Hosts beyond chance", "Each week of the log counts as one job on all hosts.", test),
        Section(
            "The second half",
            f"In the first column, {MOST_EARLY} stands for {MOST_EARLY} or more faults.",
            later(faults, args.hosts, until),
        ),
    ]
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
