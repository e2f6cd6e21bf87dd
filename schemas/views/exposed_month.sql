-- One row per calendar month, model, size bucket and framework; all figures are sums over units. exposed_gpu_hours are
-- GPU-hours in which analysed units waited for communication: gpu_hours times exposed_s / actual_step_s of
-- exposed_communication; overlap_saved_gpu_hours are computed the same way from overlap_saved_s. All are null where no
-- unit states GPU-hours; exposed_s and known_s are the same in seconds of recorded steps. exposed_share is of the known
-- GPU-hours; coverage says which part of all GPU-hours these are. Units count as not known if they were not analysed,
-- recorded no communication, or were simulated by an earlier version.
WITH units AS (
    SELECT
        trunc(job_days.log_date, 'MONTH') AS month,
        model, size_bucket, framework, gpu_hours,
        of_job.exposed_s IS NOT NULL AS is_known,
        CASE WHEN of_job.exposed_s IS NOT NULL THEN gpu_hours END AS known_gpu_hours,
        CASE WHEN of_job.exposed_s IS NOT NULL THEN actual_total_s END AS known_s,
        exposed_s / actual_step_s AS exposed,
        overlap_saved_s / actual_step_s AS overlap_saved
    FROM job_days
    LEFT JOIN exposed_communication AS of_job
        ON of_job.log_date = job_days.log_date
        AND of_job.job_id = job_days.job_id
        AND of_job.run_id = job_days.run_id
        AND of_job.scope = 'job'
        AND job_days.is_analysed
)

SELECT
    month, model, size_bucket, framework,
    count(*) AS units,
    count_if(is_known) AS known_units,
    sum(gpu_hours) AS gpu_hours,
    sum(known_gpu_hours) AS known_gpu_hours,
    sum(known_gpu_hours * exposed) AS exposed_gpu_hours,
    sum(known_gpu_hours * overlap_saved) AS overlap_saved_gpu_hours,
    sum(known_s) AS known_s,
    sum(known_s * exposed) AS exposed_s,
    try_divide(sum(known_gpu_hours * exposed), sum(known_gpu_hours)) AS exposed_share,
    try_divide(sum(known_gpu_hours), sum(gpu_hours)) AS coverage
FROM units
GROUP BY month, model, size_bucket, framework
