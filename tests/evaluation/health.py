"""Evaluate how often failed health checks correctly explain slow hosts, on fleets with sick hosts.

`python -m tests.evaluation.health --seed S` prints the tables. Jobs are generated, recorded and diagnosed.
Health checks are written as lines of a log, read and merged into spans of time, which are then matched with
the slow hosts that the diagnosis found. Seeds 0 to 99,999 may be used for tuning; seeds from 1,000,000 on are
kept for evaluation.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from jobs.landing.formats.health import Check, Event, read_event
from jobs.landing.formats.rows import Bounds
from jobs.landing.health.read_day import spans_of
from jobs.landing.health.source import record
from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.mechanisms.mechanism import Window
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.tables import TABLES
from schemas.vocabulary import HOST_HEALTH, JOB_CAUSES, Exit
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from tests.support.random_jobs import generate_job
from tests.udfs.test_health import by_day
from udfs.health.evidence import cause_evidence
from udfs.what_if import simulate_job

FIRST: Final = date(2026, 1, 5)
SHAPE: Final = JobShape(dp_size=4, pp_size=2, tp_size=8, microbatches=4, steps=16)
"""Each worker runs on its own host."""
_HOURS: Final = 10
_TELLING: Final = ("throttle_thermal", "pcie_width", "ecc_uncorrected", "xid_63", "drained")
_IDLE: Final = ("disk_full", "clock_drift", "fan")
_KINDS: Final = {"precedes": 0.35, "coincides": 0.25, "clock apart": 0.15, "missing": 0.25}
"""When a check begins to fail relative to the sickness of its host, with the probability of each way."""
_US: Final = timedelta(microseconds=1)


class Spell(NamedTuple):
    """A host's sickness on one day, and the kind of health check that reports it."""

    host: str
    log_date: date
    begins: datetime | None
    from_: datetime
    kind: str
    check: str


class Fleet(NamedTuple):
    """Rows of a generated fleet's tables, with the true sicknesses and the unrelated failed checks."""

    causes: pa.Table
    hosts: pa.Table
    health: pa.Table
    spells: list[Spell]
    unrelated: set[tuple[str, str, datetime]]


def drawn_fleet(seed: int, days: int, jobs: int) -> Fleet:
    """Draw a fleet of jobs on separate hosts; in every second job one host becomes sick."""
    rng = np.random.default_rng([seed, 37])
    causes, hosts, spells, lines = [], [], [], []
    unrelated: set[tuple[str, str, datetime]] = set()
    often = rng.uniform(0.02, 0.15)
    for age in range(days):
        day = FIRST + timedelta(days=age)
        for number in range(jobs):
            own = [f"node-{number:03d}-{place}" for place in range(SHAPE.dp_size * SHAPE.pp_size)]
            hosts += [{"log_date": day, "host": host} for host in own]
            rows, spell = _unit(rng, day, number, own)
            causes.append(rows)
            if spell is not None:
                spells.append(spell)
                lines += list(_telling(rng, spell))
            for host in own:
                if rng.random() < often:
                    unrelated.add(_unrelated(rng, day, host, lines))
    health = _ingested(lines)
    return Fleet(pa.concat_tables(causes), pa.Table.from_pylist(hosts), health, spells, unrelated)


def _unit(
    rng: np.random.Generator, day: date, number: int, hosts: list[str]
) -> tuple[pa.Table, Spell | None]:
    """Simulate one job on one day; return its rows of job_causes, and the sickness of its host, if any."""
    seed, is_sick = int(rng.integers(1 << 30)), rng.random() < 0.5
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    begins = midnight + timedelta(hours=rng.uniform(1, 12))
    first = int(rng.choice([0, *range(4, 12)])) if is_sick else 0
    host = str(rng.choice(hosts))
    fault = SickHost(host, rng.uniform(1.2, 2.0), window=Window(first))
    # Each day is a separate run, because the sick host of a day is unrelated to that of the day before.
    identity = JobIdentity(
        f"job-{number:03d}", f"r-{day}", first_t0_us=(begins - datetime(1970, 1, 1, tzinfo=UTC)) // _US,
        hosts=hosts, recorded_s=_HOURS * 3600.0, fields={"gpu_hours": 640.0},
    )  # fmt: skip
    job = generate_job(SHAPE, [fault] if is_sick else [], seed, identity)
    found = simulate_job(job.rank_steps, job.manifest)[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")
    unit = {"log_date": day, "job_id": identity.job_id, "run_id": identity.run_id}
    causes = pa.Table.from_pylist([unit | row for row in found], TABLES[JOB_CAUSES].arrow_schema)
    if not is_sick:
        return causes, None
    starts = sorted(set(job.rank_steps["t0_us"].to_pylist()))
    at = {step: datetime.fromtimestamp(t0 / 1e6, UTC) for step, t0 in _step_starts(job.rank_steps).items()}
    from_ = at[sorted(at)[first]] if first else datetime.fromtimestamp(starts[0] / 1e6, UTC)
    kind = str(rng.choice(list(_KINDS), p=list(_KINDS.values())))
    return causes, Spell(host, day, from_ if first else None, from_, kind, str(rng.choice(_TELLING)))


def _step_starts(rank_steps: pa.Table) -> dict[int, int]:
    found: dict[int, int] = {}
    for step, t0 in zip(rank_steps["step"].to_pylist(), rank_steps["t0_us"].to_pylist(), strict=True):
        found[step] = min(t0, found.get(step, t0))
    return found


def _telling(rng: np.random.Generator, spell: Spell) -> Iterator[bytes]:
    """Yield log lines of the check that reports a sickness; none if the sickness is unreported."""
    if spell.kind == "missing":
        return
    early_s = (
        rng.uniform(60, 3600) if spell.kind == "precedes" or spell.begins is None else rng.uniform(-30, 30)
    )
    begin = spell.from_ - timedelta(seconds=early_s)
    if spell.kind == "clock apart":
        begin += timedelta(seconds=rng.uniform(-90, 90))
    end = min(begin + timedelta(hours=rng.uniform(2, 8)), _midnight_after(spell.log_date))
    yield from _lines(rng, spell.host, spell.check, begin, end)


def _unrelated(
    rng: np.random.Generator, day: date, host: str, lines: list[bytes]
) -> tuple[str, str, datetime]:
    """Add the lines of a check that fails on a host for no reason; return (host, check, begin)."""
    check = str(rng.choice([*_TELLING, *_IDLE]))
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=rng.uniform(0, 23.9))
    end = min(begin + timedelta(hours=float(np.exp(rng.uniform(-4, 2.5)))), _midnight_after(day))
    lines += _lines(rng, host, check, begin, end)
    return host, check, begin


def _lines(
    rng: np.random.Generator, host: str, check: str, begin: datetime, end: datetime
) -> Iterator[bytes]:
    """Yield lines of a failing check: its start and end, only its start, samples, or rapid changes."""
    way = rng.integers(4)
    if way == 0:
        states = [(begin, "starts"), (end, "ends")]
    elif way == 1:
        states = [(begin, "starts")]
    elif way == 2:
        minutes = int((end - begin) / timedelta(minutes=1)) + 1
        states = [(begin + timedelta(minutes=n), "sample") for n in range(minutes)]
    else:
        flaps = [begin + timedelta(seconds=n / 10) for n in range(200)]
        states = [(at, ("starts", "ends")[n % 2]) for n, at in enumerate(flaps)] + [
            (begin + timedelta(seconds=20), "starts"), (end, "ends"),
        ]  # fmt: skip
    for at, state in states:
        yield json.dumps(record(at, host, "gpu", check, state, "warning", index=3)).encode()


def _midnight_after(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC)


def _ingested(lines: list[bytes]) -> pa.Table:
    """Return the rows of host_health that the given lines yield, day by day."""
    events: dict[tuple[date, Check], list[Event]] = {}
    for line in lines:
        day = datetime.fromisoformat(json.loads(line)["time"]).date()
        check, event = read_event(line, day, Bounds())
        events.setdefault((day, check), []).append(event)
    rows = [
        {"log_date": day, **row}
        for (day, check), some in events.items()
        for row in spans_of(check, some, "health.jsonl")
    ]
    return pa.Table.from_pylist(rows, TABLES[HOST_HEALTH].arrow_schema)


def judge(seed: int, days: int = 4, jobs: int = 6) -> tuple[list[Row], Row]:
    """Draw a fleet; return one row per sick host, and counts of right and of wrong explanations."""
    fleet = drawn_fleet(seed, days, jobs)
    log_dates = sorted({spell.log_date for spell in fleet.spells})
    evidence = cause_evidence(by_day(fleet.health), fleet.causes, fleet.hosts, log_dates, 14).to_pylist()
    named = [row for row in evidence if row["explains"]]
    by_host: dict[tuple[str, date], list[dict[str, Any]]] = {}
    for row in named:
        by_host.setdefault((row["host"], row["log_date"]), []).append(row)
    held = {
        (each["host"] or each["slow_host"], row["log_date"])
        for row in fleet.causes.to_pylist()
        if row["is_cause"]
        for each in row["culprits"]
    }
    rows: list[Row] = []
    right = set()
    for spell in fleet.spells:
        own = by_host.get((spell.host, spell.log_date), [])
        good = [row for row in own if row["check_name"] == spell.check and spell.kind != "missing"]
        right |= {id(row) for row in good}
        rows.append(
            {
                "seed": seed,
                "begins": "within the record" if spell.begins is not None else "before it",
                "health": spell.kind,
                "is_found": (spell.host, spell.log_date) in held,
                "is_named": bool(good),
            }
        )
    beside = {
        (row["host"], row["check_name"], row["first_at"]) for row in named if id(row) not in right
    } & fleet.unrelated
    wrong = sum(id(row) not in right for row in named)
    return rows, {
        "named": len(named), "wrong": wrong, "unrelated": len(fleet.unrelated),
        "unrelated_named": len(beside),
    }  # fmt: skip


def judged_fleets(first: int, fleets: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the recall by delay between sickness and failing check, and the totals over all fleets."""
    results = [judge(seed) for seed in range(first, first + fleets)]
    spells = pd.DataFrame([row for rows, _ in results for row in rows])
    found = spells[spells.is_found]
    recall = found.groupby(["begins", "health"], as_index=False).agg(
        culprits=("seed", "size"), explained=("is_named", "sum")
    )
    recall["explained [%]"] = 100 * recall.explained / recall.culprits
    counts = pd.DataFrame([each for _, each in results]).sum()
    knowable = found[(found.begins == "within the record") & (found.health != "missing")]
    totals = {
        "sick hosts": len(spells),
        "found": len(found),
        "knowable": len(knowable),
        "recall [%]": 100 * knowable.is_named.mean(),
        "named": counts["named"],
        "precision [%]": 100 * (1 - counts["wrong"] / max(counts["named"], 1)),
        "unrelated": counts["unrelated"],
        "unrelated named [%]": 100 * counts["unrelated_named"] / max(counts["unrelated"], 1),
    }
    return recall, pd.DataFrame([totals])


@command(
    "tests.evaluation.health",
    option("--fleets N", "fleets", positive, default=20),
    option("--seed S", "seed of the first fleet", not_negative, required=True),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Measure how often failed health checks explain slow hosts correctly on generated fleets."""
    recall, totals = judged_fleets(args.seed, args.fleets)
    knowable = "A culprit is knowable if its host fell sick within the record and has health that says so."
    sections = [
        Section("All fleets", knowable, totals),
        Section("Culprits by their health", "", recall),
    ]
    heading = f"{args.fleets} fleets of seeds {args.seed} to {args.seed + args.fleets - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
