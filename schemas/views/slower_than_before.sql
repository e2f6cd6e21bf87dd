-- Units that are not analysed, and whose steps take at least $slower_than_before times as long as on earlier days; no
-- lost GPU-hours include them. cause is the cause that holds and whose fix saves most; null if no cause is known.
-- slower_gpu_hours are the GPU-hours of the additional time, and day_slower_gpu_hours their sum over all such units of
-- the day.
SELECT
    log_date, job_id, run_id, status, cause, slower_than_usual, actual_step_s,
    actual_step_s / slower_than_usual AS usual_step_s,
    gpu_hours,
    gpu_hours * (1 - 1 / slower_than_usual) AS slower_gpu_hours,
    sum(gpu_hours * (1 - 1 / slower_than_usual)) OVER (PARTITION BY log_date) AS day_slower_gpu_hours
FROM job_slowdown
LEFT JOIN (
    SELECT log_date, job_id, run_id, max_by(cause, time_saved_fraction) AS cause
    FROM job_causes
    WHERE is_cause AND cause <> $unexplained
    GROUP BY log_date, job_id, run_id
) AS held USING (log_date, job_id, run_id)
WHERE slower_than_usual >= $slower_than_before AND NOT ($is_analysed)
