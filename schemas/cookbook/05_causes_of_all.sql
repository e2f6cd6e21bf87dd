-- Of all that stragglers cost, which cause is how much?
SELECT
    cause,
    sum(jobs) AS job_days,
    round(sum(attributed_gpu_hours)) AS attributed_gpu_hours,
    round(try_divide(sum(attributed_gpu_hours), (SELECT sum(attributed_gpu_hours) FROM cause_day)), 3) AS part_of_all
FROM cause_day
GROUP BY cause
ORDER BY attributed_gpu_hours DESC, cause
