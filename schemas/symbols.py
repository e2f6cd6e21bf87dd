"""The paper's symbols: what each number is, how it is computed, and its columns.

Equation numbers are those of Lin et al., OSDI '25 (arXiv 2505.05713).
"""

from typing import Final, NamedTuple

from schemas.vocabulary import (
    DP_RANK_SLOWDOWN,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    OP_TYPE_SLOWDOWN,
    STAGE_SLOWDOWN,
    STEP_SLOWDOWN,
    WORKER_SLOWDOWN,
)


class Symbol(NamedTuple):
    """One number defined in the paper, or by this project if equation is empty.

    columns : its (table, column) pairs.
    """

    symbol: str
    equation: str
    meaning: str
    formula: str
    columns: tuple[tuple[str, str], ...]


SYMBOLS: Final = (
    Symbol(
        "T_actual",
        "",
        "recorded step time",
        "latest end - earliest start of the replayed ranks' ops; of a job the mean over its steps",
        ((JOB_SLOWDOWN, "actual_step_s"), (STEP_SLOWDOWN, "actual_step_s")),
    ),
    Symbol(
        "T",
        "",
        "step time replayed with recorded durations",
        "latest end when every op starts as soon as what it waits for has ended; of a job the mean",
        ((JOB_SLOWDOWN, "simulated_step_s"), (STEP_SLOWDOWN, "simulated_step_s")),
    ),
    Symbol(
        "T_ideal",
        "",
        "step time replayed with every duration ideal",
        "as T, each op at the usual duration of its type: the mean of computes, the median of transfers",
        ((JOB_SLOWDOWN, "ideal_step_s"), (STEP_SLOWDOWN, "ideal_step_s")),
    ),
    Symbol(
        "S",
        "Eq. 1",
        "slowdown",
        "T / T_ideal; of a job mean T / mean T_ideal, never the mean of ratios",
        ((JOB_SLOWDOWN, "slowdown"), (STEP_SLOWDOWN, "slowdown")),
    ),
    Symbol(
        "S_t",
        "Eq. 2",
        "slowdown by one op type",
        "T with type t recorded and all else ideal / T_ideal",
        ((OP_TYPE_SLOWDOWN, "slowdown"),),
    ),
    Symbol("S_dp", "", "slowdown by one dp rank", "the same by dp rank", ((DP_RANK_SLOWDOWN, "slowdown"),)),
    Symbol("S_pp", "", "slowdown by one stage", "the same by stage", ((STAGE_SLOWDOWN, "slowdown"),)),
    Symbol(
        "waste",
        "Eq. 3",
        "part of the time lost",
        "1 - 1/S",
        ((JOB_SLOWDOWN, "waste_fraction"), (OP_TYPE_SLOWDOWN, "waste_fraction")),
    ),
    Symbol(
        "S_w",
        "Eq. 4",
        "slowdown by one worker",
        "T with worker w recorded and all else ideal / T_ideal; the paper's shortcut is min(S_dp, S_pp)",
        ((WORKER_SLOWDOWN, "slowdown"), (WORKER_SLOWDOWN, "slowdown_approx")),
    ),
    Symbol(
        "M_W",
        "Eq. 5",
        "part of the loss by the slowest workers",
        "(T - T with the slowest 3 % of workers ideal) / (T - T_ideal)",
        ((JOB_SLOWDOWN, "slow_worker_share"),),
    ),
    Symbol(
        "M_S",
        "",
        "part of the loss by the last stage",
        "(T - T with the last stage ideal) / (T - T_ideal); 0 without a pipeline",
        ((JOB_SLOWDOWN, "last_stage_share"),),
    ),
    Symbol(
        "launch slowdown",
        "",
        "what the graph does not explain: host, data loading",
        "mean T_actual / mean T",
        ((JOB_SLOWDOWN, "launch_slowdown"),),
    ),
    Symbol(
        "discrepancy",
        "",
        "how far the replay is off",
        "|mean T_actual - mean T| / mean T_actual",
        ((JOB_SLOWDOWN, "discrepancy"),),
    ),
    Symbol(
        "r",
        "",
        "sequences of uneven length",
        "Pearson of forward and backward times of a microbatch within each worker; median over workers",
        ((JOB_SLOWDOWN, "forward_backward_correlation"),),
    ),
    Symbol(
        "time saved",
        "",
        "what fixing one cause alone saves (ours)",
        "(T_with - T_fixed) / T_actual; T_with is the replay as it ran, data loading included",
        ((JOB_CAUSES, "time_saved_fraction"),),
    ),
    Symbol(
        "attributed",
        "",
        "a cause's part of what all fixes together return (ours)",
        "its Shapley value among all fixes: the parts add up",
        ((JOB_CAUSES, "attributed_fraction"),),
    ),
    Symbol(
        "lost",
        "",
        "what stragglers cost, cause by cause (ours)",
        "attributed_fraction of rows with is_cause; the rest of the sum over all causes is unexplained",
        ((JOB_CAUSES, "lost_fraction"),),
    ),
    Symbol(
        "GPU-hours wasted",
        "",
        "what stragglers cost against the paper's ideal",
        "gpu_hours x waste",
        ((JOB_SLOWDOWN, "wasted_gpu_hours"),),
    ),
    Symbol(
        "GPU-hours of a cause",
        "",
        "what a fix alone saves, a cause's share, and what is lost to it (ours)",
        "gpu_hours x time saved; gpu_hours x attributed; gpu_hours x lost",
        (
            (JOB_CAUSES, "recoverable_gpu_hours"),
            (JOB_CAUSES, "attributed_gpu_hours"),
            (JOB_CAUSES, "lost_gpu_hours"),
        ),
    ),
)


def symbols_of(table: str, column: str) -> list[Symbol]:
    """Return the symbols that a column of a table holds."""
    return [symbol for symbol in SYMBOLS if (table, column) in symbol.columns]
