"""Slowdown of every worker in every step of one unit, callable without Spark.

`worker_steps(rows, manifest)`: what worker_slowdown tells of all steps together, step by step.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from schemas.fields import DP_RANK, PP_RANK, SLOWDOWN, STEP
from udfs.errors import NothingToReplayError
from udfs.layout import read_layout
from udfs.rank_rows import replayed_rows
from udfs.what_if import SimulationSettings, analyse_rows, garbage_collection_paused

_FIELDS = [(column.name, column.type) for column in (STEP, DP_RANK, PP_RANK, SLOWDOWN)]


def worker_steps(
    rank_steps: pa.Table, manifest: Mapping[str, object], settings: SimulationSettings | None = None
) -> pa.Table:
    """Step time with one worker alone as recorded, over T_ideal, of every step (S_w of Eq. 4, by step).

    rank_steps : rows of one unit in any order, columns as in the table rank_steps; `op` as names or codes.
    manifest   : the unit's job.json, or its row of jobs, as a dict.
    returns    : step, dp_rank, pp_rank, slowdown; ordered by them.
    raises     : LayoutError for a manifest without sizes, NothingToReplayError, TraceError where the recorded
                 ops contradict each other.
    """
    layout = read_layout(manifest)
    with garbage_collection_paused():
        rows = replayed_rows(rank_steps, layout)
        if not len(rows.steps):
            raise NothingToReplayError(f"no complete step: {rows.steps_dropped} recorded")
        times = analyse_rows(rows, layout, settings or SimulationSettings(), diagnosed=False).times
    slowdown = (times.by_worker / times.ideal).transpose(2, 1, 0)  # (step, dp_rank, stage)
    step, dp_rank, stage = np.indices(slowdown.shape)
    columns = (rows.steps[step.ravel()], dp_rank.ravel(), stage.ravel(), slowdown.ravel())
    return pa.table(
        [pa.array(values, kind) for values, (_, kind) in zip(columns, _FIELDS, strict=True)],
        schema=pa.schema(_FIELDS),
    )
