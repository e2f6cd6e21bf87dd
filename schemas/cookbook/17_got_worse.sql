-- Which jobs were slower than on the day before?
SELECT log_date, job_id, round(before, 3) AS day_before, round(slowdown, 3) AS slowdown
FROM (
    SELECT *, lag(slowdown) OVER (PARTITION BY job_id, run_id ORDER BY log_date) AS before
    FROM job_slowdown
    WHERE status = 'analysed'
)
WHERE slowdown > before
ORDER BY slowdown - before DESC, job_id
LIMIT 5
