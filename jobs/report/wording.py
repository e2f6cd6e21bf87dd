"""Words and numbers as people read them: causes with their fix, hours, shares and times with units."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas.vocabulary import CAUSES

MISSING: Final = "\N{EN DASH}"
"""What is shown where there is no number."""


class CauseWords(NamedTuple):
    """How a cause is called, what fixes it, and what the paper's indicator of it says."""

    title: str
    fix: str
    indicator: str = ""


_OF_WORKERS: Final = "with the slowest 3 % of workers ideal, {share} of the waste goes (M_W)"
_OF_STAGE: Final = "with the last stage ideal, {share} of the waste goes (M_S)"
_OF_DATA: Final = (
    "forward and backward times of a microbatch rise and fall together with a correlation of {number}, where "
    "1 is always"
)

CAUSE_WORDS: Final[dict[str, CauseWords]] = dict(
    zip(
        CAUSES,
        (
            CauseWords("slow worker", "repair or replace the host, or leave it out", _OF_WORKERS),
            CauseWords("uneven stages", "move layers, or the loss, between pipeline stages", _OF_STAGE),
            CauseWords("uneven data", "give every microbatch of a step the same work", _OF_DATA),
            CauseWords("pauses", "collect garbage on all workers in the same steps"),
            CauseWords("slow transfers", "look at the links between these workers"),
            CauseWords("late starts", "load data ahead: the step waits for it before its first op"),
            CauseWords(
                "unexplained",
                "no cause holds here: too small, or without evidence; compare a slow step's timeline with a "
                "usual one's",
            ),
        ),
        strict=True,
    )
)

FLAG_WORDS: Final[dict[str, str]] = {
    "few_steps": "from few steps",
    "few_peers": "few workers to compare with",
    "slow_worker_or_stage_imbalance": "with one replica a slow worker and a heavy stage look the same",
    "slow_worker_or_data_imbalance": "with one stage a slow worker and longer data look the same",
    "no_usual_transfer": "no usual transfer to compare with",
    "many_slow_workers": "too many workers are slow to say what is usual",
    "clock_skew": "the clocks of the hosts are too far apart",
    "mostly_unexplained": "most of the loss is explained by no cause",
    "high_discrepancy": "replay and recording are more than 5 % apart",
    "judged_by_history": "other jobs or earlier days decided",
}

STATUS_WORDS: Final[dict[str, str]] = {
    "unusable_log": "log of a tool that no replay can be made of",
    "no_manifest": "no manifest (job.json)",
    "bad_layout": "manifest with a wrong or missing layout",
    "too_many_restarts": "too many restarts",
    "no_ops": "no recorded ops",
    "corrupt_trace": "recorded ops contradict each other",
    "missing_workers": "no step with all workers",
    "odd_ranks": "ranks that contradict their peers",
    "partial_trace": "computes without transfers",
    "too_few_steps": "too few steps",
    "unknown_clocks": "clocks apart by an unknown time",
    "high_discrepancy": "replay and recording too far apart",
    "analysed": "analysed",
    "failed": "our own defect",
}


def hours(value: float | None) -> str:
    """GPU-hours without their unit: whole ones from 100 on, else three digits."""
    return MISSING if value is None else _digits(value)


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage, to a tenth of a percent."""
    if fraction is None:
        return MISSING
    size = abs(100 * fraction)
    if 0 < size < 0.05:
        return f"{'-' if fraction < 0 else ''}< 0.1 %"
    return f"{100 * fraction:.{0 if size >= 99.95 or size == 0 else 1}f} %"


def ratio(value: float | None) -> str:
    """Return a slowdown: two decimals."""
    return MISSING if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Return a time in the unit that leaves it between 1 and 1,000."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 1 or size == 0:
        return f"{_digits(value)} s"
    return f"{_digits(value * 1e3)} ms" if size >= 1e-3 else f"{_digits(value * 1e6)} µs"


def number(value: float | None) -> str:
    """Return a number with neither unit nor more digits than it deserves."""
    return MISSING if value is None else _digits(value)


def several(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural but for 1."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _digits(value: float) -> str:
    """Whole numbers from 100 on, millions from 1,000,000 on, else three significant digits; -0 is 0."""
    size = abs(value)
    if size >= 1e6:
        return f"{_digits(value / 1e6)} million"
    decimals = 0 if size >= 99.95 or size == 0 else 2 - math.floor(math.log10(size))
    decimals = min(max(decimals, 0), 4)
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def host_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a table of hosts shows of a row of the named query hosts."""
    return {
        "host": row["host"],
        "slow_in": f"{row['jobs_slow']} of {row['jobs']}",
        "jobs_slow": row["jobs_slow"],
        "expected": row["expected_jobs_slow"],
        "chance": beyond_chance(row),
        "pattern": row["pattern"].replace("_", "-"),
        "days_slow": row["days_slow"],
        "first": str(row["first_slow"]),
        "last": str(row["last_slow"]),
    }


def beyond_chance(row: Mapping[str, Any]) -> str:
    """Whether a host is slow more often than by chance, and why that is said."""
    asked = row["hosts_asked_about"]
    jobs = f"{row['jobs_slow']} of {row['jobs']} job" + ("" if row["jobs"] == 1 else "s")
    likely = _rarely(min(1.0, row["p_value"] * asked))
    return (
        f"{'yes' if row['is_beyond_chance'] else 'no'}: of the {asked:,} hosts asked about, one is slow in "
        f"{jobs} by chance alone with a probability of up to {likely}"
    )


def _rarely(probability: float) -> str:
    return "less than 0.1 %" if probability < 0.001 else percent(probability)  # as shown
