"""Tables of how often the diagnosis is right, by class of job, cause, direction, onset, reach and noise."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tests.evaluation.shapes.judge import Judged, Verdict
from tests.evaluation.shapes.wanted import is_knowable, lost_error, share, wanted

Table = list[dict[str, Any]]


def tables(judged: Sequence[Judged]) -> dict[str, Table]:
    """Return all tables by title; shares are in percent, or null if nothing was judged."""
    pairs = [(job, verdict) for job in judged for verdict in job.verdicts]
    by: dict[str, Callable[[Judged, Verdict], str]] = {
        "class": lambda job, _: job.kind,
        "cause": lambda _, each: each.cause or "none fits",
        "direction": lambda _, each: each.direction if each.cause == "slow_worker" else f"({each.cause})",
        "onset": lambda _, each: each.onset,
        "reach": lambda _, each: each.reach,
        "noise": lambda job, _: job.noise,
    }
    found = {
        "Wanted": wanted(judged),
        "Jobs by class": _by_job(judged, lambda job: job.kind),
        "Jobs by noise": _by_job(judged, lambda job: job.noise),
    }
    for title, key in by.items():
        groups = sorted({key(*pair) for pair in pairs})
        found[f"Faults by {title}"] = [
            {title: group, **_of_faults([each for job, each in pairs if key(job, each) == group])}
            for group in groups
        ]
    found["Faults that need not be named"] = _reasons(verdict for _, verdict in pairs)
    return found


def _by_job(judged: Sequence[Judged], key: Callable[[Judged], str]) -> Table:
    rows = []
    for group in [*sorted({key(job) for job in judged}), "all"]:
        jobs = [job for job in judged if group in (key(job), "all")]
        errors = [100 * error for job in jobs if is_knowable(job) and (error := lost_error(job)) is not None]
        quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "worst": 1.0} if errors else {}
        rows.append(
            {
                "jobs of": group,
                "jobs": len(jobs),
                "analysed": sum(job.status == "analysed" for job in jobs),
                "wrong names [% of jobs]": share([bool(job.wrong) for job in jobs]),
                "named anything [% of jobs]": share(
                    [any(each.is_named for each in job.verdicts) or bool(job.wrong) for job in jobs]
                ),
                **{f"lost off, {name} [%]": float(np.quantile(errors, q)) for name, q in quantiles.items()},
                "lost not said": sum(job.said_lost_fraction is None for job in jobs),
                "lost not to be known": sum(not is_knowable(job) for job in jobs),
            }
        )
    return rows


def _of_faults(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    wanted = [each for each in verdicts if not each.why_not]
    return {
        "faults": len(verdicts),
        "to be named": len(wanted),
        "named [%]": share([each.is_named for each in wanted]),
        "flagged [%]": share([each.flag is not None for each in wanted]),
        "place right [%]": share(each.is_place_right for each in wanted),
        "direction right [%]": share(each.is_direction_right for each in wanted),
        "first step within one [%]": share(each.is_first_right for each in wanted),
        "course right [%]": share(each.is_course_right for each in wanted),
    }


def _reasons(verdicts: Iterable[Verdict]) -> Table:
    listed = [each for each in verdicts if each.why_not]
    return [
        {
            "why": why,
            "faults": sum(each.why_not == why for each in listed),
            "named all the same": sum(each.why_not == why and each.is_named for each in listed),
            "flagged": sum(each.why_not == why and each.flag is not None for each in listed),
        }
        for why in sorted({each.why_not for each in listed})
    ]


def is_wrong(job: Judged) -> bool:
    """Return whether a cause, worker or time in a diagnosis is wrong, or its loss by over 2 % of the step."""
    answers = [
        answer
        for each in job.verdicts
        if not each.why_not
        for name, answer in asdict(each).items()
        if name.startswith("is_")
    ]
    return bool(job.wrong) or False in answers or (is_knowable(job) and (lost_error(job) or 0.0) > 0.02)


def listing(job: Judged) -> str:
    """Describe a judged job in a few lines: its layout, its faults and what the diagnosis said."""
    lost = "-" if job.said_lost_fraction is None else f"{job.said_lost_fraction:.4f}"
    what = f"seed {job.seed} ({job.kind}, {job.noise}): {job.layout}; {job.status}"
    lines = [f"{what}; lost {job.lost_fraction:.4f}, said {lost}"]
    for each in job.verdicts:
        verdict = {
            name: value
            for name, value in asdict(each).items()
            if name.startswith("is_") and value is not None
        }
        lines.append(
            f"  true {each.text}; saves {each.saved_fraction:.4f} beside, {each.alone_fraction:.4f} alone"
            f"{f'; {each.why_not}' if each.why_not else ''}; {verdict}"
        )
    lines += [f"  said {each}" for each in job.said]
    return "\n".join([*lines, f"  WRONG {', '.join(job.wrong)}"] if job.wrong else lines)


def markdown(found: dict[str, Table]) -> str:
    """Format the tables as Markdown."""
    parts = []
    for title, rows in found.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        lines = [f"## {title}", "", _line(names), _line("---" for _ in names)]
        lines += [_line(_cell(row.get(name)) for name in names) for row in rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
