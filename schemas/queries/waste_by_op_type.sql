-- What each op type alone wastes of GPU-hours (section 4.3). One share is of the GPU-hours of the jobs with the op
-- type, the other of those of all analysed jobs; only the second share may be compared between op types. In the paper
-- computes waste most and communication hardly any. The shares do not add up, because the slowness of one op type can
-- hide behind that of another.
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
