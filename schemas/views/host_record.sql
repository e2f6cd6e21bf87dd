-- One row per host in worker_slowdown: in how many jobs and on how many days it was slow, and how that compares with
-- chance. A host is slow in a unit if one of its workers is among the slowest 3 % and alone slows the unit at least
-- $straggling_slowdown-fold (times_slow counts these), or if the host is measured: a cause that holds has the host as
-- its culprit, or as a part of it. By chance, the hosts of each job would be slow as often as they were, but drawn at
-- random, so that neither busy hosts nor hosts of last stages look bad. jobs_slow counts the jobs in which the host
-- was slow; expected_jobs_slow is their number if a host in the same places were slow by chance, and p_value the
-- probability of at least as many (Poisson binomial, exact to 1e-15). is_beyond_chance: p_value x hosts_asked_about,
-- the number of hosts, is at most 0.05 (Bonferroni). pattern of hosts that were ever slow: one_off (on one day),
-- chronic (on at least 80 % of the days with results from the first to the last slow day), or intermittent. Jobs in
-- which every host is slow are left out. In a unit with cause mixed_hardware, only measured hosts count as slow,
-- because other hosts may be slow by their type of GPU. jobs_measured is the number of jobs in which the host is
-- measured, where a replay without its slowness is faster. verdict combines both kinds of evidence, for hosts that
-- were slow: measured_and_recurs, measured, recurs (is_beyond_chance), not_proven.
WITH unlike_gpus AS (
    SELECT log_date, job_id, run_id, true AS is_unlike
    FROM job_causes
    WHERE cause = 'mixed_hardware' AND is_cause AND $in_period
),

measured AS (
    SELECT DISTINCT log_date, job_id, run_id, host, true AS is_measured
    FROM fix_parts
    WHERE host IS NOT NULL AND $in_period
),

host_units AS (
    SELECT
        host, job_id, log_date,
        count(*) AS workers,
        count_if(is_slowest AND slowdown >= $straggling_slowdown AND is_unlike IS NULL) AS times_slow,
        count_if(is_measured) > 0 AS is_measured,
        max(slowdown) AS worker_slowdown_max
    FROM worker_slowdown
    LEFT JOIN unlike_gpus USING (log_date, job_id, run_id)
    LEFT JOIN measured USING (log_date, job_id, run_id, host)
    WHERE host IS NOT NULL AND $in_period
    GROUP BY host, job_id, log_date
),

host_days AS (
    SELECT host, log_date, count_if(times_slow > 0 OR is_measured) > 0 AS is_slow
    FROM host_units
    GROUP BY host, log_date
),

slow_spans AS (
    SELECT
        host,
        count(*) AS days,
        count_if(is_slow) AS days_slow,
        min(log_date) FILTER (WHERE is_slow) AS first_slow,
        max(log_date) FILTER (WHERE is_slow) AS last_slow
    FROM host_days
    GROUP BY host
),

spans AS (
    SELECT
        host, days, days_slow, first_slow, last_slow,
        count_if(log_date BETWEEN first_slow AND last_slow) AS days_between
    FROM host_days
    JOIN slow_spans USING (host)
    GROUP BY host, days, days_slow, first_slow, last_slow
),

host_jobs AS (
    SELECT
        host, job_id,
        min(log_date) AS first_day,
        max(log_date) AS last_day,
        sum(workers) AS workers,
        sum(times_slow) AS times_slow,
        count_if(times_slow > 0 OR is_measured) > 0 AS is_slow,
        count_if(is_measured) > 0 AS is_measured,
        max(worker_slowdown_max) AS worker_slowdown_max
    FROM host_units
    GROUP BY host, job_id
),

chances AS (
    SELECT *, avg(CAST(is_slow AS DOUBLE)) OVER (PARTITION BY job_id) AS chance
    FROM host_jobs
),

totals AS (
    SELECT
        host,
        count(*) AS jobs,
        count_if(is_slow) AS jobs_slow,
        count_if(NOT is_slow) AS jobs_not_slow,
        count_if(is_measured) AS jobs_measured,
        sum(workers) AS workers,
        sum(times_slow) AS times_slow,
        max(worker_slowdown_max) AS worker_slowdown_max,
        min(first_day) AS first_seen,
        max(last_day) AS last_seen,
        sum(chance) AS expected_jobs_slow,
        array_sort(collect_list(chance)) AS all_chances
    FROM chances
    GROUP BY host
),

judged AS (
    SELECT
        * EXCEPT (all_chances),
        CASE
            WHEN jobs_slow = 0 THEN 1D
            ELSE greatest(0D, 1 - aggregate(
                aggregate(
                    all_chances,
                    transform(sequence(1, CAST(jobs_slow AS INT)), place -> IF(place = 1, 1D, 0D)),
                    (found, p) -> transform(
                        found,
                        (probability, k) -> probability * (1 - p) + IF(k = 0, 0D, p * element_at(found, greatest(k, 1)))
                    )
                ),
                0D,
                (total, probability) -> total + probability
            ))
        END AS p_value
    FROM totals
)

SELECT
    host, jobs, jobs_slow, jobs_not_slow, expected_jobs_slow, p_value,
    p_value * count(*) OVER () <= 0.05 AS is_beyond_chance,
    count(*) OVER () AS hosts_asked_about,
    CASE
        WHEN days_slow = 1 THEN 'one_off'
        WHEN days_slow >= 0.8 * days_between AND days_slow > 0 THEN 'chronic'
        WHEN days_slow > 1 THEN 'intermittent'
    END AS pattern,
    days, days_slow, first_slow, last_slow, first_seen, last_seen, workers, times_slow, worker_slowdown_max,
    jobs_measured,
    CASE
        WHEN jobs_measured > 0 AND p_value * count(*) OVER () <= 0.05 THEN 'measured_and_recurs'
        WHEN jobs_measured > 0 THEN 'measured'
        WHEN p_value * count(*) OVER () <= 0.05 THEN 'recurs'
        WHEN jobs_slow > 0 THEN 'not_proven'
    END AS verdict
FROM judged
JOIN spans USING (host)
ORDER BY p_value, jobs_slow DESC, jobs_measured DESC, worker_slowdown_max DESC, host
