-- In how many jobs do forward and backward times of a microbatch correlate as much as only sequences of uneven length
-- cause: correlation at least 0.9 (section 5.3), and how slow those jobs are.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    count_if(is_analysed AND $is_sequence_driven) AS sequence_driven,
    try_divide(count_if(is_analysed AND $is_sequence_driven), count_if(is_analysed)) AS sequence_driven_share,
    avg(slowdown) FILTER (WHERE is_analysed AND $is_sequence_driven) AS sequence_driven_slowdown,
    avg(slowdown) FILTER (WHERE is_analysed) AS analysed_slowdown
FROM runs
