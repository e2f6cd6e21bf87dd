"""Describe causes that are new or gone in words, from rows of the view cause_news."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from jobs.report.wording import hours, percent, short_title

_OUTCOMES: Final = {
    "came": "as predicted",
    "part": "less than predicted",
    "did_not_come": "not what was predicted",
    "not_alone": "and another cause is new on that day",
}
MOST_NEWS: Final = 5
"""News that are said one by one, of what is new and of what is gone."""
_MOST_CULPRITS: Final = 3


def news_of(log_date: date) -> str:
    """Return the query for causes that are new or gone on a day."""
    return f"SELECT * FROM cause_news WHERE log_date = DATE'{log_date}'"


def outcomes_of(log_date: date) -> str:
    """Return the query for what the fixes of a day saved."""
    return f"SELECT * FROM fix_outcome WHERE log_date = DATE'{log_date}'"


def outcome_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on what the fixes of a day saved, those of most GPU-hours first."""
    return [
        f"fixed: {' and '.join(short_title(cause) for cause in row['causes'])} in {row['job_id']}: "
        f"a step is {percent(row['came_fraction'])} shorter, "
        f"for {percent(row['predicted_fraction'])} predicted: {_OUTCOMES[row['verdict']]}"
        for row in rows[:MOST_NEWS]
    ]


def news_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on new and gone causes, most GPU-hours first, and the number left out."""
    texts = []
    for change in ("new", "gone"):
        chosen = [row for row in rows if row["change"] == change]
        texts += [_text(row) for row in chosen[:MOST_NEWS]]
        if len(chosen) > MOST_NEWS:
            texts.append(f"{change}: and {len(chosen) - MOST_NEWS} more")
    return texts


def _text(row: Mapping[str, Any]) -> str:
    culprits = row["culprits"] or ()
    more = [f"{len(culprits) - _MOST_CULPRITS} more"] if len(culprits) > _MOST_CULPRITS else []
    where = f" ({', '.join([*culprits[:_MOST_CULPRITS], *more])})" if culprits else ""
    share = percent(row["lost_fraction"])
    known = row["lost_gpu_hours"] is not None
    amount = f"{hours(row['lost_gpu_hours'])} GPU-hours ({share})" if known else f"{share} of the time"
    said = f"loses {amount}" if row["change"] == "new" else f"lost {amount} on {row['day_before']}"
    return f"{row['change']}: {short_title(row['cause'])} in {row['job_id']}{where} {said}"
