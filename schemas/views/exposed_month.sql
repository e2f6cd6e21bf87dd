-- One row per calendar month, model, size bucket and framework; all figures are sums over units. exposed_gpu_hours are
-- GPU-hours in which analysed units waited for communication: gpu_hours x exposed_s / actual_step_s, with exposed_s of
-- all communication in exposed_communication; overlap_saved_gpu_hours are the same with overlap_saved_s. Both are null
-- if no unit states GPU-hours; exposed_s and known_s are exposed and known time in seconds of recorded steps.
-- exposed_share is the share of exposed_gpu_hours in the known GPU-hours, and coverage the share of these in all
-- GPU-hours. Units that were not analysed, that recorded no communication, or that an earlier version simulated are not
-- known.
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
