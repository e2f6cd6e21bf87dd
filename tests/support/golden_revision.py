"""Stored results of units and of earlier days to which each rule of the revision applies at least once.

The results are stored in tests/data/golden/revision.json, so that changes of the simulator or of other tests
do not affect them. `python -m tests.support.golden_revision` computes and stores them again; their digest in
versions.json then changes too.
"""

import json
from datetime import date
from typing import Any, Final

import pyarrow as pa

from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import CAUSES, JOB_BASELINE, JOB_CAUSES, JOB_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN
from tests.support.examples import table_rows
from tests.support.golden_units import FOLDER
from udfs.revise.causes import COMMUNICATION
from udfs.revise.units import REVISED_FROM, revised_causes
from udfs.simulate.unit_batches import UsualTransfers

_ROWS: Final = FOLDER / "revision.json"
_EARLIER: Final = "earlier"
_DAY: Final = date(2026, 1, 5)
_BEFORE: Final = (date(2026, 1, 3), date(2026, 1, 4))
_OPEN: Final = "slow_worker_or_stage_imbalance"
_EVEN: Final = (1.0, 1.0, 1.0, 1.0)
_HEAVY: Final = (1.0, 1.5, 1.0, 1.0)
_REPLAYED: Final = 0.1875
"""Saving by usual transfer times that a replay of the unit with slow transfers would find."""

Row = dict[str, Any]


def golden_revision() -> dict[str, pa.Table]:
    """Return the units' rows of job_causes after the revision by earlier days."""
    stored: dict[str, list[Row]] = json.loads(_ROWS.read_text(encoding="utf-8"))
    days = {
        name: [row | {"log_date": date.fromisoformat(row["log_date"])} for row in rows]
        for name, rows in stored.items()
    }
    earlier = pa.Table.from_pylist(days.pop(_EARLIER), TABLES[JOB_BASELINE].arrow_schema)
    results = {name: pa.Table.from_pylist(rows, TABLES[name].arrow_schema) for name, rows in days.items()}
    causes = results[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")

    def replay(wanted: UsualTransfers) -> dict[Unit, list[Row]]:
        """Return the stored rows of the wanted units, with a fixed saving by usual transfer times.

        The units have no ops that could be replayed.
        """
        faster = {"time_saved_fraction": _REPLAYED, "attributed_fraction": _REPLAYED}
        return {
            unit: [
                row | (faster if row["cause"] == COMMUNICATION else {})
                for row in causes
                if Unit(*(row[name] for name in UNIT_KEY)) == unit
            ]
            for unit in wanted
        }

    return {JOB_CAUSES: revised_causes(results, earlier, days=14, minimum_runs=2, replay=replay)}


def _unit(name: str, compute_s: tuple[float, ...], transfer_s: float = 0.002) -> Row:
    """Return a row of job_baseline for a unit whose stages each have a separate host."""
    hosts = [f"{name}-{stage}" for stage in range(len(compute_s))]
    return {
        "log_date": _DAY,
        "job_id": name,
        "model": name,
        "pp_size": len(compute_s),
        "dp_size": 1,
        "ops_per_step": 100.0,
        "actual_step_s": 2.5,
        "ideal_step_s": 2.0,
        "stages": [(stage, time_s, [hosts[stage]]) for stage, time_s in enumerate(compute_s)],
        "op_types": [("forward-compute", 0.1), ("backward-compute", 0.2), ("forward-pp-comm", transfer_s)],
        "slow_hosts": [],
    }


def _causes(job_id: str, **flags: str) -> list[Row]:
    heavy = [(1, None, None, None, 0.33, 1.0, "always")]
    rows: list[Row] = [
        {"log_date": _DAY, "job_id": job_id, "cause": cause, "is_cause": False, "culprits": []}
        | {"time_saved_fraction": 0.0, "attributed_fraction": 0.0, "flag_reason": flags.get(cause)}
        for cause in CAUSES
    ]
    rows[1] |= {"is_cause": True, "time_saved_fraction": 0.2, "attributed_fraction": 0.1, "culprits": heavy}
    return rows


def _drawn() -> dict[str, pa.Table]:
    both = {"slow_worker": _OPEN, "stage_imbalance": _OPEN}
    units = {
        "slow-stage": (_unit("slow-stage", _HEAVY), both, _EVEN),
        "heavy-stage": (_unit("heavy-stage", _HEAVY), both, _HEAVY),
        "slow-link": (
            _unit("slow-link", _EVEN, 0.02) | {"ideal_step_s": 2.5},
            {"communication": "no_usual_transfer"},
            _EVEN,
        ),
        "known-host": (_unit("known-host", _HEAVY), both, None),
        "unknown": (_unit("unknown", _HEAVY), both, None),
    }
    earlier = [
        _unit(name, compute_s) | {"log_date": day, "stages": _elsewhere(compute_s, day)}
        for name, (_, _, compute_s) in units.items()
        if compute_s is not None
        for day in _BEFORE
    ]
    slow_host = {"slow_hosts": [("known-host-1", 0.5)], "model": "other"}
    earlier += [_unit(f"other-{day.day}", _EVEN) | slow_host | {"log_date": day} for day in _BEFORE]
    workers = [
        {"log_date": _DAY, "job_id": name, "dp_rank": 0, "pp_rank": stage, "rank": 8 * stage}
        | {"host": f"{name}-{stage}"}
        for name in units
        for stage in range(len(_EVEN))
    ]
    return {
        JOB_BASELINE: table_rows(JOB_BASELINE, [unit for unit, _, _ in units.values()]),
        JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, [{"log_date": _DAY, "job_id": name} for name in units]),
        WORKER_SLOWDOWN: table_rows(WORKER_SLOWDOWN, workers),
        JOB_CAUSES: table_rows(
            JOB_CAUSES, [row for name, (_, flags, _) in units.items() for row in _causes(name, **flags)]
        ),
        _EARLIER: table_rows(JOB_BASELINE, earlier),
    }


def _elsewhere(compute_s: tuple[float, ...], day: date) -> list[tuple[int, float, list[str]]]:
    return [(stage, time_s, [f"on-{day.day}-{stage}"]) for stage, time_s in enumerate(compute_s)]


if __name__ == "__main__":
    drawn = _drawn()
    assert set(REVISED_FROM) < set(drawn)
    rows = {name: table.to_pylist(maps_as_pydicts="strict") for name, table in drawn.items()}
    _ROWS.write_text(json.dumps(rows, default=str) + "\n", encoding="utf-8")
