-- Which jobs are slowest over all their days?
SELECT job_id, run_id, days, round(slowdown, 3) AS slowdown, round(worst_day_slowdown, 3) AS worst_day
FROM job_history
WHERE analysed_days > 0
ORDER BY slowdown DESC, job_id
LIMIT 6
