-- One row per calendar month, every run counted once in it, however many days it ran. A run straggles when its
-- simulated step times, summed over its analysed days of the month, are at least $straggling_slowdown times its ideal
-- ones; its waste follows from the same sums. GPU-hours are summed over days that state them, null where none does.
WITH runs AS (
    SELECT
        trunc(log_date, 'MONTH') AS month,
        job_id,
        run_id,
        count_if(status IN ($replayed_statuses)) > 0 AS is_replayed,
        count_if(status = $analysed) > 0 AS is_analysed,
        sum(simulated_total_s) FILTER (WHERE status = $analysed) AS simulated_s,
        sum(ideal_total_s) FILTER (WHERE status = $analysed) AS ideal_s,
        sum(gpu_hours) AS gpu_hours,
        sum(gpu_hours) FILTER (WHERE status = $analysed) AS analysed_gpu_hours,
        sum(wasted_gpu_hours) FILTER (WHERE status = $analysed) AS wasted_gpu_hours
    FROM job_slowdown
    GROUP BY ALL
)

SELECT
    month,
    count(*) AS jobs,
    count_if(is_replayed) AS replayed,
    count_if(is_analysed) AS analysed,
    count_if(try_divide(simulated_s, ideal_s) >= $straggling_slowdown) AS straggling,
    try_divide(count_if(try_divide(simulated_s, ideal_s) >= $straggling_slowdown), count_if(is_analysed))
        AS straggling_share,
    sum(gpu_hours) AS gpu_hours,
    sum(analysed_gpu_hours) AS analysed_gpu_hours,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)) AS wasted_gpu_hours_share,
    percentile(1 - try_divide(ideal_s, simulated_s), 0.5) AS waste_p50,
    percentile(1 - try_divide(ideal_s, simulated_s), 0.9) AS waste_p90,
    percentile(1 - try_divide(ideal_s, simulated_s), 0.99) AS waste_p99
FROM runs
GROUP BY month
