-- Which workers slow gpt-175b most, each taken alone?
SELECT dp_rank, pp_rank, rank, host, round(slowdown, 3) AS slowdown
FROM worker_slowdown
WHERE job_id = 'gpt-175b' AND log_date = DATE'2026-01-07'
ORDER BY slowdown DESC, rank
LIMIT 4
