-- One row per calendar month and cause; a run counts once, however many days it ran. A run has a cause if the cause holds
-- on at least one of its days in the month; the run counts as flagged if the cause is flagged on each of these days.
-- GPU-hours are summed over all replayed days that state them, as in cause_day: attributed_gpu_hours add up over causes,
-- recoverable_gpu_hours (what fixing this cause alone saves) do not. lost_gpu_hours count only analysed days, and add up
-- over causes to those of fleet_month. A sum is null if days have the cause, or lose to it, and none states GPU-hours.
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
