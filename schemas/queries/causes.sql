-- What each cause costs the fleet: job days in which it holds, and GPU-hours of what all fixes together return (attributed,
-- which add up) and of what its own fix returns (recoverable, which do not).
SELECT
    cause,
    sum(replayed) AS replayed_job_days,
    sum(jobs) AS job_days,
    sum(flagged_jobs) AS flagged_job_days,
    sum(attributed_gpu_hours) AS attributed_gpu_hours,
    try_divide(sum(attributed_gpu_hours), sum(sum(attributed_gpu_hours)) OVER ()) AS attributed_share,
    sum(recoverable_gpu_hours) AS recoverable_gpu_hours
FROM cause_day
WHERE $in_period
GROUP BY cause
ORDER BY attributed_gpu_hours DESC NULLS LAST, cause
