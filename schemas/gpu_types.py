"""The table gpu_type_slowdown: slowdowns by GPU type, of jobs whose manifests state several GPU types."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import NOT_STATED, UNIT_KEY

MOST_TYPES: Final = 16
"""Only this many types, those with most workers, are replayed; real jobs have only a few."""

GPU_TYPE_SLOWDOWN: Final = Table(
    "gpu_type_slowdown",
    "One row per type of GPU of a replayed unit whose replayed workers are on two known types or more; "
    f"workers on hosts of unknown type count as the type {NOT_STATED}. A worker has the type of the host of "
    "its replayed rank. Means per type mix stages; factors compare types within stages, on usual computes. "
    "time_saved_fraction and saved_gpu_hours describe the whole unit, the same in each of its rows: never "
    "sum them over types.",
    grain=(*UNIT_KEY, "gpu_type"),
    columns=col.declared(f"""
        log_date, job_id, run_id
        gpu_type (text): type of GPU as the log spells it; {NOT_STATED}: unknown, or not among the
            {MOST_TYPES} types with most workers
        workers (size >= 1): workers of the type
        hosts (size >= 0): number of hosts of the replayed ranks of these workers, as far as logged
        forward_ideal_s (seconds? >= 0): mean forward-compute of the type's workers: the paper's ideal for
            them alone; null if they have none
        backward_ideal_s (seconds? >= 0): mean backward-compute of the type's workers; null if they have none
        factor (ratio? >= 1): usual time of computes on the type over that on the fastest type in the same
            stages, geometric mean of both directions; null if unknown
        forward_factor (ratio? >= 0): factor of forward-computes alone
        backward_factor (ratio? >= 0): factor of backward-computes alone
        is_slower (flag): whether the log of the factor is above 0.03 and above 3.5 standard errors
        slowdown (ratio): step time with all ops of its workers as recorded and all else ideal, over T_ideal
            (S_type, like Eq. 2)
        time_saved_fraction (share?): (T_with - T') / T_actual of the unit: T_with is its replay as it ran, T'
            the replay with computes of types with is_slower divided by their factor, as if all were on the
            fastest type. Equal to time_saved_fraction of mixed_hardware in job_causes; null without factors
        saved_gpu_hours (gpu_hours): gpu_hours of the unit x time_saved_fraction; null if either is null
        """),
    expectations=col.rules("""
        -- a type has all three factors or none
        factors_together: (factor IS NULL) = (forward_factor IS NULL) AND (factor IS NULL) = (backward_factor
            IS NULL)
        -- a type that is slower has a factor above 1
        slower_types_have_a_factor: NOT is_slower OR coalesce(factor > 1, false)
        """),
)
