-- How much of the fleet the figures cover (section 3): jobs and GPU-hours by the furthest status of a run.
-- In the paper, less than half of the jobs and more than half of the GPU-hours are left.
WITH runs AS ($runs)

SELECT
    status,
    count(*) AS jobs,
    count(*) / sum(count(*)) OVER () AS jobs_share,
    sum(gpu_hours) AS gpu_hours,
    try_divide(sum(gpu_hours), sum(sum(gpu_hours)) OVER ()) AS gpu_hours_share
FROM runs
GROUP BY status
ORDER BY array_position($statuses, status)
