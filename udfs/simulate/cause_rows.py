"""Rows of job_causes from the kernel's diagnosis: codes become names, cells become ranks and hosts."""

import math
from typing import Final

import pyarrow as pa

from schemas.vocabulary import CAUSES, CULPRIT_PATTERNS, EVIDENCE_KEYS, FLAG_REASONS
from udfs.kernel.cause import ALL, CauseFound, Culprit, Diagnosis
from udfs.lost import lost_columns
from udfs.simulate.rank_rows import ReplayedRows

Row = dict[str, object]

_FLAGS: Final = (None, *FLAG_REASONS)
"""By the kernel's code; no flag, no reason."""


def cause_rows(
    diagnosis: Diagnosis, rows: ReplayedRows, gpu_hours: float | None, *, is_analysed: bool
) -> list[Row]:
    """One row for each cause, in the order of CAUSES.

    rows      : those that were diagnosed; they know ranks and hosts of the culprits.
    gpu_hours : of the unit, None where its manifest does not say. [GPU h]
    """
    # Once, because Arrow makes a column anew at every look.
    hosts = rows.table.column("host") if "host" in rows.table.column_names else None
    causes = [
        _row(code, found, rows, hosts, gpu_hours)
        for code, found in zip(range(len(CAUSES)), diagnosis.causes, strict=True)
    ]
    lost = lost_columns(causes, gpu_hours, is_analysed=is_analysed)
    return [row | each for row, each in zip(causes, lost, strict=True)]


def _row(
    code: int, found: CauseFound, rows: ReplayedRows, hosts: pa.ChunkedArray | None, gpu_hours: float | None
) -> Row:
    saved = found.time_saved_fraction
    attributed = found.attributed_fraction
    evidence = zip(EVIDENCE_KEYS, found.evidence, strict=True)  # what does not exist is left out
    return {
        "cause": CAUSES[code],
        "is_cause": found.is_cause,
        "time_saved_fraction": saved,
        "attributed_fraction": attributed,
        "recoverable_gpu_hours": None if gpu_hours is None else gpu_hours * saved,
        "attributed_gpu_hours": None if gpu_hours is None else gpu_hours * attributed,
        "flag_reason": _FLAGS[found.flag],
        "culprits": [_culprit(each, rows, hosts) for each in found.culprits],
        "evidence": {key: number for key, number in evidence if not math.isnan(number)},
    }


def _culprit(culprit: Culprit, rows: ReplayedRows, hosts: pa.ChunkedArray | None) -> Row:
    stage, dp_rank = culprit.stage, culprit.dp_rank
    is_one_worker = ALL not in (stage, dp_rank)
    return {
        "pp_rank": None if stage == ALL else stage,
        "dp_rank": None if dp_rank == ALL else dp_rank,
        "rank": int(rows.worker_rank[stage, dp_rank]) if is_one_worker else None,
        "host": hosts[int(rows.worker_row[stage, dp_rank])].as_py()
        if is_one_worker and hosts is not None
        else None,
        "effect": culprit.effect,
        "share_of_steps": culprit.share_of_steps,
        "pattern": CULPRIT_PATTERNS[culprit.pattern],
    }
