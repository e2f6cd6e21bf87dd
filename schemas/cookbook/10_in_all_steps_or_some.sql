-- Is a job slow in all of its steps, or only in some of them?
SELECT
    job_id,
    count(*) AS steps,
    round(min(slowdown), 2) AS least,
    round(median(slowdown), 2) AS middle,
    round(max(slowdown), 2) AS most,
    round(count_if(slowdown >= 1.1) / count(*), 2) AS slow_steps
FROM step_slowdown
WHERE log_date = DATE'2026-01-07'
GROUP BY job_id
ORDER BY most DESC, job_id
LIMIT 6
