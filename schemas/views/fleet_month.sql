-- One row per calendar month; a run counts once, however many days it ran. A run straggles if its simulated step times,
-- summed over its analysed days of the month, are at least $straggling_slowdown times the sum of its ideal step times;
-- its waste follows from the same sums. GPU-hours are summed over days that state them, and null if none does. lost_s
-- and analysed_s are in seconds of recorded steps, over analysed days whose loss is known; days that an earlier version
-- simulated have no loss.
WITH runs AS ($runs_of_months)

SELECT
    month,
    count(*) AS jobs,
    count_if(status IN ($replayed_statuses)) AS replayed,
    count_if(is_analysed) AS analysed,
    count_if(is_straggling) AS straggling,
    try_divide(count_if(is_straggling), count_if(is_analysed)) AS straggling_share,
    sum(gpu_hours) AS gpu_hours,
    sum(analysed_gpu_hours) AS analysed_gpu_hours,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)) AS wasted_gpu_hours_share,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    try_divide(sum(lost_gpu_hours), sum(lost_of_gpu_hours)) AS lost_gpu_hours_share,
    sum(analysed_s) AS analysed_s,
    sum(lost_s) AS lost_s,
    percentile(waste_fraction, 0.5) AS waste_p50,
    percentile(waste_fraction, 0.9) AS waste_p90,
    percentile(waste_fraction, 0.99) AS waste_p99
FROM runs
GROUP BY month
