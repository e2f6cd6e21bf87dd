"""Fix effect: compare days before and after the date of a fix, for a job, host, team or setting.

`straggler fix-effect --date 2026-03-02 --team research --label sequence_balancing=on` compares the mean waste
of the team's analysed units before and after the date, with an interval for the difference. For a host, waste
is what its slowest worker alone causes. The interval treats jobs as independent, each represented by the mean
of its units; for a single job it treats the units (one run on one day) as independent. Another row compares
all other units, or, for a host, the other hosts of its jobs: a change there too was not caused by the fix.
Nothing is written.
"""

import sys
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.before_after import UNITS, Comparison, comparisons
from jobs.report import wording
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, log_date, option, positive, probability
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.nearest import suggestion
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import QuestionError, Reader
from schemas.table import sql_strings
from schemas.vocabulary import JOBS, UNIT_KEY, WORKER_SLOWDOWN

WINDOW_DAYS: Final = 28
CONFIDENCE: Final = 0.95
_OF_UNITS: Final = "; a unit is one run on one day"
_KEY: Final = ", ".join(UNIT_KEY)
_WHICH_DAYS: Final = "min(log_date) AS first, max(log_date) AS last, count(DISTINCT log_date) AS days"
_MEANS: Final = "means are of waste, 1 - 1/slowdown, which is not what is lost; an effect below 0 is a saving"


def run(reader: Reader, args: Arguments) -> list[Comparison]:
    """Compare the waste of units before the date with that from the date on, within the window of days.

    Raises QuestionError for an unknown job, team or host; for a job or team without analysed units in the
    window; and for a host that served no job in the window.
    """
    of_window = "log_date BETWEEN DATE'{}' AND DATE'{}'".format(*_window(args))
    _check(reader, args, of_window)
    units, value, hours = "job_days", "waste_fraction", "gpu_hours"
    if args.host is not None:
        units = f"job_days JOIN ({_of_host(args.host, of_window)}) USING ({_KEY})"
        value, hours = "wasted_by_slowest", "CAST(NULL AS DOUBLE)"
    has_label = "CAST(NULL AS BOOLEAN)"
    if args.label is not None:
        key, wanted = (sql_strings([each]) for each in args.label)
        has_label = f"coalesce(labels[{key}] = {wanted}, false)"
    found = reader.rows(
        f"SELECT job_id, log_date, {value} AS value, {hours} AS gpu_hours, "
        f"coalesce({_is_chosen(args)}, false) AS is_chosen, {has_label} AS has_label "
        f"FROM {units} WHERE is_analysed AND {of_window} ORDER BY job_id, log_date, is_chosen"
    )
    rows = found.to_pylist()
    if args.host is None and not any(row["is_chosen"] for row in rows):
        found = reader.rows(f"SELECT {_WHICH_DAYS} FROM job_days WHERE is_analysed AND {_is_chosen(args)}")
        (known,) = found.to_pylist()
        of_team = "" if args.team is None else f" of team {args.team}"
        says = f"no job{of_team} was analysed"
        says = says if args.job_id is None else f"job {args.job_id} was not analysed"
        on = "some were on" if args.job_id is None else "it was on"
        others = f"; {on} {_days(known)}" if known["days"] else ", nor on any other day"
        raise QuestionError(f"{says} {_in_window(args)}{others}")
    return comparisons(rows, args.date, args.confidence, are_hosts=args.host is not None)


def _window(args: Arguments) -> tuple[date, date]:
    """Return the window's first and last day: args.days before the date, and args.days from the date on."""
    return args.date - timedelta(days=args.days), args.date + timedelta(days=args.days - 1)


def _check(reader: Reader, args: Arguments, of_window: str) -> None:
    """Raise QuestionError for a job or team without any row, or a host without a row in the window."""
    for name in ("job_id", "team"):
        asked = getattr(args, name)
        if asked is None:
            continue
        rows = reader.rows(f"SELECT DISTINCT {name} FROM {JOBS} WHERE {name} IS NOT NULL ORDER BY {name}")
        known = rows[name].to_pylist()
        if asked not in known:
            raise QuestionError(f"no {name.removesuffix('_id')} {asked}: {suggestion(asked, known)}")
    if args.host is not None:
        is_host = f"host = {sql_strings([args.host])}"
        found = reader.rows(f"SELECT host FROM {WORKER_SLOWDOWN} WHERE {is_host} AND {of_window} LIMIT 1")
        if not found.num_rows:
            rows = reader.rows(
                f"SELECT host, {_WHICH_DAYS} FROM {WORKER_SLOWDOWN} "
                "WHERE host IS NOT NULL GROUP BY host ORDER BY host"
            )
            served = {row["host"]: row for row in rows.to_pylist()}
            if args.host not in served:
                raise QuestionError(f"no host {args.host}: {suggestion(args.host, list(served))}")
            on = _days(served[args.host])
            raise QuestionError(
                f"host {args.host} served no replayed job {_in_window(args)}; it served on {on}"
            )


def _in_window(args: Arguments) -> str:
    first, last = _window(args)
    days = "the day" if args.days == 1 else f"the {wording.counted(args.days, 'day')}"
    return f"from {first} to {last}, {days} on each side of {args.date}"


def _days(known: Mapping[str, Any]) -> str:
    """Return a text such as `3 days, 2026-01-05 to 2026-01-09`."""
    first, last = known["first"], known["last"]
    return f"{first}" if first == last else f"{wording.counted(known['days'], 'day')}, {first} to {last}"


def _of_host(host: str, of_window: str) -> str:
    """Return SQL for the waste of the host, and of the other hosts, in each unit that the host served.

    A host's waste in a unit is 1 - 1/slowdown by its slowest worker alone. Each unit has a row of this host
    and a row with host null, the mean over its other hosts.
    """
    of_host = f"IF(host = {sql_strings([host])}, host, NULL)"
    return (
        f"WITH by_host AS (SELECT {_KEY}, host, 1 - 1 / max(slowdown) AS by_slowest FROM {WORKER_SLOWDOWN} "
        f"WHERE host IS NOT NULL AND {of_window} GROUP BY {_KEY}, host) "
        f"SELECT {_KEY}, {of_host} AS host, avg(by_slowest) AS wasted_by_slowest FROM by_host "
        f"JOIN (SELECT {_KEY} FROM by_host WHERE host = {sql_strings([host])}) USING ({_KEY}) "
        f"GROUP BY {_KEY}, {of_host}"
    )


def _is_chosen(args: Arguments) -> str:
    """Return an SQL condition that is true for rows to which the fix applies."""
    asked = {name: getattr(args, name) for name in ("job_id", "team", "host")}
    wanted = [f"{name} = {sql_strings([value])}" for name, value in asked.items() if value is not None]
    return " AND ".join(wanted) or "true"


def _row(found: Comparison) -> dict[str, object]:
    """Return a comparison as a row of the answer.

    saved_gpu_hours are the GPU-hours after the fix times the drop in waste; null if no effect is proven.
    """
    difference, hours = found.difference, found.gpu_hours_after
    is_known = hours is not None and difference.is_clear
    return {
        "compared": found.compared,
        "trials": found.trials,
        "before": difference.count_before,
        "after": difference.count_after,
        "mean_before": difference.before,
        "mean_after": difference.after,
        "effect": difference.effect,
        "low": difference.low,
        "high": difference.high,
        "saved_gpu_hours": -(difference.effect or 0.0) * (hours or 0.0) if is_known else None,
        "verdict": found.verdict,
    }


def _label(text: str) -> tuple[str, str]:
    key, is_there, value = text.partition("=")
    if not (key and is_there):
        raise ValueError(f"{text!r} is not a label such as sequence_balancing=on")
    return key, value


@reader_entry_point(
    "fix_effect",
    option("--date DATE", "first day with the fix, such as 2026-01-05", log_date, required=True),
    option("--job-id JOB", "only this job"),
    option("--team TEAM", "only jobs of this team"),
    option("--host HOST", "only this host, by the waste that its slowest worker alone causes"),
    option("--fleet", "all jobs"),
    option(
        "--label KEY=VALUE", "compare units with this label after the date to units without it before", _label
    ),
    option("--days N", "number of days on each side of --date", positive, default=WINDOW_DAYS),
    option("--confidence P", "confidence level of the interval", probability, default=CONFIDENCE),
    FORMAT,
    AS_LISTS,
    one_of=("job_id", "team", "host", "fleet"),
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Compare days before and after the date of a fix, and print whether the fix helped.

    mean_before and mean_after are the mean waste, 1 - 1/slowdown: the share of the replayed time that a job
    with ideal ops would not need.
    """
    found = run(reader, args)
    rows = [_row(each) for each in found]
    columns = list(rows[0])
    values = [list(row.values()) for row in rows]
    write(Result(columns, values), args.format, sys.stdout, as_lists=args.as_lists)
    if args.format is None:
        complain_fitting(_MEANS + (_OF_UNITS if any(each.trials == UNITS for each in found) else ""))


if __name__ == "__main__":
    sys.exit(main())
