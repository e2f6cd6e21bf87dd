-- One row per unit that states its GPU-hours, and how they were spent. The parts are those of job_time and add up to
-- scheduled_gpu_hours. A unit without a row in job_time, because it left no events or was not replayed, has only
-- unknown_gpu_hours, and null for other parts; measured_gpu_hours are scheduled_gpu_hours of units with a row. These
-- columns are not parts: kept_gpu_hours, spent in steps that no restart repeats; stepped_gpu_hours, these steps at the
-- unit's mean recorded step time; elapsed_gpu_hours, measured_gpu_hours plus outages in which no GPUs were allocated;
-- and queued_gpu_hours, before the start. All figures of effective time over a period are computed from this view.
SELECT
    log_date, job_id, run_id, jobs.team,
    jobs.gpu_hours AS scheduled_gpu_hours,
    coalesce(job_time.scheduled_gpu_hours, 0) AS measured_gpu_hours,
    productive_gpu_hours, straggling_gpu_hours, late_start_gpu_hours, lost_work_gpu_hours, outage_gpu_hours,
    startup_gpu_hours, checkpoint_gpu_hours, evaluation_gpu_hours, data_loading_gpu_hours,
    coalesce(unknown_gpu_hours, jobs.gpu_hours) AS unknown_gpu_hours,
    productive_gpu_hours + straggling_gpu_hours + late_start_gpu_hours AS kept_gpu_hours,
    steps_kept * actual_step_s * job_slowdown.world_size / 3600 AS stepped_gpu_hours,
    job_time.scheduled_gpu_hours - outage_gpu_hours + outage_s * job_slowdown.world_size / 3600 AS elapsed_gpu_hours,
    queued_gpu_hours,
    failures
FROM jobs
LEFT JOIN job_time USING (log_date, job_id, run_id)
LEFT JOIN job_slowdown USING (log_date, job_id, run_id)
WHERE jobs.gpu_hours > 0
