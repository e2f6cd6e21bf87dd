-- Include of views and queries: one row per run over the days of the period. Slowdown, waste and the shares of slow
-- workers and of the last stage are ratios of sums over the run's analysed days, never means of ratios; the correlation
-- is a mean over these days, weighted by steps. status is that of the day on which the analysis went furthest. Losses are
-- summed over analysed days; lost_of_gpu_hours and analysed_s, their denominators, leave out days that an earlier version
-- simulated, because their loss is not known.
SELECT
    $run,
    element_at($statuses, CAST(max(array_position($statuses, status)) AS INT)) AS status,
    count_if(is_analysed) > 0 AS is_analysed,
    try_divide(sum(simulated_total_s) FILTER (WHERE is_analysed), sum(ideal_total_s) FILTER (WHERE is_analysed))
        AS slowdown,
    coalesce(
        try_divide(sum(simulated_total_s) FILTER (WHERE is_analysed), sum(ideal_total_s) FILTER (WHERE is_analysed))
            >= $straggling_slowdown,
        false
    ) AS is_straggling,
    1 - try_divide(sum(ideal_total_s) FILTER (WHERE is_analysed), sum(simulated_total_s) FILTER (WHERE is_analysed))
        AS waste_fraction,
    try_divide(
        sum(slow_worker_share * (simulated_total_s - ideal_total_s)) FILTER (WHERE is_analysed),
        sum(simulated_total_s - ideal_total_s) FILTER (WHERE is_analysed AND slow_worker_share IS NOT NULL)
    ) AS slow_worker_share,
    try_divide(
        sum(last_stage_share * (simulated_total_s - ideal_total_s)) FILTER (WHERE is_analysed),
        sum(simulated_total_s - ideal_total_s) FILTER (WHERE is_analysed AND last_stage_share IS NOT NULL)
    ) AS last_stage_share,
    try_divide(
        sum(forward_backward_correlation * steps) FILTER (WHERE is_analysed),
        sum(steps) FILTER (WHERE is_analysed AND forward_backward_correlation IS NOT NULL)
    ) AS forward_backward_correlation,
    sum(gpu_hours) AS gpu_hours,
    sum(gpu_hours) FILTER (WHERE is_analysed) AS analysed_gpu_hours,
    sum(wasted_gpu_hours) FILTER (WHERE is_analysed) AS wasted_gpu_hours,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    sum(gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL) AS lost_of_gpu_hours,
    sum(actual_total_s) FILTER (WHERE lost_s IS NOT NULL) AS analysed_s,
    sum(lost_s) AS lost_s,
    max(world_size) AS world_size,
    max(pp_size) AS pp_size,
    max_by(team, log_date) AS team,
    max_by(cluster, log_date) AS cluster,
    max_by(model, log_date) AS model,
    max_by(gpu_type, log_date) AS gpu_type,
    max_by(framework, log_date) AS framework
FROM job_days
WHERE $in_period
GROUP BY ALL
