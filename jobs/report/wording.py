"""Words and numbers for people: causes with their fix, hours, shares and times with units."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas.vocabulary import CAUSES

MISSING: Final = "\N{EN DASH}"
"""Shown where there is no number."""


class CauseWords(NamedTuple):
    """Title of a cause, what fixes it, and the meaning of the paper's indicator.

    title : in words, and in brackets as tables and commands spell it, where that differs
    """

    title: str
    fix: str
    indicator: str = ""


BEYOND_ALL: Final = "above 100 %, as the other ops are faster than the ideal"
"""Why more than all of the waste may go."""
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
            CauseWords("slow worker", "repair or replace the host, or exclude it", _OF_WORKERS),
            CauseWords(
                "uneven stages (stage_imbalance)",
                "move layers, or the loss, between pipeline stages",
                _OF_STAGE,
            ),
            CauseWords(
                "uneven data (data_imbalance)", "give every microbatch of a step the same work", _OF_DATA
            ),
            CauseWords(
                "pauses (pause)",
                "check what pauses these workers: garbage collection, checkpoints, power, storage",
            ),
            CauseWords("slow transfers (communication)", "check the links between these workers"),
            CauseWords(
                "late starts (launch_delay)", "load data ahead: the step waits for it before its first op"
            ),
            CauseWords(
                "slow loading (data_loading)",
                "load further ahead, with more loaders, or check the storage that these workers read",
            ),
            CauseWords(
                "unlike GPUs (mixed_hardware)",
                "run the job on one type of GPU, or give the slower ones less work",
            ),
            CauseWords(
                "unexplained",
                "no cause holds here: too small, or without evidence; compare a slow step's timeline with a "
                "usual one's",
            ),
        ),
        strict=True,
    )
)

FIX_OF_PAUSES_APART: Final = "collect garbage on all workers in the same steps"
"""Helps against pauses that strike the workers in different steps, and against nothing else."""

FLAG_WORDS: Final[dict[str, str]] = {
    "few_steps": "from few steps",
    "few_peers": "few workers to compare with",
    "slow_worker_or_stage_imbalance": "with one replica a slow worker and a heavy stage look the same",
    "slow_worker_or_data_imbalance": "with one stage a slow worker and longer data look the same",
    "no_usual_transfer": "no usual transfer to compare with",
    "many_slow_workers": "too many workers are slow to know the usual time",
    "clock_skew": "the clocks of the hosts are too far apart",
    "mostly_unexplained": "most of the loss has no known cause",
    "high_discrepancy": "replay and recording are more than 5 % apart",
    "mixed_hardware_or_stage_imbalance": "types of GPU share no stage: slow types look like heavy stages",
    "mixed_hardware_or_slow_worker": "a slower type is on one host only, which may be slow whatever its type",
    "nobody_late": "all workers wait for long in reduce-scatters, though no worker comes late: a worker that "
    "is slow in its own reduce-scatter looks like a slow network",
    "judged_by_history": "other jobs or earlier days decided",
}

STATUS_FIXES: Final[dict[str, str]] = {
    "unusable_log": "check what the files lack: straggler convert FOLDER --check",
    "step_times_only": "record single ops to find the cause: rank logs by the emitter, or torch.profiler",
    "no_manifest": "put a job.json beside the logs, with the job's layout, and {again}",
    "bad_layout": "correct the layout in job.json, and {again}",
    "too_many_restarts": "give each attempt its own run id, or raise maximum_restarts in the settings",
    "no_ops": "check that the log files of this day are in the landing, and which of their lines were "
    "rejected",
    "implausible_times": "write start_us and duration_us in microseconds, t0_us in microseconds since 1970",
    "corrupt_trace": "check the ops named above: the recorder wrote what cannot have happened",
    "missing_workers": "look for workers whose file is missing or was rejected: a step needs all",
    "some_ranks": "profile every rank of the job: a replay needs all",
    "odd_ranks": "check whether the ranks named above are numbered as job.json's layout says",
    "partial_trace": "record sends and receives too: without them a replay does not know who waits for whom",
    "too_few_steps": "record more steps in a day",
    "unknown_clocks": "record the transfers between stages, or keep the hosts' clocks together (NTP, PTP)",
    "high_discrepancy": "look for time that no op covers, such as data loading within a step",
    "failed": "report it with the traceback",
}
"""What to do about a unit that is not analysed; `again` is the step that then follows."""

STATUS_WORDS: Final[dict[str, str]] = {
    "unusable_log": "log of a tool that cannot be replayed",
    "step_times_only": "step times and no ops",
    "no_manifest": "no manifest (job.json)",
    "bad_layout": "manifest with a wrong or missing layout",
    "too_many_restarts": "too many restarts",
    "no_ops": "no recorded ops",
    "implausible_times": "times in another unit than microseconds",
    "corrupt_trace": "recorded ops contradict each other",
    "missing_workers": "no step with all workers",
    "some_ranks": "profile of some ranks of the job",
    "odd_ranks": "ranks that contradict their peers",
    "partial_trace": "computes without transfers",
    "too_few_steps": "too few steps",
    "unknown_clocks": "clocks apart by an unknown time",
    "high_discrepancy": "replay and recording too far apart",
    "analysed": "analysed",
    "failed": "a defect of this software",
}


def short_title(cause: str) -> str:
    """Return a cause in words, without its name in tables."""
    return CAUSE_WORDS[cause].title.partition(" (")[0]


def hours(value: float | None) -> str:
    """GPU-hours without unit: integers from 100 on, else three digits."""
    return MISSING if value is None else _digits(value)


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage with one decimal."""
    if fraction is None:
        return MISSING
    size = abs(100 * fraction)
    if 0 < size < 0.05:
        return "> -0.1 %" if fraction < 0 else "< 0.1 %"
    return f"{100 * fraction:.{0 if size >= 99.95 or size == 0 else 1}f} %"


def ratio(value: float | None) -> str:
    """Return a slowdown with two decimals."""
    return MISSING if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Return a time in the unit that makes it 1 to 1,000."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 1 or size == 0:
        return f"{_digits(value)} s"
    return f"{_digits(value * 1e3)} ms" if size >= 1e-3 else f"{_digits(value * 1e6)} µs"


def number(value: float | None) -> str:
    """Return a number without unit, rounded to significant digits."""
    return MISSING if value is None else _digits(value)


def counted(count: float, one: str) -> str:
    """Return a count with its noun, plural where needed."""
    return f"{number(count)} {one}{'' if count == 1 else 's'}"


def _digits(value: float) -> str:
    """Integers from 100 on, millions from 1,000,000 on, else three significant digits; -0 becomes 0."""
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
    """Words for a table row of a host, from the named query hosts."""
    return {
        "host": row["host"],
        "slow_in": f"{row['jobs_slow']} of {counted(row['jobs'], 'job')}",
        "jobs_slow": row["jobs_slow"],
        "expected": row["expected_jobs_slow"],
        "recurrence": recurrence(row),
        "pattern": row["pattern"].replace("_", "-"),
        "days_slow": row["days_slow"],
        "first": str(row["first_slow"]),
        "last": str(row["last_slow"]),
    }


def recurrence(row: Mapping[str, Any]) -> str:
    """One verdict on a host from both kinds of evidence: measured slow, and slow beyond chance.

    In brackets: how likely chance alone makes any of the hosts asked about slow in as many jobs; in one job
    nothing recurs.
    """
    likely = min(1.0, row["p_value"] * row["hosts_asked_about"])
    chance = "less than 0.1 %" if likely < 0.001 else percent(likely)
    measured = f"slow: measured in {counted(row['jobs_measured'], 'job')}"
    recurs = row["jobs_slow"] > 1
    texts = {
        "measured_and_recurs": f"{measured}, and slow in more jobs than chance explains ({chance})",
        "measured": measured + (f"; by their number alone it could be chance ({chance})" if recurs else ""),
        "recurs": f"slow in more jobs than chance explains ({chance}), though no job's cause names it",
        "not_proven": "not proven: no job's cause names it"
        + (f", and it could be chance ({chance})" if recurs else ""),
    }
    return texts.get(row["verdict"], MISSING)
