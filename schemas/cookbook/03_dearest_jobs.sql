-- Which jobs lose most GPU-hours, and what share of the fleet's loss is each job's?
SELECT
    job_id,
    round(sum(lost_gpu_hours)) AS lost_gpu_hours,
    round(try_divide(sum(lost_gpu_hours), (SELECT sum(lost_gpu_hours) FROM job_days)), 3) AS part_of_all
FROM job_days
WHERE is_analysed
GROUP BY job_id
ORDER BY lost_gpu_hours DESC NULLS LAST, job_id
LIMIT 6
