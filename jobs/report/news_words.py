"""News in words: new and gone causes, changed step times, units not analysed, hosts to drain or to keep."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from jobs.report.cause_words import change_words
from jobs.report.culprit_words import course, identity
from jobs.report.loss import why_in_no_figure
from jobs.report.wording import counted, hours, listed, percent
from schemas.causes import OF_CAUSE
from schemas.drain import NO_VERDICT
from schemas.job_changes import OF_STEP
from schemas.vocabulary import JOB_CHANGES, Status

_OUTCOMES: Final = {
    "came": "as predicted",
    "part": "less than predicted",
    "did_not_come": "not what was predicted",
    "not_alone": "another cause is new or loses more, and may hide it",
}
"""Words for the verdicts of the view fix_outcome."""
MOST_NEWS: Final = 5
"""Most sentences of each kind of news: new causes, gone causes, changed step times, outcomes of fixes."""
_MOST_UNITS: Final = 5
"""Most units without an analysis that have a sentence each."""
_SAID_ELSEWHERE: Final = (Status.ANALYSED, Status.FAILED, Status.BAD_LAYOUT, Status.TOO_MANY_RESTARTS)
"""Statuses without such a sentence: the unit is in the fleet's figures, or has a warning of another kind."""
_MOST_CULPRITS: Final = 3
"""Most culprits or hosts that one sentence names."""
_ONSETS: Final = ("from", "grows")
"""Courses of culprits that become slow within the day and stay slow to its end."""


def news_of(log_date: date) -> str:
    """Return SQL for the causes that began or ended on a day, by rows of the view cause_news."""
    return f"SELECT * FROM cause_news WHERE log_date = DATE'{log_date}'"


def outcomes_of(log_date: date) -> str:
    """Return SQL for the time saved by each fix that took effect on a day, by rows of fix_outcome."""
    return f"SELECT * FROM fix_outcome WHERE log_date = DATE'{log_date}'"


def outcome_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on what up to MOST_NEWS fixes saved, from rows of fix_outcome."""
    texts = []
    for row in rows[:MOST_NEWS]:
        said = "fixed or hidden" if row["verdict"] == "not_alone" else "fixed"
        causes = " and ".join(OF_CAUSE[cause].words for cause in row["causes"])
        texts.append(
            f"{said}: {causes} in {row['job_id']}: a step is {percent(row['came_fraction'])} shorter, "
            f"for {percent(row['predicted_fraction'])} predicted: {_OUTCOMES[row['verdict']]}"
        )
    return texts


def news_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for up to MOST_NEWS new and as many gone causes, and the number of others."""
    texts = []
    for change in ("new", "gone"):
        chosen = [row for row in rows if row["change"] == change]
        texts += [news_text(row) for row in chosen[:MOST_NEWS]]
        if len(chosen) > MOST_NEWS:
            texts.append(f"{change}: and {len(chosen) - MOST_NEWS} more")
    return texts


def step_changes_of(log_date: date) -> str:
    """Return SQL for the jobs whose step time changed lastingly on this day, largest change first."""
    return f"""
        SELECT * FROM {JOB_CHANGES}
        WHERE log_date = DATE'{log_date}' AND since = log_date AND of = '{OF_STEP}'
        ORDER BY abs(change) DESC, job_id, run_id
    """


def step_change_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for up to MOST_NEWS changes of step time, and the number of other changes."""
    texts = [f"changed: {change_words(row, ' of ' + row['job_id'])}" for row in rows[:MOST_NEWS]]
    more = len(rows) - MOST_NEWS
    return [*texts, *([f"changed: and {more} more (straggler changes)"] if more > 0 else [])]


def with_onsets(row: Mapping[str, Any], culprits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row of cause_news that also says since which step of the day each culprit is slow.

    culprits : those of the row of job_causes of the same unit and cause.
    """
    onsets = {
        identity(each): f", {course(each, 0)}"
        for each in culprits
        if each["course"] in _ONSETS and each["first_step"] is not None
    }
    return {**row, "culprits": [f"{name}{onsets.get(name, '')}" for name in row["culprits"] or ()]}


def news_text(row: Mapping[str, Any]) -> str:
    """Return a sentence on a new or gone cause, from a row of cause_news."""
    where = f" ({_listed(row['culprits'])})" if row["culprits"] else ""
    share = percent(row["lost_fraction"])
    known = row["lost_gpu_hours"] is not None
    amount = f"{hours(row['lost_gpu_hours'])} GPU-hours ({share})" if known else f"{share} of the time"
    said = f"loses {amount}" if row["change"] == "new" else f"lost {amount} on {row['day_before']}"
    return f"{row['change']}: {OF_CAUSE[row['cause']].words} in {row['job_id']}{where} {said}"


def _listed(names: Sequence[str]) -> str:
    return listed(names, _MOST_CULPRITS)


def not_analysed_of(log_date: date) -> str:
    """Return SQL for units of a day that the fleet's figures leave out, those with most GPU-hours first."""
    left_out = ", ".join(f"'{status}'" for status in _SAID_ELSEWHERE)
    return f"""
        SELECT job_id, run_id, status, status_detail, count(*) OVER () AS units FROM job_slowdown
        WHERE log_date = DATE'{log_date}' AND status NOT IN ({left_out})
        ORDER BY gpu_hours DESC NULLS LAST, job_id, run_id
        LIMIT {_MOST_UNITS}
    """


def not_analysed_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on each unit of `rows`, and how many more units the fleet's figures leave out.

    rows : the answer to not_analysed_of.
    """
    texts = [f"job {row['job_id']}, run {row['run_id']}: {why_in_no_figure(row)}" for row in rows]
    more = rows[0]["units"] - len(rows) if rows else 0
    return [*texts, *([f"and {counted(more, 'more unit')} that the figures leave out"] if more else [])]


_STATES: Final = {
    "slow_1_day": "slow on one day, its last",
    "slow_2_or_3_days": "slow for {row[days_slow_in_row]} days in a row",
    "slow_longer": "slow for {row[days_slow_in_row]} days in a row",
    "quiet_after_one": "not slow on its last day, last slow on {row[last_slow]}",
    "quiet_after_more": "not slow on its last day, slow in {row[spells]} spells before",
}
"""Words for the states of the view drain."""
_CLOCK: Final = slice(11, 16)
"""Place of hours and minutes in a time as text, such as 2026-01-05 13:59:00."""
_ALL_OF: Final = 0.95
"""If a drain alone saves less than this part of a host's loss, a sentence says how much it saves."""
_VERDICTS: Final = {
    "drain": "yes, even at the low end",
    "probably": "probably",
    "no": "no",
    "unknown": "not known: no GPU-hours stated, or 0",
}


def advised(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of hosts worth a drain; of hosts that should be drained together, only the first."""
    chosen: list[Mapping[str, Any]] = []
    named: set[str] = set()
    for row in rows:
        others = _others(row)
        if row["verdict"] in NO_VERDICT or (others and row["host"] in named):
            continue
        chosen.append(row)
        named.update([row["host"], *others] if others else [])
    return chosen


def _others(row: Mapping[str, Any]) -> list[str]:
    """Return the other hosts to drain together with a host; empty if draining them together would not pay."""
    pays = row["together_hosts"] and (row["together_gpu_hours"] or 0.0) > row["together_cost_gpu_hours"]
    return list(row["together_hosts"]) if pays and row["verdict"] not in NO_VERDICT else []


def drain_texts(rows: Sequence[Mapping[str, Any]], days: int, most: int) -> list[str]:
    """Return a sentence for up to `most` hosts that are worth a drain, and the number of further hosts.

    Hosts to drain together have one sentence and count as one.

    days : number of days of the forecast. most : most sentences
    """
    chosen = advised(rows)
    more = len(chosen) - most
    texts = [drain_text(row, days) for row in chosen[:most]]
    return [*texts, *([f"drain: and {more} more (straggler drain)"] if more > 0 else [])]


def drain_text(row: Mapping[str, Any], days: int) -> str:
    """Return a sentence on a host: what to do, what that saves and costs, and when it would not pay."""
    certainly = "drain" if row["verdict"] == "drain" else "probably drain"
    others = _others(row)
    expected, bounds, rest = _figures(row)
    who = f"{row['host']} together with {_listed(others)}" if others else row["host"]
    cost, until = row[f"{rest}cost_gpu_hours"], row[f"{rest}break_even_days"]
    stays = "they stay" if others else "it stays"
    return (
        f"{certainly} {who}: {hours(row[expected])} GPU-hours expected back in "
        f"{counted(days, 'day')} ({_interval(row, bounds)}), at a cost of {hours(cost)}; "
        f"{state(row)}; not worth it if {stays} slow for less than {until:.1f} days"
    )


def _figures(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the column of a drain's expected saving, and the prefixes of its bound and cost columns.

    They are those of the host alone, or of all hosts together that are to be drained with it.
    """
    if _others(row):
        return "together_gpu_hours", "together_", "together_"
    return "expected_gpu_hours", "expected_", ""


def kept_text(row: Mapping[str, Any]) -> str:
    """Return why not to drain a host that is healthy again or runs no job; empty for other hosts."""
    is_kept = row["slow_until_step"] is not None or row["is_idle"]
    return f"do not drain {row['host']} now: {state(row)}" if is_kept and row["verdict"] == "no" else ""


def state(row: Mapping[str, Any]) -> str:
    """Describe on which days a host was slow, and which other hosts may be at fault or limit the saving."""
    if row["slow_until_step"] is None:
        slow = _STATES[row["state"]].format(row=row)
    else:  # it became healthy again within its last day
        at = row["slow_until_time"]
        when = "" if at is None else f", {str(at)[_CLOCK]} UTC"
        spells = f", slow in {row['spells']} spells" if row["spells"] > 1 else ""
        slow = f"healthy again: slow until step {row['slow_until_step']}{when}, of {row['last_slow']}{spells}"
    if row["is_idle"]:
        slow += f"; no job used it on {row['as_of_day']}, the last one on {row['last_served']}"
    lost, saved = row["share_lost"], row["share_saved"]
    if lost is not None and saved < _ALL_OF * lost:
        part = f"of the {percent(lost)} lost to it a drain alone saves {percent(saved)}"
        slow += f"; {part}: another cause hides the rest"
    others = _others(row)
    if others:
        alone = "draining it alone may save little or nothing (straggler what-if)"
        slow += f"; slow in one job with {_listed(others)}: {alone}"
    if beside := [host for host in row["beside_hosts"] or () if host not in others]:
        slow += (
            f"; in the last 7 days slow in one job with {_listed(beside)}: the saving that is "
            "expected is its part, and draining it alone may save less (straggler what-if)"
        )
    if not row["link_hosts"]:
        return slow
    both = f", {hours(row['link_gpu_hours'])} GPU-hours" if row["link_gpu_hours"] is not None else ""
    return (
        f"{slow}; one end of the slow link to {', '.join(row['link_hosts'])}: drain one end first. If the "
        "fault is at another end, that saves nothing: the saving that is expected is the part of this end; "
        f"draining all ends saves all{both}"
    )


def drain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a host in the table of hosts to drain, from a row of the view drain."""
    is_known = row["expected_gpu_hours"] is not None
    others = _others(row)
    expected, bounds, rest = _figures(row)
    until = row[f"{rest}break_even_days"]
    alike = counted(row["hosts_alike"], "host") if row["hosts_alike"] else "no host: the prior alone"
    return {
        "host": row["host"],
        "is_worth_it": row["verdict"] not in NO_VERDICT,
        "verdict": _VERDICTS[row["verdict"]] + (f", together with {_listed(others)}" if others else ""),
        "expected": f"{hours(row[expected])} ({_interval(row, bounds)})" if is_known else "",
        "cost": hours(row[f"{rest}cost_gpu_hours"]),
        "chance": f"{percent(row['probability'])} of days, by {alike}",
        "share": f"{percent(row['share_saved'])} of {hours(row['gpu_hours_per_day'])} GPU-hours a day"
        if is_known
        else "",
        "state": state(row),
        "until": "" if until is None else f"{until:.1f} days",
    }


def drain_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells of each host; of hosts to drain together, is_worth_it is true for the first only."""
    chosen = advised(rows)
    return [{**drain_row(row), "is_worth_it": any(row is each for each in chosen)} for row in rows]


def _interval(row: Mapping[str, Any], which: str) -> str:
    return f"{hours(row[f'{which}low'])} to {hours(row[f'{which}high'])}"
