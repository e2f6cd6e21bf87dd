-- One row per replayed unit, cause that holds and culprit, with the day since which the run has this culprit. culprit is
-- the slow host or rack, or the host of a slow worker, or else stage and dp rank; null if none of these applies. first_day
-- is the first of the successive days, up to this day, on which the run has the same culprit of the same cause; days is
-- their number. Days on which the run was not replayed are skipped.
WITH units AS (
    SELECT DISTINCT
        log_date, job_id, run_id,
        dense_rank() OVER (PARTITION BY job_id, run_id ORDER BY log_date) AS number
    FROM job_causes
),

named AS (
    SELECT DISTINCT
        log_date, job_id, run_id, cause,
        coalesce(
            each.slow_host, each.slow_rack, each.host,
            'stage ' || CAST(each.pp_rank AS STRING) || ', dp rank ' || CAST(each.dp_rank AS STRING),
            'stage ' || CAST(each.pp_rank AS STRING),
            'dp rank ' || CAST(each.dp_rank AS STRING)
        ) AS culprit
    FROM job_causes
    LATERAL VIEW explode(culprits) exploded AS each
    WHERE is_cause
),

spans AS (
    SELECT
        log_date, job_id, run_id, cause, culprit,
        number - row_number() OVER (PARTITION BY job_id, run_id, cause, culprit ORDER BY log_date) AS span
    FROM named
    JOIN units USING (log_date, job_id, run_id)
)

SELECT
    log_date, job_id, run_id, cause, culprit,
    min(log_date) OVER (PARTITION BY job_id, run_id, cause, culprit, span) AS first_day,
    row_number() OVER (PARTITION BY job_id, run_id, cause, culprit, span ORDER BY log_date) AS days
FROM spans
