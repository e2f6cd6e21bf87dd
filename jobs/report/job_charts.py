"""Data of a job page's charts, as columns."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jobs.report.rows import Row, UnitTables
from jobs.report.templates import rounded

Floats = npt.NDArray[np.float64]

_MOST_ROWS: Final = 128
"""Workers that the map by steps shows; of more, the slowest."""


def by_step(workers: Sequence[Row]) -> Floats | None:
    """Slowdown by each worker alone, shape (worker, step); None where an earlier version left it out."""
    slowdowns = [row["step_slowdowns"] for row in workers]
    return None if None in slowdowns else np.array(slowdowns)


def charts(tables: UnitTables) -> tuple[str, list[dict[str, Any]]]:
    """What the map by steps shows, in words (empty without one), and all charts of the page."""
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
                # The same of steps that follow each other: a line over what lies between would be made up.
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
    ]
    slowdown = by_step(workers)
    if slowdown is None:
        return "", drawn
    text, step_map = _step_map(slowdown, workers, [row["step"] for row in steps])
    return text, [*drawn, step_map]


def _step_map(slowdown: Floats, workers: Sequence[Row], steps: Sequence[int]) -> tuple[str, dict[str, Any]]:
    """Map of workers by steps, stage by stage; of very many workers those that are slowest on the whole."""
    slowest = np.argsort(-slowdown.mean(axis=1), kind="stable")[:_MOST_ROWS].tolist()
    order = sorted(slowest, key=lambda place: (workers[place]["pp_rank"], workers[place]["dp_rank"]))
    names = [f"{workers[place]['pp_rank']} / {workers[place]['dp_rank']}" for place in order]
    text = f"One row per worker, stage by stage; one column for each of {len(steps)} recorded steps."
    if len(workers) > len(order):
        text += f" The {len(order)} slowest of {len(workers)} workers."
    columns: dict[str, Sequence[object]] = {
        "worker": [name for name in names for _ in steps],
        "step": [*steps] * len(names),
        "excess": _excess(slowdown[order].ravel().tolist()),
    }
    return text, _chart("stepMap", "chart-step-map", columns)


def _excess(slowdown: Sequence[float]) -> list[float | None]:
    """How much of the ideal step is added, in percent."""
    return rounded((100 * (value - 1) for value in slowdown), 3)


def _chart(name: str, place: str, columns: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    return {"name": name, "id": place, "rows": columns}
