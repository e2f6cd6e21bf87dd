-- Hosts that were slow in several jobs or on several days. Slow: one of its workers is among the slowest 3 % of its
-- unit and alone slows it by a factor of at least $straggling_slowdown. An estimate: the first and the last stage are
-- often slow for what they do, not for where they run, and a busy host is seen more often than an idle one.
WITH host_job_days AS (
    SELECT
        host,
        job_id,
        log_date,
        count(*) AS workers,
        count_if(is_slowest AND slowdown >= $straggling_slowdown) AS times_slow,
        max(slowdown) AS worker_slowdown_max
    FROM worker_slowdown
    WHERE host IS NOT NULL
    GROUP BY host, job_id, log_date
)

SELECT
    host,
    count(DISTINCT job_id) AS jobs,
    count(DISTINCT job_id) FILTER (WHERE times_slow > 0) AS jobs_slow,
    count(DISTINCT log_date) AS days,
    count(DISTINCT log_date) FILTER (WHERE times_slow > 0) AS days_slow,
    sum(workers) AS workers,
    sum(times_slow) AS times_slow,
    max(worker_slowdown_max) AS worker_slowdown_max,
    min(log_date) FILTER (WHERE times_slow > 0) AS first_slow,
    max(log_date) FILTER (WHERE times_slow > 0) AS last_slow
FROM host_job_days
GROUP BY host
HAVING jobs_slow > 1 OR days_slow > 1
