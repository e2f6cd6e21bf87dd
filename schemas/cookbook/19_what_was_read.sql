-- How much was read each day from logs of lines, and is every line accounted for?
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
