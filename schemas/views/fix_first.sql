-- What to fix first, worst first: one row per cause and host, if the culprit is a host or a worker on a known host,
-- else per cause and job, over all analysed days with the cause; the last row is what no cause explains. days_without:
-- number of days after last_day on which jobs of the row were analysed and did not lose to the cause (on this host);
-- rows with three or more such days come after the others, because they look fixed. lost_gpu_hours, and lost_s (of
-- recorded steps, also without GPU-hours), add up over all rows to what the fleet lost. recoverable_gpu_hours are what
-- fixing this cause alone saves, and do not add up over causes; those of a host are its part of what fixing all
-- culprits saves. One slow host may hide another: what mending one host alone saves is in the mitigation host
-- exchanged. Several culprits of one unit share its hours as in fix_parts, which is an estimate. A slow link has two
-- rows, one for the host at each end: link_hosts names the hosts at the other ends (null if communication named no
-- neighbouring stages of a replica on two hosts). Mending a link saves the sum of its two rows; recoverable_gpu_hours
-- and time_saved_fraction_max of each are its part of that, usually half. time_saved_fraction_max is the largest part
-- of a unit's step time that this fix alone saves, shared among culprits in the same way. flagged_units is the number
-- of units with a flag_reason in job_causes. Columns with low and high are the ends of 90 % intervals. Within a run,
-- errors of the diagnosis are added up; other errors, and the errors of different runs, are independent, so that their
-- squares are added up (interval_freedom gives the quantile). They are null if an earlier version wrote a row.
-- explained_by are the failed checks of the host that cause_evidence takes for the explanation, such as 'gpu 3
-- throttle_thermal'; null if there are none. mitigation is the mitigation that saves most time in the row's units, and
-- mitigation_gpu_hours what it saves there: a mitigation of one host counts for that host, and one of a whole unit is
-- shared among hosts like the unit's lost hours. Both are null if no mitigation of the cause saves anything. See
-- mitigations.
WITH explained AS (
    SELECT
        cause,
        culprit_host AS host,
        array_sort(
            collect_set(concat_ws(' ', component, CASE WHEN device >= 0 THEN CAST(device AS STRING) END, check_name))
        ) AS explained_by
    FROM cause_evidence
    WHERE explains AND culprit_host IS NOT NULL AND $in_period
    GROUP BY cause, culprit_host
),

linked AS (
    SELECT 'communication' AS cause, host, array_sort(collect_set(other)) AS link_hosts
    FROM ($slow_links) AS slow_links
    GROUP BY host
),

mitigated AS (
    SELECT
        parts.cause, parts.host,
        CASE WHEN parts.host IS NULL THEN parts.job_id END AS of_job,
        mitigation,
        sum(gpu_hours_saved * CASE WHEN mitigations.host IS NULL THEN part ELSE 1 END) AS mitigation_gpu_hours,
        sum(mitigations.time_saved_fraction * CASE WHEN mitigations.host IS NULL THEN part ELSE 1 END) AS saved
    FROM (
        SELECT log_date, job_id, run_id, cause, host, part FROM fix_parts WHERE $in_period
    ) AS parts
    JOIN mitigations
        ON parts.log_date = mitigations.log_date
        AND parts.job_id = mitigations.job_id
        AND parts.run_id = mitigations.run_id
        AND parts.cause = mitigations.cause
        AND (mitigations.host IS NULL OR mitigations.host = parts.host)
    GROUP BY parts.cause, parts.host, CASE WHEN parts.host IS NULL THEN parts.job_id END, mitigation
),

best AS (
    SELECT *
    FROM (
        SELECT
            mitigated.*,
            row_number() OVER (
                PARTITION BY cause, host, of_job
                ORDER BY saved DESC, mitigation_gpu_hours DESC NULLS LAST, mitigation
            ) AS place
        FROM mitigated
        WHERE saved > 0
    ) AS placed
    WHERE place = 1
),

parts AS (
    SELECT *, $variance_of_lost AS variance_of_lost, $variance_of_recoverable AS variance_of_recoverable
    FROM fix_parts
    WHERE $in_period
),

runs AS (
    SELECT
        cause, host, job_id, run_id,
        count(*) AS units,
        count_if(is_flagged) AS flagged_units,
        min(log_date) AS first_day,
        max(log_date) AS last_day,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        sum(lost_s) AS lost_s,
        sum(attributed_gpu_hours) AS attributed_gpu_hours,
        sum(recoverable_gpu_hours) AS recoverable_gpu_hours,
        max(time_saved_fraction) AS time_saved_fraction_max,
        count(lost_gpu_hours) = count(lost_gpu_hours_half_width) AS has_intervals,
        sum(variance_of_lost) AS variances_of_lost,
        sum(variance_of_lost * variance_of_lost / interval_freedom) AS fourths_of_lost,
        pow(sum(lost_gpu_hours_shared), 2) AS shared_of_lost,
        sum(variance_of_recoverable) AS variances_of_recoverable,
        sum(variance_of_recoverable * variance_of_recoverable / interval_freedom) AS fourths_of_recoverable,
        pow(sum(recoverable_gpu_hours_shared), 2) AS shared_of_recoverable
    FROM parts
    GROUP BY cause, host, job_id, run_id
),

fixes AS (
    SELECT
        cause, host,
        CASE WHEN host IS NULL AND cause <> $unexplained THEN min(job_id) END AS of_job,
        array_sort(collect_set(job_id)) AS job_ids,
        CAST(sum(units) AS BIGINT) AS units,
        CAST(sum(flagged_units) AS BIGINT) AS flagged_units,
        min(first_day) AS first_day,
        max(last_day) AS last_day,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        sum(lost_s) AS lost_s,
        sum(attributed_gpu_hours) AS attributed_gpu_hours,
        sum(recoverable_gpu_hours) AS recoverable_gpu_hours,
        max(time_saved_fraction_max) AS time_saved_fraction_max,
        CASE WHEN count_if(NOT has_intervals) = 0 THEN $half_of_lost END AS half_of_lost,
        CASE WHEN count_if(NOT has_intervals) = 0 THEN $half_of_recoverable END AS half_of_recoverable
    FROM runs
    GROUP BY cause, host, CASE WHEN host IS NULL AND cause <> $unexplained THEN job_id END
),

later AS (
    SELECT row_jobs.cause, row_jobs.host, row_jobs.of_job, count(DISTINCT units.log_date) AS later_days
    FROM (
        SELECT DISTINCT cause, host, CASE WHEN host IS NULL THEN job_id END AS of_job, job_id
        FROM runs
        WHERE cause <> $unexplained
    ) AS row_jobs
    JOIN fixes
        ON fixes.cause = row_jobs.cause
        AND fixes.host IS NOT DISTINCT FROM row_jobs.host
        AND fixes.of_job IS NOT DISTINCT FROM row_jobs.of_job
    JOIN (SELECT log_date, job_id FROM job_slowdown WHERE $is_analysed AND $in_period) AS units
        ON units.job_id = row_jobs.job_id AND units.log_date > fixes.last_day
    LEFT JOIN (SELECT DISTINCT cause, job_id, log_date FROM parts WHERE host IS NOT NULL) AS elsewhere
        ON row_jobs.host IS NULL
        AND elsewhere.cause = row_jobs.cause
        AND elsewhere.job_id = units.job_id
        AND elsewhere.log_date = units.log_date
    WHERE elsewhere.log_date IS NULL
    GROUP BY row_jobs.cause, row_jobs.host, row_jobs.of_job
)

SELECT
    fixes.* EXCEPT (of_job, half_of_lost, half_of_recoverable),
    CASE WHEN half_of_lost IS NOT NULL THEN greatest(0D, lost_gpu_hours - half_of_lost) END AS lost_gpu_hours_low,
    lost_gpu_hours + half_of_lost AS lost_gpu_hours_high,
    recoverable_gpu_hours - half_of_recoverable AS recoverable_gpu_hours_low,
    recoverable_gpu_hours + half_of_recoverable AS recoverable_gpu_hours_high,
    explained_by, mitigation,
    mitigation_gpu_hours,
    coalesce(later_days, 0) AS days_without,
    link_hosts
FROM fixes
LEFT JOIN later
    ON fixes.cause = later.cause
    AND fixes.host IS NOT DISTINCT FROM later.host
    AND fixes.of_job IS NOT DISTINCT FROM later.of_job
LEFT JOIN explained ON fixes.cause = explained.cause AND fixes.host = explained.host
LEFT JOIN linked ON fixes.cause = linked.cause AND fixes.host = linked.host
LEFT JOIN best
    ON fixes.cause = best.cause
    AND fixes.host IS NOT DISTINCT FROM best.host
    AND fixes.of_job IS NOT DISTINCT FROM best.of_job
ORDER BY
    fixes.cause = $unexplained, coalesce(later_days, 0) >= 3, lost_gpu_hours DESC NULLS LAST, lost_s DESC, fixes.cause, fixes.host, job_ids
