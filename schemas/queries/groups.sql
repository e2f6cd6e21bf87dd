-- Straggling jobs and wasted GPU-hours of every group (size bucket, team, cluster, model, GPU type, framework), and how
-- much of the group was analysed. The rows of size buckets answer the paper's question whether larger jobs straggle
-- more.
WITH runs AS ($runs),

grouped AS (
    SELECT *, one.dimension, one.value
    FROM (SELECT *, explode($groups) AS one FROM runs)
)

SELECT
    dimension, value,
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    count_if(is_straggling) AS straggling,
    try_divide(count_if(is_straggling), count_if(is_analysed)) AS straggling_share,
    avg(slowdown) AS slowdown_mean,
    percentile(waste_fraction, 0.5) AS waste_p50,
    percentile(waste_fraction, 0.9) AS waste_p90,
    sum(gpu_hours) AS gpu_hours,
    sum(analysed_gpu_hours) AS analysed_gpu_hours,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)) AS wasted_gpu_hours_share,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    try_divide(sum(lost_gpu_hours), sum(lost_of_gpu_hours)) AS lost_gpu_hours_share,
    try_divide(sum(lost_s), sum(analysed_s)) AS lost_share_of_time
FROM grouped
GROUP BY dimension, value
ORDER BY dimension, wasted_gpu_hours DESC NULLS LAST, value
