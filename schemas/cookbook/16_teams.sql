-- Which teams lose most GPU-hours?
SELECT
    value AS team,
    sum(jobs) AS job_days,
    sum(straggling) AS straggling,
    round(sum(lost_gpu_hours)) AS lost_gpu_hours,
    round(try_divide(sum(lost_gpu_hours), sum(analysed_gpu_hours)), 3) AS lost
FROM group_day
WHERE dimension = 'team'
GROUP BY value
ORDER BY lost_gpu_hours DESC NULLS LAST, team
