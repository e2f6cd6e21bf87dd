"""If a gate would refuse a figure of a unit, only that unit fails, and the night goes on."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schemas.vocabulary import JOB_SLOWDOWN, Status
from tests.support.diagnoses import unit_rows
from tests.udfs.lines import manifest, rank_steps
from udfs.kernel.graph.graph import TraceDefectError
from udfs.kernel.recorded.first_pass import refuse_timeless
from udfs.simulate import result_tables
from udfs.what_if import simulate_job

LAYOUT = manifest(dp_size=2, pp_size=2)


@pytest.mark.parametrize("scale", [1e-9, 1e-300, 1e-320])
def test_ops_that_take_next_to_no_time_have_no_slowdown(scale: float) -> None:
    """If all ops take nearly no time, the unit has no slowdown, but the status implausible_times."""
    rows = unit_rows()
    for row in rows:
        row["duration_us"] = [each * scale for each in row["duration_us"]]
    (found,) = simulate_job(rank_steps(*rows), LAYOUT)[JOB_SLOWDOWN].to_pylist()
    assert (found["status"], found["slowdown"]) == (Status.IMPLAUSIBLE_TIMES, None)
    assert found["status_detail"].startswith("no op takes longer than ")


def test_a_replay_of_next_to_no_time_is_refused_though_an_op_was_long() -> None:
    """If the replay takes nearly no time, the unit is refused, even if one recorded op was long."""
    block: Any = SimpleNamespace(steps=[0], graph=SimpleNamespace(ref=lambda op: op))
    refuse_timeless([block], np.array([2e-6]), np.array([2e-6]))
    with pytest.raises(TraceDefectError, match="the replayed ops take no time at all"):
        refuse_timeless([block], np.array([2e-6]), np.array([1e-9]))


def test_a_figure_that_is_not_finite_costs_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a figure is not finite, only its unit fails; otherwise a gate would refuse the whole night."""
    monkeypatch.setattr(result_tables, "_by_op_type", lambda *_: {"waste_fraction": np.array([-np.inf])})
    with pytest.raises(result_tables.NotFiniteError, match="of op_type_slowdown is not finite"):
        simulate_job(rank_steps(*unit_rows()), LAYOUT)
