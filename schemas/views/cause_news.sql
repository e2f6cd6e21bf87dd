-- New and gone causes: one row per run, log date and cause that holds and did not on the replayed day before (new), or
-- held then and no longer does (gone), if its loss changed by at least $news_fraction of the recorded time.
-- lost_fraction, lost_gpu_hours and culprits, named as in culprit_history, are those of the day on which it holds:
-- log_date for a new cause, day_before for one that is gone. The first day of a run has no rows.
WITH units AS (
    SELECT
        log_date, job_id, run_id,
        lag(log_date) OVER (PARTITION BY job_id, run_id ORDER BY log_date) AS day_before
    FROM job_slowdown
    WHERE status IN ($replayed_statuses)
),

changed AS (
    SELECT
        units.log_date, units.job_id, units.run_id, units.day_before, now.cause,
        now.is_cause AS is_new,
        CASE WHEN now.is_cause THEN units.log_date ELSE units.day_before END AS held_on,
        CASE WHEN now.is_cause THEN now.lost_fraction ELSE before.lost_fraction END AS lost_fraction,
        CASE WHEN now.is_cause THEN now.lost_gpu_hours ELSE before.lost_gpu_hours END AS lost_gpu_hours
    FROM units
    JOIN job_causes AS now
        ON now.log_date = units.log_date AND now.job_id = units.job_id AND now.run_id = units.run_id
    JOIN job_causes AS before
        ON before.log_date = units.day_before AND before.job_id = units.job_id
        AND before.run_id = units.run_id AND before.cause = now.cause
    WHERE now.is_cause <> before.is_cause AND now.cause <> $unexplained
        AND abs(now.lost_fraction - before.lost_fraction) >= $news_fraction
),

named AS (
    SELECT log_date AS held_on, job_id, run_id, cause, array_sort(collect_set(culprit)) AS culprits
    FROM culprit_history
    GROUP BY log_date, job_id, run_id, cause
)

SELECT
    log_date, job_id, run_id,
    CASE WHEN is_new THEN 'new' ELSE 'gone' END AS change,
    cause, culprits, lost_fraction, lost_gpu_hours,
    day_before
FROM changed
LEFT JOIN named USING (held_on, job_id, run_id, cause)
ORDER BY log_date, change DESC, lost_gpu_hours DESC NULLS LAST, lost_fraction DESC, job_id, run_id, cause
