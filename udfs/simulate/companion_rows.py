"""Rows of job_causes, host_clock and job_baseline for one unit.

The kernel's codes become names, and its pairs (stage, dp_rank) become ranks and hosts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas import vocabulary
from schemas.causes import FLAG_REASONS, NOBODY_LATE
from schemas.vocabulary import CAUSES, CULPRIT_COURSES, OP_TYPES, Status
from udfs.intervals import around, in_gpu_hours, or_null
from udfs.kernel import cause as kernel
from udfs.kernel.cause import ALL, ALWAYS, CauseFound, Culprit
from udfs.kernel.clocks.estimate import Clocks
from udfs.kernel.diagnosis.intervals import half_widths, number_of_steps, with_diagnosis
from udfs.kernel.op_type import COMPUTE, GRADS_REDUCE_SCATTER
from udfs.kernel.recorded.rows import US
from udfs.kernel.selection import medians_along
from udfs.kernel.what_if import WhatIf
from udfs.layout import read_layout
from udfs.lost import lost_columns
from udfs.op_lists import GROUPS
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.worker_groups import WorkerGroups

Row = dict[str, Any]

_FLAGS: Final = (None, *FLAG_REASONS)
"""Reason of a flag by the kernel's code; None for no flag."""

_MANY_STEPS: Final = 0.1
"""Causes are flagged if, in this share of the steps, a stage waits in a reduce-scatter without a late
worker."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

PPM = 1e6
"""Drift in parts per million of seconds per second."""

_NS: Final = 1e-9
"""Seconds in a nanosecond."""


def cause_rows(found: WhatIf, rows: ReplayedRows, job: Row, racks: WorkerGroups | None) -> list[Row]:
    """Return a row for each cause that the log can show, in the order of CAUSES; no rows without a diagnosis.

    rows  : the diagnosed rows, which state ranks and hosts of the culprits.
    job   : the unit's row of job_slowdown: status, gpu_hours, world_size.
    racks : racks of the workers; None if no label names them.
    """
    diagnosis, gpu_hours = found.diagnosis, job["gpu_hours"]
    if diagnosis is None:
        return []
    hidden = set[int]()
    if found.recorded.nobody_late.mean() >= _MANY_STEPS:
        # The log may hide all causes but those of own ops, or of scatters that are faster in other steps.
        culprits = diagnosis.causes[kernel.COMMUNICATION].culprits
        scatters = any(each.direction == GRADS_REDUCE_SCATTER for each in culprits)
        is_shown = {kernel.SLOW_WORKER: True, kernel.COMMUNICATION: scatters}
        hidden = {code for code, shown in is_shown.items() if not (shown and diagnosis.causes[code].is_cause)}
    widths = np.full((4, len(diagnosis.causes)), math.nan)
    if diagnosis.saved_by_step is not None:
        actual_s = found.recorded.actual_s
        steps_of_day = number_of_steps(rows.steps, actual_s, gpu_hours, job["world_size"])
        of_steps = half_widths(diagnosis.saved_by_step, actual_s, rows.steps, steps_of_day)
        widths = with_diagnosis(of_steps, diagnosis.causes)
    names = _Names(rows, racks)
    causes = [
        _row(code, each, names, gpu_hours, own, is_hidden=code in hidden)
        for code, (each, own) in enumerate(zip(diagnosis.causes, widths.T.tolist(), strict=True))
        if code in diagnosis.shown
    ]
    lost = lost_columns(causes, gpu_hours, is_analysed=job["status"] == Status.ANALYSED)
    return [row | each for row, each in zip(causes, lost, strict=True)]


class _Names:
    """Names of a unit's workers, hosts, racks and steps."""

    def __init__(self, rows: ReplayedRows, racks: WorkerGroups | None) -> None:
        self._rows = rows
        self._hosts = rows.table.column("host")  # once, because Arrow makes a column anew at every look
        self.racks = [] if racks is None else racks.names
        self._began_us = (rows.time_s / US).round().tolist() if rows.has_times else None

    def worker(self, stage: int, dp_rank: int, first: int, last: int) -> Row:
        """Return a worker, stage or replica as job_causes names it, with the worker's host in these steps."""
        is_one = ALL not in (stage, dp_rank)
        row = self._rows.host_row_of(stage, dp_rank, first, last) if is_one else -1
        return {
            "pp_rank": None if stage == ALL else stage,
            "dp_rank": None if dp_rank == ALL else dp_rank,
            "rank": int(self._rows.worker_rank[stage, dp_rank]) if is_one else None,
            "host": self._hosts[row].as_py() if row >= 0 else None,
        }

    def when(self, first: int, last: int) -> Row:
        """Return the numbers and start times of the first and the last step; times may be null."""
        steps, began_us = self._rows.steps, self._began_us
        first_time, last_time = (None if began_us is None else _moment(began_us[at]) for at in (first, last))
        return {
            "first_step": int(steps[first]),
            "last_step": int(steps[last]),
            "first_time": first_time,
            "last_time": last_time,
        }


def _moment(unix_us: float) -> datetime | None:
    """Convert Unix time to a datetime, or to None outside the years that datetime supports."""
    try:
        return _EPOCH + timedelta(microseconds=unix_us)
    except OverflowError:
        return None


def _row(
    code: int,
    found: CauseFound,
    names: _Names,
    gpu_hours: float | None,
    half_widths: Sequence[float],
    *,
    is_hidden: bool,
) -> Row:
    evidence = zip(vocabulary.EVIDENCE_KEYS, found.evidence, strict=True)
    saved: Row = {}
    *halves, of_diagnosis, freedom = half_widths
    for name, half in zip(("time_saved_fraction", "attributed_fraction"), halves, strict=True):
        value = getattr(found, name)
        bounds = around(name, value, or_null(half))
        saved |= {name: value, **bounds}
        saved |= in_gpu_hours(saved, name, gpu_hours)
    return {
        "cause": CAUSES[code],
        "is_cause": found.is_cause,
        **saved,
        "diagnosis_error_fraction": or_null(of_diagnosis),
        "interval_freedom": or_null(freedom),
        "flag_reason": _FLAGS[found.flag] or (NOBODY_LATE if is_hidden else None),
        "culprits": [_culprit(each, names) for each in found.culprits],
        "evidence": {key: number for key, number in evidence if not math.isnan(number)},
    }


def _culprit(culprit: Culprit, names: _Names) -> Row:
    first, last = culprit.first_step, culprit.last_step
    workers = [names.worker(stage, dp_rank, first, last) for stage, dp_rank in culprit.workers]
    named = next((each["host"] for each in workers if each["host"] is not None), None)
    always, intermittent, once = vocabulary.CULPRIT_PATTERNS
    direction, code = vocabulary.DIRECTION_BOTH, culprit.direction
    if code != kernel.BOTH:
        direction = vocabulary.COMPUTE_DIRECTIONS[code] if code in COMPUTE else OP_TYPES[code]
    return {
        **names.worker(culprit.stage, culprit.dp_rank, first, last),
        "effect": culprit.effect,
        "lost_s": culprit.lost_s or None,
        "share_of_steps": culprit.share_of_steps,
        "pattern": always if culprit.course == ALWAYS else once if first == last else intermittent,
        "direction": direction,
        "course": CULPRIT_COURSES[culprit.course],
        **names.when(first, last),
        "reach": vocabulary.CULPRIT_REACHES[culprit.reach],
        "slow_host": named if culprit.reach == kernel.HOST else None,
        "slow_rack": names.racks[culprit.host] if culprit.reach == kernel.RACK else None,
        "workers": workers,
    }


def clock_figures(clocks: Clocks | None, rows: ReplayedRows) -> dict[str, object]:
    """Return the clock columns of job_slowdown, which are zeros if there is only one clock."""
    mean_s = np.zeros(1) if clocks is None else clocks.ahead_s.mean(axis=1)
    return {
        "clocks": len(rows.clock_names),
        "clock_offset_s": float(mean_s[np.abs(mean_s).argmax()]),
        "clock_drift_ppm": 0.0 if clocks is None else float(np.abs(clocks.drift).max()) * PPM,
        "clock_residual_s": 0.0 if clocks is None else clocks.residual_s,
        "is_clock_corrected": clocks is not None and clocks.is_corrected,
    }


def clock_columns(clocks: Clocks | None, rows: ReplayedRows) -> dict[str, Any]:
    """Return the columns of host_clock; a clock without a link to others has zeros, and no error."""
    number = np.arange(len(rows.clock_names))
    names = {"clock": rows.clock_names, "host": rows.host_of_clock, "rank": rows.rank_of_clock}
    if clocks is None:
        zero_s, unknown = np.zeros(len(number)), pa.nulls(len(number), pa.float64())
        figures = ("offset_s", "largest_offset_s", "drift_ppm", "largest_jump_s")
        none = {"part": number, "jumps": 0 * number, "error_s": unknown, "is_corrected": number < 0}
        return names | dict.fromkeys(figures, zero_s) | none
    # A clock without links is the median of its part, so that its offset and drift are already zero.
    is_joined = np.bincount(clocks.part, minlength=len(number))[clocks.part] > 1
    furthest = np.abs(clocks.ahead_s).argmax(axis=1)
    return names | {
        "part": clocks.part,
        "offset_s": clocks.ahead_s.mean(axis=1),
        "largest_offset_s": clocks.ahead_s[number, furthest],
        "drift_ppm": clocks.drift * PPM,
        "jumps": clocks.jumps,
        "largest_jump_s": clocks.jump_s,
        "error_s": pa.array(clocks.error_s, mask=~is_joined),
        "is_corrected": is_joined & clocks.is_corrected,
    }


def baseline_row(
    facts: Mapping[str, object],
    found: WhatIf,
    rows: ReplayedRows,
    causes: Iterable[Row],
    types: WorkerGroups | None,
) -> Row:
    """Return the row of job_baseline, without the columns that job_slowdown has as well.

    facts  : the manifest.
    causes : the unit's rows of job_causes.
    types  : GPU types of the workers; None if not stated.
    """
    layout = read_layout(facts)
    by_group_s: dict[str, list[float]] = {}  # send and recv are one group
    for group, of_stages in zip(GROUPS, found.ideal_duration_s.T, strict=True):
        recorded_s = of_stages[~np.isnan(of_stages)]
        if recorded_s.size:
            by_group_s.setdefault(group, []).append(float(recorded_s.sum()) / recorded_s.size)
    gpu_type = _text(facts.get("gpu_type"))
    if types is not None and (types.is_mixed or not gpu_type):
        # Mixed types are joined, so that no unit of one type is compared with them.
        gpu_type = " + ".join(types.names)
    return {
        **{name: getattr(layout, name) for name in ("dp_size", "pp_size", "cp_size", "vpp_size")},
        "model": _text(facts.get("model")),
        "gpu_type": gpu_type,
        "ops_per_step": rows.ops / len(rows.steps),
        "stages": _stages(found, rows),
        "op_types": [
            {"op_type": name, "ideal_duration_s": sum(times_s) / len(times_s)}
            for name, times_s in by_group_s.items()
        ],
        "slow_hosts": [
            slow
            for cause in causes
            if cause["cause"] == CAUSES[kernel.SLOW_WORKER]
            for slow in _slow_hosts(cause)
        ],
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _stages(found: WhatIf, rows: ReplayedRows) -> list[Row]:
    """Return each stage's usual compute time per step, as on the fastest GPU type [s], and its hosts.

    The hosts of a stage are null if one of them is unknown.
    """
    by_worker_s = medians_along(found.recorded.compute_ns * _NS, 1)
    if found.diagnosis is not None and found.diagnosis.types is not None:
        by_worker_s = by_worker_s / found.diagnosis.types.of_workers.mean(axis=1)[:, 0, 0, 0]
    dp_ranks = by_worker_s.shape[1]
    made: list[Row] = []
    for stage, usual_s in enumerate(np.sort(by_worker_s, axis=1)[:, (dp_ranks - 1) // 2].tolist()):
        of_workers = rows.hosts[stage * dp_ranks :][:dp_ranks]
        known = {host for host in of_workers if host is not None}
        hosts = None if None in of_workers else sorted(known)
        made.append({"pp_rank": stage, "usual_compute_s": usual_s, "hosts": hosts})
    return made


def _slow_hosts(cause: Row) -> list[Row]:
    """Return the hosts of always slow workers, with the largest effect on each; empty for a flagged cause."""
    if not cause["is_cause"] or cause["flag_reason"] is not None:
        return []
    effects: dict[str, float] = {}
    for culprit in cause["culprits"]:
        host = culprit["slow_host"] or culprit["host"]
        if host is not None and culprit["course"] == CULPRIT_COURSES[ALWAYS]:
            effects[host] = max(culprit["effect"], effects.get(host, 0.0))
    return [{"host": host, "effect": effect} for host, effect in effects.items()]
