-- One row per calendar month and cause; a run counts once, however many days it ran. A run has a cause if it had it on
-- at least one of its days in the month; a run counts as flagged if it was flagged on each of those days.
-- GPU-hours are summed over all replayed days that state them, as in cause_day: attributed ones add up over causes,
-- recoverable ones (what fixing this cause alone saves) do not. lost_gpu_hours count analysed days alone and add up
-- over causes to those of fleet_month. All are null where days have the cause, or lose to it, and none of these states any.
WITH runs AS (
    SELECT
        trunc(log_date, 'MONTH') AS month,
        cause, job_id, run_id,
        count_if(is_cause) AS days_held,
        max(lost_fraction) AS lost_fraction,
        count_if(is_cause AND flag_reason IS NOT NULL) AS days_flagged,
        $sum_of_attributed_gpu_hours AS attributed_gpu_hours,
        $sum_of_recoverable_gpu_hours AS recoverable_gpu_hours,
        $sum_of_lost_gpu_hours AS lost_gpu_hours
    FROM job_causes
    GROUP BY ALL
)

SELECT
    month, cause,
    count(*) AS replayed,
    count_if(days_held > 0) AS jobs,
    count_if(days_held > 0 AND days_flagged = days_held) AS flagged_jobs,
    $sum_of_attributed_gpu_hours AS attributed_gpu_hours,
    $sum_of_recoverable_gpu_hours AS recoverable_gpu_hours,
    $sum_of_lost_gpu_hours AS lost_gpu_hours
FROM (SELECT *, days_held > 0 AS is_cause FROM runs) AS of_runs
GROUP BY month, cause
