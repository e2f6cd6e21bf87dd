-- The cost of each cause for the fleet: analysed job days with the cause, and the GPU-hours and time lost to it. Shares
-- are of everything that is lost, and sum to 1 over all causes, unexplained included. GPU-hours are null if none of the
-- days that lose to the cause states any; the share of the time then shows how large the cause is.
WITH sums AS (
    SELECT
        cause,
        sum(analysed_jobs) AS job_days,
        $lost_gpu_hours_of_days AS lost_gpu_hours,
        sum(lost_s) AS lost_s
    FROM cause_day
    WHERE $in_period
    GROUP BY cause
)

SELECT
    cause, job_days, lost_gpu_hours,
    try_divide(lost_gpu_hours, sum(lost_gpu_hours) OVER ()) AS lost_gpu_hours_share,
    try_divide(lost_s, sum(lost_s) OVER ()) AS lost_share_of_time
FROM sums
ORDER BY coalesce(lost_gpu_hours, 0D) DESC, lost_share_of_time DESC NULLS LAST, cause
