"""What a unit usually takes, by stage and by op type: what other runs of the same model are held against."""

from typing import Final

import numpy as np
import pyarrow as pa

from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPES
from udfs.kernel.op_type import COMPUTE
from udfs.kernel.program import Floats
from udfs.op_lists import list_lengths, op_codes
from udfs.rank_rows import ReplayedRows

_NS: Final = 1e-9
"""Seconds in a nanosecond."""
_NS_IN_US: Final = 1e3


def stage_baselines(rows: ReplayedRows) -> dict[str, list[object]]:
    """Columns of stage_slowdown: pp_rank, usual_compute_s, hosts."""
    compute_s = np.median(_compute_of_rows(rows.table)[rows.replayed_row], axis=1)
    middle = (compute_s.shape[1] - 1) // 2
    return {
        "pp_rank": list(range(len(compute_s))),
        "usual_compute_s": np.sort(compute_s, axis=1)[:, middle].tolist(),
        "hosts": [_hosts(rows, stage) for stage in range(len(compute_s))],
    }


def op_type_baselines(ideal_s: Floats) -> dict[str, float]:
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
        is_compute = np.isin(op_codes(batch.column("op").flatten()), COMPUTE)
        row = np.repeat(np.arange(len(lengths)), lengths)[is_compute]
        duration_us = batch.column("duration_us").flatten().to_numpy()[is_compute]
        total_ns: Floats = np.bincount(row, np.rint(duration_us * _NS_IN_US), len(lengths)).astype(np.float64)
        parts.append(total_ns)
    total_s: Floats = np.concatenate(parts) * _NS
    return total_s


def _hosts(rows: ReplayedRows, stage: int) -> list[str] | None:
    """Hosts of a stage's workers, each once; None where one is not known."""
    if "host" not in rows.table.column_names:
        return None
    column = rows.table.column("host")
    hosts = {column[row].as_py() for row in rows.worker_row[stage].tolist()}
    return None if None in hosts else sorted(hosts)
