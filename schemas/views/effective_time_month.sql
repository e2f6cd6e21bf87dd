-- One row per calendar month and team: what the GPU-hours of its units were spent on, all parts summed; then the ratios.
-- ettr is the effective training time ratio: steps that stayed over all GPU-hours; unknown time counts as not effective,
-- known_fraction says how much is known. Units that state no GPU-hours are not in it.
SELECT
    trunc(log_date, 'MONTH') AS month,
    team,
    count(DISTINCT job_id) AS jobs,
    count(*) AS units,
$effective_time_sums
FROM effective_time
GROUP BY trunc(log_date, 'MONTH'), team
