-- Since which day does each job take longer, and what changed on that day?
SELECT
    job_id,
    since,
    round(before, 3) AS step_s_before,
    round(after, 3) AS step_s,
    round(change, 3) AS longer_by,
    cause,
    array_join(also, ', ') AS what_else
FROM job_changes
WHERE log_date = DATE'2026-01-07' AND of = 'step time' AND change > 0
ORDER BY change DESC, job_id
