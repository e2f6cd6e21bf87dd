-- What each op type alone wastes of the GPU-hours of its jobs (section 4.3; in the paper computes matter and
-- communication hardly does), as a share of the GPU-hours of the jobs that have it, and of all analysed ones: only the
-- latter compare op types. The shares do not add up: one op type hides behind another.
SELECT
    op_type,
    sum(jobs) AS job_days,
    sum(slowed) AS slowed_job_days,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(gpu_hours)) AS wasted_gpu_hours_share,
    try_divide(sum(wasted_gpu_hours), max(analysed_gpu_hours)) AS analysed_gpu_hours_share
FROM op_type_day
CROSS JOIN (SELECT sum(gpu_hours) AS analysed_gpu_hours FROM job_days WHERE is_analysed AND $in_period) AS fleet
WHERE $in_period
GROUP BY op_type
ORDER BY wasted_gpu_hours DESC NULLS LAST, op_type
