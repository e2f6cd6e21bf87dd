-- Hosts that were slow in several jobs or on several days, the least likely by chance first; host_record defines slow,
-- chance and the patterns. A host without is_beyond_chance may be listed only because of its places in jobs, such as
-- last stages.
SELECT *
FROM host_record
WHERE jobs_slow > 1 OR days_slow > 1
ORDER BY p_value, jobs_slow DESC, host
