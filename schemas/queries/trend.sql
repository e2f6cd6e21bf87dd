-- Is it getting better? The fleet by week, beginning on Monday: job days analysed and straggling, GPU-hours wasted, and
-- the share of the fleet that these figures cover.
SELECT
    CAST(date_trunc('WEEK', log_date) AS DATE) AS week,
    sum(jobs) AS job_days,
    sum(analysed) AS analysed_job_days,
    sum(straggling) AS straggling_job_days,
    try_divide(sum(straggling), sum(analysed)) AS straggling_share,
    sum(gpu_hours) AS gpu_hours,
    sum(analysed_gpu_hours) AS analysed_gpu_hours,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)) AS wasted_gpu_hours_share,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    try_divide(sum(lost_gpu_hours), sum(analysed_gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL))
        AS lost_gpu_hours_share,
    try_divide(sum(lost_s), sum(analysed_s)) AS lost_share_of_time
FROM group_day
WHERE dimension = 'fleet' AND $in_period
GROUP BY week
ORDER BY week
