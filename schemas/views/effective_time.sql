-- One row per unit that states its GPU-hours: what they were spent on. The parts are those of job_time and add up to
-- scheduled_gpu_hours; a unit without a row there, because it left no events or was not replayed, is wholly unknown, its other
-- parts null: measured_gpu_hours are those of units with a row. All figures of effective time over a period start here.
SELECT
    log_date,
    job_id,
    run_id,
    jobs.team,
    jobs.gpu_hours AS scheduled_gpu_hours,
    coalesce(job_time.scheduled_gpu_hours, 0) AS measured_gpu_hours,
    productive_gpu_hours,
    straggling_gpu_hours,
    late_start_gpu_hours,
    lost_work_gpu_hours,
    outage_gpu_hours,
    startup_gpu_hours,
    checkpoint_gpu_hours,
    coalesce(unknown_gpu_hours, jobs.gpu_hours) AS unknown_gpu_hours,
    failures
FROM jobs
LEFT JOIN job_time USING (log_date, job_id, run_id)
WHERE jobs.gpu_hours > 0
