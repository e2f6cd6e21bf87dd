"""Convert a simulated job to rows of rank_steps and a manifest."""

from typing import Final

import numpy as np
import pyarrow as pa

from tests.evaluation.shapes.layout import Floats, Ints, Layout
from tests.evaluation.shapes.recorded import Recorded, step_times

FIRST_US: Final = 1_767_600_000_000_000
"""Unix time of 2026-01-05, 08:00 UTC. [us]"""
_BETWEEN_S: Final = 0.05
"""Time between the end of a recorded step and the start of the next step, if it is recorded too. [s]"""


def manifest(layout: Layout, seed: int) -> dict[str, object]:
    """Return the contents of the job's job.json."""
    return {
        "job_id": f"shapes-{seed}",
        "run_id": "r1",
        "dp_size": layout.dp,
        "pp_size": layout.pp,
        "tp_size": 1,
        "cp_size": 1,
        "vpp_size": layout.vpp,
        "world_size": layout.dp * layout.pp,
        "gpu_hours": 24.0 * layout.dp * layout.pp,
    }


def rank_steps(layout: Layout, recorded: list[Recorded]) -> pa.Table:
    """Return rows of rank_steps, one per (stage, step, dp_rank); each row's times have their own zero."""
    lengths_s = step_times(recorded)
    apart = np.diff(layout.step, append=layout.step[-1] + 1)
    zero_us = FIRST_US + np.cumsum(np.append(0, (lengths_s + _BETWEEN_S) * apart))[:-1] * 1e6
    tables = [
        _stage_rows(layout, stage, each, zero_us.astype(np.int64)) for stage, each in enumerate(recorded)
    ]
    return pa.concat_tables(tables)


def _stage_rows(layout: Layout, stage: int, recorded: Recorded, zero_us: Ints) -> pa.Table:
    start_us = np.stack(recorded.start_s) * 1e6
    length_us = np.stack(recorded.end_s) * 1e6 - start_us
    own_us = np.floor(start_us.min(axis=0))
    step, dp_rank = (axis.ravel() for axis in np.indices(layout.lanes))
    rows = len(step)
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.tile(np.arange(len(recorded.op)), rows), pa.int32()), pa.array(recorded.op)
    )
    host = layout.host[stage, dp_rank]
    offsets = pa.array(np.arange(rows + 1) * len(recorded.op), pa.int32())

    def lists(values: pa.Array) -> pa.ListArray:
        return pa.ListArray.from_arrays(offsets, values)

    def by_row(values: Floats) -> pa.ListArray:
        return lists(pa.array(np.ascontiguousarray(np.moveaxis(values, 0, -1)).ravel()))

    return pa.table(
        {
            "step": pa.array(layout.step[step], pa.int64()),
            "rank": pa.array(dp_rank * layout.pp + stage, pa.int32()),
            "dp_rank": pa.array(dp_rank, pa.int32()),
            "pp_rank": pa.array(np.full(rows, stage), pa.int32()),
            "tp_rank": pa.array(np.zeros(rows), pa.int32()),
            "host": pa.array([f"host-{number}" for number in host]),
            "t0_us": pa.array((zero_us[step] + own_us.ravel()).astype(np.int64), pa.int64()),
            "op": lists(names.cast(pa.string())),
            "start_us": by_row(start_us - own_us),
            "duration_us": by_row(length_us),
            "microbatch": lists(pa.array(np.tile(recorded.microbatch, rows), pa.int32())),
            "model_chunk": lists(pa.array(np.tile(recorded.chunk, rows), pa.int32())),
        }
    )
