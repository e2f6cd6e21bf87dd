-- Do jobs straggle all the time (section 4.2)? Median and 90th percentile, over all steps, of the slowdown of a step
-- over the slowdown of its job on that day; values near 1 mean that slowness persists. One row is for straggling job
-- days, one for all other analysed job days.
WITH days AS (
    SELECT log_date, job_id, run_id, slowdown AS day_slowdown, is_straggling
    FROM job_days
    WHERE is_analysed AND $in_period
)

SELECT
    is_straggling,
    count(DISTINCT log_date, job_id, run_id) AS job_days,
    count(*) AS steps,
    percentile(try_divide(slowdown, day_slowdown), 0.5) AS normalised_slowdown_p50,
    percentile(try_divide(slowdown, day_slowdown), 0.9) AS normalised_slowdown_p90
FROM (SELECT * FROM step_slowdown WHERE $in_period)
JOIN days USING (log_date, job_id, run_id)
GROUP BY is_straggling
ORDER BY is_straggling DESC
