-- What share of its GPU-hours does each team spend on training, and for what share is this known?
SELECT
    month,
    team,
    round(scheduled_gpu_hours) AS gpu_hours,
    round(known_fraction, 3) AS known,
    round(measured_gpu_hours) AS with_events,
    round(ettr, 3) AS ettr_of_those,
    round(productive_fraction, 3) AS at_ideal_speed,
    round(lost_work_gpu_hours + outage_gpu_hours) AS lost_to_restarts,
    round(startup_gpu_hours + checkpoint_gpu_hours) AS starts_and_saves
FROM effective_time_month
ORDER BY month, ettr_of_those DESC NULLS LAST, team
