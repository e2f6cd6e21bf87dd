-- Hosts that were slow in several jobs or on several days, those first that chance explains least: host_record says what
-- slow, chance and the patterns mean. An estimate: without is_beyond_chance, the host's places in its jobs are reason
-- enough.
SELECT *
FROM host_record
WHERE jobs_slow > 1 OR days_slow > 1
ORDER BY p_value, jobs_slow DESC, host
