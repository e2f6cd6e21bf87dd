-- One row per unit that states its GPU-hours: what they were spent on. The parts are those of job_time and add up to
-- scheduled_gpu_hours; a unit without a row there, because it left no events or was not replayed, is wholly unknown:
-- measured_gpu_hours are those of units with a row. All figures of effective time over a period start from these rows.
SELECT
    log_date,
    job_id,
    run_id,
    jobs.team,
    jobs.gpu_hours AS scheduled_gpu_hours,
    coalesce(job_time.scheduled_gpu_hours, 0) AS measured_gpu_hours,
    coalesce(productive_gpu_hours, 0) AS productive_gpu_hours,
    coalesce(straggling_gpu_hours, 0) AS straggling_gpu_hours,
    coalesce(late_start_gpu_hours, 0) AS late_start_gpu_hours,
    coalesce(lost_work_gpu_hours, 0) AS lost_work_gpu_hours,
    coalesce(outage_gpu_hours, 0) AS outage_gpu_hours,
    coalesce(startup_gpu_hours, 0) AS startup_gpu_hours,
    coalesce(checkpoint_gpu_hours, 0) AS checkpoint_gpu_hours,
    coalesce(unknown_gpu_hours, jobs.gpu_hours) AS unknown_gpu_hours,
    coalesce(failures, 0) AS failures
FROM jobs
LEFT JOIN job_time USING (log_date, job_id, run_id)
WHERE jobs.gpu_hours > 0
