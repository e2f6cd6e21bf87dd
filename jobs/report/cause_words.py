"""Causes of one unit in words: time lost and saved, culprits, failed health checks, mitigations, changes."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

import numpy as np

from jobs.report import loss, wording
from jobs.report.culprit_words import culprit_words, identity, members
from jobs.report.links import mitigate_command
from jobs.report.rows import Row, UnitTables
from schemas.causes import IN_SECONDS, JUDGED_BY_HISTORY, OF_CAUSE, OF_FLAG
from schemas.health_tables import NO_DEVICE
from schemas.job_changes import NO_CAUSE, OF_LOST, OF_STEP
from schemas.unit import Unit
from schemas.vocabulary import CAUSE_EVIDENCE, MITIGATIONS

_SHOWN: Final = 8
"""Most culprits of a cause that a page lists."""
_TOGETHER: Final = 0.5
"""Pauses coincide if more than this part of the culprits pause, in the mean of steps in which any pauses."""


def short(row: Row) -> dict[str, object]:
    """Return the title of a cause, and the fraction of time that its fix alone saves."""
    return {"title": OF_CAUSE[row["cause"]].title, "saved": row["time_saved_fraction"]}


def described(row: Row, host_pages: Mapping[str, str], tables: UnitTables) -> dict[str, object]:
    """Return all facts that the page shows about one cause of a unit.

    row        : the unit's row of job_causes for this cause.
    host_pages : link from the job's page to the page of a host, by host.
    tables     : all rows of the unit.
    """
    cause = row["cause"]
    culprits = row["culprits"]
    lost = row["lost_fraction"]
    mitigation = best(tables.further.get(MITIGATIONS, ()), cause)
    return short(row) | {
        "name": cause,
        "advice": _advice(row, tables.workers),
        "lost": None if lost is None else loss.of_unit(lost, row["lost_gpu_hours"]),
        "lost_between": loss.interval(row, "lost_fraction"),
        "alone": loss.of_unit(row["time_saved_fraction"], row["recoverable_gpu_hours"]),
        "alone_between": loss.interval(row, "time_saved_fraction"),
        "flag": OF_FLAG[row["flag_reason"]] if row["flag_reason"] else "",
        "mitigation": "" if mitigation is None else best_text(mitigation),
        "links": _links(row),
        "culprits": [
            culprit_words(
                cause,
                each,
                tables.job["steps"],
                host_pages,
                first_day_of(tables, cause, each),
                tables.workers,
            )
            | {"explained_by": explanations(tables, cause, number)}
            for number, each in enumerate(culprits[:_SHOWN])
        ],
        "more_culprits": max(0, len(culprits) - _SHOWN),
        "evidence": _evidence(row),
    }


def first_day_of(tables: UnitTables, cause: str, culprit: Row) -> date | None:
    """Return the first of the consecutive days with this culprit; None if the unit's day is the first."""
    own = tables.job["log_date"]
    for row in tables.history:
        if row["cause"] == cause and row["culprit"] == identity(culprit) and row["first_day"] < own:
            day: date = row["first_day"]
            return day
    return None


def _advice(row: Row, workers: Sequence[Row]) -> str:
    """Return advice on a cause; for pauses the advice depends on whether culprits pause in the same steps."""
    usual = OF_CAUSE[row["cause"]].advice
    named = [worker for each in row["culprits"] for worker in (members(each) or (each,))]
    places = {(each["dp_rank"], each["pp_rank"]) for each in named}
    slowdowns = [each["step_slowdowns"] for each in workers if (each["dp_rank"], each["pp_rank"]) in places]
    if row["cause"] != "pause" or len(slowdowns) < 2 or None in slowdowns:
        return usual
    excess = np.array(slowdowns) - 1.0
    is_struck = excess > excess.max(axis=1, keepdims=True) / 2
    struck_together = is_struck[:, is_struck.any(axis=0)].mean()
    return usual if struck_together > _TOGETHER else wording.FIX_OF_PAUSES_APART


def _links(row: Row) -> list[str]:
    """Return pairs of hosts whose link is slow at both ends: culprits on neighbouring stages of a replica."""
    if row["cause"] != "communication":
        return []
    hosts = {
        (each["dp_rank"], each["pp_rank"]): each["host"]
        for each in row["culprits"]
        if each["host"] is not None
    }
    pairs = [
        f"{host} (stage {stage}) and {hosts[dp_rank, stage + 1]} (stage {stage + 1})"
        for (dp_rank, stage), host in hosts.items()
        if hosts.get((dp_rank, stage + 1), host) != host
    ]
    return [*dict.fromkeys(pairs)]


def _effect(cause: str, value: float) -> str:
    return wording.seconds(value) if cause in IN_SECONDS else wording.percent(value)


def _evidence(row: Row) -> str:
    """Return the evidence for a cause in words, such as the largest effect and the number of peers."""
    cause, found = row["cause"], dict(row["evidence"])
    parts = []
    if "effect" in found:
        error = f" ± {_effect(cause, found['standard_error'])}" if "standard_error" in found else ""
        parts.append(f"largest effect {_effect(cause, found['effect'])}{error}")
    if "peers" in found:
        parts.append(f"compared with {wording.counted(found['peers'], 'other')}")
    if "samples" in found:
        parts.append(wording.counted(found["samples"], "op"))
    indicator = OF_CAUSE[cause].indicator
    if indicator and "indicator" in found:
        parts.append(
            indicator.format(
                share=wording.percent(found["indicator"]), number=wording.ratio(found["indicator"])
            )
        )
        if "{share}" in indicator and found["indicator"] > 1:
            parts.append(wording.BEYOND_ALL)
    if row["flag_reason"] == JUDGED_BY_HISTORY:
        parts.append(f"this day's logs alone would have given {wording.percent(found['revised_from'])}")
    return "; ".join(parts) or "the replay alone"


MOST_MITIGATIONS: Final = 3
"""Most units of which the summary of a night names the best mitigation."""
ANCHOR: Final = "mitigations"
"""Anchor of the section of a job's page that lists all mitigations."""


def mitigations_of(log_date: date) -> str:
    """Return SQL for the best mitigation of each unit of a day, most GPU-hours saved first."""
    return f"""
        SELECT * FROM (
            SELECT *, row_number() OVER (
                PARTITION BY job_id, run_id ORDER BY time_saved_fraction DESC, mitigation
            ) AS place
            FROM {MITIGATIONS} WHERE log_date = DATE'{log_date}' AND time_saved_fraction > 0
        ) AS placed
        WHERE place = 1
        ORDER BY gpu_hours_saved DESC NULLS LAST, time_saved_fraction DESC, job_id, run_id
        LIMIT {MOST_MITIGATIONS}"""


def mitigation_texts(rows: Sequence[Mapping[str, Any]], warehouse: str) -> list[str]:
    """Return a sentence on the best mitigation of each unit, with the command that shows details."""
    return [
        f"mitigate {row['job_id']}: {best_text(row)}: "
        + mitigate_command(Unit(row["log_date"], row["job_id"], row["run_id"]), warehouse)
        for row in rows
    ]


def best(rows: Sequence[Mapping[str, Any]], cause: str) -> Mapping[str, Any] | None:
    """Return the row of the mitigation of a cause that saves most time; None if no mitigation saves time."""
    of_cause = [row for row in rows if row["cause"] == cause and row["time_saved_fraction"] > 0]
    return max(of_cause, key=lambda row: float(row["time_saved_fraction"]), default=None)


def best_text(row: Mapping[str, Any]) -> str:
    """Return a clause on what a mitigation changes and how much it saves."""
    saved = loss.of_unit(row["time_saved_fraction"], row["gpu_hours_saved"])
    return f"{row['mitigation']} ({row['plan']}) saves {saved}"


def latest_change(rows: Sequence[Row]) -> str:
    """Return a clause on a job's latest change of step time, or else of losses; empty without any change.

    rows : of job_changes, for one job as seen on one day
    """
    for of in (OF_STEP, OF_LOST):
        found = [row for row in rows if row["of"] == of]
        if found:
            latest = max(found, key=lambda row: row["since"])
            return f"Since {latest['since']} {change_words(latest)}"
    return ""


def change_words(row: Row, whose: str = "") -> str:
    """Return a row of job_changes in words.

    whose : " of JOB" if the text around it does not name the job, else empty
    """
    more = row["change"] > 0
    if row["of"] == OF_STEP:
        size = f"a step{whose} takes {wording.percent(abs(row['change']))} {'longer' if more else 'less'}"
        levels = f"{wording.seconds(row['before'])} before, {wording.seconds(row['after'])} since"
    else:
        size = f"{'more' if more else 'less'} of the step is lost"
        levels = f"{wording.percent(row['before'])} before, {wording.percent(row['after'])} since"
    named = row["cause"] if row["cause"] in (None, NO_CAUSE) else OF_CAUSE[row["cause"]].words
    also = f"; what else changed then: {', '.join(row['also'])}" if row["also"] else ""
    return f"{size} ({levels}){f': {named}' if named else ''}{also}"


_SHOWN_CHECKS: Final = 3
"""Most failed checks that a page lists for a culprit; those that chance explains least come first."""


def explanations(tables: UnitTables, cause: str, number: int) -> list[str]:
    """Return one sentence for each failed health check that explains why a culprit of a unit is slow.

    number : index of the culprit in the cause's list of culprits
    """
    rows = [
        row
        for row in tables.further.get(CAUSE_EVIDENCE, ())
        if row["explains"] and (row["cause"], row["culprit"]) == (cause, number)
    ]
    texts = []
    for row in sorted(rows, key=lambda row: row["chance"])[:_SHOWN_CHECKS]:
        device = "" if row["device"] == NO_DEVICE else f" {row['device']}"
        begin = f"{wording.minute(row['first_at']):%Y-%m-%d %H:%M UTC}"
        since = f"since before {begin}" if row["began_before"] else f"since {begin}"
        slow, other = (
            f"{row[f'{name}_host_days_with']} of {row[f'{name}_host_days']}" for name in ("slow", "other")
        )
        texts.append(
            f"{row['host']}, {row['component']}{device}: {row['check_name']} ({row['severity']}) {since}; "
            f"fails on {slow} host-days that are slow and {other} that are not"
        )
    return texts
