"""Losses in words, in GPU-hours if jobs state GPU-hours, else in per cent of time; and the waterfall."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.report import wording
from jobs.report.culprit_words import course, where
from jobs.report.rows import FleetTables, Row
from schemas.causes import OF_CAUSE, OF_FLAG
from schemas.job_causes import HOURS_OF
from schemas.vocabulary import CAUSE_UNEXPLAINED, REPLAYED_STATUSES, Status


class Measure(NamedTuple):
    """Names of the columns that measure a fleet's loss.

    lost, of : what is lost, and of what; both may be summed.
    unit     : its name, behind a number; empty where shares alone speak.
    amounts  : its column in the view waterfall.
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
    """Return a lost amount with its unit."""
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
    """Return the ends of the 90 % interval of a loss or saving; empty if there is no interval."""
    hours = HOURS_OF[fraction]
    if row.get(f"{hours}_low") is not None:
        return f"{wording.hours(row[f'{hours}_low'])} to {wording.hours(row[f'{hours}_high'])}"
    if row.get(f"{fraction}_low") is None:
        return ""
    return f"{wording.percent(row[f'{fraction}_low'])} to {wording.percent(row[f'{fraction}_high'])}"


def share(row: Mapping[str, Any], measure: Measure) -> float | None:
    """Return the lost fraction of the analysed time."""
    lost, of = row[measure.lost], row[measure.of]
    return lost / of if of and lost is not None else None


def unexplained(causes: Sequence[Row], steps: int) -> str:
    """Return the loss that no cause explains, and why it is less certain; empty if the loss is zero.

    steps : of the unit.
    """
    for row in causes:
        if row["cause"] == CAUSE_UNEXPLAINED and row["lost_fraction"]:
            flag = row["flag_reason"]
            uncertain = f" Uncertain: {OF_FLAG[flag]}." if flag else ""
            lost = of_unit(row["lost_fraction"], row["lost_gpu_hours"])
            what = "to causes too small or without evidence, or beyond all fixes"
            return f"{lost} lost, {what}.{uncertain}{_behind_others(causes, row['lost_fraction'], steps)}"
    return ""


def _behind_others(causes: Sequence[Row], unexplained_fraction: float, steps: int) -> str:
    """Name causes that hide each other and make up most of the unexplained loss, and what fixes save."""
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
    named = " and ".join(_with_worst(row, steps) for row in large)
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


def _with_worst(row: Row, steps: int) -> str:
    worst = row["culprits"][0]
    return f"{OF_CAUSE[row['cause']].words} ({where(worst)}, {course(worst, steps)})"


def _after_others(causes: Sequence[Row], hidden: Row) -> str:
    """Return, as a clause, what a fix saves once the fixes of other causes are made; empty if not more.

    Of two fixes that change each other's saving, the part of one is the mean of what it saves before and
    after the other. Of more, the tables have only the part.
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
        "what its fix then returns"
    )


def headline(job: Row) -> str:
    """Return a sentence on what the job lost, or why no fleet figure includes the job."""
    lost = job["lost_fraction"]
    if job["status"] != Status.ANALYSED:
        why = why_in_no_figure(job)
        return f"{why[0].upper()}{why[1:]}."
    if lost is None:
        return "What it lost is not known: an earlier version simulated this day."
    step, fixed = (wording.seconds(job["actual_step_s"] * part) for part in (1, 1 - lost))
    hours = (
        _no_hours(job)
        if job["gpu_hours"] is None
        else f"{wording.hours(job['lost_gpu_hours'])} of its {wording.hours(job['gpu_hours'])} GPU-hours"
    )
    return (
        f"A step takes {step}, {wording.ratio(1 / (1 - lost))} times the {fixed} with nothing lost: "
        f"{wording.percent(lost)} of its time is lost, {hours}."
    )


def why_in_no_figure(job: Mapping[str, Any]) -> str:
    """Return, as a clause, why the fleet's figures do not include a unit.

    job : its row, of another status than analysed.
    """
    status, detail = Status(job["status"]), job["status_detail"] or ""
    is_replayed = status in REPLAYED_STATUSES
    what = "analysed, but outside the fleet's figures" if is_replayed else "not analysed"
    if detail.startswith("job.json is"):  # where there is one, the words of the status deny it
        return f"{what}: {detail}"
    return f"{what}: {status.words}{f' ({detail})' if detail else ''}"


def not_used(job: Row) -> list[str]:
    """Return claims of a job's manifest or logs that are not used, other than claims of GPU-hours."""
    return [each for each in job.get("refused_claims") or () if not each.startswith(_HOURS)]


def _no_hours(job: Row) -> str:
    """Return why the job has no GPU-hours: none are stated, or the stated ones are implausible."""
    claims = [each for each in job.get("refused_claims") or () if each.startswith(_HOURS)]
    return (
        f"its stated GPU-hours are not believed ({claims[0]})" if claims else "its GPU-hours are not stated"
    )


_HOURS: Final = "gpu_hours"
"""Begins the claim of GPU-hours that are not believed."""
_WORDS: Final = {
    "recorded": "recorded",
    "nothing_lost": "with nothing lost",
    "to_paper_ideal": "to the paper's ideal",
    "ideal": "at the paper's ideal",
    "outside_steps": "outside steps that stayed: outages, start-ups, checkpoints, steps done again",
    "not_known": "not known, because no event states it",
    "productive": "productive",
}
"""Figures of the view that are not causes; those have their own words."""
_AT_LEAST: Final = "productive at least; what is not known may be, too"
_LEAST_SHOWN: Final = 0.0005
"""Share of what was recorded from which a part has a row: less rounds to 0.0 %."""
_ROUNDED: Final = 0.5
"""A part of this amount changes how a total is shown, and has a row, too: what is shown adds up."""
_WIDTH: Final = 100.0
"""Sizes of the drawing, in its own units: bars are per cent of what was recorded."""


def waterfall(rows: Iterable[Mapping[str, Any]], amounts: str) -> list[dict[str, Any]]:
    """Return the bars to draw: name, amount and fraction in words, start and length.

    rows    : in any order, with place, figure, is_total and the amounts.
    amounts : their column, gpu_hours or seconds. Without events the chain ends at the ideal.
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
    """Return amounts with equal digits, each total the one before less the changes as they are printed.

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
    """Return the amounts in units of the last digit: what is left is rounded, changes are its differences."""
    scale = 10**digits
    found = [0] * len(chain)
    left, printed, last = 0.0, 0, None
    for place, (amount, is_total) in enumerate(chain):
        if is_total:
            total = round(amount * scale)
            if last is not None:  # what is not shown beside it, and rounding
                found[last] += printed - total
            found[place] = printed = total
            left, last = amount, None
        else:
            left -= amount
            if abs(amount) >= least:
                found[place] = printed - round(left * scale)
                printed, last = round(left * scale), place
    return found
