-- Hosts whose clocks were off in a unit: by how much, in how many units and on which days, worst first. A clock is off
-- if it was corrected by more than twice the standard error of its offset. A host with the same drift (ppm) in all
-- units has a bad oscillator; a host whose clock jumps is set by hand, or by a daemon that sets the time in jumps.
SELECT
  host,
  count(*) AS units,
  count(DISTINCT job_id) AS jobs,
  count(DISTINCT log_date) AS days,
  min(log_date) AS first_seen,
  max(log_date) AS last_seen,
  max(abs(largest_offset_s)) AS largest_offset_s,
  median(abs(offset_s)) AS median_offset_s,
  median(drift_ppm) AS median_drift_ppm,
  sum(jumps) AS jumps
FROM host_clock
WHERE host IS NOT NULL AND is_corrected AND abs(largest_offset_s) > 2 * error_s
GROUP BY host
ORDER BY largest_offset_s DESC, host
