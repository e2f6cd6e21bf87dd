"""The console output of a Megatron job gives step times and their dates, but never a replay."""

import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.landing.formats import megatron_console
from jobs.landing.formats.foreign import RefusalError
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN
from tests.jobs.landing.formats.foreign_logs import as_json, read
from tests.jobs.landing.formats.test_timeline import STAGE, op
from tests.jobs.landing.land import land
from tests.support.night import DAY, Landing
from udfs.simulate.recorded_ranks import timed_results
from udfs.simulate.unit_batches import SIMULATED_SCHEMA, UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

LAYOUT = (
    "using world size: 16, data-parallel size: 2, context-parallel size: 1, hierarchical context-parallel "
    "sizes: Nonetensor-model-parallel size: 4, encoder-tensor-model-parallel size: 0, "
    "pipeline-model-parallel size: 2, encoder-pipeline-model-parallel size: 0\n"
)
TIMERS = "(min, max) time across ranks (ms):\n    forward-backward ...: (700.1, 702.3)\n"


def line(step: int, elapsed_ms: float, clock: str = "", prefix: str = "") -> str:
    """Return a console line as newer versions of Megatron print it; older versions omit the time of day."""
    stamp = f"[{clock}] " if clock else ""
    return (
        f"{prefix} {stamp}iteration {step:8d}/   50000 | consumed samples: {step * 64:12d} | elapsed time "
        f"per iteration (ms): {elapsed_ms:.1f} | throughput per GPU (TFLOP/s/GPU): 401.2 | "
        "learning rate: 1.0E-04 | global batch size:    64 | lm loss: 7.39E+00 | grad norm: 2.918 |\n"
    )


def console(elapsed_ms: Sequence[float]) -> str:
    lines = (line(10 * n, each, f"2026-01-05 12:{n:02d}:07") for n, each in enumerate(elapsed_ms, start=1))
    return LAYOUT + TIMERS.join(lines)


SLOW_FROM_7_TO_9 = [9000.0, 700, 700, 710, 700, 690, 1400, 1410, 1390, 700, 700, 1000]


def test_a_console_has_step_times_and_the_layout_and_no_ops() -> None:
    found = read({"node-0.log": console(SLOW_FROM_7_TO_9).encode()})
    assert (found.run.source_format, found.rows.num_rows, found.rejects) == ("megatron-console", 0, [])
    sizes = {"dp_size": 2, "pp_size": 2, "tp_size": 4, "cp_size": 1, "vpp_size": 1, "world_size": 16}
    assert found.run.manifest == sizes
    assert found.run.step_times is not None
    assert found.run.step_times[1] == {"step": 20, "step_s": 0.7, "logged_at": "2026-01-05 12:02:07"}
    assert dict(found.run.left_out) == {"tables of timers: sums, least and greatest over ranks": 11}


def test_its_unit_says_when_steps_took_how_much_longer(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    made.put("console", "train.log", console(SLOW_FROM_7_TO_9).encode())
    landed = land(made.root, tmp_path / "staging")
    job, unit = landed.job("console"), Unit(DAY, "console", "r3")
    assert (job["manifest_status"], job["transfers"], job["world_size"]) == ("step_times_only", "absent", 16)
    results = simulate_unit(UnitRows(unit, job, SIMULATED_SCHEMA.empty_table()), SimulationSettings())
    (row,) = results[JOB_SLOWDOWN].to_pylist()
    assert {name: table.num_rows for name, table in results.items() if table.num_rows} == {JOB_SLOWDOWN: 1}
    assert (row["status"], row["slowdown"], row["recorded_steps"]) == ("step_times_only", None, 12)
    assert row["recorded_step_s"] == pytest.approx(0.705)
    assert row["status_detail"] == (
        "12 step times, of steps 10 to 120: 0.705 s (median); the longest after the first, 1.41 s, is "
        "step 80 (2026-01-05 12:08:07 by the log's clock); 4 take 1.1 times as long as the fastest "
        "quarter (0.7 s), or longer: the worst in a row from step 70 (2026-01-05 12:07:07 by the log's "
        "clock) to step 90 (2026-01-05 12:09:07 by the log's clock), 2 times"
    )


@pytest.mark.parametrize("elapsed_ms", [[700.0] * 12, [9000.0, 700.0], [700.0]])
def test_even_steps_have_no_stretch_of_slow_ones(elapsed_ms: list[float]) -> None:
    found = read({"a.log": console(elapsed_ms).encode()})
    _, detail, figures = timed_results({"step_times": found.run.step_times})
    assert "after the first, 0.7 s, is step" in detail
    assert "in a row" not in detail
    assert figures["recorded_steps"] == len(elapsed_ms)


def test_older_lines_prefixes_and_copies_are_read_and_what_is_no_time_is_counted() -> None:
    text = (
        " iteration      200/    1000 | elapsed time per iteration (ms): 430.0 | learning rate 1.342E-04 |\n"
        + line(300, 440.0, prefix="[default7]:")
        + " iteration 5/infinity | consumed samples: 7 | elapsed time per iteration (ms): 10.5 |\r\n"
        + line(400, 0.0)
        + line(300, 440.0, prefix="2: ")
        + "x" * 200_000
    )
    found = read({"b.log": text.encode(), "c.log": b"using world size: 2, data-parallel-size: 2\n"})
    assert found.run.step_times == [
        {"step": step, "step_s": step_s, "logged_at": None}
        for step, step_s in ((200, 0.43), (300, 0.44), (5, 0.0105))
    ]
    assert found.run.manifest == {"world_size": 2, "dp_size": 2, "cp_size": 1, "vpp_size": 1}
    assert dict(found.run.left_out) == {
        "lines of iterations that took no time, or forever": 1,
        "lines of iterations that repeat another": 1,
    }


def test_nothing_of_a_console_that_breaks_off_counts(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    made.put("cut", "a.log.gz", gzip.compress(console([8000.0] * 2000).encode())[:-8])
    made.put("cut", "b.log", console([700.0, 710.0]).encode())
    landed = land(made.root, tmp_path / "staging")
    job = landed.job("cut")
    assert landed.reasons("cut") == {"a.log.gz": "unreadable_file"}
    assert [each["step_s"] for each in job["step_times"]] == [0.7, 0.71]
    assert job["left_out"] == {"tables of timers: sums, least and greatest over ranks": 1}


def test_a_console_without_a_time_of_an_iteration_says_so() -> None:
    with pytest.raises(RefusalError, match=r"no line has the time of an iteration\. Keep what the last rank"):
        read({"node-0.log": (LAYOUT + TIMERS).encode()})


def test_ops_beside_a_console_count_and_the_console_is_named(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    made.put("both", "a.log", console([700.0]).encode())
    made.put("both", "b.json", as_json([op(), STAGE]))
    made.put("both", "c.log", TIMERS.encode())
    made.put("text", "a.log", TIMERS.encode())
    made.put("text", "b.log", console([700.0]).encode())
    landed = land(made.root, tmp_path / "staging")
    assert (len(landed.steps("both")), landed.job("both")["manifest_status"]) == (1, None)
    assert landed.reasons("both") == {"a.log": "unknown_format", "c.log": "unknown_format"}
    assert landed.job("text")["manifest_status"] == "step_times_only"
    assert landed.reasons("text") == {"a.log": "unknown_format"}


@pytest.mark.parametrize("unit", [" ", "iteration 1/ 1|", "[2026-01-05 08:00:00"])
def test_what_a_few_bytes_of_gzip_repeat_is_read_once(tmp_path: Path, unit: str) -> None:
    """8 MB of a repeated pattern, which gzip packs into some kilobytes, are read in linear time."""
    log = tmp_path / "train.log"
    log.write_text(f"{console([100.0] * 12)}\n iteration {unit * (8_000_000 // len(unit))}")
    code = (
        "import collections, sys; from jobs.landing.formats import megatron_console as console\n"
        "file, lines = open(sys.argv[1], 'rb'), {}\n"
        "console._read(file, lines, {}, collections.Counter()); print(len(lines))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert done.stdout == "12\n"


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_no_line_is_lost_where_lines_end_in_carriage_returns(end: str) -> None:
    text = console([700.0 + step for step in range(3000)])
    found = read({"a.log": text.replace("\n", end).encode()})
    assert found.run.step_times == read({"a.log": text.encode()}).run.step_times
    assert len(found.run.step_times or ()) == 3000


def test_a_line_without_an_end_gives_no_half_of_a_number() -> None:
    ended, last, piece = console([700.0]), line(20, 98765.4).strip(), megatron_console._PIECE
    for begin in (piece, 2 * piece - len(ended)):
        for kept in range(1, 7):
            text = f"{ended}{'y' * (begin - last.index('98765') - kept)}{last}{'z' * 100_000}"
            found = read({"a.log": text.encode()})
            assert [each["step_s"] for each in found.run.step_times or ()] in ([0.7], [0.7, 98.7654]), kept
