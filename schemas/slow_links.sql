-- Include of views: one row per day and ordered pair of hosts at the two ends of a slow link: two culprits of the cause
-- communication in one unit, on neighbouring stages of one replica.
WITH ends AS (
    SELECT log_date, job_id, run_id, culprit.host AS host, culprit.dp_rank AS dp_rank, culprit.pp_rank AS pp_rank
    FROM job_causes
    LATERAL VIEW explode(culprits) exploded AS culprit
    WHERE is_cause AND cause = 'communication' AND lost_fraction IS NOT NULL AND $in_period
)

SELECT DISTINCT here.log_date AS log_date, here.host AS host, there.host AS other
FROM ends AS here
JOIN ends AS there
    ON here.log_date = there.log_date
    AND here.job_id = there.job_id
    AND here.run_id = there.run_id
    AND here.dp_rank = there.dp_rank
    AND abs(here.pp_rank - there.pp_rank) = 1
    AND here.host <> there.host
