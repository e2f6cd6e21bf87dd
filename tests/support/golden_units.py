"""Stored small units of every status and cause; their results may change only with the simulator's version.

The units are stored in tests/data/golden, so that changes of the generator do not change any digest of
results. Units with columns that were added to logs later are in separate files with separate digests, so that
digests of older versions stay comparable. `python -m tests.support.golden_units NAME` draws the units of one
file again, which changes the file's digests.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.runtime.project import PROJECT
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.nuisances import ClockSkew, HeavyTailedNoise
from jobs.synthetic.mechanisms.transfers import FlappingLink, SlowReads, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences
from jobs.synthetic.mechanisms.workers import MixedTypes, UnsynchronisedGc, WeakGpu
from jobs.synthetic.shape import TRANSFERS, JobShape
from schemas.vocabulary import OP_CODES, RunEvent
from tests.support.skewed import job_on_hosts
from udfs.op_lists import LISTS

FOLDER: Final = PROJECT / "tests" / "data" / "golden"
UNITS: Final = "units"
LATER: Final = "later"
PARTS: Final = "parts"
MISTAKEN: Final = "mistaken"
"""Names of the files of golden units, without suffix."""
_UNIT: Final = "unit"
_SHAPE: Final = JobShape(dp_size=3, pp_size=2, microbatches=3, steps=10)
_TENTHS: Final = 1
"""Stored decimals of times in microseconds; few decimals keep the files small."""

Row = dict[str, Any]


class GoldenUnit(NamedTuple):
    """A unit: its name, its row of jobs, and its rows of rank_steps."""

    name: str
    manifest: Row
    rank_steps: pa.Table


def golden_units(name: str = UNITS) -> list[GoldenUnit]:
    """Return the units stored in a file, exactly as they were drawn."""
    stored = pq.read_table(FOLDER / f"{name}.parquet")
    manifests: dict[str, Row] = json.loads(stored.schema.metadata[b"manifests"])
    rows = stored.replace_schema_metadata(None)
    return [
        GoldenUnit(name, facts, rows.filter(pc.equal(rows[_UNIT], name)).drop_columns([_UNIT]))
        for name, facts in manifests.items()
    ]


def _drawn() -> Iterator[GoldenUnit]:
    causes = {
        "slow_worker": WeakGpu(1, 0, 1.6),
        "stage_imbalance": LossLayer(0.06, 0.06),
        "data_imbalance": PackedSequences(8192, 1000, 1.0),
        "pause": UnsynchronisedGc(0.4, 3.0),
        "communication": FlappingLink(0, 0.3, 0.6),
        "launch_delay": SlowStorage(0.3),
        "odd lengths": HeavyTailedNoise(0.01, 1.0),
    }
    for name, mechanism in causes.items():
        yield _unit(name, job_on_hosts(_SHAPE, mechanism))
    yield _unit("clocks that differ", job_on_hosts(replace(_SHAPE, tp_size=8), ClockSkew(0.02)))
    yield _unit(
        "virtual pipeline",
        job_on_hosts(
            replace(_SHAPE, microbatches=2, vpp_size=2, noop_transfers="all"), LossLayer(0.03, 0.03)
        ),
    )
    alone = frozenset(TRANSFERS) | {
        *("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"),
        *("embedding-grads-all-reduce", "optimizer-clip-main-grad"),
    }
    small = job_on_hosts(replace(_SHAPE, dp_size=2, microbatches=2))
    yield _unit("no_manifest", small, manifest={})
    yield _unit("bad_layout", small, world_size=9)
    yield _unit("unusable_log", small, manifest_status="unusable_log", manifest_detail="timers, no log")
    yield _unit("too_many_restarts", small, restarts=16)
    yield GoldenUnit("no_ops", small.manifest, small.rank_steps.slice(0, 0))
    yield _unit("corrupt_trace", _changed(small, lambda row: _without(row, ["forward-send"])))
    yield _unit("missing_workers", _changed(small, lambda row: None if row["dp_rank"] else row))
    yield _unit("odd_ranks", _changed(small, lambda row: row if row["dp_rank"] else _in_milliseconds(row)))
    computes = _changed(small, lambda row: _without(row, TRANSFERS))
    yield _unit("partial_trace", computes, transfers="absent")
    yield _unit("too_few_steps", job_on_hosts(replace(_SHAPE, dp_size=2, steps=5)))
    yield _unit("unknown_clocks", job_on_hosts(replace(_SHAPE, dp_size=1, absent=alone, tp_size=8)))


def _later() -> Iterator[GoldenUnit]:
    """Units whose logs have data-loads, GPU types, run events or iterations."""
    slow = SlowReads(0.4, 0.1)
    yield _unit("data_loading", job_on_hosts(replace(_SHAPE, loads_data=True), slow))
    yield _unit("loads in turn", job_on_hosts(replace(_SHAPE, loads_data=True, loads_in_turn=True), slow))
    types = {f"node-{host:04d}": "A100" if host % 3 == 1 else "H100" for host in range(6)}
    mixed = MixedTypes(types, {"H100": (1.0, 1.0), "A100": (1.5, 1.4)})
    yield _unit("mixed_hardware", job_on_hosts(replace(_SHAPE, tp_size=8), mixed))
    small = job_on_hosts(replace(_SHAPE, dp_size=2, microbatches=2))
    began = min(small.rank_steps["t0_us"].to_pylist())
    steps = sorted(set(small.rank_steps["step"].to_pylist()))
    events = [
        {"event": RunEvent.START, "at_us": began - 60_000_000, "step": None, "duration_us": None},
        {"event": RunEvent.FIRST_STEP, "at_us": began, "step": steps[0], "duration_us": None},
        {"event": RunEvent.STOP, "at_us": began + 60_000_000, "step": steps[-1], "duration_us": None},
    ]
    facts: Row = {
        "events": events,
        "gpu_hours": 0.2,
        "part_of": "whole",
        "role": "policy",
        "iterations": {str(step): step // 2 for step in steps},
    }
    yield _unit("a role with events", small, manifest=small.manifest | facts)


def _parts() -> Iterator[GoldenUnit]:
    """Units whose logs show only part of a job: the ops of some ranks, or step times without ops."""
    small = job_on_hosts(replace(_SHAPE, dp_size=2, microbatches=2))
    one = _changed(small, lambda row: None if row["dp_rank"] else row)
    yield _unit("some_ranks", one, source_format="kineto-dp")
    step_times = [
        {"step": step, "step_s": 1.4 if 40 <= step < 60 else 0.7, "logged_at": None}
        for step in range(10, 110, 10)
    ]
    facts = {"step_times": step_times, "manifest_status": "step_times_only", "manifest_detail": "no ops"}
    yield GoldenUnit("step_times_only", small.manifest | facts, small.rank_steps.slice(0, 0))


def _mistaken() -> Iterator[GoldenUnit]:
    """Units whose producers made a mistake that the simulator must recognise."""
    small = job_on_hosts(replace(_SHAPE, dp_size=1, microbatches=2))
    yield _unit("implausible_times", _changed(small, lambda row: _in_milliseconds(_in_milliseconds(row))))
    yield _unit("exchanged stages", _changed(small, lambda row: row | {"pp_rank": 1 - row["pp_rank"]}))


_DRAWN: Final = {UNITS: _drawn, LATER: _later, PARTS: _parts, MISTAKEN: _mistaken}


def _unit(name: str, job: GeneratedJob, manifest: Row | None = None, **more: object) -> GoldenUnit:
    facts = job.manifest if manifest is None else manifest
    return GoldenUnit(name, facts | more, _changed(job, _rounded).rank_steps)


def _changed(job: GeneratedJob, change: Callable[[Row], Row | None]) -> GeneratedJob:
    """Apply `change` to each row of a unit; rows for which it returns None are dropped."""
    rows = [change(row) for row in job.rank_steps.to_pylist()]
    rows_left = pa.Table.from_pylist([row for row in rows if row is not None], schema=job.rank_steps.schema)
    return GeneratedJob(rows_left, job.manifest)


def _rounded(row: Row) -> Row:
    return row | {name: [round(each, _TENTHS) for each in row[name]] for name in ("start_us", "duration_us")}


def _in_milliseconds(row: Row) -> Row:
    return row | {name: [each / 1e3 for each in row[name]] for name in ("start_us", "duration_us")}


def _without(row: Row, op_types: Collection[str]) -> Row:
    codes = {OP_CODES[name] for name in op_types}
    places = [place for place, code in enumerate(row["op"]) if code not in codes]
    return row | {name: [row[name][place] for place in places] for name in LISTS}


def _write(name: str) -> None:
    units = list(_DRAWN[name]())
    named = [
        unit.rank_steps.append_column(_UNIT, pa.array([unit.name] * unit.rank_steps.num_rows, pa.string()))
        for unit in units
    ]
    facts = json.dumps({unit.name: unit.manifest for unit in units})
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = pa.concat_tables(named).replace_schema_metadata({"manifests": facts})
    pq.write_table(rows, FOLDER / f"{name}.parquet", compression="zstd", compression_level=19)


if __name__ == "__main__":
    _write(sys.argv[1])
