-- Slow hosts without a failed check: one row per day with health data and host that a cause that holds names (as in
-- fix_parts) and on which no check failed on that day. is_watched: whether checks of the host passed on that day; if
-- not, no check was done, or none was reported. lost_gpu_hours and lost_s are what was lost to the host on that day.
-- The reason for the slowness of watched hosts is one that no check covers.
WITH days AS (
    SELECT DISTINCT log_date FROM host_health
),

said AS (
    SELECT log_date, host, max(CAST(severity <> 'ok' AS INT)) AS has_failed FROM host_health GROUP BY log_date, host
),

slow AS (
    SELECT
        log_date, host,
        array_sort(collect_set(cause)) AS causes,
        array_sort(collect_set(job_id)) AS job_ids,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        sum(lost_s) AS lost_s
    FROM fix_parts
    JOIN days USING (log_date)
    WHERE host IS NOT NULL
    GROUP BY log_date, host
)

SELECT log_date, host, has_failed IS NOT NULL AS is_watched, causes, job_ids, lost_gpu_hours, lost_s
FROM slow
LEFT JOIN said USING (log_date, host)
WHERE coalesce(has_failed, 0) = 0
ORDER BY log_date, lost_gpu_hours DESC NULLS LAST, host
