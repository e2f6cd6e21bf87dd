-- In jobs of several roles, which role do the others wait for, and what would a twice as fast role save?
SELECT
    log_date,
    part_of,
    role,
    iterations_waited_for,
    round(waited_for_s / whole_s, 3) AS part_of_the_time,
    round(saved_fraction_if_fixed, 3) AS saved_if_fixed,
    round(saved_fraction_if_twice_as_fast, 3) AS saved_if_twice_as_fast,
    round(saved_gpu_hours_if_twice_as_fast, 1) AS saved_gpu_hours
FROM role_effect
WHERE waited_for_s > 0
ORDER BY part_of_the_time DESC, log_date, part_of, role
LIMIT 5
