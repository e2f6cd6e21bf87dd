"""Tables of jobs whose runs have different roles, as in RLHF: for which role the other roles wait."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

LEAST_ITERATIONS: Final = 3
"""Fewer recorded iterations give no answer, because the order of roles in them may be chance."""
MOST_ITERATIONS: Final = 10_000
MOST_ROLES: Final = 32
"""Wholes with more iterations or roles get no answer, because their replays would take minutes."""

_OF_WHOLES: Final = {
    column.name: column
    for column in col.declared("""
        part_of (text): name of the whole in the manifests of its runs
        role (text): role of a run in the whole, as its manifest names it
        iteration (integer >= 0): number of the iteration of the whole
        start_us (integer [us]): start of the first op, in Unix time
        end_us (integer [us]): end of the last op, in Unix time
        """)
}
_UNANSWERED: Final = (
    f"null if the whole has fewer than {LEAST_ITERATIONS} or more than {MOST_ITERATIONS:,} iterations, or "
    f"more than {MOST_ROLES} roles, or if the role has no iteration"
)

ROLE_STEP: Final = Table(
    "role_step",
    "One row per replayed step of a replayed unit whose manifest states part_of, role and the step's "
    "iteration, and whose log has absolute times on its log date. Times are by the unit's median clock.",
    grain=(*UNIT_KEY, "step"),
    columns=col.declared(
        """
        log_date, job_id, run_id, step, part_of, role, iteration, start_us, end_us
        actual_step_s (seconds): as in step_slowdown (T_actual)
        simulated_step_s (seconds): as in step_slowdown (T)
        ideal_step_s
        """,
        own=_OF_WHOLES,
    ),
    expectations=col.rules("""
        -- end_us - start_us = actual_step_s
        length_is_that_of_the_step: abs((end_us - start_us) - actual_step_s * 1e6) <= 1 + 1e-12 *
            actual_step_s * 1e6
        """),
)

ROLE_ITERATION: Final = Table(
    "role_iteration",
    "One row per role and iteration of a job of several roles: the time from the start of the role's first "
    "step to the end of its last step in the iteration. udfs/README.md describes how "
    "the waits between roles are found.",
    grain=("log_date", "part_of", "iteration", "role"),
    columns=col.declared(
        """
        log_date, part_of, iteration, role
        runs (count): units with steps of this role in the iteration
        start_us, end_us
        busy_s (seconds >= 0): time within the span in which a step of the role runs
        waiting_s (seconds? >= 0): from the end of the role's previous span to the start of this span, 0 if
            they overlap; null: no span in the previous iteration
        transition_s (seconds?): from the end of the last span that the role waits for to the start of its
            span, as recorded; slightly negative if clocks differ; null: it waits for no other span
        waited_for_s (seconds >= 0): length of the span if it is on the longest path through the whole, so
            that others wait for it; else 0
        is_waited_for (flag): whether the whole waits longest for this role in this iteration
        """,
        own=_OF_WHOLES,
    ),
    expectations=col.rules("""
        -- no span ends before it starts
        ends_after_its_start: end_us >= start_us
        -- a role without a step has no row
        has_runs: runs >= 1
        -- a span is on the longest path entirely or not at all
        all_or_nothing: waited_for_s = 0 OR abs(waited_for_s * 1e6 - (end_us - start_us)) <= 1
        -- the whole waits for a role that is on the longest path
        waited_for_if_on_the_path: waited_for_s > 0 OR NOT is_waited_for
        """),
)

ROLE_EFFECT: Final = Table(
    "role_effect",
    "One row per role of a job of several roles: how long the other roles wait for this role, and how much "
    "time the job saves if this role is faster. Savings of several roles do not add up.",
    grain=("log_date", "part_of", "role"),
    columns=col.declared(
        f"""
        log_date, part_of, role
        runs (count): units of the role
        runs_left_out (count): units of the role without a row in role_step, because they were not replayed,
            or have no iterations in the manifest or no times (t0_us) on the log date; their time counts as
            transition
        iterations (count): recorded iterations of the whole in which the role has a span
        waits_for (text[]?): roles whose spans of the same iteration must end first; {_UNANSWERED}
        waits_for_before (text[]?): roles whose spans of the previous iteration must end first; {_UNANSWERED}
        busy_s (seconds? >= 0): busy_s of role_iteration, summed; {_UNANSWERED}
        waiting_s (seconds? >= 0): waiting_s of role_iteration, summed; {_UNANSWERED}
        waited_for_s (seconds? >= 0): waited_for_s of role_iteration, summed; {_UNANSWERED}
        transition_s (seconds?): time before the role's spans on the longest path, such as resharding and the
            transfer of weights; transition_s + waited_for_s summed over roles is whole_s; {_UNANSWERED}
        iterations_waited_for (count?): iterations in which the whole waits longest for the role;
            {_UNANSWERED}
        whole_s (seconds? >= 0): recorded time of the whole; {_UNANSWERED}
        gpu_hours (gpu_hours): GPU-hours of all units of the whole that state them; null if none does
        saved_fraction_if_fixed (fraction?): part of whole_s saved if all causes in the role's runs were
            fixed; null also if one of these is not analysed; {_UNANSWERED}
        saved_gpu_hours_if_fixed (gpu_hours): gpu_hours x saved_fraction_if_fixed; null if either is null
        saved_fraction_if_ideal (fraction?): part of whole_s saved if each step of the role took its ideal
            time; {_UNANSWERED}
        saved_gpu_hours_if_ideal (gpu_hours): gpu_hours x saved_fraction_if_ideal; null if either is null
        saved_fraction_if_twice_as_fast (fraction?): part of whole_s saved if the role took half its time;
            {_UNANSWERED}
        saved_gpu_hours_if_twice_as_fast (gpu_hours): gpu_hours x saved_fraction_if_twice_as_fast; null if
            either is null
        """,
        own=_OF_WHOLES,
    ),
    expectations=col.rules("""
        -- runs_left_out <= runs, runs >= 1
        counts_are_nested: runs >= 1 AND runs_left_out <= runs
        -- a role has all figures or none
        answered_together: (whole_s IS NULL) = (busy_s IS NULL) AND (whole_s IS NULL) =
            (saved_fraction_if_ideal IS NULL) AND (whole_s IS NULL) = (saved_fraction_if_twice_as_fast IS
            NULL)
        -- a role that is twice as fast does not lengthen the whole
        faster_is_no_loss: saved_fraction_if_twice_as_fast IS NULL OR saved_fraction_if_twice_as_fast BETWEEN
            -1e-9 AND 1
        """),
)
