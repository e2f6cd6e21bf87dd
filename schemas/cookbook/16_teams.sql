-- Which teams lose most?
SELECT
    value AS team,
    sum(jobs) AS job_days,
    sum(straggling) AS straggling,
    round(sum(wasted_gpu_hours)) AS wasted_gpu_hours,
    round(try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)), 3) AS waste
FROM group_day
WHERE dimension = 'team'
GROUP BY value
ORDER BY wasted_gpu_hours DESC NULLS LAST, team
