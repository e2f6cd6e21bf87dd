"""The what-if simulation of one unit, callable without Spark.

Rows of rank_steps in, rows of the result tables out: `simulate_job(rows, manifest)["job_slowdown"]`.
"""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from schemas.vocabulary import (
    STATUS_ANALYSED,
    STATUS_BAD_LAYOUT,
    STATUS_HIGH_DISCREPANCY,
    STATUS_MISSING_WORKERS,
    STATUS_NO_MANIFEST,
    STATUS_NO_OPS,
    STATUS_ODD_RANKS,
    STATUS_PARTIAL_TRACE,
    STATUS_TOO_FEW_STEPS,
    STATUS_TOO_MANY_RESTARTS,
    STATUS_UNKNOWN_CLOCKS,
)
from udfs.kernel.clocks.estimate import USUAL_LIMITS, Clocks, Limits
from udfs.kernel.graph.graph import Layout
from udfs.kernel.replay.ideal import IDEALS, PAPER_IDEAL
from udfs.kernel.what_if import OPS_TOGETHER, How, WhatIf, analyse
from udfs.layout import LayoutError, is_foreign, is_partial, read_layout
from udfs.simulate.gpu_types import WorkerTypes, worker_types
from udfs.simulate.odd_records import (
    MOST_NAMED,
    in_other_units,
    missing_workers,
    named_exchanged,
    of_log_date,
    rows_without_transfers,
    unshown_sizes,
    without_odd_rank_steps,
)
from udfs.simulate.partial_trace import partial_results
from udfs.simulate.rank_rows import ReplayedRows, replayed_rows, without_warm_up
from udfs.simulate.result_tables import Replayed, Row, empty_results, job_row, result_tables
from udfs.simulate.trace_defects import defects_named, refuse_endless


@dataclass(frozen=True)
class SimulationSettings:
    """What a result depends on besides the trace.

    ideal               : how ideal durations are chosen, a name in IDEALS.
    minimum_steps       : fewer replayed steps are `too_few_steps`.
    maximum_discrepancy : above this share of T_actual a unit is `high_discrepancy`.
    maximum_restarts    : with more restarts a unit is not replayed.
    clock_floor_s, clock_floor_fraction : mean offsets of a clock below the lower of the two, in seconds
                          and as a share of the step time, are left alone.
    log_day_margin_s    : lines whose times lie further outside their log date are left out.
    ops_together        : a unit with more ops is laid out and replayed by blocks of steps of about that size.
    diagnosed           : whether to look for causes; job_causes has no rows without.
    """

    ideal: str = PAPER_IDEAL
    minimum_steps: int = 10
    maximum_discrepancy: float = 0.05
    maximum_restarts: int = 15
    clock_floor_s: float = USUAL_LIMITS.floor_s
    clock_floor_fraction: float = USUAL_LIMITS.floor_fraction
    log_day_margin_s: float = 86_400.0
    ops_together: int = OPS_TOGETHER
    diagnosed: bool = True

    @cached_property
    def text(self) -> str:
        """What can change a result by more than rounding, as JSON: results and fingerprints carry it."""
        meaningful = {name: value for name, value in asdict(self).items() if name != "ops_together"}
        return json.dumps(meaningful, sort_keys=True)


def simulate_job(
    rank_steps: pa.Table,
    manifest: Mapping[str, object] | None,
    settings: SimulationSettings | None = None,
) -> dict[str, pa.Table]:
    """What-if results of one unit (model, section 5).

    rank_steps : rows of one unit in any order, columns as in the table rank_steps; `op` as names or codes.
    manifest   : the unit's job.json as a dict; None or empty without any. With log_date, a date,
                 lines of other days are left out.
    returns    : table name -> rows without log_date, job_id and run_id. job_slowdown has one row, with the
                 unit's status; the other tables are empty where the unit was not replayed.
    raises     : TraceError where the recorded ops contradict each other (status corrupt_trace).
    """
    chosen = settings or SimulationSettings()
    facts = dict(manifest or {})
    refusal = _refusal_of_manifest(facts, chosen)
    if refusal is not None:
        return empty_results(job_row(facts, chosen.text, *refusal))
    layout = read_layout(facts)
    with garbage_collection_paused():
        warm = without_warm_up(rank_steps, facts)
        of_day, other_days = of_log_date(warm, facts, chosen.log_day_margin_s)
        rows = replayed_rows(of_day, layout)
        records: Row = {
            "odd_ranks": 0,
            "other_day_lines": other_days,
            "unshown_sizes": unshown_sizes(of_day, facts) if rows.recorded else None,
        }

        def refused(status: str, detail: str, **figures: object) -> dict[str, pa.Table]:
            return empty_results(job_row(facts, chosen.text, status, detail) | records | figures)

        if not len(rows.steps):
            return refused(*_nothing(rows, layout, other_days))
        rows = without_odd_rank_steps(rows)
        odd = in_other_units(rows)
        if odd:
            return refused(STATUS_ODD_RANKS, "; ".join(odd[:MOST_NAMED]), odd_ranks=len(odd))
        if is_partial(facts) or (layout.pp_size > 1 and is_foreign(facts) and rows_without_transfers(rows)):
            detail, figures = partial_results(rows, layout, chosen.ideal, chosen.ops_together)
            return refused(STATUS_PARTIAL_TRACE, detail, **figures)
        types = worker_types(rows, facts)
        found = _analysed(rows, layout, chosen, types)
        exchanged = found.recorded.exchanged
        if exchanged:
            names = "; ".join(named_exchanged(exchanged, rows)[:MOST_NAMED])
            return refused(STATUS_ODD_RANKS, names, odd_ranks=2 * len(exchanged))
        status, detail_or_none = _status(found, rows, chosen)
        replayed = Replayed(found, rows, chosen.ideal, facts, types)
        return result_tables(job_row(facts, chosen.text, status, detail_or_none) | records, replayed)


def _refusal_of_manifest(facts: dict[str, object], settings: SimulationSettings) -> tuple[str, str] | None:
    """Status and detail of a unit that its manifest alone rules out."""
    if not facts:
        return STATUS_NO_MANIFEST, "job.json is missing or not JSON"
    try:
        read_layout(facts)
    except LayoutError as wrong:
        return STATUS_BAD_LAYOUT, str(wrong)
    restarts = facts.get("restarts")
    if isinstance(restarts, int) and restarts > settings.maximum_restarts:
        return STATUS_TOO_MANY_RESTARTS, f"{restarts} restarts, more than {settings.maximum_restarts}"
    return None


def _nothing(rows: ReplayedRows, layout: Layout, other_days: int) -> tuple[str, str]:
    """Status and detail of a unit without a complete step."""
    if rows.recorded:
        return STATUS_MISSING_WORKERS, missing_workers(rows, layout)
    detail = f"all {other_days} lines are of other days" if other_days else "no rank recorded an op"
    return STATUS_NO_OPS, detail


def _analysed(
    rows: ReplayedRows, layout: Layout, settings: SimulationSettings, types: WorkerTypes | None
) -> WhatIf:
    """Replay a unit in every scenario.

    raises : TraceError where the recorded ops contradict each other.
    """
    limits = Limits(settings.clock_floor_s, settings.clock_floor_fraction)
    with defects_named(rows):
        number = types.number if types is not None and types.is_mixed else None
        how = How(IDEALS[settings.ideal], settings.ops_together, limits, settings.diagnosed, number)
        found = analyse(rows, layout, how)
    refuse_endless(found.recorded.actual_s, rows)
    return found


def _status(found: WhatIf, rows: ReplayedRows, settings: SimulationSettings) -> tuple[str, str | None]:
    steps, clocks = len(rows.steps), found.recorded.clocks
    if steps < settings.minimum_steps:
        return STATUS_TOO_FEW_STEPS, f"{steps} complete steps, wanted {settings.minimum_steps}"
    if clocks is not None and not clocks.is_known:
        return STATUS_UNKNOWN_CLOCKS, _what_is_unknown(clocks, rows)
    actual_s, replayed_s = found.recorded.actual_s.mean(), found.times.recorded.mean()
    discrepancy = abs(actual_s - replayed_s) / actual_s
    if not discrepancy <= settings.maximum_discrepancy:
        apart = f"{discrepancy:.2%} apart, more than {settings.maximum_discrepancy:.2%}"
        return (
            STATUS_HIGH_DISCREPANCY,
            f"replayed steps take {replayed_s:.6g} s, recorded ones {actual_s:.6g} s: {apart}",
        )
    return STATUS_ANALYSED, None


def _what_is_unknown(clocks: Clocks, rows: ReplayedRows) -> str:
    names = rows.clock_names
    if clocks.parts > 1:
        firsts = [names[int(part)] for part in np.unique(clocks.part)[:2]]
        has_none = len(rows.worker_rank) > 1 and rows_without_transfers(rows) == rows.replayed_row.size
        return (
            f"{'stages are not joined, no send or recv was recorded: ' if has_none else ''}no transfer or "
            f"collective joins the clocks of {firsts[0]} and {firsts[1]}: {clocks.parts} parts"
        )
    worst = int(clocks.error_s.argmax())
    return (
        f"clocks are {np.abs(clocks.ahead_s).max() * 1e3:.3g} ms apart, "
        f"that of {names[worst]} is known to {clocks.error_s[worst] * 1e3:.3g} ms"
    )


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Collecting amid the kernel's short-lived objects, none of them cyclic, is what the outliers are."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
