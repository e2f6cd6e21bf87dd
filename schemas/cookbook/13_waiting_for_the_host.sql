-- Which jobs lose most time between ops, waiting for data or Python, which a replay leaves out?
SELECT
    job_id,
    status,
    round(avg(actual_step_s), 3) AS actual_step_s,
    round(avg(simulated_step_s), 3) AS replayed_step_s,
    round(try_divide(sum(actual_total_s), sum(simulated_total_s)), 3) AS launch_slowdown
FROM job_slowdown
WHERE launch_slowdown IS NOT NULL
GROUP BY job_id, status
ORDER BY launch_slowdown DESC, job_id
LIMIT 4
