-- One row per day, length of window (1, 7 or 30 days, which end with the day) and team, with how the GPU-hours of the
-- units were spent, in the columns of effective_time_month. `days` is the number of days with units in the window; it
-- is smaller than the length of a window that begins before the first day.
SELECT
    last_day, window_days, team,
    count(DISTINCT log_date) AS days,
    count(DISTINCT job_id) AS jobs,
    count(*) AS units,
$effective_time_sums
FROM effective_time
INNER JOIN (
    SELECT DISTINCT log_date AS last_day, explode(array(1, 7, 30)) AS window_days FROM jobs
) ON datediff(last_day, log_date) BETWEEN 0 AND window_days - 1
GROUP BY last_day, window_days, team
