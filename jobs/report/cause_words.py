"""Causes of one unit in words: what fixing saves, who causes it, and on what that rests."""

from typing import Final

from jobs.report import wording
from jobs.report.rows import Row
from schemas.vocabulary import JUDGED_BY_HISTORY

_SHOWN: Final = 8
"""Culprits that are listed."""
_IN_SECONDS: Final = ("pause", "launch_delay")
"""Causes whose effect is seconds lost per step that they strike; of others a share of the usual time."""


def short(row: Row) -> dict[str, object]:
    """Title of a cause and what its fix alone saves."""
    return {"title": wording.CAUSE_WORDS[row["cause"]].title, "saved": row["time_saved_fraction"]}


def told(row: Row) -> dict[str, object]:
    """Everything that the page says of a cause that holds."""
    cause = row["cause"]
    culprits = row["culprits"]
    return short(row) | {
        "fix": wording.CAUSE_WORDS[cause].fix,
        "recoverable": row["recoverable_gpu_hours"],
        "flag": wording.FLAG_WORDS[row["flag_reason"]] if row["flag_reason"] else "",
        "effect_name": "lost per step" if cause in _IN_SECONDS else "longer than usual",
        "culprits": [_culprit(cause, each) for each in culprits[:_SHOWN]],
        "more_culprits": max(0, len(culprits) - _SHOWN),
        "evidence": _evidence(row),
    }


def _culprit(cause: str, culprit: Row) -> dict[str, object]:
    return {
        "stage": "all" if culprit["pp_rank"] is None else culprit["pp_rank"],
        "dp_rank": "all" if culprit["dp_rank"] is None else culprit["dp_rank"],
        "rank": wording.MISSING if culprit["rank"] is None else culprit["rank"],
        "host": culprit["host"] or wording.MISSING,
        "effect": _effect(cause, culprit["effect"]),
        "share_of_steps": culprit["share_of_steps"],
        "pattern": culprit["pattern"],
    }


def _effect(cause: str, value: float) -> str:
    return wording.seconds(value) if cause in _IN_SECONDS else wording.percent(value)


def _evidence(row: Row) -> str:
    """What the row rests on, as one line; a number that does not exist is not mentioned."""
    cause, found = row["cause"], dict(row["evidence"])
    parts = []
    if "effect" in found:
        error = f" ± {_effect(cause, found['standard_error'])}" if "standard_error" in found else ""
        parts.append(f"largest effect {_effect(cause, found['effect'])}{error}")
    if "peers" in found:
        parts.append(f"compared with {wording.number(found['peers'])} others")
    if "samples" in found:
        parts.append(f"{wording.number(found['samples'])} ops")
    indicator = wording.CAUSE_WORDS[cause].indicator
    if indicator and "indicator" in found:
        parts.append(f"the paper's {indicator} is {wording.ratio(found['indicator'])}")
    if row["flag_reason"] == JUDGED_BY_HISTORY:
        parts.append(f"this day alone would have said {wording.percent(found['revised_from'])}")
    return "; ".join(parts) or "the replay alone"
