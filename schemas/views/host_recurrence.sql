-- Hosts that were slow in several jobs or on several days, the least likely by chance first: host_record defines
-- slow, chance and the patterns. This is an estimate: without is_beyond_chance, the host's places in its jobs may be
-- the reason.
SELECT *
FROM host_record
WHERE jobs_slow > 1 OR days_slow > 1
ORDER BY p_value, jobs_slow DESC, host
