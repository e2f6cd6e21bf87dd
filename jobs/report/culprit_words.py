"""Culprits of causes, such as slow workers, in words: which ops are slow, in which steps, by how much."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

from jobs.report import wording
from jobs.report.rows import Row
from schemas.causes import IN_SECONDS
from schemas.vocabulary import COMPUTE_DIRECTIONS, CULPRIT_COURSES, DIRECTION_BOTH, NOT_STATED, OP_TYPES

_PEER: Final = {
    "forward-send": ("forward transfers to", 1),
    "forward-recv": ("forward transfers from", -1),
    "backward-send": ("backward transfers to", -1),
    "backward-recv": ("backward transfers from", 1),
}
"""Transfers between stages: in words, and the other end's stage minus the own stage."""
_UNEVEN_STAGES: Final = "stage_imbalance"
"""Cause whose effects are relative to the mean of all stages, those of its culprits included."""
_DIRECTIONS: Final[dict[str | None, str]] = {
    None: "computes",  # an earlier version did not say
    DIRECTION_BOTH: "forwards and backwards",
    **{name: f"{name}s" for name in COMPUTE_DIRECTIONS},
}
_ALWAYS: Final = CULPRIT_COURSES[0]
_LONGER: Final = {"launch_delay": "late"}
"""What the seconds of a culprit's effect mean, by cause; the step may lose less. The default is "longer"."""
_ENTERED: Final = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
"""Collectives that a slow worker enters late; the effect is the delay as a fraction of the step."""


def culprit_words(
    cause: str,
    culprit: Row,
    steps: int,
    host_pages: Mapping[str, str],
    first_day: date | None = None,
    workers: Sequence[Row] = (),
) -> dict[str, object]:
    """Return all facts that a page or command shows about a culprit, such as a slow worker.

    steps      : number of the unit's recorded steps.
    host_pages : link to the page of a host, by host.
    first_day  : first of the consecutive days on which the run had this culprit; None if it is this day.
    workers    : rows of worker_slowdown of the unit, to find the host at the other end of a slow link.
    """
    host = culprit["slow_host"] or culprit["host"]
    return {
        "where": where(culprit),
        "stage": "all" if culprit["pp_rank"] is None else culprit["pp_rank"],
        "dp_rank": "all" if culprit["dp_rank"] is None else culprit["dp_rank"],
        "rank": wording.MISSING if culprit["rank"] is None else culprit["rank"],
        "host": host or (NOT_STATED if is_worker(culprit) else "several"),
        "page": host_pages.get(host),
        "effect": effect(cause, culprit, workers),
        "course": course(culprit, steps),
        "share_of_steps": culprit["share_of_steps"],
        "since_day": "" if first_day is None else f"since {first_day}",
        "workers": ", ".join(f"{each['pp_rank']} / {each['dp_rank']}" for each in members(culprit)),
    }


def named_culprits(causes: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return pairs of rows: a cause that was found, and one of its culprits, such as a slow worker."""
    return [(row, each) for row in causes if row["is_cause"] for each in row["culprits"]]


def steps_at_onset(causes: Sequence[Row], steps: Sequence[int]) -> tuple[int, int] | None:
    """Return the last step before the costliest culprit became slow, and its first slow step.

    Returns None if all culprits are slow from the first recorded step on. steps : numbers of these steps.
    """
    turned = [
        (row["time_saved_fraction"], place, each["first_step"])
        for place, (row, each) in enumerate(named_culprits(causes))
        if each["course"] != _ALWAYS and each["first_step"] is not None
    ]
    for _, _, first in sorted(turned, key=lambda each: (-each[0], each[1])):
        before = [step for step in steps if step < first]
        if before:
            return max(before), first
    return None


def is_worker(culprit: Row) -> bool:
    """Return whether a culprit is a single worker."""
    return None not in (culprit["pp_rank"], culprit["dp_rank"])


def members(culprit: Row) -> Sequence[Row]:
    """Return the workers of a culprit that is a group; empty for one worker, and for rows of old versions."""
    return culprit["workers"] or ()


def identity(culprit: Row) -> str | None:
    """Return the name of a culprit in the view culprit_history: its host or rack, else stage and dp rank."""
    name: str | None = culprit["slow_host"] or culprit["slow_rack"] or culprit["host"]
    parts = [
        f"{what} {culprit[key]}"
        for what, key in (("stage", "pp_rank"), ("dp rank", "dp_rank"))
        if culprit[key] is not None
    ]
    return name or ", ".join(parts) or None


def where(culprit: Row) -> str:
    """Return the name of a culprit: host, rack, stage or dp rank; for one worker, stage and dp rank too."""
    stage, dp_rank = culprit["pp_rank"], culprit["dp_rank"]
    if is_worker(culprit):
        place = f"stage {stage}, dp rank {dp_rank}"
        return place if culprit["host"] is None else f"{culprit['host']} ({place})"
    if culprit["slow_rack"] is not None:
        return f"rack {culprit['slow_rack']}"
    if culprit["slow_host"] is not None:
        return str(culprit["slow_host"])
    if stage is not None:
        return f"stage {stage}"
    return "several workers" if dp_rank is None else f"dp rank {dp_rank}"


def effect(cause: str, culprit: Row, workers: Sequence[Row] = ()) -> str:
    """Describe how much slower a culprit is, and in which ops; for a slow link, also towards which stage."""
    size, direction = culprit["effect"], culprit["direction"]
    if cause in IN_SECONDS:
        when = "per step" if culprit["course"] == _ALWAYS else "in each such step"
        return (
            f"{wording.seconds(size)} {_LONGER.get(cause, 'longer')} {when}{_link(cause, culprit, workers)}"
        )
    if direction in _ENTERED:
        return f"{direction} entered late by {wording.percent(size)} of a step"
    usual = " as the mean of all stages" if cause == _UNEVEN_STAGES else ""
    return f"{_DIRECTIONS.get(direction, direction)} {wording.ratio(1.0 + size)} times as long{usual}"


def _link(cause: str, culprit: Row, workers: Sequence[Row]) -> str:
    direction, stage, dp_rank = culprit["direction"], culprit["pp_rank"], culprit["dp_rank"]
    if direction == DIRECTION_BOTH and cause == "communication":
        return " in transfers there and back, both together"
    if direction not in OP_TYPES:
        return ""
    if direction not in _PEER or stage is None:
        return f" in {direction}"
    words, step = _PEER[direction]
    stages = max((each["pp_rank"] for each in workers), default=-1) + 1
    if not stages:
        return f" in {words.rpartition(' ')[0]}"
    peer = (stage + step) % stages  # interleaved chunks go on from the last stage to the first
    hosts = {
        each["host"] for each in workers if each["pp_rank"] == peer and dp_rank in (None, each["dp_rank"])
    }
    named = f"{hosts.pop()} (stage {peer})" if len(hosts) == 1 and None not in hosts else f"stage {peer}"
    return f" in {words} {named}"


def course(culprit: Row, steps: int) -> str:
    """Describe since or until which step, or in how many of the unit's `steps`, a culprit is slow."""
    first, last = (_when(culprit, name) for name in ("first", "last"))
    often = f"in {max(round(culprit['share_of_steps'] * steps), 1)} of {wording.counted(steps, 'step')}"
    if culprit["first_step"] is not None and culprit["first_step"] == culprit["last_step"]:
        return f"in step {first} alone"
    words = {
        "always": "always",
        "from": f"since step {first}",
        "until": f"until step {last}",
        "comes_and_goes": f"comes and goes, {often}",
        "grows": f"growing since step {first}",
    }
    return words.get(culprit["course"], str(culprit["pattern"]))


def _when(culprit: Row, which: str) -> str:
    step: int | None = culprit[f"{which}_step"]
    at: datetime | None = culprit[f"{which}_time"]
    return f"{step}" if at is None else f"{step}, {wording.minute(at):%H:%M} UTC"
