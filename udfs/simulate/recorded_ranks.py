"""Results without a replay: of a profile of only some ranks, and of a log with step times alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.vocabulary import SAMPLING_FORMATS, Status
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.rows import US
from udfs.op_lists import flat_codes, list_lengths
from udfs.simulate.result_tables import Row

_WORK: Final = (*ot.COMPUTE, ot.OPTIMIZER)


def some_ranks_results(
    rank_steps: pa.Table, layout: Layout, facts: Mapping[str, object]
) -> tuple[str, Row] | None:
    """Return the status detail, and the columns of job_slowdown that follow from a profile of some ranks.

    rank_steps : rows of a unit without a complete step
    returns : None if all workers recorded ops, though in different steps, or if the log's tool records all
        ranks, so that rows are missing.
    """
    rows = rank_steps.filter(pa.array(list_lengths(rank_steps) > 0))
    workers = np.unique(np.stack([rows.column(name).to_numpy() for name in ("dp_rank", "pp_rank")]), axis=1)
    if (
        facts.get("source_format") not in SAMPLING_FORMATS
        or workers.shape[1] == layout.dp_size * layout.pp_size
    ):
        return None
    ranks, world_size = len(pc.unique(rows.column("rank"))), facts["world_size"]
    step_s, exposed_s = _step_s(rows), float(_exposed_us(rows).mean() * US)
    usual_s = float(np.median(step_s))
    # The log's reader may have left out communication that the model does not know.
    left_out = facts.get("left_out")
    is_less = isinstance(left_out, Mapping) and any("without a place" in str(what) for what in left_out)
    detail = (
        f"{ranks} of {world_size} ranks recorded, in {len(step_s)} steps: a step takes {usual_s:.3g} s on "
        f"them, {'at least ' if is_less else ''}{exposed_s:.3g} s of it in communication that no compute of "
        "the same rank hides"
    )
    return detail, {
        "recorded_step_s": usual_s,
        "recorded_steps": len(step_s),
        "recorded_ranks": ranks,
        "recorded_exposed_s": exposed_s,
    }


def _step_s(rows: pa.Table) -> Floats:
    """Return each step's time from first start to last end on the recorded ranks; shape (step,). [s]"""
    row, start_us, end_us = _times(rows)
    t0_us = rows.column("t0_us").fill_null(0).to_numpy()
    steps, of_step = np.unique(rows.column("step").to_numpy(), return_inverse=True)
    zero_us = np.full(len(steps), np.iinfo(np.int64).max)
    np.minimum.at(zero_us, of_step, t0_us)
    from_zero_us = (t0_us - zero_us[of_step])[row]
    first_us, last_us = np.full(len(steps), np.inf), np.full(len(steps), -np.inf)
    np.minimum.at(first_us, of_step[row], start_us + from_zero_us)
    np.maximum.at(last_us, of_step[row], end_us + from_zero_us)
    lengths_s: Floats = (last_us - first_us) * US
    return lengths_s


def _exposed_us(rows: pa.Table) -> Floats:
    """Return the time in which each row communicates without computing; shape (row,). [us]"""
    row, start_us, end_us = _times(rows)
    codes = flat_codes(rows)
    is_work: Mask = np.isin(codes, _WORK)
    is_wire: Mask = ~np.isin(codes, ot.AVERAGED)
    at_us, of_row = np.concatenate([start_us, end_us]), np.concatenate([row, row])
    change = np.repeat([1, -1], len(row))
    order = np.lexsort((at_us, of_row))
    working, wiring = (
        np.cumsum(np.where(np.concatenate([kind, kind]), change, 0)[order]) for kind in (is_work, is_wire)
    )
    lasts_us = np.diff(at_us[order], append=0.0)
    is_exposed = (wiring > 0) & (working == 0)
    exposed_us: Floats = np.zeros(rows.num_rows)
    np.add.at(exposed_us, of_row[order], np.where(is_exposed, lasts_us, 0.0))
    return exposed_us


def _times(rows: pa.Table) -> tuple[Ints, Floats, Floats]:
    """Return the row, start and end of each op, relative to the zero of its row. [us]"""
    start_us, duration_us = (
        pc.list_flatten(rows.column(name)).to_numpy() for name in ("start_us", "duration_us")
    )
    return np.repeat(np.arange(rows.num_rows), list_lengths(rows)), start_us, start_us + duration_us


SLOW: Final = 1.1
"""Steps that take at least this multiple of the lower quartile of the step times are slow."""


def timed_results(facts: Mapping[str, Any]) -> tuple[str, str, Row]:
    """Return the status, its detail and the figures of a unit whose log has step times but no ops.

    The first step is not searched for slowness, because it allocates memory and compiles kernels.

    facts : row of jobs, with at least one of `step_times`, in the order of the log
    """
    lines: Sequence[Row] = facts["step_times"]
    step_s = np.array([line["step_s"] for line in lines], dtype=np.float64)
    median_s = float(np.median(step_s))
    steps = [line["step"] for line in lines]
    warm, warm_s = (lines[1:], step_s[1:]) if len(lines) > 1 else (lines, step_s)
    slowest = int(warm_s.argmax())
    usual_s = float(np.quantile(warm_s, 0.25))
    is_slow: Mask = warm_s >= SLOW * usual_s
    stretch = ""
    if is_slow.any():
        edges = np.flatnonzero(np.diff(is_slow.astype(np.int8), prepend=0, append=0))
        first, end = edges[::2], edges[1::2]
        beyond_s = np.concatenate([[0.0], np.cumsum(warm_s - usual_s)])
        worst = int((beyond_s[end] - beyond_s[first]).argmax())
        begin, last = int(first[worst]), int(end[worst]) - 1
        factor = float(warm_s[begin : last + 1].mean()) / usual_s
        stretch = (
            f"; {int(is_slow.sum())} take {SLOW} times as long as the fastest quarter ({usual_s:.4g} s), or "
            f"longer: the worst in a row from {_named(warm[begin])} to {_named(warm[last])}, "
            f"{factor:.3g} times"
        )
    detail = (
        f"{len(lines)} step times, of steps {min(steps)} to {max(steps)}: {median_s:.4g} s (median); the "
        f"longest after the first, {warm_s[slowest]:.4g} s, is {_named(warm[slowest])}"
        f"{stretch}"
    )
    return Status.STEP_TIMES_ONLY, detail, {"recorded_step_s": median_s, "recorded_steps": len(lines)}


def _named(line: Row) -> str:
    at = f" ({line['logged_at']} by the log's clock)" if line.get("logged_at") else ""
    return f"step {line['step']}{at}"
