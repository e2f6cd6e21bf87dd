-- Which units could not be analysed, and why?
SELECT job_id, status, count(*) AS days, min(status_detail) AS such_as
FROM job_slowdown
WHERE status <> 'analysed'
GROUP BY job_id, status
ORDER BY status, job_id
