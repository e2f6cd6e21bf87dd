"""Data of a job page's charts, words for the pattern in its map of slow workers, and the power section."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from jobs.report.culprit_words import is_worker, members, named_culprits
from jobs.report.rows import Row, UnitTables
from jobs.report.sections import Section
from jobs.report.templates import rounded
from jobs.report.wording import MISSING, percent, seconds
from schemas.causes import OF_CAUSE
from schemas.vocabulary import JOB_MEGAWATTS, JOB_POWER

Floats = npt.NDArray[np.float64]

EVEN: Final = "even"
HOT_ROW: Final = "hot row"
HOT_COLUMN: Final = "hot column"
HOT_CELL: Final = "hot cell"
HOT_CELLS: Final = "a few hot cells"
SAME_CELLS: Final = "the same hot cells"
ALL_OVER: Final = "hot all over"
TOGETHER: Final = "all at once"
SCATTERED: Final = "scattered"
UNEVEN: Final = "uneven"

_QUIET: Final = 0.01
"""Root mean square, over workers and steps, of slowdown - 1 below which the pattern is EVEN."""
_HOT: Final = 0.05
"""Least slowdown - 1 at which a worker counts as hot in a step."""
_MOST: Final = 0.8
"""Least part of the sum of squares of slowdown - 1 that a pattern must explain."""
_ALIKE: Final = 0.75
"""A worker is about as hot as another if its sum of squares is at least this part of the other's."""
_FEW: Final = 0.25
"""Largest part of the workers that counts as a few."""

_MOST_ROWS: Final = 128
"""Most workers in the map of workers by steps; of more, the slowest are drawn."""


def by_step(workers: Sequence[Row]) -> Floats | None:
    """Return by how much each worker alone slows each step, shape (worker, step); None if not stored."""
    slowdowns = [row["step_slowdowns"] for row in workers]
    return None if None in slowdowns else np.array(slowdowns)


def charts(tables: UnitTables) -> tuple[str, list[dict[str, Any]]]:
    """Return a description of the map of workers by steps (empty without a map), and the page's charts."""
    workers, steps = tables.workers, tables.steps
    drawn = [
        _chart(
            "workers",
            "chart-workers",
            {
                "stage": [row["pp_rank"] for row in workers],
                "dp_rank": [row["dp_rank"] for row in workers],
                "host": [row["host"] for row in workers],
                "excess": _excess([row["slowdown"] for row in workers]),
            },
        ),
        _chart(
            "steps",
            "chart-steps",
            {
                "step": [row["step"] for row in steps],
                "slowdown": rounded((row["slowdown"] for row in steps), 5),
                # Equal in consecutive steps, which a line joins; between two bursts nothing was recorded.
                "burst": [row["step"] - place for place, row in enumerate(steps)],
            },
        ),
        _chart(
            "opTypes",
            "chart-op-types",
            {
                "op_type": [row["op_type"] for row in tables.op_types],
                "value": rounded((row["waste_fraction"] for row in tables.op_types), 4),
            },
        ),
        *power_chart(tables),
    ]
    slowdown = by_step(workers)
    if slowdown is None:
        return "", drawn
    text, step_map = _step_map(slowdown, workers, [row["step"] for row in steps], tables.causes)
    return text, [*drawn, step_map]


def _step_map(
    slowdown: Floats, workers: Sequence[Row], steps: Sequence[int], causes: Sequence[Row]
) -> tuple[str, dict[str, Any]]:
    """Return a description and the data of the map of workers by steps; workers are sorted by stage.

    slowdown : shape (worker, step)
    """
    slowest = np.argsort(-slowdown.mean(axis=1), kind="stable")[:_MOST_ROWS].tolist()
    order = sorted(slowest, key=lambda place: (workers[place]["pp_rank"], workers[place]["dp_rank"]))
    names = [f"{workers[place]['pp_rank']} / {workers[place]['dp_rank']}" for place in order]
    text = f"One row per worker, sorted by stage; one column for each of {len(steps)} recorded steps."
    if len(workers) > len(order):
        text += f" Only the {len(order)} slowest of {len(workers)} workers are shown."
    columns: dict[str, Sequence[object]] = {
        "worker": [name for name in names for _ in steps],
        "step": [*steps] * len(names),
        "excess": _excess(slowdown[order].ravel().tolist()),
    }
    begins = onsets(causes)
    if begins:
        columns["onset"] = [begins.get((name, step), "") for name in names for step in steps]
        text += " A circle marks where a culprit's slowness begins."
    return text, _chart("stepMap", "chart-step-map", columns)


def onsets(causes: Sequence[Row]) -> dict[tuple[str, int], str]:
    """Return the titles of causes by the worker, as "stage / dp rank", and the step at which they begin."""
    found: dict[tuple[str, int], list[str]] = {}
    for row, culprit in named_culprits(causes):
        for worker in members(culprit) or (culprit,):
            if culprit["first_step"] is not None and is_worker(worker):
                at = (f"{worker['pp_rank']} / {worker['dp_rank']}", culprit["first_step"])
                found.setdefault(at, []).append(OF_CAUSE[row["cause"]].title)
    return {at: ", ".join(dict.fromkeys(titles)) for at, titles in found.items()}


def _excess(slowdown: Sequence[float]) -> list[float | None]:
    """Return slowdown - 1 in per cent: the time that is added to the ideal step. [%]"""
    return rounded((100 * (value - 1) for value in slowdown), 3)


def _chart(name: str, place: str, columns: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    return {"name": name, "id": place, "rows": columns}


class Pattern(NamedTuple):
    """Pattern in the map of workers by steps: its name, and a sentence with the facts."""

    name: str
    text: str


def name_pattern(slowdown: Floats) -> Pattern:
    """Name the pattern of slow workers, such as one worker, one stage, or many workers in the same steps.

    slowdown : shape (step, dp_rank, stage); one step if only means over steps are known.
    """
    excess = slowdown - 1.0
    energy = float((excess**2).sum())
    steps, dp_ranks, stages = excess.shape
    if np.sqrt(energy / excess.size) < _QUIET:
        return Pattern(EVEN, "No worker slows the job noticeably by its ops alone.")
    cells = (excess**2).sum(axis=0) / energy
    by_stage = steps * dp_ranks * float((excess.mean(axis=(0, 1)) ** 2).sum()) / energy
    by_dp_rank = steps * stages * float((excess.mean(axis=(0, 2)) ** 2).sum()) / energy
    often = _often(excess)
    stage, dp_rank = int(cells.sum(axis=0).argmax()), int(cells.sum(axis=1).argmax())
    if stages > 1 and dp_ranks > 1 and by_stage >= _MOST and cells.sum(axis=0).max() >= _MOST:
        return Pattern(HOT_ROW, f"Stage {stage} (of 0 to {stages - 1}) is slow in all replicas, {often}.")
    if stages > 1 and dp_ranks > 1 and by_dp_rank >= _MOST and cells.sum(axis=1).max() >= _MOST:
        return Pattern(HOT_COLUMN, f"All stages of dp rank {dp_rank} are slow, {often}.")
    hottest = np.sort(cells, axis=None)[::-1]
    needed = int(np.searchsorted(np.cumsum(hottest), _MOST)) + 1
    if needed == 1:
        where = np.unravel_index(int(cells.argmax()), cells.shape)
        same = " With one replica a slow worker and a heavy stage look the same." if dp_ranks == 1 else ""
        text = f"One worker is slow, dp rank {where[0]} of stage {where[1]}, {often}.{same}"
        return Pattern(HOT_CELL, text)
    if needed <= max(2, _FEW * cells.size):
        # Also count other workers that are about as hot as the last of the needed ones.
        alike = int((hottest >= _ALIKE * hottest[needed - 1]).sum())
        return Pattern(
            HOT_CELLS,
            f"{alike} of {cells.size} workers make up most of the slowness; the hottest is hot {often}.",
        )
    return _spread(excess, cells)


def _spread(excess: Floats, cells: Floats) -> Pattern:
    """Return the pattern of many slow workers: always the same ones, all in the same steps, or neither.

    excess : slowdown - 1, shape (step, dp_rank, stage). cells : part of its sum of squares by (dp_rank,
             stage)
    """
    steps, dp_ranks, stages = excess.shape
    row = cells.sum(axis=0)
    leaning = (
        f" Stage {int(row.argmax())} is the hottest."
        if stages > 1 and dp_ranks > 1 and row.max() >= _MOST
        else ""
    )
    if steps == 1:
        return Pattern(UNEVEN, f"Many workers are slow, but no single row, column or cell.{leaning}")
    means = excess.mean(axis=0)
    same = int(np.count_nonzero(means >= _HOT))
    if 0 < 2 * same <= means.size and steps * float((means**2).sum()) >= _MOST * float((excess**2).sum()):
        return Pattern(SAME_CELLS, f"The same {same} of {means.size} workers are slow, {_often(excess)}.")
    by_step = excess.mean(axis=(1, 2))
    of_steps = means.size * float((by_step**2).sum())
    if of_steps >= _MOST * float((excess**2).sum()) and by_step.max() >= _HOT:
        return _together(excess, by_step >= _HOT)
    hot = float((excess >= _HOT).mean())
    text = f"Workers are slow in {percent(hot)} of their steps on average, but not all in the same.{leaning}"
    return Pattern(ALL_OVER if hot >= 0.5 else SCATTERED, text)


def _together(excess: Floats, are_hot: npt.NDArray[np.bool_]) -> Pattern:
    """Return the pattern of workers that are slow together: in every step, or only in some steps.

    are_hot : whether a step is hot in the mean over workers, shape (step,)
    """
    whole = "All" if (excess[are_hot] >= _HOT).all() else "Most"
    times, steps = int(are_hot.sum()), len(excess)
    if times == steps:
        return Pattern(ALL_OVER, f"{whole} workers are slow in every step.")
    return Pattern(TOGETHER, f"{whole} workers are slow in the same steps, {times} of {steps}.")


def _often(excess: Floats) -> str:
    """Describe in how many steps the worker that loses most is clearly slow."""
    steps = len(excess)
    if steps == 1:
        return "in the mean over all steps"
    by_worker = excess.reshape(steps, -1)
    hottest = by_worker[:, int((by_worker**2).sum(axis=0).argmax())]
    times = int((hottest >= min(_HOT, float(excess.max()) / 2)).sum())
    return "in every step" if times == steps else f"in {times} of {steps} steps"


CHART: Final = "chart-power"
_FIGURES: Final = {
    "mean": ("mean", "mean_mw"),
    "low": ("least", "low_mw"),
    "high": ("greatest", "high_mw"),
    "swing": ("swing of the mean step", "swing_mw"),
    "step_swing": ("swing of a single step", None),
}
"""Rows of the section, by the columns of job_power without `_share`: title, and column of job_megawatts."""


def power_section(tables: UnitTables) -> Section | None:
    """Make the power section; return None if the unit has no row in job_power."""
    row = _only(tables, JOB_POWER)
    if row is None:
        return None
    says = (
        "Share of the workers in a forward, backward or optimizer over the mean step; shaded: from the least "
        "to the greatest share of any recorded step."
    )
    if row["dominant_period_s"] is not None:
        says += f" The share swings most with a period of {seconds(row['dominant_period_s'])}."
    megawatts = _only(tables, JOB_MEGAWATTS)
    has_megawatts = megawatts is not None and megawatts["mean_mw"] is not None
    gpus = tables.job["world_size"]
    rows = []
    for name, (words, in_mw) in _FIGURES.items():
        share = row[f"{name}_share"]
        cells = [words, percent(share), f"{share * gpus:,.0f}"]
        if megawatts is not None and has_megawatts:
            cells.append(MISSING if in_mw is None else f"{megawatts[in_mw]:.3f}")
        rows.append(cells)
    return Section(
        name="power",
        title="How many workers compute at once: power swings with their number",
        says=says,
        columns=["", "of the workers", "GPUs", *(["MW"] if has_megawatts else [])],
        rows=rows,
        chart=CHART,
    )


def power_chart(tables: UnitTables) -> list[dict[str, Any]]:
    """Return a chart of the fraction of GPUs that compute, over the mean step; empty without job_power."""
    row = _only(tables, JOB_POWER)
    if row is None:
        return []
    bins = len(row["computing_share"])
    columns = {
        "at_s": rounded((row["actual_step_s"] * (place + 0.5) / bins for place in range(bins)), 6),
        "share": rounded(row["computing_share"], 4),
        "low": rounded(row["computing_share_low"], 4),
        "high": rounded(row["computing_share_high"], 4),
    }
    return [_chart("power", CHART, columns)]


def _only(tables: UnitTables, name: str) -> Row | None:
    rows = tables.further.get(name, ())
    return rows[0] if rows else None
