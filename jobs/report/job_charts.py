"""Data of a job page's charts, as columns, and what they say to who does not see them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobs.report.rows import Row, UnitTables
from jobs.report.templates import rounded
from jobs.report.wording import percent, ratio

Floats = npt.NDArray[np.float64]

_MOST_ROWS: Final = 128
"""Workers that the map by steps shows; of more, the slowest."""


def worker_grid(workers: Sequence[Row]) -> Floats:
    """Slowdown by each worker alone; shape (dp_rank, stage)."""
    shape = tuple(max(row[name] for row in workers) + 1 for name in ("dp_rank", "pp_rank"))
    grid = np.ones(shape)
    for row in workers:
        grid[row["dp_rank"], row["pp_rank"]] = row["slowdown"]
    return grid


def charts(tables: UnitTables) -> tuple[str, list[dict[str, Any]]]:
    """What the map by steps shows, in words, and all charts of the page."""
    workers, steps = tables.workers, tables.steps
    slowest = max(workers, key=lambda row: row["slowdown"])
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
            f"Map of {len(workers)} workers: the slowest is dp rank {slowest['dp_rank']} of stage "
            f"{slowest['pp_rank']} and adds {percent(slowest['slowdown'] - 1)}.",
        ),
        _chart(
            "steps",
            "chart-steps",
            {
                "step": [row["step"] for row in steps],
                "slowdown": rounded((row["slowdown"] for row in steps), 5),
            },
            f"Slowdown of {len(steps)} steps, from {ratio(min(row['slowdown'] for row in steps))} to "
            f"{ratio(max(row['slowdown'] for row in steps))}.",
        ),
        _op_types(tables.op_types),
    ]
    text = ""
    if tables.step_map is not None:
        text, chart = _step_map(tables.step_map, len(workers))
        drawn.append(chart)
    return text, drawn


def _op_types(op_types: Sequence[Row]) -> dict[str, Any]:
    worst = max(op_types, key=lambda row: row["waste_fraction"])
    return _chart(
        "opTypes",
        "chart-op-types",
        {
            "op_type": [row["op_type"] for row in op_types],
            "value": rounded((row["waste_fraction"] for row in op_types), 4),
        },
        f"{len(op_types)} op types: {worst['op_type']} alone costs {percent(worst['waste_fraction'])}.",
    )


def _step_map(step_map: pa.Table, workers: int) -> tuple[str, dict[str, Any]]:
    """Map of workers by steps, stage by stage; of very many workers those that are slowest on the whole."""
    stage, dp_rank, step = (step_map[name].to_numpy() for name in ("pp_rank", "dp_rank", "step"))
    slowdown = step_map["slowdown"].to_numpy()
    by_step = slowdown.reshape(-1, workers)
    shown = np.sort(np.argsort(-by_step.mean(axis=0), kind="stable")[:_MOST_ROWS])
    order = shown[np.lexsort((dp_rank[:workers][shown], stage[:workers][shown]))]
    names = [f"{stage[each]} / {dp_rank[each]}" for each in order]
    numbers = step[::workers]
    text = f"One row per worker, stage by stage; one column for each of {len(numbers)} recorded steps."
    if workers > len(order):
        text += f" The {len(order)} slowest of {workers} workers."
    columns: dict[str, Sequence[object]] = {
        "worker": [name for name in names for _ in numbers],
        "step": [int(each) for each in numbers] * len(names),
        "excess": _excess(by_step[:, order].T.ravel().tolist()),
    }
    return text, _chart("stepMap", "chart-step-map", columns, text)


def _excess(slowdown: Sequence[float]) -> list[float | None]:
    """How much of the ideal step is added, in percent."""
    return rounded((100 * (value - 1) for value in slowdown), 3)


def _chart(name: str, place: str, columns: Mapping[str, Sequence[object]], text: str) -> dict[str, Any]:
    rows = {"columns": list(columns), "values": list(columns.values())}
    return {"name": name, "id": place, "rows": rows, "text": text}
