-- How much of the fleet's loss is due to each cause, and how much is unexplained?
SELECT
    cause,
    sum(analysed_jobs) AS job_days,
    round(sum(lost_gpu_hours)) AS lost_gpu_hours,
    round(try_divide(sum(lost_gpu_hours), (SELECT sum(lost_gpu_hours) FROM cause_day)), 3) AS part_of_all
FROM cause_day
GROUP BY cause
ORDER BY lost_gpu_hours DESC, cause
