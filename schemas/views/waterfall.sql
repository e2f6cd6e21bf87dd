-- From recorded to productive time: one row per figure and unit whose loss is known, sorted by place. A figure with
-- is_total is the previous total less the figures between the two. recorded is the recorded time. A figure per cause,
-- unexplained included, is what the unit loses to it (lost_fraction). nothing_lost is the time left with every cause
-- fixed and nothing unexplained. to_paper_ideal is the difference between nothing_lost and ideal, the time of the same
-- steps at the paper's ideal; it is negative if slow ops lengthen the usual time. outside_steps is the part of ideal
-- that, by the run's events, was not spent in kept steps (repeated steps, outages, start-ups, stops), and not_known the
-- part that events do not show. productive is productive_gpu_hours of job_time, null for a unit without events.
-- gpu_hours are null if the unit states none; seconds are those of its recorded steps, and exist up to ideal. Figures
-- may be summed over units.
WITH units AS (
    SELECT
        log_date, job_id, run_id, gpu_hours, actual_total_s, lost_fraction,
        ideal_total_s / actual_total_s AS ideal,
        kept,
        unknown
    FROM job_days
    LEFT JOIN (
        SELECT log_date, job_id, run_id, ettr AS kept, unknown_gpu_hours / scheduled_gpu_hours AS unknown
        FROM job_time
        WHERE scheduled_gpu_hours > 0
    ) AS known USING (log_date, job_id, run_id)
    WHERE lost_fraction IS NOT NULL AND actual_total_s > 0
),

totals AS (
    SELECT
        log_date, job_id, run_id, gpu_hours, actual_total_s,
        explode(array(
            struct(1 AS place, 'recorded' AS figure, true AS is_total, true AS is_in_steps, 1D AS part),
            struct(50 AS place, 'nothing_lost' AS figure, true AS is_total, true AS is_in_steps,
                1 - lost_fraction AS part),
            struct(51 AS place, 'to_paper_ideal' AS figure, false AS is_total, true AS is_in_steps,
                1 - lost_fraction - ideal AS part),
            struct(52 AS place, 'ideal' AS figure, true AS is_total, true AS is_in_steps, ideal AS part),
            struct(53 AS place, 'outside_steps' AS figure, false AS is_total, false AS is_in_steps,
                ideal * (1 - kept - unknown) AS part),
            struct(54 AS place, 'not_known' AS figure, false AS is_total, false AS is_in_steps,
                ideal * coalesce(unknown, 1) AS part),
            struct(55 AS place, 'productive' AS figure, true AS is_total, false AS is_in_steps,
                ideal * kept AS part)
        )) AS one
    FROM units
),

causes AS (
    SELECT
        log_date, job_id, run_id,
        1 + array_position(array($causes), cause) AS place,
        cause, job_causes.lost_fraction, units.gpu_hours,
        units.actual_total_s
    FROM job_causes
    JOIN units USING (log_date, job_id, run_id)
)

SELECT
    log_date, job_id, run_id,
    one.place AS place,
    one.figure AS figure,
    one.is_total AS is_total,
    gpu_hours * one.part AS gpu_hours,
    CASE WHEN one.is_in_steps THEN actual_total_s * one.part END AS seconds
FROM totals

UNION ALL

SELECT
    log_date, job_id, run_id, place,
    cause AS figure,
    false AS is_total,
    gpu_hours * lost_fraction AS gpu_hours,
    actual_total_s * lost_fraction AS seconds
FROM causes
