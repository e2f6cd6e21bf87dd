-- New and gone causes: one row per run, log date and cause that holds but did not on the run's previous replayed day
-- (new), or that held then but no longer does (gone), if its loss changed by at least $news_fraction of the recorded time.
-- lost_fraction, lost_gpu_hours and culprits (named as in culprit_history) are those of the day on which the cause holds:
-- log_date for a new cause, day_before for one that is gone. The first day of a run is compared with the last replayed day
-- of its job before, if neither day has another run of the job, and both have equally many workers and ops per step;
-- otherwise that day has no rows. run_before is the run of day_before, usually the run itself.
WITH replayed AS (
    SELECT
        log_date, job_id, run_id, workers,
        try_divide(ops, steps) AS ops_a_step,
        count(*) OVER (PARTITION BY job_id, log_date) AS runs_of_day,
        lag(log_date) OVER (PARTITION BY job_id, run_id ORDER BY log_date) AS own_day_before
    FROM job_slowdown
    WHERE status IN ($replayed_statuses)
),

in_turn AS (
    SELECT
        *,
        lag(log_date) OVER (PARTITION BY job_id ORDER BY log_date, run_id) AS earlier_day,
        lag(run_id) OVER (PARTITION BY job_id ORDER BY log_date, run_id) AS earlier_run,
        lag(runs_of_day) OVER (PARTITION BY job_id ORDER BY log_date, run_id) AS earlier_runs,
        lag(workers) OVER (PARTITION BY job_id ORDER BY log_date, run_id) AS earlier_workers,
        lag(ops_a_step) OVER (PARTITION BY job_id ORDER BY log_date, run_id) AS earlier_ops_a_step
    FROM replayed
),

units AS (
    SELECT log_date, job_id, run_id, own_day_before AS day_before, run_id AS run_before
    FROM replayed
    WHERE own_day_before IS NOT NULL

    UNION ALL

    SELECT log_date, job_id, run_id, earlier_day AS day_before, earlier_run AS run_before
    FROM in_turn
    WHERE own_day_before IS NULL AND runs_of_day = 1 AND earlier_runs = 1
        AND earlier_workers = workers AND earlier_ops_a_step = ops_a_step
),

changed AS (
    SELECT
        units.log_date, units.job_id, units.run_id, units.day_before, units.run_before, now.cause,
        now.is_cause AS is_new,
        CASE WHEN now.is_cause THEN units.run_id ELSE units.run_before END AS held_by,
        CASE WHEN now.is_cause THEN units.log_date ELSE units.day_before END AS held_on,
        CASE WHEN now.is_cause THEN now.lost_fraction ELSE before.lost_fraction END AS lost_fraction,
        CASE WHEN now.is_cause THEN now.lost_gpu_hours ELSE before.lost_gpu_hours END AS lost_gpu_hours
    FROM units
    JOIN job_causes AS now
        ON now.log_date = units.log_date AND now.job_id = units.job_id AND now.run_id = units.run_id
    JOIN job_causes AS before
        ON before.log_date = units.day_before AND before.job_id = units.job_id
        AND before.run_id = units.run_before AND before.cause = now.cause
    WHERE now.is_cause <> before.is_cause AND now.cause <> $unexplained
        AND abs(now.lost_fraction - before.lost_fraction) >= $news_fraction
),

named AS (
    SELECT log_date AS held_on, job_id, run_id AS held_by, cause, array_sort(collect_set(culprit)) AS culprits
    FROM culprit_history
    GROUP BY log_date, job_id, run_id, cause
)

SELECT
    log_date, job_id, run_id,
    CASE WHEN is_new THEN 'new' ELSE 'gone' END AS change,
    cause, culprits, lost_fraction, lost_gpu_hours,
    day_before, run_before
FROM changed
LEFT JOIN named USING (held_on, job_id, held_by, cause)
ORDER BY log_date, change DESC, lost_gpu_hours DESC NULLS LAST, lost_fraction DESC, job_id, run_id, cause
