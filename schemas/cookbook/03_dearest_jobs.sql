-- Which jobs waste most GPU-hours, and what part of the fleet's waste is that?
SELECT
    job_id,
    round(sum(wasted_gpu_hours)) AS wasted_gpu_hours,
    round(try_divide(sum(wasted_gpu_hours), (SELECT sum(wasted_gpu_hours) FROM job_days WHERE is_analysed)), 3)
        AS part_of_all
FROM job_days
WHERE is_analysed
GROUP BY job_id
ORDER BY wasted_gpu_hours DESC NULLS LAST, job_id
LIMIT 6
