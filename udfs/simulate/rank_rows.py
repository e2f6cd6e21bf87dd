"""Turn rank_steps rows in Arrow into rows of the kernel, and choose the ranks and steps to replay."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.errors import TraceError
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.rows import US, StageRows
from udfs.op_lists import list_lengths, lists_of_rows, stage_rows

ENDLESS_US: Final = 2**61
"""Times further from 1970 overflow when durations are added. [us]"""

MOST_OF_STEPS: Final = 0.9
"""A worker's host is the one that at least this share of its steps names: a stale line does not matter, and a
worker that moved has none."""

RANK_CLOCK: Final = "rank"
"""First word of a clock's name if the log names no host, as in "rank 17"."""


@dataclass(frozen=True)
class ReplayedRows:
    """Rows of a unit that are replayed: one for each (stage, step, dp_rank) of the complete steps.

    table         : all rows of the unit, with a host, null where the log names none.
    steps         : int64, shape (step,); training step numbers, ascending.
    steps_dropped : steps in which a worker is missing.
    worker_rank   : int, shape (stage, dp_rank); lowest rank that was replayed for each worker.
    worker_row    : int, shape (stage, dp_rank); position in the table of the first row of that rank.
    replayed_row  : int, shape (stage, step, dp_rank); position in the table of each row that is replayed.
    zero_us       : float64, shape (stage, step, dp_rank); zero of the row minus zero of the step. [us]
    ops           : number of replayed ops.
    recorded      : whether the unit has any op.
    odd_rank_steps : number of rows with unusual ops; see without_odd_rank_steps.
    """

    table: pa.Table
    steps: Ints
    steps_dropped: int
    worker_rank: Ints
    worker_row: Ints
    replayed_row: Ints
    zero_us: Floats
    ops: int
    recorded: bool
    odd_rank_steps: int = 0

    @property
    def number_of_steps(self) -> int:
        """Number of replayed steps."""
        return len(self.steps)

    @cached_property
    def hosts(self) -> list[str | None]:
        """Host of each worker, None if the log names none or several for it; stage after stage."""
        named: list[str | None] = self.table.column("host").take(self.host_row).to_pylist()
        return named

    @property
    def worker_host(self) -> Ints:
        """Host number of each worker, -1 where unknown; shape (stage, dp_rank)."""
        hosts = self.table.column("host").take(self.host_row)
        codes = hosts.combine_chunks().dictionary_encode().indices.fill_null(-1)
        return np.asarray(codes).reshape(self.worker_row.shape)

    @cached_property
    def host_row(self) -> pa.Array:
        """Row that names each worker's host, null if the host changes; ordered by (stage, dp_rank)."""
        stays = (self.clock == self.clock[:, :1]).all(axis=1)
        rows = self.worker_row.copy()
        for stage, dp_rank in np.argwhere(~stays).tolist():
            rows[stage, dp_rank] = self.host_row_of(stage, dp_rank, 0, self.number_of_steps - 1)
        return pa.array(rows.ravel(), mask=rows.ravel() < 0)

    def host_row_of(self, stage: int, dp_rank: int, first: int, last: int) -> int:
        """Return the row that names a worker's host between two step positions; -1 if the host changes."""
        own = self.clock[stage, first : last + 1, dp_rank]
        if (own == own[0]).all():
            return int(self.replayed_row[stage, first, dp_rank])
        clocks, counts = np.unique(own, return_counts=True)
        if counts.max() < MOST_OF_STEPS * len(own):
            return -1
        at = first + int((own == clocks[counts.argmax()]).argmax())
        return int(self.replayed_row[stage, at, dp_rank])

    @property
    def clock_names(self) -> list[str]:
        """Names of the clocks by number: of hosts, or of ranks if the log names no host."""
        return self._clocks[1]

    @property
    def clock(self) -> Ints:
        """Clock of each row, by its host or else by its rank; shape (stage, step, dp_rank)."""
        return self._clocks[0]

    @property
    def host_of_clock(self) -> list[str | None]:
        """Host of each clock; None for a clock that belongs to a rank."""
        hosts: list[str | None] = self.table.column("host").take(self._clocks[2]).to_pylist()
        return hosts

    @property
    def rank_of_clock(self) -> Ints:
        """Lowest replayed rank that uses each clock."""
        rank = np.full(len(self.clock_names), np.iinfo(np.int64).max)
        np.minimum.at(rank, self.clock.ravel(), _integers(self.table, "rank")[self.replayed_row.ravel()])
        return rank

    @cached_property
    def _clocks(self) -> tuple[Ints, list[str], Ints]:
        """Clock number of each row, clock names in order of first use, and the first row of each clock."""
        hosts = self.table.column("host").combine_chunks()
        encoded = hosts if pa.types.is_dictionary(hosts.type) else hosts.dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), np.asarray(encoded.indices.fill_null(-1))
        if hosts.null_count:
            # Numbers after those of the hosts stand for ranks.
            ranks = pa.array(_integers(self.table, "rank")).dictionary_encode()
            codes = np.where(codes < 0, len(names) + np.asarray(ranks.indices), codes)
            names += [f"{RANK_CLOCK} {each}" for each in ranks.dictionary.to_pylist()]
        own = pa.array(codes[self.replayed_row.ravel()]).dictionary_encode()
        # A host may have the name of a rank's clock; both are then one clock.
        by_name: dict[str, int] = {}
        number = [by_name.setdefault(names[code], len(by_name)) for code in own.dictionary.to_pylist()]
        clock = np.array(number)[np.asarray(own.indices)]
        first_row = np.empty(len(by_name), dtype=np.int64)
        first_row[clock[::-1]] = self.replayed_row.ravel()[::-1]
        return clock.reshape(self.replayed_row.shape), list(by_name), first_row

    @property
    def has_times(self) -> bool:
        """Whether every line of the unit states its start time."""
        return "t0_us" in self.table.column_names and not self.table.column("t0_us").null_count

    @cached_property
    def _t0_us(self) -> Ints:
        """Recorded zero (t0_us) of each replayed row, 0 if it is unknown. [us]"""
        return _integers(self.table, "t0_us")[self.replayed_row]

    @cached_property
    def time_s(self) -> Floats:
        """Start of each step by the median clock, shape (step,); without starts, the step's number. [s]"""
        if not self.has_times:
            return self.steps.astype(np.float64)
        t0_us = self._t0_us.swapaxes(0, 1)
        began_s: Floats = np.median(t0_us.reshape(len(t0_us), -1), axis=1) * US
        return began_s

    @property
    def step_zero_us(self) -> Ints | None:
        """Unix time of each step's zero, shape (step,); None if a line states no plausible time. [us]"""
        if not self.has_times:
            return None
        zero_us: Ints = self._t0_us.min(axis=(0, 2))
        return zero_us if np.abs(zero_us).max() < ENDLESS_US else None

    @cached_property
    def middle_step(self) -> tuple[Ints, npt.NDArray[np.int8], Floats]:
        """Ops of the middle step: each op's row by (stage, dp_rank), op codes, and durations. [us]"""
        rows = self.replayed_row[:, len(self.steps) // 2].ravel()
        lists = lists_of_rows(self.table, rows, ("op", "duration_us"))
        if lists is None:
            raise TraceError("the lists op and duration_us of a row differ in length")
        codes, duration_us = lists.values
        return np.repeat(lists.place, lists.size), codes, duration_us

    def stages(self, first: int = 0, end: int | None = None, apart: int = 1) -> list[StageRows]:
        """Return the kernel's rows of every `apart`-th step in [first, end), as one StageRows per stage.

        raises : UnknownOpError for an op without a code.
        """
        some = slice(first, end, apart)
        shape = (len(self.replayed_row), -1)
        return stage_rows(
            self.table, self.replayed_row[:, some].reshape(shape), self.zero_us[:, some].reshape(shape)
        )


def without_warm_up(rank_steps: pa.Table, manifest: Mapping[str, object]) -> pa.Table:
    """Return the rows of the unit without its warm-up steps, whose number the manifest states."""
    warm_up_steps = manifest.get("warm_up_steps")
    if not isinstance(warm_up_steps, int) or warm_up_steps < 1 or not rank_steps.num_rows:
        return rank_steps
    steps = np.unique(_integers(rank_steps, "step"))
    return rank_steps.filter(pc.greater(rank_steps.column("step"), int(steps[:warm_up_steps][-1])))


def replayed_rows(rank_steps: pa.Table, layout: Layout) -> ReplayedRows:
    """Choose one rank's rows for each worker (contract, section 2).

    raises : TraceError if a row lies outside the layout.
    """
    if "host" not in rank_steps.column_names:
        rank_steps = rank_steps.append_column("host", pa.nulls(rank_steps.num_rows, pa.string()))
    lengths = list_lengths(rank_steps)
    recorded, none = bool(lengths.any()), np.empty(0, dtype=np.int64)
    if recorded:
        chosen, steps, dropped = _choose(rank_steps, lengths, layout)
    else:
        chosen, steps, dropped = none, none, len(np.unique(_integers(rank_steps, "step")))
    if not len(steps):
        zero_us = none.astype(np.float64)
        return ReplayedRows(rank_steps, none, dropped, none, none, none, zero_us, 0, recorded)
    replayed_row = chosen.reshape(layout.pp_size, len(steps), layout.dp_size)
    rank, t0_us = (_integers(rank_steps, name)[replayed_row] for name in ("rank", "t0_us"))
    worker_row = np.take_along_axis(replayed_row, rank.argmin(axis=1, keepdims=True), axis=1)[:, 0]
    return ReplayedRows(
        table=rank_steps,
        steps=steps,
        steps_dropped=dropped,
        worker_rank=rank.min(axis=1),
        worker_row=worker_row,
        replayed_row=replayed_row,
        # Subtracted as integers, for precision.
        zero_us=(t0_us - t0_us.min(axis=(0, 2), keepdims=True)).astype(np.float64),
        ops=int(lengths[chosen].sum()),
        recorded=True,
    )


def _integers(table: pa.Table, name: str) -> Ints:
    """Return a column as int64, with 0 where it is null or missing."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, dtype=np.int64)
    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _choose(table: pa.Table, lengths: Ints, layout: Layout) -> tuple[Ints, Ints, int]:
    """Return the rows to replay by (stage, step, dp_rank), their steps, and how many steps were dropped."""
    step, dp_rank, stage = (_integers(table, name) for name in ("step", "dp_rank", "pp_rank"))
    outside = (dp_rank < 0) | (dp_rank >= layout.dp_size) | (stage < 0) | (stage >= layout.pp_size)
    if outside.any():
        row = int(np.argmax(outside))
        raise TraceError(
            f"step {table.column('step')[row]}, rank {table.column('rank')[row]}: (dp_rank {dp_rank[row]}, "
            f"pp_rank {stage[row]}) lies outside dp_size {layout.dp_size}, pp_size {layout.pp_size}"
        )
    steps, step_index = np.unique(step, return_inverse=True)
    cell = (stage * len(steps) + step_index) * layout.dp_size + dp_rank
    chosen = np.arange(len(lengths))
    if not lengths.all() or not (cell[1:] > cell[:-1]).all():
        rank, tp_rank, cp_rank = (_integers(table, name) for name in ("rank", "tp_rank", "cp_rank"))
        order = np.lexsort((rank, tp_rank, cp_rank, cell))
        order = order[lengths[order] > 0]
        is_lowest = np.ones(len(order), dtype=bool)
        is_lowest[1:] = cell[order[1:]] != cell[order[:-1]]
        chosen = order[is_lowest]
    complete = np.bincount(step_index[chosen], minlength=len(steps)) == layout.dp_size * layout.pp_size
    if not complete.all():
        chosen = chosen[complete[step_index[chosen]]]
    return chosen, steps[complete], int((~complete).sum())
