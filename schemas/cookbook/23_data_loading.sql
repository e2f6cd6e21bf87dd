-- Where do jobs wait for data: how long are their loads, stage by stage, and what would usual ones return?
WITH loads AS (
    SELECT
        log_date,
        job_id,
        run_id,
        pp_rank,
        count(*) AS loads,
        median(duration_us) / 1e3 AS median_ms,
        max(duration_us) / 1e3 AS longest_ms
    FROM ops
    WHERE op_type = 'data-load'
    GROUP BY log_date, job_id, run_id, pp_rank
)

SELECT
    loads.log_date,
    loads.job_id,
    loads.pp_rank,
    loads.loads,
    round(loads.median_ms, 1) AS median_ms,
    round(loads.longest_ms, 1) AS longest_ms,
    round(cause.time_saved_fraction, 3) AS saved_of_job,
    round(cause.lost_gpu_hours) AS lost_gpu_hours
FROM loads INNER JOIN job_causes AS cause USING (log_date, job_id, run_id)
WHERE cause.cause = 'data_loading'
ORDER BY cause.time_saved_fraction DESC, loads.job_id, loads.log_date, loads.pp_rank
LIMIT 6
