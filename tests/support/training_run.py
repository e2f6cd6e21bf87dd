"""Run two stages of three replicas as real processes, which wait for each other and write rank logs."""

import json
import time
from collections.abc import Callable
from datetime import date
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from jobs.emitter import Rank, RankLogWriter, Recorder, Run
from jobs.landing.formats.rank_log_line import read_line
from jobs.landing.formats.rows import Bounds
from schemas.tables import TABLES
from schemas.vocabulary import RANK_STEPS, UNIT_KEY
from tests.real_run.processes import run_all

RUN: Final = Run("real", "r0", dp_size=3, pp_size=2)
RANKS: Final = RUN.dp_size * RUN.pp_size
STEPS: Final = 12
MICROBATCHES: Final = 4
FORWARD_S: Final = (0.02, 0.035)
"""Forward times by stage; the last stage takes longer, as with a loss layer. [s]"""


Slow = dict[tuple[int, int], float]
"""Factor on the computes of slow workers, by (stage, dp_rank)."""


def real_run(landing: Path, day: date, slow: Slow | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """Run the training and read its logs, in which every rank has its own host."""
    spawn = get_context("spawn")
    all_meet = spawn.Barrier(RANKS)
    stages_meet = [spawn.Barrier(RUN.dp_size) for _ in range(RUN.pp_size)]
    pipes = [spawn.Pipe() for _ in range(RUN.dp_size)]

    def waits(stage: int, dp: int) -> tuple[Connection, Barrier, Barrier]:
        return pipes[dp][stage], stages_meet[stage], all_meet

    run_all(
        [
            spawn.Process(
                target=_train,
                args=((landing, day, (slow or {}).get((stage, dp), 1.0)), (stage, dp), *waits(stage, dp)),
            )
            for stage in range(RUN.pp_size)
            for dp in range(RUN.dp_size)
        ]
    )
    return read_run(RUN.folder(landing, day))


def read_run(folder: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Read the rows and the manifest of one run folder."""
    manifest = json.loads((folder / "job.json").read_text())
    rows = [
        read_line(line, manifest, Bounds(nesting=2))
        for log in sorted(folder.glob("rank-*.jsonl"))
        for line in log.read_bytes().splitlines()
    ]
    fields = [f for f in TABLES[RANK_STEPS].arrow_schema if f.name not in (*UNIT_KEY, "source_file")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields)), manifest


def _train(
    how: tuple[Path, date, float],
    place: tuple[int, int],
    peer: Connection,
    stage_meets: Barrier,
    all_meet: Barrier,
) -> None:
    (landing, day, slow), (stage, dp_rank) = how, place
    number = RUN.dp_size * stage + dp_rank
    rank = Rank(number, dp_rank, stage, host=f"host-{number}")
    with Recorder(RankLogWriter(landing, RUN, rank, log_date=day)) as recorder:
        for step in range(STEPS):
            all_meet.wait()
            with recorder.step(step):
                _step(recorder, stage, slow * FORWARD_S[stage], peer, stage_meets, all_meet)


def _step(
    recorder: Recorder,
    stage: int,
    forward_s: float,
    peer: Connection,
    stage_meets: Barrier,
    all_meet: Barrier,
) -> None:
    for direction, compute_s, first in (("forward", forward_s, 0), ("backward", 2 * forward_s, 1)):
        for microbatch in range(MICROBATCHES):
            _work(recorder, direction, microbatch, compute_s, stage == first, peer)
    for op, meet in (("grads-reduce-scatter", stage_meets), ("optimizer-clip-main-grad", all_meet)):
        _timed(recorder, op, meet.wait)


def _work(
    recorder: Recorder, direction: str, microbatch: int, compute_s: float, is_first: bool, peer: Connection
) -> None:
    """Receive, compute and send in one direction; a send ends when the peer has received its data."""
    if not is_first:
        _timed(recorder, f"{direction}-recv", lambda: peer.send_bytes(peer.recv_bytes()))
    with recorder.op(f"{direction}-compute", microbatch=microbatch):
        time.sleep(compute_s)
    if is_first:
        _timed(recorder, f"{direction}-send", lambda: _sent(peer))


def _sent(peer: Connection) -> bytes:
    peer.send_bytes(b"activations")
    return peer.recv_bytes()


def _timed(recorder: Recorder, op: str, work: Callable[[], object]) -> None:
    with recorder.op(op):
        work()
