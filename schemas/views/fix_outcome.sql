-- Whether a fix saved what was predicted: one row per run and day on which causes were gone (as in cause_news, also if
-- a new run of the job began: run_before). predicted_fraction is the part of the step that these causes lost on
-- day_before, the sum of their lost_fraction. came_fraction is the part of day_before's step by which steps are
-- shorter, over the replayed days of the week that begins with log_date (days_after). The GPU-hours, as predicted and
-- as measured, are those that the work of these days would have cost in addition. verdict: came (at least three
-- quarters of the prediction), part (at least a quarter), did_not_come (less), or not_alone: less than three quarters
-- came, and another cause is new on that day, or loses more by at least $news_fraction of day_before's step. Such a
-- cause may hide the saving, or a cause that was not fixed. Its losses are compared in seconds, because shares of a
-- step grow when steps get shorter.
WITH gone AS (
    SELECT
        log_date, job_id, run_id,
        min(day_before) AS day_before,
        min(run_before) AS run_before,
        array_sort(collect_set(CASE WHEN change = 'gone' THEN cause END)) AS causes,
        sum(CASE WHEN change = 'gone' THEN lost_fraction END) AS predicted_fraction,
        count_if(change = 'new') AS new_causes
    FROM cause_news
    GROUP BY log_date, job_id, run_id
    HAVING count_if(change = 'gone') > 0
),

later AS (
    SELECT
        gone.log_date, gone.job_id, gone.run_id,
        count(*) AS days_after,
        try_divide(sum(units.actual_total_s), sum(units.steps)) AS step_after_s,
        sum(units.gpu_hours) AS gpu_hours
    FROM gone
    JOIN job_slowdown AS units
        ON units.job_id = gone.job_id AND units.run_id = gone.run_id
        AND datediff(units.log_date, gone.log_date) BETWEEN 0 AND 6
    WHERE units.status IN ($replayed_statuses)
    GROUP BY gone.log_date, gone.job_id, gone.run_id
),

compared AS (
    SELECT
        gone.*,
        days_after,
        before.actual_step_s AS step_before_s,
        step_after_s,
        1 - try_divide(step_after_s, before.actual_step_s) AS came_fraction,
        later.gpu_hours
    FROM gone
    JOIN later ON later.log_date = gone.log_date AND later.job_id = gone.job_id AND later.run_id = gone.run_id
    JOIN job_slowdown AS before
        ON before.log_date = gone.day_before AND before.job_id = gone.job_id AND before.run_id = gone.run_before
),

grown AS (
    SELECT
        compared.log_date, compared.job_id, compared.run_id,
        max(now.lost_fraction * after.actual_step_s - earlier.lost_fraction * step_before_s) AS grown_s
    FROM compared
    JOIN job_slowdown AS after
        ON after.log_date = compared.log_date AND after.job_id = compared.job_id
        AND after.run_id = compared.run_id
    JOIN job_causes AS now
        ON now.log_date = compared.log_date AND now.job_id = compared.job_id AND now.run_id = compared.run_id
    JOIN job_causes AS earlier
        ON earlier.log_date = compared.day_before AND earlier.job_id = compared.job_id
        AND earlier.run_id = compared.run_before AND earlier.cause = now.cause
    WHERE now.cause <> $unexplained
    GROUP BY compared.log_date, compared.job_id, compared.run_id
)

SELECT
    log_date, job_id, run_id, causes,
    CASE
        WHEN came_fraction >= 0.75 * predicted_fraction THEN 'came'
        WHEN new_causes > 0 THEN 'not_alone'
        WHEN grown_s >= $news_fraction * step_before_s THEN 'not_alone'
        WHEN came_fraction >= 0.25 * predicted_fraction THEN 'part'
        ELSE 'did_not_come'
    END AS verdict,
    predicted_fraction, came_fraction,
    try_divide(gpu_hours * predicted_fraction, 1 - predicted_fraction) AS predicted_gpu_hours,
    try_divide(gpu_hours * came_fraction, 1 - came_fraction) AS came_gpu_hours,
    day_before, run_before, step_before_s, step_after_s,
    days_after
FROM compared
LEFT JOIN grown USING (log_date, job_id, run_id)
ORDER BY log_date, predicted_gpu_hours DESC NULLS LAST, job_id, run_id
