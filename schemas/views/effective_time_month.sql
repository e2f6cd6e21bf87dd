-- One row per calendar month and team: how the GPU-hours of its units were spent, all parts summed; then the ratios.
-- ettr is the effective training time ratio of job_time over several units: steps that stayed over measured_gpu_hours,
-- all GPU-hours of units with a row in job_time; their unknown time counts as not effective; null without such a unit.
-- Units without a row count in scheduled_gpu_hours and unknown_gpu_hours: known_fraction says which part of all
-- GPU-hours is known; parts are null where no unit was measured. Units that state no GPU-hours are left out.
SELECT
    trunc(log_date, 'MONTH') AS month,
    team,
    count(DISTINCT job_id) AS jobs,
    count(*) AS units,
$effective_time_sums
FROM effective_time
GROUP BY trunc(log_date, 'MONTH'), team
