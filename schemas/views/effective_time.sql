-- One row per unit that states its GPU-hours: how they were spent. The parts are those of job_time and add up to
-- scheduled_gpu_hours; a unit without a row there, because it left no events or was not replayed, is wholly unknown,
-- its other parts null: measured_gpu_hours are those of units with a row. kept_gpu_hours, in steps that stayed, and
-- stepped_gpu_hours, these steps at the mean recorded time, are sums beside the parts; elapsed_gpu_hours are
-- measured_gpu_hours with all outages, whether the GPUs were allocated or not; queued_gpu_hours come before the start.
-- All figures of effective time over a period start here.
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
