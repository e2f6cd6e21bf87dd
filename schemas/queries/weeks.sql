-- What changed: the last seven days of the period with jobs, and the seven days before these, with the names of the
-- jobs that straggle on at least one day.
WITH days AS (
    SELECT *, datediff((SELECT max(log_date) FROM job_days WHERE $in_period), log_date) AS age
    FROM job_days
    WHERE $in_period
)

SELECT
    CAST(floor(age / 7) AS INT) AS weeks_ago,
    min(log_date) AS first_day,
    max(log_date) AS last_day,
    count(*) AS job_days,
    count_if(is_analysed) AS analysed_job_days,
    count_if(is_straggling) AS straggling_job_days,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    coalesce(
        try_divide(sum(lost_gpu_hours), sum(gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL)),
        try_divide(sum(lost_s), sum(actual_total_s) FILTER (WHERE lost_s IS NOT NULL))
    ) AS lost_share,
    array_sort(collect_set(CASE WHEN is_straggling THEN job_id END)) AS straggling_jobs,
    array_sort(collect_set(CASE WHEN is_analysed THEN job_id END)) AS analysed_jobs
FROM days
WHERE age < 14
GROUP BY weeks_ago
ORDER BY weeks_ago
