-- Which op types waste most GPU-hours, each taken alone?
SELECT op_type, sum(jobs) AS job_days, sum(slowed) AS slowed, round(sum(wasted_gpu_hours)) AS wasted_gpu_hours
FROM op_type_day
GROUP BY op_type
ORDER BY wasted_gpu_hours DESC NULLS LAST, op_type
LIMIT 6
