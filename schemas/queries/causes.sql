-- The cost of each cause for the fleet: analysed job days with it, and the part of their GPU-hours and time that is
-- lost to it. Shares are of all that is lost; over all causes, unexplained included, they sum to 1.
SELECT
    cause,
    sum(analysed_jobs) AS job_days,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    try_divide(sum(lost_gpu_hours), sum(sum(lost_gpu_hours)) OVER ()) AS lost_gpu_hours_share,
    try_divide(sum(lost_s), sum(sum(lost_s)) OVER ()) AS lost_share_of_time
FROM cause_day
WHERE $in_period
GROUP BY cause
ORDER BY lost_gpu_hours DESC NULLS LAST, lost_share_of_time DESC NULLS LAST, cause
