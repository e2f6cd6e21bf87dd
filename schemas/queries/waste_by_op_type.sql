-- What each op type alone wastes of the GPU-hours of its jobs (section 4.3; in the paper computes matter and
-- communication hardly does). Op types do not add up: one hides behind another.
SELECT
    op_type,
    sum(jobs) AS job_days,
    sum(slowed) AS slowed_job_days,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(gpu_hours)) AS wasted_gpu_hours_share
FROM op_type_day
WHERE $in_period
GROUP BY op_type
ORDER BY wasted_gpu_hours DESC NULLS LAST, op_type
