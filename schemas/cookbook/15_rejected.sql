-- What was rejected, from which file, and why?
SELECT source_file, line, reason, detail
FROM rejects
ORDER BY source_file, line
LIMIT 5
