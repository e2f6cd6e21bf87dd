-- Which hosts are slow repeatedly, more often than chance explains?
SELECT host, pattern, jobs_slow, jobs_not_slow, days_slow, is_beyond_chance, round(p_value, 5) AS p_value
FROM host_recurrence
ORDER BY p_value, jobs_slow DESC, days_slow DESC, host
LIMIT 5
