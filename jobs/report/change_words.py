"""Changes of a job over its days, in words."""

from collections.abc import Sequence

from jobs.report import wording
from jobs.report.rows import Row
from schemas.job_changes import NO_CAUSE, OF_LOST, OF_STEP


def latest_change(rows: Sequence[Row]) -> str:
    """Say since when steps take another time, or else more or less is lost; empty where nothing changed.

    rows : of job_changes, of one job and day
    """
    for of in (OF_STEP, OF_LOST):
        found = [row for row in rows if row["of"] == of]
        if found:
            return _words(max(found, key=lambda row: row["since"]))
    return ""


def _words(row: Row) -> str:
    more = row["change"] > 0
    if row["of"] == OF_STEP:
        size = f"a step takes {wording.percent(abs(row['change']))} {'longer' if more else 'less'}"
        levels = f"{wording.seconds(row['before'])} before, {wording.seconds(row['after'])} since"
    else:
        size = f"{'more' if more else 'less'} of the step is lost"
        levels = f"{wording.percent(row['before'])} before, {wording.percent(row['after'])} since"
    named = row["cause"] if row["cause"] in (None, NO_CAUSE) else wording.short_title(row["cause"])
    also = f"; what else changed then: {', '.join(row['also'])}" if row["also"] else ""
    return f"Since {row['since']} {size} ({levels}){f': {named}' if named else ''}{also}"
