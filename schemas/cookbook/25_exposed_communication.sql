-- How many GPU-hours are spent waiting for communication, by model and size, and what would perfect overlap save?
SELECT
    month,
    model,
    size_bucket,
    known_units AS units,
    round(exposed_gpu_hours) AS exposed_gpu_hours,
    round(exposed_share, 3) AS exposed,
    round(overlap_saved_gpu_hours) AS overlap_saved_gpu_hours,
    round(coverage, 3) AS coverage
FROM exposed_month
ORDER BY month, exposed_gpu_hours DESC NULLS LAST, model, size_bucket
LIMIT 6
