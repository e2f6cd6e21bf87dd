-- Which jobs run on several types of GPU, and what would running only on the fastest type save?
WITH units AS (
    SELECT
        log_date,
        job_id,
        run_id,
        array_join(array_sort(collect_list(concat(workers, ' on ', gpu_type))), ', ') AS workers,
        max(factor) AS factor,
        max(saved_gpu_hours) AS saved_gpu_hours
    FROM gpu_type_slowdown
    GROUP BY log_date, job_id, run_id
)

SELECT
    job_id,
    units.workers,
    count(*) AS job_days,
    round(max(factor), 3) AS times_as_long_on_slowest,
    round(sum(gpu_hours)) AS gpu_hours,
    round(sum(saved_gpu_hours)) AS saved_gpu_hours,
    round(try_divide(sum(saved_gpu_hours), sum(gpu_hours)), 3) AS saved_of_job
FROM units INNER JOIN job_days USING (log_date, job_id, run_id)
GROUP BY job_id, units.workers
ORDER BY saved_gpu_hours DESC NULLS LAST, job_id, units.workers
