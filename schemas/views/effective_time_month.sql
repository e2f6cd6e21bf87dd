-- One row per calendar month and team, with how the GPU-hours of its units were spent: the sum of each part, then
-- ratios of sums. ettr is the effective training time ratio of job_time over several units: GPU-hours of kept steps
-- over measured_gpu_hours, the GPU-hours of units with a row in job_time; unknown time of these counts as not
-- effective. ettr is null if there is no such unit. Units without a row in job_time count in scheduled_gpu_hours and
-- unknown_gpu_hours; known_fraction is the part of all GPU-hours that is known. Parts are null if no unit was measured.
-- Units that state no GPU-hours are left out.
SELECT
    trunc(log_date, 'MONTH') AS month,
    team,
    count(DISTINCT job_id) AS jobs,
    count(*) AS units,
$effective_time_sums
FROM effective_time
GROUP BY trunc(log_date, 'MONTH'), team
