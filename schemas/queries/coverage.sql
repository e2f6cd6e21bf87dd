-- How much of the fleet the figures cover (section 3): job days and GPU-hours by status, in which each day of a run
-- counts by its own status. In the paper, less than half of the jobs and more than half of the GPU-hours are left. The
-- query straggling counts runs instead of days.
SELECT
    status,
    count(*) AS job_days,
    count(*) / sum(count(*)) OVER () AS job_days_share,
    sum(gpu_hours) AS gpu_hours,
    try_divide(sum(gpu_hours), sum(sum(gpu_hours)) OVER ()) AS gpu_hours_share
FROM job_slowdown
WHERE $in_period
GROUP BY status
ORDER BY array_position($statuses, status)
