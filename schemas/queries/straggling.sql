-- How many jobs straggle, and what it costs (section 4.1), with how much of the fleet the figures cover. In the paper
-- 42.5 % of the jobs straggle, and 10.4 % of the GPU-hours are wasted.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    try_divide(count_if(is_analysed), count(*)) AS analysed_share,
    count_if(is_straggling) AS straggling,
    try_divide(count_if(is_straggling), count_if(is_analysed)) AS straggling_share,
    sum(gpu_hours) AS gpu_hours,
    sum(analysed_gpu_hours) AS analysed_gpu_hours,
    try_divide(sum(analysed_gpu_hours), sum(gpu_hours)) AS analysed_gpu_hours_share,
    sum(analysed_gpu_hours) FILTER (WHERE is_straggling) AS straggling_gpu_hours,
    try_divide(sum(analysed_gpu_hours) FILTER (WHERE is_straggling), sum(analysed_gpu_hours))
        AS straggling_gpu_hours_share,
    sum(wasted_gpu_hours) AS wasted_gpu_hours,
    try_divide(sum(wasted_gpu_hours), sum(analysed_gpu_hours)) AS wasted_gpu_hours_share,
    sum(lost_gpu_hours) AS lost_gpu_hours,
    sum(lost_of_gpu_hours) AS lost_of_gpu_hours,
    try_divide(sum(lost_gpu_hours), sum(lost_of_gpu_hours)) AS lost_gpu_hours_share,
    sum(analysed_s) AS analysed_s,
    sum(lost_s) AS lost_s,
    try_divide(sum(lost_s), sum(analysed_s)) AS lost_share_of_time
FROM runs
