-- What to fix first, worst first: one row per cause and host if the culprit is a host or a worker on a known one, else per
-- cause and job, over all analysed days with the cause; the last row is what no cause explains.
-- lost_gpu_hours (and lost_s, of the recorded steps, also without GPU-hours) add up over all rows to what
-- the fleet lost; recoverable_gpu_hours are what fixing this cause alone saves, and do not add up over causes.
-- Several culprits of one unit share its hours as fix_parts says, an estimate. time_saved_fraction_max is
-- the largest part of a unit's step time that the fix alone saves. flagged_units are those with a flag_reason
-- in job_causes.
-- explained_by are the checks of the host that failed before it was slow, or with it, and that cause_evidence takes for the
-- explanation, as 'gpu 3 throttle_thermal'; null where there is none.
WITH explained AS (
    SELECT
        cause,
        culprit_host AS host,
        array_sort(
            collect_set(concat_ws(' ', component, CASE WHEN device >= 0 THEN CAST(device AS STRING) END, check_name))
        ) AS explained_by
    FROM cause_evidence
    WHERE explains AND culprit_host IS NOT NULL AND $in_period
    GROUP BY cause, culprit_host
),

fixes AS (
    SELECT
        cause,
        host,
        array_sort(collect_set(job_id)) AS job_ids,
        count(*) AS units,
        count_if(is_flagged) AS flagged_units,
        min(log_date) AS first_day,
        max(log_date) AS last_day,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        sum(lost_s) AS lost_s,
        sum(attributed_gpu_hours) AS attributed_gpu_hours,
        sum(recoverable_gpu_hours) AS recoverable_gpu_hours,
        max(time_saved_fraction) AS time_saved_fraction_max
    FROM fix_parts
    WHERE $in_period
    GROUP BY cause, host, CASE WHEN host IS NULL AND cause <> $unexplained THEN job_id END
)

SELECT fixes.*, explained_by
FROM fixes
LEFT JOIN explained USING (cause, host)
ORDER BY cause = $unexplained, lost_gpu_hours DESC NULLS LAST, lost_s DESC, cause, host, job_ids
