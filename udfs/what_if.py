"""The what-if simulation of one unit, without Spark.

Rows of rank_steps in, rows of the result tables out: `simulate_job(rows, manifest)["job_slowdown"]`.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf

import numpy as np
import pyarrow as pa

from schemas.vocabulary import OP_TYPES, Status
from udfs.errors import TraceError
from udfs.kernel.clocks.estimate import Clocks
from udfs.kernel.recorded.gaps import gap_of
from udfs.kernel.replay.ideal import IDEALS
from udfs.kernel.what_if import How, WhatIf, analyse
from udfs.op_lists import GROUPS
from udfs.simulate.choice import Choice, ExchangedError, Refused, choose, defects_named, refuse_endless
from udfs.simulate.mitigation_rows import stated_layers
from udfs.simulate.odd_records import rows_without_transfers
from udfs.simulate.partial_trace import partial_results
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.result_tables import Row, empty_results, job_row, result_tables
from udfs.simulate.settings import SimulationSettings
from udfs.simulate.worker_groups import worker_racks, worker_types

__all__ = ["SimulationSettings", "analysed", "garbage_collection_paused", "simulate_job"]


def simulate_job(
    rank_steps: pa.Table,
    manifest: Mapping[str, object] | None,
    settings: SimulationSettings | None = None,
    before_s: Mapping[str, float] | None = None,
) -> dict[str, pa.Table]:
    """Simulate one unit in every what-if scenario (model, section 5), and return the result tables by name.

    rank_steps : rows of one unit in any order, columns as in the table rank_steps; `op` as names or codes.
    manifest   : the unit's job.json as a dict; None or empty without a job.json. If it has a log_date, rows
                 of other dates are left out.
    before_s   : usual transfer times of earlier days, by op type as in job_baseline; they show that all
                 transfers of a type became slow. [s]
    returns    : table name -> rows without log_date, job_id and run_id. job_slowdown has one row, with the
                 unit's status; the other tables are empty where the unit was not replayed.
    raises     : TraceError where the recorded ops contradict each other (status corrupt_trace).
    """
    how = settings or SimulationSettings()
    facts = dict(manifest or {})
    with garbage_collection_paused():
        choice = choose(rank_steps, facts, how)
        if isinstance(choice, Refused):
            return _refused(choice, facts, how)
        rows = choice.rows
        if choice.is_partial:
            detail, figures = partial_results(rows, choice.layout, how.ideal, how.ops_together, choice.limits)
            return _refused(Refused(Status.PARTIAL_TRACE, detail, choice.left_out | figures), facts, how)
        try:
            found = analysed(choice, how, facts, before_s=before_s)
        except ExchangedError as exchanged:
            return _refused(exchanged.refused, facts, how)
        status, detail_or_none = _status(found, rows, how)
        job = job_row(facts, how.text, status, detail_or_none) | choice.left_out
        return result_tables(job, found, rows, facts, how.ideal)


def _refused(refused: Refused, facts: Row, settings: SimulationSettings) -> dict[str, pa.Table]:
    return empty_results(job_row(facts, settings.text, refused.status, refused.detail) | refused.left_out)


def analysed(
    choice: Choice,
    settings: SimulationSettings,
    facts: Mapping[str, object],
    *,
    before_s: Mapping[str, float] | None = None,
    layers: Sequence[int] | None = None,
    mitigated: frozenset[int] | None = None,
    memory: float = inf,
) -> WhatIf:
    """Replay a unit in every what-if scenario, and diagnose its causes if the settings ask for it.

    facts     : the unit's manifest. before_s : as simulate_job takes it.
    layers    : number of layers of each chunk of the model; None: from the manifest, if it states them.
    mitigated : causes whose mitigations are replayed; None: the causes that are found.
    memory    : limit for mitigations: a multiple of the present most layers of a stage, or samples of a
                microbatch.
    raises    : TraceError where the recorded ops contradict each other, ExchangedError where ranks are
                exchanged.
    """
    rows = choice.rows
    types, racks = worker_types(rows, facts), worker_racks(rows, facts)
    by_chunk = stated_layers(facts, choice.layout) if layers is None else layers
    earlier_s = before_s or {}
    how = How(
        IDEALS[settings.ideal],
        settings.ops_together,
        choice.limits,
        settings.diagnosed,
        worker_type=types.number if types is not None and types.is_mixed else None,
        worker_rack=None if racks is None else racks.number,
        before_s={code: earlier_s[group] for code, group in enumerate(GROUPS) if group in earlier_s},
        mitigated=mitigated,
        layers=None if by_chunk is None else np.array(by_chunk),
        memory=memory,
    )
    try:
        with defects_named(rows):
            found = analyse(rows, choice.layout, how)
        refuse_endless(found.recorded.actual_s, rows)
    except TraceError:
        choice.refuse_exchanged(None)
        raise
    choice.refuse_exchanged(found.recorded)
    return found


def _status(found: WhatIf, rows: ReplayedRows, settings: SimulationSettings) -> tuple[str, str | None]:
    steps, clocks = len(rows.steps), found.recorded.clocks
    if steps < settings.minimum_steps:
        complete = f"{steps} complete step{'' if steps == 1 else 's'}"
        return Status.TOO_FEW_STEPS, f"{complete}, but {settings.minimum_steps} are needed"
    if clocks is not None and not clocks.is_known:
        return Status.UNKNOWN_CLOCKS, _what_is_unknown(clocks, rows)
    actual_s, replayed_s = found.recorded.actual_s.mean(), found.times.recorded.mean()
    discrepancy = abs(actual_s - replayed_s) / actual_s
    gap = _gap(found, rows)
    if not discrepancy <= settings.maximum_discrepancy:
        apart = f"{discrepancy:.2%} apart, more than {settings.maximum_discrepancy:.2%}"
        detail = f"replayed steps take {replayed_s:.6g} s, recorded ones {actual_s:.6g} s: {apart}"
        return Status.HIGH_DISCREPANCY, detail if gap is None else f"{detail}; {gap}"
    return Status.ANALYSED, gap


def _gap(found: WhatIf, rows: ReplayedRows) -> str | None:
    """Describe where no op runs in steps that take longer than their replay; None if no gap explains them."""
    recorded = found.recorded
    gap = gap_of(recorded.gaps, recorded.actual_s, found.times.recorded)
    if gap is None:
        return None
    host = rows.hosts[gap.stage * rows.worker_rank.shape[1] + gap.dp_rank]
    worker = f"worker dp {gap.dp_rank} pp {gap.stage}{'' if host is None else f' (host {host})'}"
    often = f"in {gap.steps} of {len(rows.steps)} steps"
    if gap.others:
        often += f", and before computes of {gap.others} other worker{'s' if gap.others > 1 else ''}"
    return (
        f"{worker}: no op runs for {gap.gap_s:.3g} s before {OP_TYPES[gap.op_type]} {often}; "
        "record what runs there, such as a garbage collection"
    )


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
        f"clocks are {np.abs(clocks.ahead_s).max() * 1e3:.3g} ms apart, that of {names[worst]} is known to "
        f"{clocks.error_s[worst] * 1e3:.3g} ms"
    )


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause garbage collection within a block, because the objects have no cycles and pauses are long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
