-- One row per run over all its days. Slowdowns are ratios of times summed over all replayed days, never means of
-- ratios; each day has its own ideal times. Losses are summed over analysed days whose loss is known. Columns are null
-- if no day was replayed, and columns of GPU-hours if no day states GPU-hours.
SELECT
    job_id, run_id,
    min(log_date) AS first_day,
    max(log_date) AS last_day,
    count(*) AS days,
    count_if(status IN ($replayed_statuses)) AS replayed_days,
    count_if(is_analysed) AS analysed_days,
    sum(steps) AS steps,
    sum(actual_total_s) AS actual_total_s,
    sum(simulated_total_s) AS simulated_total_s,
    sum(ideal_total_s) AS ideal_total_s,
    try_divide(sum(simulated_total_s), sum(ideal_total_s)) AS slowdown,
    1 - try_divide(sum(ideal_total_s), sum(simulated_total_s)) AS waste_fraction,
    try_divide(sum(actual_total_s), sum(simulated_total_s)) AS launch_slowdown,
    max(slowdown) AS worst_day_slowdown,
    sum(gpu_hours) AS gpu_hours,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(lost_s), sum(actual_total_s) FILTER (WHERE lost_s IS NOT NULL)) AS lost_fraction,
    sum(lost_gpu_hours) AS lost_gpu_hours
FROM job_days
GROUP BY job_id, run_id
