"""Results from a log with step times only: usual step time, and when steps took longer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from schemas.vocabulary import Status
from udfs.kernel.arrays import Floats, Mask

SLOW: Final = 1.1
"""Steps that take this many times as long as the fastest quarter does are slow."""

Row = dict[str, Any]


def timed_results(facts: Mapping[str, Any]) -> tuple[str, str, Row]:
    """Status, detail and figures of a unit whose log has step times but no ops.

    The first is not judged: it allocates memory and compiles kernels.

    facts : row of jobs; `step_times` in the order of the log, at least one
    """
    lines: Sequence[Row] = facts["step_times"]
    step_s = np.array([line["step_s"] for line in lines], dtype=np.float64)
    median_s = float(np.median(step_s))
    steps = [line["step"] for line in lines]
    warm, warm_s = (lines[1:], step_s[1:]) if len(lines) > 1 else (lines, step_s)
    slowest = int(warm_s.argmax())
    detail = (
        f"{len(lines)} step times, of steps {min(steps)} to {max(steps)}: {median_s:.4g} s (median); the "
        f"longest but the first, {warm_s[slowest]:.4g} s, is {_named(warm[slowest])}{_stretch(warm, warm_s)}"
    )
    return Status.STEP_TIMES_ONLY, detail, {"recorded_step_s": median_s, "recorded_steps": len(lines)}


def _stretch(lines: Sequence[Row], step_s: Floats) -> str:
    """Describe the stretch of steps that lost most against the fastest quarter; empty without slow steps."""
    usual_s = float(np.quantile(step_s, 0.25))
    is_slow: Mask = step_s >= SLOW * usual_s
    if not is_slow.any():
        return ""
    edges = np.flatnonzero(np.diff(is_slow.astype(np.int8), prepend=0, append=0))
    first, end = edges[::2], edges[1::2]
    beyond_s = np.concatenate([[0.0], np.cumsum(step_s - usual_s)])
    worst = int((beyond_s[end] - beyond_s[first]).argmax())
    begin, last = int(first[worst]), int(end[worst]) - 1
    factor = float(step_s[begin : last + 1].mean()) / usual_s
    return (
        f"; {int(is_slow.sum())} take {SLOW} times as long as the fastest quarter ({usual_s:.4g} s), or "
        f"longer: the worst in a row from {_named(lines[begin])} to {_named(lines[last])}, {factor:.3g} times"
    )


def _named(line: Row) -> str:
    at = f" ({line['logged_at']} by the log's clock)" if line.get("logged_at") else ""
    return f"step {line['step']}{at}"
