"""Symbols of the paper: the meaning and formula of each number, and the columns in which it is stored.

Equation numbers are those of Lin et al., OSDI '25 (arXiv 2505.05713).
"""

import re
from typing import Final, NamedTuple


class Symbol(NamedTuple):
    """A number of the paper with its symbol, meaning and formula; `equation` is empty if the paper has none.

    columns : (table, column) of each column that stores the number
    """

    symbol: str
    equation: str
    meaning: str
    formula: str
    columns: tuple[tuple[str, str], ...]


_DECLARED: Final = """
T_actual: recorded step time
    = latest end - earliest start of the replayed ranks' ops; of a job the mean over its steps
    job_slowdown.actual_step_s, step_slowdown.actual_step_s
T: step time replayed with recorded durations
    = latest end when every op starts as soon as what it waits for has ended; of a job the mean
    job_slowdown.simulated_step_s, step_slowdown.simulated_step_s
T_ideal: step time replayed with every duration ideal
    = as T, each op at the usual duration of its type: the mean of computes, the median of transfers
    job_slowdown.ideal_step_s, step_slowdown.ideal_step_s
S (Eq. 1): slowdown
    = T / T_ideal; of a job mean T / mean T_ideal, never the mean of ratios
    job_slowdown.slowdown, step_slowdown.slowdown
S_t (Eq. 2): slowdown by one op type
    = T with type t recorded and all else ideal / T_ideal
    op_type_slowdown.slowdown
S_dp: slowdown by one dp rank
    = T with the dp rank recorded and all else ideal / T_ideal
    dp_rank_slowdown.slowdown
S_pp: slowdown by one stage
    = T with the stage recorded and all else ideal / T_ideal
    stage_slowdown.slowdown
waste (Eq. 3): part of the time lost
    = 1 - 1/S
    job_slowdown.waste_fraction, op_type_slowdown.waste_fraction
S_w (Eq. 4): slowdown by one worker
    = T with worker w recorded and all else ideal / T_ideal; the paper's shortcut is min(S_dp, S_pp)
    worker_slowdown.slowdown, worker_slowdown.slowdown_approx
M_W (Eq. 5): part of the loss that the slowest workers cause
    = (T - T with the slowest 3 % of workers ideal) / (T - T_ideal)
    job_slowdown.slow_worker_share
M_S: part of the loss that the last stage causes
    = (T - T with the last stage ideal) / (T - T_ideal); 0 without a pipeline
    job_slowdown.last_stage_share
launch slowdown: slowness that replayed ops do not explain, such as delays by host and data loading
    = mean T_actual / mean T
    job_slowdown.launch_slowdown
discrepancy: relative difference of replayed and recorded step time
    = |mean T_actual - mean T| / mean T_actual
    job_slowdown.discrepancy
r: correlation of forward and backward times, near 1 with sequences of uneven length
    = Pearson of forward and backward times of a microbatch within each worker; median over workers
    job_slowdown.forward_backward_correlation
time saved: part of the step time that fixing one cause alone saves (ours)
    = (T_with - T_fixed) / T_actual; T_with is the replay as it ran, data loading included
    job_causes.time_saved_fraction
attributed: a cause's part of what all fixes together save (ours)
    = its Shapley value among all fixes: the parts add up
    job_causes.attributed_fraction
lost: part of the step time that is lost to a cause (ours)
    = attributed_fraction of rows with is_cause; the rest of the sum over all causes is unexplained
    job_causes.lost_fraction
GPU-hours wasted: what stragglers cost against the paper's ideal
    = gpu_hours x waste
    job_slowdown.wasted_gpu_hours
GPU-hours of a cause: what a fix alone saves, a cause's share, and what is lost to it (ours)
    = gpu_hours x time saved; gpu_hours x attributed; gpu_hours x lost
    job_causes.recoverable_gpu_hours, job_causes.attributed_gpu_hours, job_causes.lost_gpu_hours
"""
_ENTRY: Final = re.compile(r"(.+?)(?: \((Eq\. \d)\))?: (.+)\n    = (.+)\n    (.+)\n")
SYMBOLS: Final = tuple(
    Symbol(symbol, equation, meaning, formula, tuple(tuple(each.split(".")) for each in columns.split(", ")))
    for symbol, equation, meaning, formula, columns in _ENTRY.findall(_DECLARED)
)
"""All symbols, each from three lines of _DECLARED: symbol, equation and meaning; formula; columns."""


def symbols_of(table: str, column: str) -> list[Symbol]:
    """Return the symbols of the numbers that a column of a table contains."""
    return [symbol for symbol in SYMBOLS if (table, column) in symbol.columns]
