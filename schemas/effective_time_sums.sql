    sum(scheduled_gpu_hours) AS scheduled_gpu_hours,
    sum(measured_gpu_hours) AS measured_gpu_hours,
    sum(productive_gpu_hours) AS productive_gpu_hours,
    sum(straggling_gpu_hours) AS straggling_gpu_hours,
    sum(late_start_gpu_hours) AS late_start_gpu_hours,
    sum(lost_work_gpu_hours) AS lost_work_gpu_hours,
    sum(outage_gpu_hours) AS outage_gpu_hours,
    sum(startup_gpu_hours) AS startup_gpu_hours,
    sum(checkpoint_gpu_hours) AS checkpoint_gpu_hours,
    sum(unknown_gpu_hours) AS unknown_gpu_hours,
    sum(failures) AS failures,
    try_divide(
        sum(productive_gpu_hours + straggling_gpu_hours + late_start_gpu_hours), sum(measured_gpu_hours)
    ) AS ettr,
    try_divide(sum(productive_gpu_hours), sum(measured_gpu_hours)) AS productive_fraction,
    1 - sum(unknown_gpu_hours) / sum(scheduled_gpu_hours) AS known_fraction
