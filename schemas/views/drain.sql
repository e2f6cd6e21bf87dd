-- Which host to drain now, most GPU-hours first, and hosts that no job uses last: one row per host that served a job in
-- the last 7 days, and to which jobs lost time in the last $history_days days by a cause that named the host. The
-- answer is as of as_of_day, the last day with results, for the $drain_days days after it. expected_gpu_hours =
-- share_saved x gpu_hours_per_day x $drain_days x probability. share_lost: of the GPU-hours that the host served on its
-- last 7 slow days, the share that was lost to it by causes that lie in a machine, $machine_causes (fix_parts). If all
-- of the slowness in a unit began within the day (course from of the host's culprits), only the steps since then count,
-- so that share_lost is what the host costs now. share_saved: the share of the same GPU-hours that fixing these causes
-- alone would have saved; it is less than share_lost if another cause hides a part of the saving. Both shares are null
-- if none of the jobs that the host slowed states its GPU-hours. gpu_hours_per_day: GPU-hours that the host serves on
-- as_of_day; if none, the mean of the last 7 days. probability: the expected part of the next days on which the host is
-- slow if it stays in service. It is the rate at which hosts in the same state were slow $drain_days days later
-- (hosts_alike is their number), combined with a prior that weighs as much as $prior_hosts hosts. In the prior, a host
-- that has been slow for r days is slow t days later with probability r / (r + t), because it is not known how long
-- slowness lasts; a quiet host becomes slow again at a rate of $again_once a day after one spell, and of $again_often
-- after several, the rates at which repaired hosts fail again in a public log of faults (tests/evaluation/README.md).
-- state: slow for 1 day, for 2 or 3 days, or longer; quiet after one spell, or after several; days without a job do not
-- count. expected_low, expected_high: 90 % interval of the expectation, not of what one host will save. cost_gpu_hours:
-- what a drain costs if all jobs on the host stand still for $restart_minutes minutes and repeat $redone_minutes
-- minutes of steps, and the host's GPUs serve nothing for $spare_hours hours. break_even_days: a drain pays if the host
-- would stay slow for more days than this. verdict: drain (even expected_low exceeds the cost), probably
-- (expected_gpu_hours exceed it), no, or unknown (no GPU-hours are stated, or 0). The command drain can change these
-- assumptions. link_hosts: hosts at the other ends of slow links of the host in the last 7 days; a slow link is two
-- culprits of communication on neighbouring stages of a replica. Either end may be at fault, with equal probability, so
-- draining one end saves all that the link loses or nothing, on average its own part; draining all ends saves
-- link_gpu_hours. Both are null if the host has no slow link. beside_hosts: other hosts, except link_hosts, to which a
-- job of the host lost time on the same day, in the last 7 days; null if there are none. One of them may hide the
-- slowness of another, so that draining one alone saves less than its part, which is expected here. slow_until_step,
-- slow_until_time: of a host that was healthy in at least the last tenth of the steps of its last day (course until of
-- its culprits), the last slow step of that day, and when it began. Such a host counts as quiet, and what it lost no
-- longer counts beside a host that became slow within the day. Both are null for other hosts; the time is also null if
-- the log has no times of day. last_served: the last day of the host with results. is_idle: whether last_served is
-- before as_of_day, and all of the host's jobs of the last 7 days have results on as_of_day: then no job uses the host,
-- and the verdict is no. together_hosts: other hosts, except ends of the host's links, that the same cause of one job
-- names on as_of_day and that are slow at its end; null if there are none. Draining one of them alone may save nothing;
-- draining all saves together_gpu_hours, the sum of their parts, with the interval from together_low to together_high,
-- and costs together_cost_gpu_hours, which has only one restart, the dearest; together_break_even_days is
-- break_even_days for all. If draining all pays, the verdict and the order are those of all together; otherwise the
-- verdict is that of the host's own part, at most probably.
WITH today AS (
    SELECT max(log_date) AS as_of_day
    FROM job_slowdown
    WHERE $in_period
),

courses AS (
    SELECT
        log_date, job_id, run_id,
        coalesce(culprit.slow_host, culprit.host) AS host,
        max(culprit.share_of_steps) AS share_of_steps,
        count_if(culprit.course = 'from') = count(*) AS has_begun,
        count_if(culprit.course = 'until' AND culprit.share_of_steps <= $most_ended AND culprit.last_step IS NOT NULL)
            = count(*) AS has_ended,
        max(culprit.last_step) AS last_step,
        max(culprit.last_time) AS last_time
    FROM job_causes
    LATERAL VIEW explode(culprits) exploded AS culprit
    WHERE is_cause AND cause IN ($machine_causes) AND $in_period
    GROUP BY log_date, job_id, run_id, coalesce(culprit.slow_host, culprit.host)
),

lost_in_day AS (
    SELECT
        log_date, job_id, run_id, host,
        sum(lost_fraction) AS lost_fraction,
        sum(greatest(coalesce(time_saved_fraction, lost_fraction), 0D)) AS saved_fraction,
        max(is_flagged) AS is_flagged
    FROM fix_parts
    WHERE host IS NOT NULL AND cause IN ($machine_causes) AND $in_period
    GROUP BY log_date, job_id, run_id, host
),

since AS (
    SELECT
        *,
        1 + sum(CASE WHEN has_ended THEN -lost_fraction ELSE lost_fraction * (1 / steps - 1) END)
            OVER (PARTITION BY log_date, job_id, run_id) AS step_time
    FROM (
        SELECT
            log_date, job_id, run_id, host, lost_fraction, saved_fraction, is_flagged, last_step, last_time,
            CASE WHEN has_begun THEN share_of_steps ELSE 1D END AS steps,
            coalesce(has_ended, false) AS has_ended
        FROM lost_in_day
        LEFT JOIN courses USING (log_date, job_id, run_id, host)
    ) AS of_hosts
),

lost AS (
    SELECT
        log_date, job_id, run_id, host, is_flagged, has_ended, last_step, last_time,
        lost_fraction / CASE WHEN has_ended THEN 1D ELSE steps * step_time END AS lost_fraction,
        saved_fraction / CASE WHEN has_ended THEN 1D ELSE steps * step_time END AS saved_fraction
    FROM since
),

served AS (
    SELECT log_date, job_id, run_id, host, count(*) AS workers_there
    FROM worker_slowdown
    WHERE host IS NOT NULL AND $in_period
    GROUP BY log_date, job_id, run_id, host
),

unit_days AS (
    SELECT
        *,
        max(CASE WHEN is_now AND lost_fraction > 0 THEN 1 ELSE 0 END) OVER (PARTITION BY host) AS was_slow_in_now
    FROM (
        SELECT
            log_date, job_id, run_id, host, workers_there, gpu_hours, world_size, workers,
            lost_fraction, saved_fraction, is_flagged, has_ended, last_step, last_time,
            datediff(as_of_day, log_date) AS age,
            max(log_date) OVER (PARTITION BY host, job_id) = as_of_day AS is_now
        FROM served
        JOIN (
            SELECT log_date, job_id, run_id, gpu_hours, world_size, workers
            FROM job_slowdown
            WHERE $is_analysed AND $in_period
        ) AS units USING (log_date, job_id, run_id)
        LEFT JOIN lost USING (log_date, job_id, run_id, host)
        CROSS JOIN today
        WHERE datediff(as_of_day, log_date) < $history_days
    ) AS of_units
),

without_results AS (
    SELECT DISTINCT host
    FROM unit_days
    JOIN (
        SELECT job_id
        FROM job_slowdown
        CROSS JOIN today
        WHERE log_date = as_of_day AND NOT ($is_analysed) AND $in_period
    ) AS units USING (job_id)
    WHERE age < 7
),

host_days AS (
    SELECT
        host, log_date, age,
        sum(gpu_hours) AS gpu_hours,
        sum(coalesce(lost_fraction, 0D)) > 0 AS is_slow,
        count_if(lost_fraction > 0) > 0 AND count_if(lost_fraction > 0 AND NOT has_ended) = 0 AS has_ended,
        max_by(last_step, coalesce(last_time, log_date)) FILTER (WHERE has_ended) AS slow_until_step,
        max(last_time) FILTER (WHERE has_ended) AS slow_until_time,
        count_if(is_flagged) > 0 AS is_flagged,
        sum(world_size) AS job_gpus,
        max(world_size * workers_there / workers) AS gpus,
        array_sort(collect_set(job_id)) AS job_ids
    FROM unit_days
    GROUP BY host, log_date, age
),

shared_days AS (
    SELECT
        host,
        sum(gpu_hours) AS gpu_hours,
        CASE WHEN count_if(lost_fraction > 0 AND gpu_hours IS NOT NULL) > 0 THEN sum(gpu_hours * coalesce(lost_fraction, 0D)) END
            AS lost_gpu_hours,
        sum(gpu_hours * coalesce(saved_fraction, 0D)) AS saved_gpu_hours,
        row_number() OVER (PARTITION BY host ORDER BY log_date DESC) AS place
    FROM unit_days
    WHERE is_now OR was_slow_in_now = 0
    GROUP BY host, log_date
    HAVING sum(coalesce(lost_fraction, 0D)) > 0
),

shares AS (
    SELECT
        host,
        try_divide(sum(lost_gpu_hours), sum(gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL)) AS share_lost,
        try_divide(
            sum(saved_gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL),
            sum(gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL)
        ) AS share_saved,
        stddev_samp(try_divide(saved_gpu_hours, gpu_hours)) FILTER (WHERE lost_gpu_hours IS NOT NULL) AS share_spread,
        count(lost_gpu_hours) AS share_days
    FROM shared_days
    WHERE place <= 7
    GROUP BY host
),

links AS (
    SELECT DISTINCT host, other
    FROM ($slow_links) AS slow_links
    CROSS JOIN today
    WHERE datediff(as_of_day, log_date) < 7
),

beside AS (
    SELECT here.host AS host, array_sort(collect_set(there.host)) AS beside_hosts
    FROM lost AS here
    CROSS JOIN today
    JOIN lost AS there
        ON here.log_date = there.log_date
        AND here.job_id = there.job_id
        AND here.run_id = there.run_id
        AND here.host <> there.host
    LEFT JOIN links ON links.host = here.host AND links.other = there.host
    WHERE links.host IS NULL AND datediff(as_of_day, here.log_date) < 7
        AND here.lost_fraction > 0 AND there.lost_fraction > 0
    GROUP BY here.host
),

named_now AS (
    SELECT log_date, job_id, run_id, cause, host
    FROM fix_parts
    JOIN (SELECT log_date, job_id, run_id, host FROM lost WHERE lost_fraction > 0 AND NOT has_ended) AS slow_at_end
        USING (log_date, job_id, run_id, host)
    CROSS JOIN today
    WHERE cause IN ($machine_causes) AND lost_fraction > 0 AND log_date = as_of_day AND $in_period
),

together AS (
    SELECT DISTINCT here.host AS host, there.host AS other
    FROM named_now AS here
    JOIN named_now AS there
        ON here.job_id = there.job_id
        AND here.run_id = there.run_id
        AND here.cause = there.cause
        AND here.host <> there.host
    LEFT JOIN links ON links.host = here.host AND links.other = there.host
    WHERE links.host IS NULL
),

turns AS (
    SELECT
        *,
        CASE WHEN lag(is_slow) OVER (PARTITION BY host ORDER BY log_date) = is_slow THEN 0 ELSE 1 END AS is_turn
    FROM host_days
),

spells AS (
    SELECT
        *,
        sum(is_turn) OVER (PARTITION BY host ORDER BY log_date) AS stretch,
        sum(CASE WHEN is_slow THEN is_turn ELSE 0 END) OVER (PARTITION BY host ORDER BY log_date) AS spells
    FROM turns
),

stretches AS (
    SELECT *, row_number() OVER (PARTITION BY host, stretch ORDER BY log_date) AS days_in_row
    FROM spells
    WHERE spells > 0
),

states AS (
    SELECT
        *,
        is_slow AND NOT has_ended AS is_slow_now,
        CASE
            WHEN is_slow_now AND days_in_row = 1 THEN 'slow_1_day'
            WHEN is_slow_now AND days_in_row <= 3 THEN 'slow_2_or_3_days'
            WHEN is_slow_now THEN 'slow_longer'
            WHEN spells = 1 THEN 'quiet_after_one'
            ELSE 'quiet_after_more'
        END AS state,
        row_number() OVER (PARTITION BY host ORDER BY log_date DESC) AS place
    FROM stretches
),

alike AS (
    SELECT
        states.state AS state,
        count(DISTINCT states.host) AS hosts_alike,
        avg(CASE WHEN later.is_slow THEN 1D ELSE 0D END) AS part_slow
    FROM states
    JOIN host_days AS later ON later.host = states.host AND states.age - later.age BETWEEN 1 AND $drain_days
    WHERE states.age >= $drain_days
    GROUP BY states.state
),

slow AS (
    SELECT
        host,
        count(*) AS days_slow,
        max(log_date) AS last_slow,
        count_if(is_flagged) AS days_flagged
    FROM states
    WHERE is_slow
    GROUP BY host
),

load AS (
    SELECT
        host,
        coalesce(sum(gpu_hours) FILTER (WHERE age = 0), sum(gpu_hours) / 7) AS gpu_hours_per_day,
        coalesce(sum(job_gpus) FILTER (WHERE age = 0), 0) AS job_gpus,
        max(gpus) AS gpus
    FROM host_days
    WHERE age < 7
    GROUP BY host
),

hosts AS (
    SELECT
        states.*,
        slow.* EXCEPT (host),
        shares.* EXCEPT (host),
        load.gpu_hours_per_day,
        load.job_gpus * ($restart_minutes + $redone_minutes) / 60D AS restart_gpu_hours,
        load.gpus * $spare_hours AS spare_gpu_hours,
        restart_gpu_hours + spare_gpu_hours AS cost_gpu_hours,
        coalesce(hosts_alike, 0) AS hosts_alike,
        coalesce(part_slow, 0D) AS part_slow,
        states.age > 0 AND without_results.host IS NULL AS is_idle,
        CASE
            WHEN is_slow_now THEN aggregate(
                sequence(1, $drain_days), 0D, (total, t) -> total + days_in_row / CAST(days_in_row + t AS DOUBLE)
            )
            ELSE aggregate(
                sequence(1, $drain_days),
                0D,
                (total, t) -> total + 1 - power(1 - CASE WHEN spells = 1 THEN $again_once ELSE $again_often END, t)
            )
        END / $drain_days AS prior
    FROM states
    JOIN slow ON slow.host = states.host
    JOIN shares ON shares.host = states.host
    JOIN load ON load.host = states.host
    LEFT JOIN alike ON alike.state = states.state
    LEFT JOIN without_results ON without_results.host = states.host
    WHERE place = 1
),

chances AS (
    SELECT
        *,
        (hosts_alike * part_slow + $prior_hosts * prior) / (hosts_alike + $prior_hosts) AS probability,
        share_saved * gpu_hours_per_day AS a_day,
        try_divide(coalesce(try_divide(share_spread, share_saved), 0.3D), sqrt(share_days)) AS share_error
    FROM hosts
),

returns AS (
    SELECT
        *,
        a_day * $drain_days * probability AS expected_gpu_hours,
        ln(
            1 + share_error * share_error
            + (1 - probability) / (probability * (hosts_alike + $prior_hosts + 1))
        ) AS spread,
        least(expected_gpu_hours * exp(-spread / 2 - 1.645D * sqrt(spread)), a_day * $drain_days) AS expected_low,
        least(expected_gpu_hours * exp(-spread / 2 + 1.645D * sqrt(spread)), a_day * $drain_days) AS expected_high
    FROM chances
),

linked AS (
    SELECT
        links.host AS host,
        array_sort(collect_set(other)) AS link_hosts,
        sum(returns.expected_gpu_hours) AS others_gpu_hours
    FROM links
    LEFT JOIN returns ON returns.host = other
    GROUP BY links.host
),

others AS (
    SELECT
        together.host AS host,
        array_sort(collect_set(other)) AS together_hosts,
        coalesce(sum(expected_gpu_hours), 0D) AS expected_of_others,
        coalesce(sum(expected_low), 0D) AS low_of_others,
        coalesce(sum(expected_high), 0D) AS high_of_others,
        coalesce(sum(spare_gpu_hours), 0D) AS spare_of_others,
        coalesce(max(restart_gpu_hours), 0D) AS restart_of_others,
        coalesce(sum(a_day), 0D) AS a_day_of_others
    FROM together
    LEFT JOIN returns ON returns.host = other
    GROUP BY together.host
),

grouped AS (
    SELECT
        returns.*,
        together_hosts,
        expected_gpu_hours + expected_of_others AS together_gpu_hours,
        expected_low + low_of_others AS together_low,
        expected_high + high_of_others AS together_high,
        CASE WHEN together_hosts IS NOT NULL
            THEN greatest(restart_gpu_hours, restart_of_others) + spare_gpu_hours + spare_of_others
        END AS together_cost_gpu_hours,
        try_divide(together_cost_gpu_hours, a_day + a_day_of_others) AS together_break_even_days,
        coalesce(together_gpu_hours > together_cost_gpu_hours, false) AS is_group
    FROM returns
    LEFT JOIN others ON others.host = returns.host
)

SELECT
    grouped.host AS host,
    as_of_day,
    CASE
        WHEN expected_gpu_hours IS NULL OR cost_gpu_hours IS NULL THEN 'unknown'
        WHEN is_idle THEN 'no'
        WHEN is_group AND together_low > together_cost_gpu_hours THEN 'drain'
        WHEN is_group THEN 'probably'
        WHEN together_hosts IS NULL AND expected_low > cost_gpu_hours THEN 'drain'
        WHEN expected_gpu_hours > cost_gpu_hours THEN 'probably'
        ELSE 'no'
    END AS verdict,
    expected_gpu_hours - cost_gpu_hours AS net_gpu_hours,
    expected_gpu_hours,
    expected_low,
    expected_high,
    cost_gpu_hours,
    try_divide(cost_gpu_hours, a_day) AS break_even_days,
    share_lost,
    share_saved,
    gpu_hours_per_day,
    probability,
    prior,
    hosts_alike,
    state,
    CASE WHEN is_slow_now THEN days_in_row ELSE 0 END AS days_slow_in_row,
    days_slow,
    days_flagged,
    spells,
    last_slow,
    job_ids,
    link_hosts,
    expected_gpu_hours + others_gpu_hours AS link_gpu_hours,
    beside_hosts,
    CASE WHEN is_slow AND has_ended THEN slow_until_step END AS slow_until_step,
    CASE WHEN is_slow AND has_ended THEN slow_until_time END AS slow_until_time,
    log_date AS last_served,
    is_idle,
    together_hosts,
    together_gpu_hours,
    together_low,
    together_high,
    together_cost_gpu_hours,
    together_break_even_days
FROM grouped
CROSS JOIN today
LEFT JOIN linked ON linked.host = grouped.host
LEFT JOIN beside ON beside.host = grouped.host
ORDER BY
    is_idle,
    CASE WHEN is_group THEN together_gpu_hours - together_cost_gpu_hours ELSE net_gpu_hours END DESC NULLS LAST,
    host
