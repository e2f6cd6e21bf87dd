-- Which jobs wait for data, how long do they load, on which stage, and what would usual loads save?
WITH loads AS (
    SELECT
        log_date,
        job_id,
        run_id,
        count(*) AS loads,
        median(duration_us) / 1e3 AS median_ms,
        max(duration_us) / 1e3 AS longest_ms,
        max_by(pp_rank, duration_us) AS on_stage
    FROM ops
    WHERE op_type = 'data-load'
    GROUP BY log_date, job_id, run_id
)

SELECT
    log_date,
    job_id,
    loads,
    round(median_ms, 1) AS median_ms,
    round(longest_ms, 1) AS longest_ms,
    on_stage,
    round(time_saved_fraction, 3) AS saved_of_job,
    round(lost_gpu_hours) AS lost_gpu_hours
FROM loads INNER JOIN job_causes USING (log_date, job_id, run_id)
WHERE cause = 'data_loading'
ORDER BY time_saved_fraction DESC, job_id, log_date
LIMIT 6
