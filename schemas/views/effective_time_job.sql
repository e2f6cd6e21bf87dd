-- One row per run over all its days, and how its GPU-hours were spent, with the columns of effective_time_month.
SELECT
    job_id, run_id,
    max(team) AS team,
    min(log_date) AS first_day,
    max(log_date) AS last_day,
    count(*) AS units,
$effective_time_sums
FROM effective_time
GROUP BY job_id, run_id
