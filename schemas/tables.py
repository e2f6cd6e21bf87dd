"""All tables of the warehouse, by name."""

from typing import Final

from schemas import (
    cause_day,
    coverage_day,
    dp_rank_slowdown,
    fleet_day,
    group_day,
    host_clock,
    host_day,
    job_baseline,
    job_causes,
    job_slowdown,
    jobs,
    op_type_day,
    op_type_slowdown,
    pipeline_runs,
    rank_steps,
    rejects,
    source_files,
    stage_slowdown,
    step_slowdown,
    unit_fingerprints,
    worker_slowdown,
)
from schemas.table import Table

TABLES: Final[dict[str, Table]] = {
    module.TABLE.name: module.TABLE
    for module in (
        rank_steps,
        jobs,
        rejects,
        source_files,
        job_slowdown,
        step_slowdown,
        op_type_slowdown,
        stage_slowdown,
        dp_rank_slowdown,
        worker_slowdown,
        host_clock,
        job_causes,
        job_baseline,
        fleet_day,
        cause_day,
        host_day,
        coverage_day,
        group_day,
        op_type_day,
        pipeline_runs,
        unit_fingerprints,
    )
}
"""In the order of vocabulary.TABLE_NAMES."""
