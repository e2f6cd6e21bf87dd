-- Why is gpt-175b slow, on which host, since which step, and why may the answer be less reliable?
SELECT
    log_date,
    cause,
    round(time_saved_fraction, 3) AS time_saved,
    try_element_at(culprits, 1).reach AS reach,
    try_element_at(culprits, 1).dp_rank AS dp_rank,
    try_element_at(culprits, 1).pp_rank AS pp_rank,
    coalesce(try_element_at(culprits, 1).slow_host, try_element_at(culprits, 1).host) AS host,
    try_element_at(culprits, 1).direction AS direction,
    try_element_at(culprits, 1).course AS course,
    try_element_at(culprits, 1).first_step AS first_step,
    flag_reason
FROM job_causes
WHERE job_id = 'gpt-175b' AND is_cause
ORDER BY log_date, time_saved_fraction DESC
