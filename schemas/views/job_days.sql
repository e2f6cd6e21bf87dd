-- One row per unit: job_slowdown with what the manifest says of who ran it, its size bucket, whether it straggles
-- (analysed, slowdown at least $straggling_slowdown), and which days of its run were analysed. The rows that every
-- figure over a period starts from.
SELECT
    job_slowdown.*,
    jobs.pp_size,
    jobs.team,
    jobs.cluster,
    jobs.model,
    jobs.gpu_type,
    jobs.framework,
    jobs.restarts,
    jobs.labels,
    $size_bucket AS size_bucket,
    $is_analysed AS is_analysed,
    $is_straggling AS is_straggling
FROM job_slowdown
LEFT JOIN (
    SELECT log_date, job_id, run_id, pp_size, team, cluster, model, gpu_type, framework, restarts, labels
    FROM jobs
) AS jobs USING (log_date, job_id, run_id)
