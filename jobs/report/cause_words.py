"""Causes of one unit in words: time lost, time saved by a fix, and culprits."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import numpy as np

from jobs.report import loss, wording
from jobs.report.culprit_words import IN_SECONDS, culprit_words, identity, members
from jobs.report.health_words import explanations
from jobs.report.mitigation_words import best, best_text
from jobs.report.rows import Row, UnitTables
from schemas.vocabulary import JUDGED_BY_HISTORY, MITIGATIONS

_SHOWN: Final = 8
"""Culprits that are listed."""
_PAUSE: Final = "pause"
_TOGETHER: Final = 0.5
"""Pauses coincide where a step that one strikes strikes more than this part of the culprits."""


def short(row: Row) -> dict[str, object]:
    """Title of a cause, and the time that its fix alone saves, as a fraction."""
    return {"title": wording.CAUSE_WORDS[row["cause"]].title, "saved": row["time_saved_fraction"]}


def described(row: Row, host_pages: Mapping[str, str], tables: UnitTables) -> dict[str, object]:
    """All facts that the page shows of a cause that holds.

    host_pages : where the page of a host lies, from the job's page.
    tables     : of the unit: whether pauses coincide shows in the steps of its workers.
    """
    cause = row["cause"]
    culprits = row["culprits"]
    lost = row["lost_fraction"]
    return short(row) | {
        "name": cause,
        "fix": _fix(row, tables.workers),
        "lost": None if lost is None else loss.of_unit(lost, row["lost_gpu_hours"]),
        "lost_between": loss.interval(row, "lost_fraction"),
        "alone": loss.of_unit(row["time_saved_fraction"], row["recoverable_gpu_hours"]),
        "alone_between": loss.interval(row, "time_saved_fraction"),
        "flag": wording.FLAG_WORDS[row["flag_reason"]] if row["flag_reason"] else "",
        "mitigation": _mitigation(tables, cause),
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


def _mitigation(tables: UnitTables, cause: str) -> str:
    """Return the best that can be done about a cause, as one clause; empty where nothing saves any time."""
    found = best(tables.further.get(MITIGATIONS, ()), cause)
    return "" if found is None else best_text(found)


def first_day_of(tables: UnitTables, cause: str, culprit: Row) -> date | None:
    """First of the consecutive days on which the run named a culprit; None if that is the unit's own day."""
    own = tables.job["log_date"]
    for row in tables.history:
        if row["cause"] == cause and row["culprit"] == identity(culprit) and row["first_day"] < own:
            day: date = row["first_day"]
            return day
    return None


def _fix(row: Row, workers: Sequence[Row]) -> str:
    """Return what to do about a cause; for pauses, also whether culprits pause in different steps."""
    usual = wording.CAUSE_WORDS[row["cause"]].fix
    named = [worker for each in row["culprits"] for worker in (members(each) or (each,))]
    places = {(each["dp_rank"], each["pp_rank"]) for each in named}
    slowdowns = [each["step_slowdowns"] for each in workers if (each["dp_rank"], each["pp_rank"]) in places]
    if row["cause"] != _PAUSE or len(slowdowns) < 2 or None in slowdowns:
        return usual
    excess = np.array(slowdowns) - 1.0
    is_struck = excess > excess.max(axis=1, keepdims=True) / 2
    struck_together = is_struck[:, is_struck.any(axis=0)].mean()
    return usual if struck_together > _TOGETHER else wording.FIX_OF_PAUSES_APART


def _links(row: Row) -> list[str]:
    """Links with slow transfers at both ends: culprits on neighbouring stages of a replica."""
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
    """Evidence of a cause on one line, without numbers that do not exist."""
    cause, found = row["cause"], dict(row["evidence"])
    parts = []
    if "effect" in found:
        error = f" ± {_effect(cause, found['standard_error'])}" if "standard_error" in found else ""
        parts.append(f"largest effect {_effect(cause, found['effect'])}{error}")
    if "peers" in found:
        parts.append(f"compared with {wording.counted(found['peers'], 'other')}")
    if "samples" in found:
        parts.append(wording.counted(found["samples"], "op"))
    indicator = wording.CAUSE_WORDS[cause].indicator
    if indicator and "indicator" in found:
        parts.append(
            indicator.format(
                share=wording.percent(found["indicator"]), number=wording.ratio(found["indicator"])
            )
        )
        if "{share}" in indicator and found["indicator"] > 1:
            parts.append(wording.BEYOND_ALL)
    if row["flag_reason"] == JUDGED_BY_HISTORY:
        parts.append(f"this day alone would have said {wording.percent(found['revised_from'])}")
    return "; ".join(parts) or "the replay alone"
