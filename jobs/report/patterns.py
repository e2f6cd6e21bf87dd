"""What a map of workers by steps shows: a hot cell, a hot row, scattered, or nothing."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from jobs.report.wording import percent

Floats = npt.NDArray[np.float64]

EVEN: Final = "even"
HOT_ROW: Final = "hot row"
HOT_COLUMN: Final = "hot column"
HOT_CELL: Final = "hot cell"
HOT_CELLS: Final = "a few hot cells"
ALL_OVER: Final = "hot all over"
SCATTERED: Final = "scattered"
UNEVEN: Final = "uneven"

_QUIET: Final = 0.01
"""Root mean square of the excess below which nothing stands out: 1 % of a step."""
_HOT: Final = 0.05
"""Excess from which on a worker counts as hot in a step."""
_MOST: Final = 0.8
"""Part of the squared excess that a pattern has to hold."""
_FEW: Final = 0.25
"""At most this part of the workers are a few."""


class Pattern(NamedTuple):
    """What was seen: its name, and the facts behind it as a sentence."""

    name: str
    text: str


def name_pattern(slowdown: Floats) -> Pattern:
    """Name what stands out where each worker alone slows each step.

    slowdown : shape (step, dp_rank, stage), over the ideal; one step where only the mean is known.
    """
    excess = slowdown - 1.0
    energy = float((excess**2).sum())
    steps, dp_ranks, stages = excess.shape
    if np.sqrt(energy / excess.size) < _QUIET:
        return Pattern(EVEN, "No worker alone slows the job noticeably.")
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
        return Pattern(HOT_CELLS, f"{needed} of {cells.size} workers make up most of it, {often}.")
    return _spread(excess, cells)


def _spread(excess: Floats, cells: Floats) -> Pattern:
    """No few workers stand out: name it by how it changes from step to step."""
    steps, dp_ranks, stages = excess.shape
    row = cells.sum(axis=0)
    leaning = (
        f" Stage {int(row.argmax())} is the hottest."
        if stages > 1 and dp_ranks > 1 and row.max() >= _MOST
        else ""
    )
    if steps == 1:
        return Pattern(UNEVEN, f"Many workers are slow, no row, column or cell alone.{leaning}")
    hot = float((excess >= _HOT).mean())
    text = f"A worker is slow in {percent(hot)} of its steps, not the same ones each time.{leaning}"
    return Pattern(ALL_OVER if hot >= 0.5 else SCATTERED, text)


def _often(excess: Floats) -> str:
    """In how many steps the hottest worker is hot."""
    steps = len(excess)
    if steps == 1:
        return "in the mean over all steps"
    by_worker = excess.reshape(steps, -1)
    hottest = by_worker[:, int((by_worker**2).sum(axis=0).argmax())]
    times = int((hottest >= min(_HOT, float(excess.max()) / 2)).sum())
    return "in every step" if times == steps else f"in {times} of {steps} steps"
