-- The cost of several types of GPU in one job, by team and types, the largest loss first. Columns are runs and job
-- days, how many times as long computes take on the slowest type as on the fastest, GPU-hours, and the GPU-hours lost
-- to mixed_hardware, which may be added to those lost to other causes. saved_gpu_hours is what running each job on its
-- fastest type alone would save, and must not be added to what other fixes save. Losses are of analysed units only,
-- savings of all replayed units.
WITH mixes AS (
    SELECT
        log_date, job_id, run_id,
        array_join(array_sort(collect_set(gpu_type)), ' + ') AS gpu_types,
        max(factor) AS largest_factor,
        max(saved_gpu_hours) AS saved_gpu_hours
    FROM gpu_type_slowdown
    WHERE gpu_type <> $not_stated AND $in_period
    GROUP BY log_date, job_id, run_id
),

units AS (SELECT log_date, job_id, run_id, team, gpu_hours FROM job_days),

losses AS (
    SELECT log_date, job_id, run_id, lost_gpu_hours, flag_reason IS NOT NULL AS is_flagged
    FROM job_causes
    WHERE cause = 'mixed_hardware'
)

SELECT
    coalesce(team, $not_stated) AS team,
    gpu_types,
    count(DISTINCT job_id, run_id) AS runs,
    count(*) AS job_days,
    count_if(is_flagged) AS flagged_job_days,
    max(largest_factor) AS largest_factor,
    sum(gpu_hours) AS gpu_hours,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    sum(saved_gpu_hours) AS saved_gpu_hours
FROM mixes
JOIN units USING (log_date, job_id, run_id)
LEFT JOIN losses USING (log_date, job_id, run_id)
GROUP BY coalesce(team, $not_stated), gpu_types
ORDER BY lost_gpu_hours DESC NULLS LAST, saved_gpu_hours DESC NULLS LAST, team, gpu_types
