-- Which checks of hosts fail together with slowness: one row per check that failed on a host that trained, the
-- strongest relation first. A host is slow on a day if a cause that holds names it, as in fix_parts. host_days counts
-- pairs of a host that trained and a day on which the check failed; slow_host_days those pairs in which the host was
-- slow; slow_share is their share. other_slow_share is the share of slow host-days on which the check did not fail,
-- among days with health data. lift is slow_share over other_slow_share, with half a host-day added to each count.
-- explained is the number of culprits that the check explains in cause_evidence. Failing together with slowness does
-- not prove a reason; cause_evidence also compares times.
WITH days AS (
    SELECT DISTINCT log_date FROM host_health
),

trained AS (
    SELECT DISTINCT host_day.log_date, host_day.host FROM host_day JOIN days USING (log_date)
),

slow AS (
    SELECT DISTINCT log_date, host, 1 AS is_slow FROM fix_parts WHERE host IS NOT NULL
),

counted AS (
    SELECT count(*) AS all_days, count(is_slow) AS all_slow
    FROM trained
    LEFT JOIN slow USING (log_date, host)
),

failed AS (
    SELECT DISTINCT log_date, host, component, check_name FROM host_health WHERE severity <> 'ok'
),

checks AS (
    SELECT component, check_name, count(*) AS host_days, count(is_slow) AS slow_host_days
    FROM failed
    JOIN trained USING (log_date, host)
    LEFT JOIN slow USING (log_date, host)
    GROUP BY component, check_name
),

explained AS (
    SELECT component, check_name, count(DISTINCT log_date, job_id, run_id, cause, culprit) AS explained
    FROM cause_evidence
    WHERE explains
    GROUP BY component, check_name
)

SELECT
    component, check_name, host_days, slow_host_days,
    slow_host_days / host_days AS slow_share,
    CASE WHEN all_days > host_days THEN (all_slow - slow_host_days) / (all_days - host_days) END AS other_slow_share,
    ((slow_host_days + 0.5D) / (host_days + 1)) / ((all_slow - slow_host_days + 0.5D) / (all_days - host_days + 1)) AS lift,
    coalesce(explained, 0) AS explained
FROM checks
CROSS JOIN counted
LEFT JOIN explained USING (component, check_name)
ORDER BY lift DESC, slow_host_days DESC, component, check_name
