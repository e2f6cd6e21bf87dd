-- Which jobs swing most between computing and waiting, by how many GPUs, and with which period?
SELECT
    job_id,
    world_size AS gpus,
    round(mean_share, 2) AS computing,
    round(world_size * swing_share) AS swing_gpus,
    round(dominant_period_s, 2) AS period_s,
    round(2 * dominant_amplitude, 2) AS of_that_period
FROM job_power
JOIN job_megawatts USING (log_date, job_id, run_id)
WHERE log_date = DATE'2026-01-07'
ORDER BY swing_gpus DESC, job_id
LIMIT 6
