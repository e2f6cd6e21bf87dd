-- What do stragglers cost on each day, and what share of the fleet's GPU-hours do the figures cover?
SELECT
    log_date,
    jobs,
    analysed,
    straggling,
    round(try_divide(analysed_gpu_hours, gpu_hours), 3) AS gpu_hours_analysed,
    round(lost_gpu_hours) AS lost_gpu_hours,
    round(try_divide(lost_gpu_hours, analysed_gpu_hours), 3) AS lost
FROM fleet_day
ORDER BY log_date
