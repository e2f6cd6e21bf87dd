-- One row per unit: job_slowdown with team, cluster and model of the manifest, the size bucket, whether the unit was
-- analysed, whether it straggles (analysed, with slowdown at least $straggling_slowdown), and what it loses. The loss
-- is the recorded time less the time with all causes fixed and without any other deviation beyond the job's noise, as a
-- part of the recorded time, in seconds of recorded steps, and in GPU-hours. All figures over a period are computed
-- from these rows.
SELECT
    job_slowdown.*,
    jobs.pp_size, jobs.team, jobs.cluster, jobs.model, jobs.gpu_type, jobs.framework, jobs.restarts,
    jobs.labels, jobs.part_of, jobs.role, jobs.refused_claims,
    $size_bucket AS size_bucket,
    $is_analysed AS is_analysed,
    $is_straggling AS is_straggling,
    lost_fraction,
    lost_fraction * actual_total_s AS lost_s,
    lost_gpu_hours
FROM job_slowdown
LEFT JOIN (
    SELECT log_date, job_id, run_id, pp_size, team, cluster, model, gpu_type, framework, restarts, labels, part_of, role,
        refused_claims
    FROM jobs
) AS jobs USING (log_date, job_id, run_id)
LEFT JOIN (
    SELECT log_date, job_id, run_id, sum(lost_fraction) AS lost_fraction, sum(lost_gpu_hours) AS lost_gpu_hours
    FROM job_causes
    GROUP BY log_date, job_id, run_id
) AS lost USING (log_date, job_id, run_id)
