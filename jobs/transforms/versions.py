"""Comparison of two sets of results for the same units, before a new version becomes current."""

from typing import Final

from pyspark.sql import DataFrame

from schemas.vocabulary import UNIT_KEY

_KEY: Final = ", ".join(UNIT_KEY)
_RESULTS: Final = f"""
    SELECT {_KEY}, simulator_version, simulation_settings, status, slowdown, wasted_gpu_hours,
        coalesce(causes, CAST(array() AS array<string>)) AS causes
    FROM {{job_slowdown}} LEFT JOIN (
        SELECT {_KEY}, sort_array(collect_list(cause)) AS causes
        FROM {{job_causes}} WHERE is_cause GROUP BY ALL
    ) USING ({_KEY})"""

# Units of one side alone are reported as such: comparisons with null are null, and null is not a change.
_CHANGES: Final = f"""
    SELECT {_KEY}, array_join(changes, ', ') AS changed,
        current.status, new.status AS new_status,
        current.slowdown, new.slowdown AS new_slowdown, new.slowdown - current.slowdown AS slowdown_change,
        array_join(current.causes, ', ') AS causes, array_join(new.causes, ', ') AS new_causes,
        new.wasted_gpu_hours - current.wasted_gpu_hours AS wasted_gpu_hours_change,
        current.simulator_version, new.simulator_version AS new_simulator_version
    FROM {{current}} AS current FULL JOIN {{new}} AS new USING ({_KEY}),
    LATERAL (SELECT array_compact(array(
        if(new.status IS NULL, 'only in current', NULL),
        if(current.status IS NULL, 'only in new', NULL),
        if(new.status != current.status, 'status', NULL),
        if(abs(new.slowdown - current.slowdown) > {{tolerance}} * greatest(1, abs(current.slowdown)),
            'slowdown', NULL),
        if(new.causes != current.causes, 'causes', NULL)
    )) AS changes)
    WHERE size(changes) > 0
    ORDER BY abs(slowdown_change) DESC NULLS FIRST, {_KEY}"""


def results_with_causes(job_slowdown: DataFrame, job_causes: DataFrame) -> DataFrame:
    """Return one row per unit: key, compared figures, and names of the causes that were found."""
    return job_slowdown.sparkSession.sql(_RESULTS, job_slowdown=job_slowdown, job_causes=job_causes)


def changed_units(current: DataFrame, new: DataFrame, tolerance: float) -> DataFrame:
    """Return units whose results differ, one row each, the largest change of slowdown first.

    current, new : as results_with_causes returns them
    tolerance : largest difference of equal slowdowns, relative to the larger of 1 and the current slowdown
    """
    return current.sparkSession.sql(_CHANGES, current=current, new=new, tolerance=tolerance)
