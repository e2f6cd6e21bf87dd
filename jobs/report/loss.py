"""Losses in words, in GPU-hours if jobs state them and else in per cent of time; bars of the waterfall."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.report import wording
from jobs.report.culprit_words import course, where
from jobs.report.rows import FleetTables, Row
from schemas.causes import OF_CAUSE, OF_FLAG
from schemas.job_causes import HOURS_OF
from schemas.vocabulary import CAUSE_UNEXPLAINED, REPLAYED_STATUSES, Status


class Measure(NamedTuple):
    """Names of the columns that measure a fleet's loss, in GPU-hours or in time.

    lost, of : columns of the loss and of the whole that it is a part of; both may be summed over units.
    unit     : unit after a number; empty if only shares are shown.
    amounts  : column of the view waterfall with the same measure.
    """

    lost: str
    of: str
    unit: str
    amounts: str


HOURS: Final = Measure("lost_gpu_hours", "lost_of_gpu_hours", "GPU-hours", "gpu_hours")
TIME: Final = Measure("lost_s", "analysed_s", "", "seconds")


def measure_of(tables: FleetTables) -> Measure:
    """Choose GPU-hours as the measure, or time if no analysed unit of the period states GPU-hours."""
    totals = tables.totals.to_pylist()
    return TIME if not totals or totals[0]["analysed_gpu_hours"] is None else HOURS


def amount(lost: float | None, of: float | None, measure: Measure) -> str:
    """Return a loss in words: in GPU-hours, or as a fraction of the time.

    lost, of : values of the columns of the loss and of the whole, which `measure` names
    """
    if measure is HOURS or lost is None:
        return f"{wording.hours(lost)} GPU-hours" if measure is HOURS else wording.MISSING
    return f"{wording.percent(lost / of)} of the time" if of else wording.MISSING


def of_unit(fraction: float | None, gpu_hours: float | None) -> str:
    """Return the loss of a unit or part of it, as GPU-hours and fraction, or the fraction alone."""
    if fraction is None:
        return wording.MISSING
    share = wording.percent(fraction)
    return f"{share} of the time" if gpu_hours is None else f"{wording.hours(gpu_hours)} GPU-hours ({share})"


def interval(row: Mapping[str, Any], fraction: str) -> str:
    """Return the ends of the 90 % interval of a loss or saving; empty if there is no interval.

    fraction : column of the loss or saving, such as lost_fraction
    """
    hours = HOURS_OF[fraction]
    if row.get(f"{hours}_low") is not None:
        return f"{wording.hours(row[f'{hours}_low'])} to {wording.hours(row[f'{hours}_high'])}"
    if row.get(f"{fraction}_low") is None:
        return ""
    return f"{wording.percent(row[f'{fraction}_low'])} to {wording.percent(row[f'{fraction}_high'])}"


def share(row: Mapping[str, Any], measure: Measure) -> float | None:
    """Return the lost fraction, by the two columns that `measure` names; None if either is unknown."""
    lost, of = row[measure.lost], row[measure.of]
    return lost / of if of and lost is not None else None


def unexplained(causes: Sequence[Row], steps: int) -> str:
    """Return sentences on the loss that no cause explains; empty if there is none.

    causes : the unit's rows of job_causes. steps : number of its recorded steps.
    """
    for row in causes:
        if row["cause"] == CAUSE_UNEXPLAINED and row["lost_fraction"]:
            flag = row["flag_reason"]
            uncertain = f" Uncertain: {OF_FLAG[flag]}." if flag else ""
            lost = of_unit(row["lost_fraction"], row["lost_gpu_hours"])
            what = "to causes that are too small or without evidence, or that no fix removes"
            return f"{lost} lost, {what}.{uncertain}{_behind_others(causes, row['lost_fraction'], steps)}"
    return ""


def _behind_others(causes: Sequence[Row], unexplained_fraction: float, steps: int) -> str:
    """Return sentences on hidden causes that make up at least half of the unexplained loss; else empty.

    Their fixes alone save less than is attributed to them, because other causes hide them.
    """
    hidden = [
        row
        for row in causes
        if not row["is_cause"] and row["time_saved_fraction"] < row["attributed_fraction"] and row["culprits"]
    ]
    parts = [row["attributed_fraction"] for row in hidden]
    large = [row for row, part in zip(hidden, parts, strict=True) if part >= max(parts) / 2]
    together = sum(row["attributed_fraction"] for row in large)
    if not large or together < unexplained_fraction / 2:
        return ""
    worst = [(OF_CAUSE[row["cause"]].words, row["culprits"][0]) for row in large]
    named = " and ".join(f"{words} ({where(each)}, {course(each, steps)})" for words, each in worst)
    alone = wording.percent(max(row["time_saved_fraction"] for row in large))
    if len(large) == 1:
        return (
            f" Most of it is measured: {named}. Its fix alone saves {alone} of the time, too little to be a "
            f"cause{_after_others(causes, large[0])}."
        )
    return (
        f" Most of it is measured: {named}, which hide each other. The fix of one alone saves at most "
        f"{alone} of the time, too little to be a cause; their part of what all fixes save together is "
        f"{wording.percent(together)}."
    )


def _after_others(causes: Sequence[Row], hidden: Row) -> str:
    """Return a clause if a cause's fix saves more after the fixes of other causes than alone; else empty.

    If only two fixes change each other's saving, a fix's attributed fraction is the mean of its savings
    before and after the other fix, from which the saving after it follows. With more fixes, only the
    attributed fraction is known.
    """
    held = [row for row in causes if row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED]
    alone, part = hidden["time_saved_fraction"], hidden["attributed_fraction"]
    if wording.percent(alone) == wording.percent(part):
        return ""
    named = " and ".join(OF_CAUSE[row["cause"]].words for row in held) or "all others"
    said = f"; after the fix of {named} it saves more"
    others = [row for row in causes if row is not hidden and row not in held]
    if len(held) == 1 and all(
        abs(row["attributed_fraction"] - row["time_saved_fraction"]) < _LEAST_SHOWN for row in others
    ):
        return f"{said}: {wording.percent(2 * part - alone)}"
    return (
        f"{said}: its part of what all fixes save together is {wording.percent(part)}, which is a share, not "
        "what its fix then saves"
    )


def headline(job: Row) -> str:
    """Return a sentence on what the unit lost, or on why the fleet's figures do not include the unit.

    job : the unit's row of job_days.
    """
    lost = job["lost_fraction"]
    if job["status"] != Status.ANALYSED:
        why = why_in_no_figure(job)
        return f"{why[0].upper()}{why[1:]}."
    if lost is None:
        return "What it lost is not known, because an earlier version simulated this day."
    step, fixed = (wording.seconds(job["actual_step_s"] * part) for part in (1, 1 - lost))
    if job["gpu_hours"] is not None:
        hours = f"{wording.hours(job['lost_gpu_hours'])} of its {wording.hours(job['gpu_hours'])} GPU-hours"
    elif refused := [each for each in job.get("refused_claims") or () if each.startswith(_HOURS)]:
        hours = f"its stated GPU-hours are not believed ({refused[0]})"
    else:
        hours = "its GPU-hours are not stated"
    return (
        f"A step takes {step}, {wording.ratio(1 / (1 - lost))} times the {fixed} with nothing lost: "
        f"{wording.percent(lost)} of its time is lost, {hours}."
    )


def why_in_no_figure(job: Mapping[str, Any]) -> str:
    """Return a clause on why the fleet's figures do not include a unit.

    job : the unit's row of job_slowdown or job_days, with any status but analysed.
    """
    status, detail = Status(job["status"]), job["status_detail"] or ""
    is_replayed = status in REPLAYED_STATUSES
    what = "analysed, but outside the fleet's figures" if is_replayed else "not analysed"
    if detail.startswith("job.json is"):  # the words of the status say that there is no job.json
        return f"{what}: {detail}"
    return f"{what}: {status.words}{f' ({detail})' if detail else ''}"


def not_used(job: Row) -> list[str]:
    """Return the refused claims of a job's manifest or logs, except those about GPU-hours."""
    return [each for each in job.get("refused_claims") or () if not each.startswith(_HOURS)]


_HOURS: Final = "gpu_hours"
"""Beginning of an entry of refused_claims that is about GPU-hours."""
_WORDS: Final = {
    "recorded": "recorded",
    "nothing_lost": "with nothing lost",
    "to_paper_ideal": "to the paper's ideal",
    "ideal": "at the paper's ideal",
    "outside_steps": "outside steps that stayed: outages, start-ups, checkpoints, steps done again",
    "not_known": "not known, because no event states it",
    "productive": "productive",
}
"""Words for the figures of the view waterfall that are not causes; OF_CAUSE has those of causes."""
_AT_LEAST: Final = "productive at least; what is not known may be productive, too"
_LEAST_SHOWN: Final = 0.0005
"""Least part of the recorded time for a bar: a smaller one would be shown as 0.0 %."""
_ROUNDED: Final = 0.5
"""Amount from which a small part has a bar too: it changes a rounded total, and what is shown must add up."""
_WIDTH: Final = 100.0
"""Width of the bar of the recorded time, in units of the SVG."""


def waterfall(rows: Iterable[Mapping[str, Any]], amounts: str) -> list[dict[str, Any]]:
    """Return the bars of the waterfall: name, amount and fraction in words, start and length.

    rows    : rows of the view waterfall of one unit or of a fleet, in any order.
    amounts : column with the amounts, gpu_hours or seconds.
    If productive time is not known, as without events, the waterfall ends at the ideal.
    """
    chain = sorted(rows, key=lambda row: int(row["place"]))
    known = {row["figure"]: row for row in chain if row[amounts] is not None}
    recorded = known["recorded"][amounts] if "recorded" in known else None
    if not recorded:
        return []
    if "productive" not in known:
        known = {name: row for name, row in known.items() if name not in {"outside_steps", "not_known"}}
    drawn: list[dict[str, Any]] = []
    left = 1.0
    least = min(_LEAST_SHOWN, _ROUNDED / recorded)
    words = _WORDS
    if "not_known" in known and known["not_known"][amounts] / recorded >= least:
        words = _WORDS | {"productive": _AT_LEAST}
    printed = _printed([(row[amounts], row["is_total"]) for row in known.values()], least * recorded)
    for (name, row), shown in zip(known.items(), printed, strict=True):
        share = row[amounts] / recorded
        if not row["is_total"] and abs(share) < least:
            left -= share
            continue
        ends = (0.0, share) if row["is_total"] else (left - share, left)
        left = share if row["is_total"] else left - share
        is_more = not row["is_total"] and share < 0
        low, high = (min(max(each, 0.0), 1.0) for each in sorted(ends))
        drawn.append(
            {
                "figure": name,
                "title": words.get(name) or OF_CAUSE[name].words,
                "is_total": row["is_total"],
                "amount": shown,
                "share": f"{'+' if is_more else ''}{wording.percent(share if row['is_total'] else -share)}",
                "x": round(_WIDTH * low, 2),
                "width": round(max(_WIDTH * (high - low), 0.3), 2),
            }
        )
    return drawn


def _printed(chain: Sequence[tuple[float, bool]], least: float) -> list[str]:
    """Return the bars' amounts as texts with equal decimals, so that printed changes add up to totals.

    chain : amounts, and whether each is a total. least : smaller changes are not shown
    """
    digits = wording.three_digits(chain[0][0])
    shown = _in_units(chain, least, digits)
    is_far = any(
        abs(unit / 10**digits - amount) > max(0.5 / 10**digits, 0.1 * abs(amount))
        for (amount, is_total), unit in zip(chain, shown, strict=True)
        if not is_total and abs(amount) >= least
    )
    if is_far:
        digits += 1
        shown = _in_units(chain, least, digits)
    texts = [f"{abs(unit) / 10**digits:,.{digits}f}" for unit in shown]
    signs = [
        "" if is_total else "+" if (unit or amount) < 0 else "-"
        for (amount, is_total), unit in zip(chain, shown, strict=True)
    ]
    return [sign + text for sign, text in zip(signs, texts, strict=True)]


def _in_units(chain: Sequence[tuple[float, bool]], least: float, digits: int) -> list[int]:
    """Return amounts as integers, in units of the last decimal; changes are differences of rounded totals."""
    scale = 10**digits
    found = [0] * len(chain)
    left, printed, last = 0.0, 0, None
    for place, (amount, is_total) in enumerate(chain):
        if is_total:
            total = round(amount * scale)
            if last is not None:  # the last shown change also gets the changes that are not shown
                found[last] += printed - total
            found[place] = printed = total
            left, last = amount, None
        else:
            left -= amount
            if abs(amount) >= least:
                found[place] = printed - round(left * scale)
                printed, last = round(left * scale), place
    return found
