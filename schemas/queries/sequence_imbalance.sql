-- In how many jobs forward and backward times of a microbatch correlate as only sequences of uneven length make them:
-- a correlation of at least 0.9 (section 5.3). The answer also says how slow these jobs are.
WITH runs AS ($runs)

SELECT
    count(*) AS jobs,
    count_if(is_analysed) AS analysed,
    count_if(is_analysed AND $is_sequence_driven) AS sequence_driven,
    try_divide(count_if(is_analysed AND $is_sequence_driven), count_if(is_analysed)) AS sequence_driven_share,
    avg(slowdown) FILTER (WHERE is_analysed AND $is_sequence_driven) AS sequence_driven_slowdown,
    avg(slowdown) FILTER (WHERE is_analysed) AS analysed_slowdown
FROM runs
