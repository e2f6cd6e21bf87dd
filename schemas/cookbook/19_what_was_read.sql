-- How many lines of logs were read on each day, and was each of them stored or rejected?
SELECT
    log_date,
    count(*) AS files,
    sum(lines) AS lines,
    sum(rows) AS rows,
    sum(rejects) AS rejects,
    sum(lines) = sum(rows) + sum(rejects) AS is_accounted_for
FROM source_files
WHERE lines IS NOT NULL
GROUP BY log_date
ORDER BY log_date
