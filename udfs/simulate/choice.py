"""Choose the rows of a unit that are replayed, in the same way for tables, what-if answers and timelines.

Errors that the kernel finds in these rows are raised again with step numbers, ranks and names of op types.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.vocabulary import OP_TYPES, Status
from udfs.errors import NothingToReplayError, TraceError
from udfs.kernel.arrays import Floats
from udfs.kernel.clocks.estimate import Limits
from udfs.kernel.graph.graph import Layout, TraceDefectError
from udfs.kernel.recorded.first_pass import Recorded, read
from udfs.layout import LayoutError, is_foreign, is_partial, read_layout
from udfs.op_lists import list_lengths
from udfs.simulate.implausible import exchanged_stages, implausible_times, implausible_zeros, is_transposed
from udfs.simulate.odd_records import (
    MOST_NAMED,
    in_other_units,
    missing_workers,
    of_log_date,
    rows_without_transfers,
    unshown_sizes,
    without_odd_rank_steps,
)
from udfs.simulate.rank_rows import ReplayedRows, replayed_rows, without_warm_up
from udfs.simulate.recorded_ranks import some_ranks_results
from udfs.simulate.result_tables import Row
from udfs.simulate.settings import SimulationSettings

LONGEST_STEP_S: Final = 1e12
"""No step takes longer [s]: 30,000 years, far below where sums and squares would exceed float64."""


@contextmanager
def defects_named(rows: ReplayedRows) -> Iterator[None]:
    """Turn TraceDefectError into TraceError, with step numbers and global ranks.

    raises : TraceError.
    """
    try:
        yield
    except TraceDefectError as found:
        ops = ", ".join(
            f"{OP_TYPES[op.op_type]} {op.ordinal} of rank {rows.worker_rank[op.stage, op.dp_rank]} "
            f"(dp_rank {op.dp_rank}, pp_rank {op.stage})"
            for op in found.ops
        )
        raise TraceError(f"step {rows.steps[found.step_index]}: {found.defect}: {ops}") from None


def refuse_endless(actual_s: Floats, rows: ReplayedRows) -> None:
    """Raise TraceError if a step is longer than LONGEST_STEP_S. actual_s : shape (step,). [s]

    raises : TraceError naming the longest step.
    """
    longest = int(actual_s.argmax())
    if actual_s[longest] > LONGEST_STEP_S:
        took = f"takes {actual_s[longest]:.3g} s, more than {LONGEST_STEP_S:.0e} s"
        raise TraceError(f"step {rows.steps[longest]}: {took}")


class Refused(NamedTuple):
    """Status and detail of a unit that cannot be replayed.

    status, detail : as in job_slowdown.
    left_out       : columns of job_slowdown as in Choice, and figures that need no replay; empty if the rows
                     were not read.
    """

    status: str
    detail: str
    left_out: Row


class ExchangedError(NothingToReplayError):
    """Raised if ranks or stages of a unit are swapped; `refused` gives the reason."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused)
        self.refused = refused

    def __str__(self) -> str:
        return f"{self.refused.status}: {self.refused.detail}"


class Choice(NamedTuple):
    """The rows of a unit that are replayed, its layout, limits for its clocks, and counts of rows left out.

    rows       : the replayed rows; every step is complete.
    layout     : sizes of the run, and the types of transfers that block if the manifest states them;
                 otherwise reading the rows finds these types (Recorded.blocking).
    limits     : clock offsets below these limits are not corrected.
    left_out   : columns of job_slowdown with the numbers of odd and left out records.
    is_partial : whether transfers were not recorded, so that a replay would prove nothing.
    """

    rows: ReplayedRows
    layout: Layout
    limits: Limits
    left_out: Row
    is_partial: bool

    def read(self, ops_together: int) -> Recorded:
        """Read the rows for scenarios that the result tables do not contain, without a diagnosis.

        raises : TraceError if the ops contradict each other, ExchangedError if ranks are swapped.
        """
        try:
            with defects_named(self.rows):
                recorded = read(self.rows, self.layout, ops_together, self.limits, diagnosed=False)
        except TraceError:
            self.refuse_exchanged(None)
            raise
        refuse_endless(recorded.actual_s, self.rows)
        self.refuse_exchanged(recorded)
        return recorded

    def refuse_exchanged(self, recorded: Recorded | None) -> None:
        """Raise ExchangedError if ranks or stages of the unit are swapped.

        recorded : result of reading the rows; None if the ops contradict each other.
        """
        if recorded is not None and recorded.exchanged:
            ranks = self.rows.worker_rank
            names = [
                f"ranks {ranks[stage, one]} and {ranks[stage, other]} of stage {stage} are exchanged: "
                "the transfers of each end with the other's peers"
                for stage, one, other in recorded.exchanged
            ]
            odd = 2 * len(recorded.exchanged)
        elif recorded is None and is_transposed(self.rows):
            names = ["dp_rank and pp_rank look exchanged: forwards arrive wherever dp_rank is not 0"]
            odd = self.layout.dp_size * self.layout.pp_size
        else:
            names = exchanged_stages(self.rows, self.layout, recorded)
            odd = 2 * len(names)
        if not names:
            return
        left_out = self.left_out | {"odd_ranks": odd}
        raise ExchangedError(Refused(Status.ODD_RANKS, "; ".join(names[:MOST_NAMED]), left_out))


def choose(
    rank_steps: pa.Table, facts: Mapping[str, object], settings: SimulationSettings
) -> Choice | Refused:
    """Choose the rows of a unit to replay, or return the reason why it is not replayed.

    rank_steps, facts : rows and manifest, as simulate_job takes them.
    raises : TraceError where a row contradicts the layout.
    """
    layout = _layout(facts, settings)
    if isinstance(layout, Refused):
        return layout
    warm = without_warm_up(rank_steps, facts)
    of_day, other_days = of_log_date(warm, facts, settings.log_day_margin_s)
    has_ops = bool(list_lengths(of_day).any())
    left_out: Row = {
        "odd_ranks": 0,
        "other_day_lines": other_days,
        "unshown_sizes": unshown_sizes(of_day, facts) if has_ops else None,
    }
    wrong = implausible_times(of_day) if has_ops else None
    if other_days and not of_day.num_rows:
        wrong = implausible_zeros(warm, facts, settings.log_day_margin_s)
    if wrong is not None:
        return Refused(Status.IMPLAUSIBLE_TIMES, wrong, left_out)
    rows = replayed_rows(of_day, layout)
    if not len(rows.steps):
        figures: Row = {}
        if not rows.recorded:
            detail = f"all {other_days} lines are of other days" if other_days else "no rank recorded an op"
            status = Status.NO_OPS
        elif (of_some := some_ranks_results(rows.table, layout, facts)) is not None:
            status, (detail, figures) = Status.SOME_RANKS, of_some
        else:
            status, detail = Status.MISSING_WORKERS, missing_workers(rows, layout)
        return Refused(status, detail, left_out | figures)
    rows = without_odd_rank_steps(rows)
    odd = in_other_units(rows)
    if odd:
        return Refused(Status.ODD_RANKS, "; ".join(odd[:MOST_NAMED]), left_out | {"odd_ranks": len(odd)})
    has_none = layout.pp_size > 1 and is_foreign(facts) and bool(rows_without_transfers(rows))
    return Choice(rows, layout, settings.limits, left_out, is_partial(facts) or has_none)


def chosen(rank_steps: pa.Table, facts: Mapping[str, object], settings: SimulationSettings) -> Choice:
    """Choose the rows of a unit to replay, or raise an error if there are none.

    raises : NothingToReplayError with the status and detail of the unit, TraceError as in choose.
    """
    choice = choose(rank_steps, facts, settings)
    if isinstance(choice, Refused):
        raise NothingToReplayError(f"{choice.status}: {choice.detail}")
    if choice.is_partial:
        detail = "transfers were not recorded, so a replay would prove nothing"
        raise NothingToReplayError(f"{Status.PARTIAL_TRACE}: {detail}")
    return choice


def _layout(facts: Mapping[str, object], settings: SimulationSettings) -> Layout | Refused:
    """Return the layout of a unit, or a refusal if the manifest alone shows that a replay is impossible."""
    if not facts:
        return Refused(Status.NO_MANIFEST, "job.json is missing or not JSON", {})
    if facts.get("manifest_status") is not None:
        return Refused(str(facts["manifest_status"]), str(facts["manifest_detail"]), {})
    try:
        layout = read_layout(facts)
    except LayoutError as wrong:
        return Refused(Status.BAD_LAYOUT, str(wrong), {})
    restarts = facts.get("restarts")
    if isinstance(restarts, int) and restarts > settings.maximum_restarts:
        detail = f"{restarts} restarts, more than {settings.maximum_restarts}"
        return Refused(Status.TOO_MANY_RESTARTS, detail, {})
    return layout
