"""Runs that form one whole, such as the roles of RLHF: which role the others wait for."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import UNIT_KEY

LEAST_ITERATIONS: Final = 3
"""From fewer recorded iterations nothing is said of a whole: an order may be chance."""
MOST_ITERATIONS: Final = 10_000
MOST_ROLES: Final = 32
"""Of larger wholes nothing is said: every role has replays of all spans, and an iteration takes minutes."""

_PART_OF: Final = col.text("part_of", "the whole, as the manifests of its runs name it")
_ROLE: Final = col.text("role", "what a run does in the whole, as its manifest names it")
_ITERATION: Final = col.integer("iteration", "iteration of the whole", minimum=0)
_START: Final = col.integer("start_us", "first start, in Unix time", unit="us")
_END: Final = col.integer("end_us", "last end, in Unix time", unit="us")
_ENDS_LATER: Final = Expectation(
    "ends_after_its_start", "end_us >= start_us", "no span ends before it starts"
)
_UNANSWERED: Final = (
    f"null: fewer than {LEAST_ITERATIONS} iterations of the whole, or none of the role; more than "
    f"{MOST_ITERATIONS:,} iterations or {MOST_ROLES} roles"
)

ROLE_STEP: Final = Table(
    "role_step",
    "One row per replayed step of a replayed unit whose manifest states part_of, role and the step's "
    "iteration, and whose log has absolute times on its log date. Times are by the unit's middle clock.",
    grain=(*UNIT_KEY, "step"),
    columns=(
        *col.UNIT,
        col.STEP,
        _PART_OF,
        _ROLE,
        _ITERATION,
        _START,
        _END,
        col.seconds("actual_step_s", "as in step_slowdown (T_actual)"),
        col.seconds("simulated_step_s", "as in step_slowdown (T)"),
        col.IDEAL_STEP,
    ),
    expectations=(
        Expectation(
            "length_is_that_of_the_step",
            "abs((end_us - start_us) - actual_step_s * 1e6) <= 1 + 1e-12 * actual_step_s * 1e6",
            "end_us - start_us = actual_step_s",
        ),
    ),
)

ROLE_ITERATION: Final = Table(
    "role_iteration",
    "One row per role and iteration of a whole: its span, from the first start of its steps to the last end. "
    "udfs/README.md says how it is found who waits for whom.",
    grain=("log_date", "part_of", "iteration", "role"),
    columns=(
        col.LOG_DATE,
        _PART_OF,
        _ITERATION,
        _ROLE,
        col.count("runs", "units with steps of this role in the iteration"),
        _START,
        _END,
        col.seconds("busy_s", "time within the span in which one of its steps runs", minimum=0),
        col.seconds(
            "waiting_s",
            "from the end of its span of the iteration before to its start, 0 where these overlap; "
            "null: it has none there",
            nullable=True,
            minimum=0,
        ),
        col.seconds(
            "transition_s",
            "from the end of the last span that it waits for to its start, as recorded; slightly negative "
            "where clocks differ; null: it waits for none",
            nullable=True,
        ),
        col.seconds(
            "waited_for_s",
            "its span where it is on the longest path, else 0: what waits behind it",
            minimum=0,
        ),
        col.flag("is_waited_for", "the whole waits longest for this role in this iteration"),
    ),
    expectations=(
        _ENDS_LATER,
        Expectation("has_runs", "runs >= 1", "a role without a step has no row"),
        Expectation(
            "all_or_nothing",
            "waited_for_s = 0 OR abs(waited_for_s * 1e6 - (end_us - start_us)) <= 1",
            "a span is on the longest path as a whole",
        ),
        Expectation(
            "waited_for_if_on_the_path",
            "waited_for_s > 0 OR NOT is_waited_for",
            "the whole waits for a role that is on the longest path",
        ),
    ),
)


def _saved(name: str, meaning: str) -> tuple[Column, Column]:
    return (
        col.fraction(
            f"saved_fraction_{name}", f"part of whole_s saved {meaning}; {_UNANSWERED}", nullable=True
        ),
        col.gpu_hours(
            f"saved_gpu_hours_{name}", f"gpu_hours x saved_fraction_{name}; null where either is null"
        ),
    )


ROLE_EFFECT: Final = Table(
    "role_effect",
    "One row per role of a whole: how long the others wait for it, and what a faster role saves the "
    "whole. Savings of several roles do not add up.",
    grain=("log_date", "part_of", "role"),
    columns=(
        col.LOG_DATE,
        _PART_OF,
        _ROLE,
        col.count("runs", "units of the role"),
        col.count(
            "runs_left_out",
            "of these, units without a row in role_step: not replayed, no iterations in the manifest, or "
            "no absolute times (t0_us) on the log date; their time counts as transition",
        ),
        col.count("iterations", "recorded iterations of the whole in which the role has a span"),
        Column(
            "waits_for",
            f"roles whose end in the same iteration it waits for; {_UNANSWERED}",
            pa.list_(pa.string()),
            nullable=True,
        ),
        Column(
            "waits_for_before",
            f"roles whose end in the iteration before it waits for; {_UNANSWERED}",
            pa.list_(pa.string()),
            nullable=True,
        ),
        col.seconds("busy_s", f"busy_s of role_iteration, summed; {_UNANSWERED}", nullable=True, minimum=0),
        col.seconds(
            "waiting_s", f"waiting_s of role_iteration, summed; {_UNANSWERED}", nullable=True, minimum=0
        ),
        col.seconds(
            "waited_for_s", f"its spans on the longest path, summed; {_UNANSWERED}", nullable=True, minimum=0
        ),
        col.seconds(
            "transition_s",
            "what lies before its spans on the longest path, such as resharding and weights on their way; "
            f"with waited_for_s, summed over roles, whole_s; {_UNANSWERED}",
            nullable=True,
        ),
        col.count(
            "iterations_waited_for",
            f"iterations in which the whole waits longest for it; {_UNANSWERED}",
            nullable=True,
        ),
        col.seconds("whole_s", f"recorded time of the whole; {_UNANSWERED}", nullable=True, minimum=0),
        col.gpu_hours("gpu_hours", "GPU-hours of all units of the whole that state them; null if none does"),
        *_saved("if_fixed", "if all causes of its runs were fixed; null also where one is not analysed"),
        *_saved("if_ideal", "if each step of the role took its ideal time"),
        *_saved("if_twice_as_fast", "if the role took half its time"),
    ),
    expectations=(
        Expectation(
            "counts_are_nested", "runs >= 1 AND runs_left_out <= runs", "runs_left_out <= runs, runs >= 1"
        ),
        Expectation(
            "answered_together",
            "(whole_s IS NULL) = (busy_s IS NULL) AND (whole_s IS NULL) = (saved_fraction_if_ideal IS NULL)"
            " AND (whole_s IS NULL) = (saved_fraction_if_twice_as_fast IS NULL)",
            "a role has all figures or none",
        ),
        Expectation(
            "faster_is_no_loss",
            "saved_fraction_if_twice_as_fast IS NULL OR saved_fraction_if_twice_as_fast BETWEEN -1e-9 AND 1",
            "a role that takes half its time costs the whole nothing",
        ),
    ),
)
