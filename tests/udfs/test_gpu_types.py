"""Results for several GPU types equal those by hand and by the reference; one type gives no results."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.mechanisms.workers import WeakGpu
from schemas.gpu_types import MOST_TYPES
from schemas.mitigations import OVERLAP
from schemas.vocabulary import GPU_TYPE_SLOWDOWN, JOB_CAUSES, MITIGATIONS, NOT_STATED
from tests.oracle.gpu_types import types_cost
from tests.oracle.readers import read_layout, read_rank_steps
from tests.support.random_jobs import FAULTS, LAYOUTS, NOISY, generate_job
from tests.udfs.kernel.diagnosis.kernel_jobs import job_of, mean_step_s
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel import cause
from udfs.kernel.diagnosis import found as diagnosis
from udfs.kernel.diagnosis.found import Found
from udfs.simulate.worker_groups import worker_types
from udfs.what_if import simulate_job

SAME: Final = 1e-11
STEPS: Final = 12
FASTER, SLOWER = "H100", "A100"


def two_replicas(slow_s: float = 2.0, **facts: object) -> dict[str, list[dict[str, Any]]]:
    """Simulate twelve steps of two replicas on separate hosts, with forwards of 1 s and of `slow_s`."""
    rows = []
    for step in range(STEPS):
        for dp_rank, compute_s in enumerate((1.0, slow_s)):
            ops: Ops = [
                ("forward-compute", 0, compute_s),
                ("backward-compute", compute_s, compute_s),
                ("grads-reduce-scatter", 2 * compute_s, 2 * (slow_s - compute_s) + 0.5),
            ]
            rows.append(line(step, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    found = simulate_job(rank_steps(*rows), manifest(dp_size=2) | facts)
    return {name: table.to_pylist(maps_as_pydicts="strict") for name, table in found.items()}


def cause_row(found: dict[str, list[dict[str, Any]]], name: str) -> dict[str, Any]:
    return next(row for row in found[JOB_CAUSES] if row["cause"] == name)


def test_two_types_by_hand() -> None:
    """Two GPU types give slowdowns and factors as computed by hand, for steps of 4.5 s."""
    found = two_replicas(gpu_types={"node-0": FASTER, "node-1": SLOWER}, gpu_hours=9.0)
    slower, faster = found[GPU_TYPE_SLOWDOWN]
    assert (slower["gpu_type"], faster["gpu_type"]) == (SLOWER, FASTER)
    assert (slower["forward_ideal_s"], faster["backward_ideal_s"]) == (2.0, 1.0)
    assert (slower["slowdown"], faster["slowdown"]) == (pytest.approx(4.5 / 3.5), 1.0)
    assert (slower["is_slower"], faster["is_slower"]) == (True, False)
    assert (slower["factor"], slower["backward_factor"], faster["factor"]) == (pytest.approx(2.0),) * 2 + (
        1.0,
    )
    assert slower["time_saved_fraction"] == faster["time_saved_fraction"] == pytest.approx(2.0 / 4.5)
    assert slower["saved_gpu_hours"] == pytest.approx(4.0)
    mixed = cause_row(found, "mixed_hardware")
    assert mixed["is_cause"]
    of_replicas = {row["cause"] for row in found[MITIGATIONS] if row["mitigation"] != OVERLAP}
    assert of_replicas == {"mixed_hardware"}
    assert mixed["time_saved_fraction"] == slower["time_saved_fraction"]
    assert [(each["dp_rank"], each["pp_rank"], each["host"]) for each in mixed["culprits"]] == [
        (1, 0, "node-1")
    ]
    assert cause_row(found, "slow_worker")["time_saved_fraction"] == 0.0
    assert mixed["flag_reason"] == "mixed_hardware_or_slow_worker", "only one host has the slower type"


@pytest.mark.parametrize(
    ("slower_s", "worker_s", "parts_s"),
    [
        (2.0, 3.0, {"slow_worker": 3.0, "mixed_hardware": 1.0}),
        (3.0, 2.0, {"slow_worker": 1.0, "mixed_hardware": 3.0}),
    ],
    ids=["type behind worker", "worker behind type"],
)
def test_what_hides_behind_another_cause_has_its_part(
    slower_s: float, worker_s: float, parts_s: dict[str, float]
) -> None:
    """If mixed GPU types and a slow worker hide each other, the types still get their part of the loss."""
    rows = []
    for step in range(STEPS):
        for dp_rank, compute_s in enumerate((worker_s, 1.0, 1.0, 1.0, slower_s, slower_s)):
            ops: Ops = [
                ("forward-compute", 0, compute_s),
                ("backward-compute", compute_s, compute_s),
                ("grads-reduce-scatter", 2 * compute_s, 2 * (3.0 - compute_s) + 0.5),
            ]
            rows.append(line(step, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    types = {f"node-{dp_rank}": SLOWER if dp_rank > 3 else FASTER for dp_rank in range(6)}
    tables = simulate_job(rank_steps(*rows), manifest(dp_size=6) | {"gpu_types": types})
    given = {row["cause"]: row["attributed_fraction"] for row in tables[JOB_CAUSES].to_pylist()}
    parts = {name: part_s / 6.5 for name, part_s in parts_s.items()}
    assert given == pytest.approx(dict.fromkeys(given, 0.0) | parts, abs=SAME)


def test_hosts_without_a_type_are_a_row_of_their_own() -> None:
    rows = [
        line(step, dp_rank, 0, [("forward-compute", 0, 1.0 + dp_rank)], host=f"node-{dp_rank}")
        for step in range(STEPS)
        for dp_rank in range(3)
    ]
    stated = {"node-0": FASTER, "node-1": SLOWER, "node-9": "B200"}
    found = simulate_job(rank_steps(*rows), manifest(dp_size=3) | {"gpu_types": stated})
    types = {row["gpu_type"]: row for row in found[GPU_TYPE_SLOWDOWN].to_pylist()}
    assert list(types) == [SLOWER, FASTER, NOT_STATED], "a type without workers has no row"
    assert (types[NOT_STATED]["forward_ideal_s"], types[NOT_STATED]["factor"]) == (3.0, None)
    assert (types[NOT_STATED]["backward_ideal_s"], types[NOT_STATED]["is_slower"]) == (None, False)


def test_of_too_many_types_those_of_most_workers_are_replayed() -> None:
    dp_size = MOST_TYPES + 3
    rows = [
        line(step, dp_rank, 0, [("forward-compute", 0, 1.0)], host=f"node-{dp_rank:02}")
        for step in range(STEPS)
        for dp_rank in range(dp_size)
    ]
    stated = {f"node-{dp_rank:02}": f"type {min(dp_rank, dp_size - 2):02}" for dp_rank in range(dp_size)}
    found = simulate_job(rank_steps(*rows), manifest(dp_size=dp_size) | {"gpu_types": stated})
    workers = {row["gpu_type"]: row["workers"] for row in found[GPU_TYPE_SLOWDOWN].to_pylist()}
    kept = [*range(MOST_TYPES - 1), dp_size - 2]
    assert workers == {f"type {number:02}": 1 for number in kept} | {"type 17": 2, NOT_STATED: 2}
    assert len(workers) == MOST_TYPES + 1


def test_other_units_are_compared_as_if_all_were_on_the_fastest_type() -> None:
    """In a unit's baseline all GPUs have the speed of the fastest type, so that units can be compared."""
    (plain,) = two_replicas(gpu_type="H100")["job_baseline"]
    types = {"node-0": FASTER, "node-1": SLOWER, "node-2": SLOWER}
    rows = [
        line(step, dp_rank, 0, [("forward-compute", 0, compute_s)], host=f"node-{dp_rank}")
        for step in range(STEPS)
        for dp_rank, compute_s in enumerate((1.0, 2.0, 2.0))
    ]
    found = simulate_job(rank_steps(*rows), manifest(dp_size=3) | {"gpu_types": types, "gpu_type": "H100"})
    (mixed,) = found["job_baseline"].to_pylist()
    assert (plain["gpu_type"], mixed["gpu_type"]) == ("H100", "A100 + H100")
    assert mixed["stages"][0]["usual_compute_s"] == pytest.approx(1.0)
    assert mixed["slow_hosts"] == []
    (one_type,) = two_replicas(gpu_types=dict.fromkeys(types, "B200"))["job_baseline"]
    assert one_type["gpu_type"] == "B200"


@pytest.mark.parametrize("stated", [None, {}, {"node-0": FASTER}, {"node-0": FASTER, "node-1": FASTER}])
def test_without_two_types_all_rows_are_what_they_were(stated: dict[str, str] | None) -> None:
    found = two_replicas(gpu_types=stated, gpu_type=FASTER)
    assert found == two_replicas(gpu_type=FASTER)
    assert not found[GPU_TYPE_SLOWDOWN]
    assert cause_row(found, "slow_worker")["is_cause"]


def test_equal_types_have_rows_and_cost_nothing() -> None:
    stated = {"node-0": FASTER, "node-1": SLOWER}
    found = two_replicas(1.0, gpu_types=stated)
    assert [row["is_slower"] for row in found[GPU_TYPE_SLOWDOWN]] == [False, False]
    mixed = cause_row(found, "mixed_hardware")
    assert (mixed["is_cause"], mixed["time_saved_fraction"], mixed["culprits"]) == (False, 0.0, [])


@pytest.mark.parametrize("name", ["usual", "no_pipeline", "virtual_pipeline", "data_loads"])
@pytest.mark.parametrize("seed", [3, 4])
def test_against_the_reference(name: str, seed: int) -> None:
    """Costs of GPU types equal the reference's if dp rank 1 has the slower type."""
    slow = [WeakGpu(1, stage, 3.0) for stage in range(LAYOUTS[name].pp_size)]
    job = generate_job(LAYOUTS[name], [*FAULTS[:2], *slow], seed, workload=NOISY)
    rows = job.rank_steps.to_pylist()
    hosts = [f"node-{row['dp_rank']}-{row['pp_rank']}" for row in rows]
    table = job.rank_steps.set_column(job.rank_steps.column_names.index("host"), "host", pa.array(hosts))
    stated = {host: SLOWER if host.startswith("node-1") else FASTER for host in hosts if host != "node-0-1"}
    facts = {**job.manifest, "gpu_types": stated}
    found = simulate_job(table, facts)
    types = {row["gpu_type"]: row for row in found[GPU_TYPE_SLOWDOWN].to_pylist()}
    replayed = job_of(job)._replace(rows=job_of(type(job)(table, job.manifest)).rows)
    known = worker_types(replayed.rows, facts)
    assert known is not None
    layout = replayed.layout
    about = diagnosis.Job(layout, np.full((layout.pp_size, layout.dp_size), -1), 1.0, 1.0, {})
    blocks = [
        block._replace(delays=block.delays._replace(delay_s=0.0 * block.delays.delay_s))
        for block in replayed.blocks()
    ]
    of_kernel = Found.of(about._replace(worker_type=known.number), blocks)
    assert of_kernel.factors is not None
    assert of_kernel.factors.types is not None
    factor = of_kernel.factors.types.factor
    assert factor.max() > 2.0
    factors = {
        (type_name, op_type): float(factor[number, direction])
        for number, type_name in enumerate(known.names)
        for direction, op_type in enumerate(("forward-compute", "backward-compute"))
    }
    reference = types_cost(read_rank_steps(table), read_layout(facts), stated, factors)
    for type_name, slowdown in reference.slowdown.items():
        row = types[type_name or NOT_STATED]
        assert row["slowdown"] == pytest.approx(slowdown, rel=SAME)
        assert row["forward_ideal_s"] == pytest.approx(
            reference.ideal_s[type_name, "forward-compute"], rel=SAME
        )
        assert row["backward_ideal_s"] == pytest.approx(
            reference.ideal_s[type_name, "backward-compute"], rel=SAME
        )
    assert len(types) == len(reference.slowdown)
    assert mean_step_s(of_kernel, frozenset({cause.MIXED_HARDWARE})) == pytest.approx(
        reference.fastest_s, rel=SAME
    )
