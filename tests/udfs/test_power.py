"""The share of computing workers equals the reference's, and that read from a timeline made by hand."""

from math import inf, pi, sin
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.shape import JobShape
from schemas.vocabulary import JOB_POWER, JOB_SLOWDOWN
from tests.evaluation.skews import HostClock, HostClocks
from tests.oracle.power import BINS, COMPUTING, HARMONICS, beat, complete_steps, power
from tests.oracle.readers import read_layout, read_rank_steps
from tests.support.random_jobs import LAYOUTS, generate_job, named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel import swing
from udfs.what_if import SimulationSettings, simulate_job

FLOAT32 = 1e-6
TOGETHER = [SimulationSettings(ops_together=ops, diagnosed=False) for ops in (1, 10**12)]
"""Settings that replay each step as a block, and all steps as one block."""
T0_US = 1_767_600_000_000_000
NAMED: list[str | int] = [*LAYOUTS, "disagreeing", *range(200, 216)]


def power_row(
    rows: pa.Table, facts: dict[str, Any], settings: SimulationSettings | None = None
) -> dict[str, Any]:
    (row,) = simulate_job(rows, facts, settings or SimulationSettings(diagnosed=False))[JOB_POWER].to_pylist()
    return dict(row)


def test_kernel_and_twin_speak_of_the_same() -> None:
    assert (BINS, HARMONICS) == (swing.BINS, swing.HARMONICS)


@pytest.mark.parametrize("how", TOGETHER, ids=["one by one", "together"])
@pytest.mark.parametrize("name", NAMED)
def test_random_jobs(name: str | int, how: SimulationSettings) -> None:
    """Power of random jobs equals the reference's, also in blocks or if ranks or steps lack ops."""
    job = named_job(name)
    found = simulate_job(job.rank_steps, job.manifest, how)
    (status,) = found[JOB_SLOWDOWN]["status"].to_pylist()
    if not found[JOB_POWER].num_rows:
        assert status in {"missing_workers", "partial_trace", "corrupt_trace"}
        return
    layout = read_layout(job.manifest)
    wanted = power(complete_steps(read_rank_steps(job.rank_steps), layout), layout.dp_size * layout.pp_size)
    row = found[JOB_POWER].to_pylist()[0]
    for column, values in (
        ("computing_share", wanted.share),
        ("computing_share_low", wanted.low),
        ("computing_share_high", wanted.high),
        ("harmonic_amplitudes", wanted.amplitudes),
    ):
        assert row[column] == pytest.approx(values, abs=FLOAT32), column
    assert row["swing_share"] == pytest.approx(wanted.swing, abs=1e-10)
    assert row["step_swing_share"] == pytest.approx(wanted.step_swing, abs=1e-10)
    assert row["dominant_harmonic"] == wanted.dominant


HALVES = {0: (0.0, 2.0, 4.0), 1: (2.0, 2.0, 4.0)}
"""By dp rank: start and length of the forward, and length of the backward after it. [s]"""


def drawn(begins_s: tuple[float, ...]) -> pa.Table:
    """Return two replicas in steps of 8 s: one computes from 0 to 6 s, the other from 2 to 8 s.

    The zero of a step's lines lies before the step's first start, in each step by more.
    """
    return rank_steps(
        *(
            line(
                step,
                dp_rank,
                0,
                [
                    ("forward-compute", step + start_s, forward_s),
                    ("backward-compute", step + start_s + forward_s, backward_s),
                    ("gc", step, 0.5),
                ],
                t0_us=T0_US + round((begin_s - step) * 1e6),
            )
            for step, begin_s in enumerate(begins_s)
            for dp_rank, (start_s, forward_s, backward_s) in HALVES.items()
        )
    )


def test_a_step_drawn_by_hand() -> None:
    row = power_row(drawn((0.0, 10.0, 20.0, 30.0)), manifest(dp_size=2))
    assert row["computing_share"] == [0.5] * 32 + [1.0] * 64 + [0.5] * 32
    assert (row["low_share"], row["mean_share"], row["high_share"]) == (0.5, 0.75, 1.0)
    assert (row["swing_share"], row["step_swing_share"], row["actual_step_s"]) == (0.5, 0.5, 8.0)
    assert (row["dominant_harmonic"], row["dominant_period_s"]) == (1, 8.0)
    assert row["dominant_amplitude"] == pytest.approx(2 * 0.5 * sin(pi / 2) / (128 * sin(pi / 128)))
    assert row["dominant_amplitude"] == pytest.approx(1 / pi, rel=1e-3)


def test_steps_in_a_beat_have_a_peak_on_the_clock() -> None:
    """If steps begin at regular intervals of 10 s, the peak has a clock time, taken from the middle step."""
    begins_s = (0.0, 10.0, 21.0, 30.0)
    row = power_row(drawn(begins_s), manifest(dp_size=2))
    every_s, scatter_s, middle_s = beat(range(4), begins_s)
    assert row["step_every_s"] == pytest.approx(every_s)
    assert row["beat_scatter"] == pytest.approx(scatter_s / every_s)
    assert (row["first_us"], row["last_us"]) == (T0_US, T0_US + 38_000_000)
    assert (row["peak_us"] - T0_US) / 1e6 == pytest.approx(middle_s + 4.0, abs=2e-6)


def test_two_waves_in_a_step_count_the_beat_by_waves() -> None:
    """If a step has two waves of power, the regularity of steps is measured against the period of a wave."""
    begins_s = [10.0 * step + 0.6 * (-1) ** (step // 2) for step in range(8)]
    rows = rank_steps(
        *(
            line(
                step,
                0,
                0,
                [("forward-compute", 0.0, 2.0), ("backward-compute", 4.0, 2.0), ("gc", 7.0, 1.0)],
                t0_us=T0_US + round(begin_s * 1e6),
            )
            for step, begin_s in enumerate(begins_s)
        )
    )
    row = power_row(rows, manifest())
    every_s, scatter_s, middle_s = beat(range(8), begins_s)
    assert (row["dominant_harmonic"], row["dominant_period_s"]) == (2, 4.0)
    assert row["beat_scatter"] == pytest.approx(2 * scatter_s / every_s)
    assert 0.1 < row["beat_scatter"] < 1 / 8
    assert (row["peak_us"] - T0_US) / 1e6 == pytest.approx(middle_s + 1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("begins_s", "known"),
    [((0.0, 10.0, 20.0), (False, False)), ((0.0, 10.0, 100.0, 110.0), (True, False)),
     ((30.0, 20.0, 10.0, 0.0), (False, False))],
)  # fmt: skip
def test_few_steps_or_no_beat_leave_the_phase_unknown(
    begins_s: tuple[float, ...], known: tuple[bool, bool]
) -> None:
    row = power_row(drawn(begins_s), manifest(dp_size=2))
    assert (row["beat_scatter"] is not None, row["peak_us"] is not None) == known


def test_clocks_are_corrected_first() -> None:
    """Clocks that are 50 ms apart are corrected before the share of computing workers is computed."""
    shape = JobShape(dp_size=2, pp_size=2, tp_size=4, microbatches=3, steps=12)
    off = HostClocks((HostClock("node-0001", offset_s=0.05),))
    one_clock, skewed = (generate_job(shape, faults, 3) for faults in ([], [off]))
    ignored = SimulationSettings(clock_floor_s=inf, clock_floor_fraction=inf, diagnosed=False)
    wanted = power_row(one_clock.rank_steps, one_clock.manifest)["computing_share"]
    found = power_row(skewed.rank_steps, skewed.manifest)["computing_share"]
    wrong = power_row(skewed.rank_steps, skewed.manifest, ignored)["computing_share"]
    assert np.abs(np.subtract(found, wanted)).max() < 0.02
    assert np.abs(np.subtract(wrong, wanted)).max() > 0.2


def test_a_log_without_times_of_day_has_a_share_and_no_phase() -> None:
    rows = drawn((0.0, 10.0, 20.0, 30.0))
    rows = rows.set_column(rows.column_names.index("t0_us"), "t0_us", pa.nulls(rows.num_rows, pa.int64()))
    row = power_row(rows, manifest(dp_size=2))
    assert row["swing_share"] == 0.5
    assert [row[name] for name in ("first_us", "last_us", "step_every_s", "peak_us")] == [None] * 4


def test_times_of_nonsense_are_no_times() -> None:
    rows = drawn((0.0, 10.0, 20.0, 30.0))
    late = pa.array(rows["t0_us"].to_numpy() - T0_US + (2**63 - 10**8))
    row = power_row(rows.set_column(rows.column_names.index("t0_us"), "t0_us", late), manifest(dp_size=2))
    assert (row["swing_share"], row["first_us"]) == (0.5, None)


def test_an_even_share_has_no_period() -> None:
    row = power_row(rank_steps(line(0, 0, 0, [("forward-compute", 0, 8)])), manifest())
    assert row["computing_share"] == [1.0] * 128
    assert (row["dominant_harmonic"], row["dominant_period_s"], row["swing_share"]) == (None, None, 0.0)


def test_computes_that_overlap_count_once_at_most() -> None:
    ops: Ops = [("forward-compute", 0.0, 8.0), ("backward-compute", 4.0, 4.0)]
    row = power_row(rank_steps(line(0, 0, 0, ops)), manifest())
    assert row["computing_share"] == [1.0] * 128


def test_the_ops_that_compute() -> None:
    assert COMPUTING == ("forward-compute", "backward-compute", "optimizer")
    ops: Ops = [("optimizer", 0.0, 4.0), ("gc", 4.0, 4.0)]
    row = power_row(rank_steps(line(0, 0, 0, ops)), manifest())
    assert row["computing_share"] == [1.0] * 64 + [0.0] * 64


@pytest.mark.parametrize("waves", [1, 3, 40])
def test_the_peak_of_a_wave(waves: int) -> None:
    at = (np.arange(128) + 0.5) / 128
    found = swing.swing(0.5 + 0.25 * np.cos(2 * np.pi * waves * (at - 0.01)))
    assert found.dominant == waves
    assert (found.amplitude, found.peak) == pytest.approx((0.25, 0.01))
