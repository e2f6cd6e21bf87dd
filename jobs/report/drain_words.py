"""Describe hosts that may be drained in words, from rows of the view drain."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jobs.report.wording import counted, hours, percent
from schemas.drain import NO_VERDICT

_STATES: Final = {
    "slow_1_day": "slow since its last day",
    "slow_2_or_3_days": "slow for {row[days_slow_in_row]} days in a row",
    "slow_longer": "slow for {row[days_slow_in_row]} days in a row",
    "quiet_after_one": "not slow on its last day, last on {row[last_slow]}",
    "quiet_after_more": "not slow on its last day, slow in {row[spells]} spells before",
}
_VERDICTS: Final = {
    "drain": "yes, even at the low end",
    "probably": "probably",
    "no": "no",
    "unknown": "not known: no GPU-hours stated, or 0",
}


def worth_it(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return the first hosts whose verdict is to drain them, or probably to."""
    return [row for row in rows if row["verdict"] not in NO_VERDICT][:most]


def drain_text(row: Mapping[str, Any], days: int) -> str:
    """Return one sentence: what to do, what it saves and costs, why, and when the answer would be no."""
    certainly = "drain" if row["verdict"] == "drain" else "probably drain"
    return (
        f"{certainly} {row['host']}: {hours(row['expected_gpu_hours'])} GPU-hours expected back in "
        f"{counted(days, 'day')} ({_interval(row)}), for {hours(row['cost_gpu_hours'])}; "
        f"{state(row)}; no if it stays slow for less than {row['break_even_days']:.1f} days"
    )


def state(row: Mapping[str, Any]) -> str:
    """Return how slow a host has been, in words."""
    return _STATES[row["state"]].format(row=row)


def drain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a host's row in the table of hosts to drain."""
    is_known = row["expected_gpu_hours"] is not None
    until = row["break_even_days"]
    alike = counted(row["hosts_alike"], "host") if row["hosts_alike"] else "no host: the prior alone"
    return {
        "host": row["host"],
        "is_worth_it": bool(worth_it([row], 1)),
        "verdict": _VERDICTS[row["verdict"]],
        "expected": f"{hours(row['expected_gpu_hours'])} ({_interval(row)})" if is_known else "",
        "cost": hours(row["cost_gpu_hours"]),
        "chance": f"{percent(row['probability'])} of days, by {alike}",
        "share": _share(row) if is_known else "",
        "state": state(row),
        "until": "" if until is None else f"{until:.1f} days",
    }


def _share(row: Mapping[str, Any]) -> str:
    return f"{percent(row['share_lost'])} of {hours(row['gpu_hours_per_day'])} GPU-hours a day"


def _interval(row: Mapping[str, Any]) -> str:
    return f"{hours(row['expected_low'])} to {hours(row['expected_high'])}"
