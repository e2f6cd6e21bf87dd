-- Which causes are less reliable because they have a flag, in which jobs, and which flag is it?
SELECT flag_reason, cause, count(*) AS units, array_sort(collect_set(job_id)) AS job_ids
FROM job_causes
WHERE is_cause AND flag_reason IS NOT NULL
GROUP BY flag_reason, cause
ORDER BY units DESC, flag_reason, cause
