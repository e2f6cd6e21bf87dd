-- What do jobs on GPUs of several types lose, and how much faster would they be on the fastest alone?
SELECT
    job_id,
    gpu_type,
    max(workers) AS workers,
    round(avg(factor), 3) AS factor,
    round(avg(slowdown), 3) AS slowdown,
    round(avg(time_saved_fraction), 3) AS part_saved_on_the_fastest,
    round(sum(saved_gpu_hours)) AS saved_gpu_hours
FROM gpu_type_slowdown
GROUP BY job_id, gpu_type
ORDER BY saved_gpu_hours DESC, job_id, factor DESC
