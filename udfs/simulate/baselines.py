"""What a unit usually takes, by stage and by op type: what other units are compared with."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.vocabulary import CAUSES, CULPRIT_PATTERNS, OP_TYPE_GROUPS, OP_TYPES
from udfs.kernel.arrays import Floats
from udfs.kernel.cause import ALWAYS
from udfs.kernel.cause import SLOW_WORKER as SLOW_WORKER_CODE
from udfs.kernel.op_type import COMPUTE, COUNT
from udfs.kernel.selection import medians_along
from udfs.layout import read_layout
from udfs.op_lists import list_lengths, op_codes
from udfs.simulate.rank_rows import ReplayedRows

Row = dict[str, object]

SLOW_WORKER: Final = CAUSES[SLOW_WORKER_CODE]

_IS_COMPUTE: Final = np.isin(np.arange(COUNT), COMPUTE)

_NS: Final = 1e-9
"""Seconds in a nanosecond."""
_NS_IN_US: Final = 1e3


def baseline_row(
    facts: Mapping[str, object], ideal_s: Floats, rows: ReplayedRows, causes: Iterable[Mapping[str, Any]]
) -> Row:
    """Row of job_baseline, but for what it shares with job_slowdown.

    facts   : the manifest.
    ideal_s : float64, shape (stage, op type); nan where a type was never recorded. [s]
    causes  : rows of job_causes.
    """
    layout = read_layout(facts)
    return {
        **{name: getattr(layout, name) for name in ("dp_size", "pp_size", "cp_size", "vpp_size")},
        **{name: value for name in ("model", "gpu_type") if isinstance(value := facts.get(name), str)},
        "ops_per_step": rows.ops / len(rows.steps),
        "stages": _stages(rows),
        "op_types": [
            {"op_type": name, "ideal_duration_s": time_s} for name, time_s in _op_types_s(ideal_s).items()
        ],
        "slow_hosts": [
            slow for cause in causes if cause["cause"] == SLOW_WORKER for slow in _slow_hosts(cause)
        ],
    }


def _stages(rows: ReplayedRows) -> list[Row]:
    """What the computes of a usual worker of each stage take in a step, and its hosts."""
    by_worker_s = medians_along(_compute_of_rows(rows.table)[rows.replayed_row], 1)
    middle = (by_worker_s.shape[1] - 1) // 2
    return [
        {"pp_rank": stage, "usual_compute_s": usual_s, "hosts": _hosts(rows, stage)}
        for stage, usual_s in enumerate(np.sort(by_worker_s, axis=1)[:, middle].tolist())
    ]


def _slow_hosts(cause: Mapping[str, Any]) -> list[Row]:
    """Hosts of always slow workers, each with its largest effect; none where the cause is doubtful."""
    if not cause["is_cause"] or cause["flag_reason"] is not None:
        return []
    effects: dict[str, float] = {}
    for culprit in cause["culprits"]:
        host = culprit["host"]
        if host is not None and culprit["pattern"] == CULPRIT_PATTERNS[ALWAYS]:
            effects[host] = max(culprit["effect"], effects.get(host, 0.0))
    return [{"host": host, "effect": effect} for host, effect in effects.items()]


def _op_types_s(ideal_s: Floats) -> dict[str, float]:
    """Ideal duration by op type, send and recv of one direction as one; without types never recorded. [s]

    ideal_s : float64, shape (stage, op type); nan where a type was never recorded. [s]
    """
    known: dict[str, list[float]] = {}
    for name, of_stages in zip(OP_TYPES, ideal_s.T, strict=True):
        recorded = of_stages[~np.isnan(of_stages)]
        if recorded.size:
            known.setdefault(OP_TYPE_GROUPS.get(name, name), []).append(float(recorded.mean()))
    return {name: sum(values) / len(values) for name, values in known.items()}


def _compute_of_rows(table: pa.Table) -> Floats:
    """Time that the computes of each row take together; shape (row,). [s]

    Batch by batch, so that no column of a large unit is copied whole. Sums of whole nanoseconds are exact,
    and so the same in whatever order a line lists its ops.
    """
    parts: list[Floats] = [np.empty(0)]
    for batch in table.select(["op", "duration_us"]).to_batches():
        one = pa.Table.from_batches([batch])
        lengths = list_lengths(one)
        is_compute = _IS_COMPUTE[op_codes(batch.column("op").flatten())]
        time_ns = np.zeros(len(is_compute) + 1)  # one more, for rows without ops behind the last
        np.multiply(batch.column("duration_us").flatten().to_numpy(), _NS_IN_US, out=time_ns[:-1])
        np.rint(time_ns, out=time_ns)
        time_ns[:-1][~is_compute] = 0.0
        total_ns: Floats = np.add.reduceat(time_ns, np.cumsum(lengths) - lengths)
        parts.append(np.where(lengths > 0, total_ns, 0.0))
    total_s: Floats = np.concatenate(parts) * _NS
    return total_s


def _hosts(rows: ReplayedRows, stage: int) -> list[str] | None:
    """Hosts of a stage's workers, each once; None where one is not known."""
    if "host" not in rows.table.column_names:
        return None
    column = rows.table.column("host")
    hosts = {column[row].as_py() for row in rows.worker_row[stage].tolist()}
    return None if None in hosts else sorted(hosts)
