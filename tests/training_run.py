"""A real run: two stages, two replicas, a process each, that wait for each other and write rank logs."""

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

from jobs.emitter.rank_log_writer import Rank, RankLogWriter, Run, Step
from jobs.landing.formats.rank_log_line import read_line
from schemas.tables import TABLES
from schemas.vocabulary import RANK_STEPS, UNIT_KEY

RUN: Final = Run("real", "r0", dp_size=2, pp_size=2)
STEPS: Final = 12
MICROBATCHES: Final = 4
FORWARD_S: Final = (0.02, 0.035)
"""By stage: the last one is heavier, as one with a loss layer is."""


def real_run(landing: Path, day: date) -> tuple[pa.Table, dict[str, Any]]:
    """Run it and read its logs; every rank is a host of its own."""
    spawn = get_context("spawn")
    all_meet = spawn.Barrier(4)
    stages_meet = [spawn.Barrier(2) for _ in range(2)]
    pipes = [spawn.Pipe() for _ in range(2)]
    workers = [
        spawn.Process(
            target=_train,
            args=((landing, day), (stage, dp), pipes[dp][stage], stages_meet[stage], all_meet),
        )
        for stage in range(2)
        for dp in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError(f"exit codes {[worker.exitcode for worker in workers]}")
    folder = RUN.folder(landing, day)
    manifest = json.loads((folder / "job.json").read_text())
    rows = [
        read_line(line, manifest, nesting=2)
        for log in sorted(folder.glob("rank-*.jsonl"))
        for line in log.read_bytes().splitlines()
    ]
    fields = [f for f in TABLES[RANK_STEPS].arrow_schema if f.name not in (*UNIT_KEY, "source_file")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields)), manifest


def _train(
    log_to: tuple[Path, date],
    place: tuple[int, int],
    peer: Connection,
    stage_meets: Barrier,
    all_meet: Barrier,
) -> None:
    (landing, day), (stage, dp_rank) = log_to, place
    rank = Rank(2 * stage + dp_rank, dp_rank, stage, host=f"host-{2 * stage + dp_rank}")
    with RankLogWriter(landing, RUN, rank, log_date=day) as log:
        for number in range(STEPS):
            all_meet.wait()
            with log.step(number) as step:
                _step(step, stage, peer, stage_meets, all_meet)


def _step(step: Step, stage: int, peer: Connection, stage_meets: Barrier, all_meet: Barrier) -> None:
    for microbatch in range(MICROBATCHES):
        _work(step, "forward", microbatch, FORWARD_S[stage], stage == 0, peer)
    for microbatch in range(MICROBATCHES):
        _work(step, "backward", microbatch, 2 * FORWARD_S[stage], stage == 1, peer)
    for op, meet in (("grads-reduce-scatter", stage_meets), ("optimizer-clip-main-grad", all_meet)):
        _timed(step, op, meet.wait)


def _work(
    step: Step, direction: str, microbatch: int, compute_s: float, is_first: bool, peer: Connection
) -> None:
    """Recv, compute and send, as the stage does in this direction. A send returns once it is received."""
    if not is_first:
        _timed(step, f"{direction}-recv", lambda: peer.send_bytes(peer.recv_bytes()))
    with step.op(f"{direction}-compute", microbatch=microbatch):
        time.sleep(compute_s)
    if is_first:
        _timed(step, f"{direction}-send", lambda: _sent(peer))


def _sent(peer: Connection) -> bytes:
    peer.send_bytes(b"activations")
    return peer.recv_bytes()


def _timed(step: Step, op: str, work: Callable[[], object]) -> None:
    with step.op(op):
        work()
