-- What to fix first, worst first: one row per cause and host where the culprit is a worker on a known host, per cause
-- and job elsewhere, over all days on which the cause holds. attributed_gpu_hours share out what all fixes together
-- return, and add up over all rows without counting an hour twice; recoverable_gpu_hours are what this fix alone
-- returns, and do not add up over causes. Several culprits of one unit share its hours by effect and share of steps, an
-- estimate. time_saved_fraction_max is the largest part of a unit's step time that the fix alone saves: it orders rows
-- whose units state no GPU-hours. flagged_units are those of which job_causes says why not to trust them.
SELECT
    cause,
    host,
    array_sort(collect_set(job_id)) AS job_ids,
    count(*) AS units,
    count_if(is_flagged) AS flagged_units,
    min(log_date) AS first_day,
    max(log_date) AS last_day,
    sum(attributed_gpu_hours) AS attributed_gpu_hours,
    sum(recoverable_gpu_hours) AS recoverable_gpu_hours,
    max(time_saved_fraction) AS time_saved_fraction_max
FROM fix_parts
GROUP BY cause, host, CASE WHEN host IS NULL THEN job_id END
ORDER BY attributed_gpu_hours DESC NULLS LAST, time_saved_fraction_max DESC, cause, host, job_ids
