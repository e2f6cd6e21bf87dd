"""How much longer a unit's recorded steps take than on earlier days, without any replay."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import chain, islice
from statistics import median_low
from typing import Any, Final

import pyarrow as pa

from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY
from udfs.revise.history import SAME_OPS, kind_of

Row = dict[str, Any]

_Past = defaultdict[tuple[Any, ...], defaultdict[date, list[Row]]]
"""Rows of a model and layout, or of a run, by day; the units of a day in descending order."""

_COLUMN: Final = "slower_than_usual"
_OF_THE_PAST: Final = ("actual_step_s", "ops_per_step")
_KIND: Final = ("gpu_type", "dp_size", "pp_size", "cp_size", "vpp_size", "world_size")
_MOST_RUNS: Final = 32
"""Most earlier units with which a unit is compared; the latest are taken."""


def with_slower(slowdowns: pa.Table, baselines: pa.Table, earlier: pa.Table, days: int) -> pa.Table:
    """Add to job_slowdown the ratio of each unit's step time to the median of earlier, similar units.

    The usual step time is the lower median of earlier units of the same model, layout and ops per step; if
    there are none, of earlier days of the same run.

    baselines, earlier : rows of job_baseline, of these days and of days before.
    days               : number of earlier days that count.
    """
    columns = list(dict.fromkeys((*UNIT_KEY, "model", *_KIND, *_OF_THE_PAST)))
    own = baselines.select(columns).to_pylist()
    past: _Past = defaultdict(lambda: defaultdict(list))
    for row in sorted([*own, *earlier.select(columns).to_pylist()], key=Unit.of, reverse=True):
        past[kind_of(row, _KIND)][row["log_date"]].append(row)
        past[row["job_id"], row["run_id"]][row["log_date"]].append(row)
    found = {Unit.of(row): _ratio(row, past, days) for row in own}
    units = zip(*(slowdowns.column(name).to_pylist() for name in UNIT_KEY), strict=True)
    ratios = pa.array([found.get(Unit(*unit)) for unit in units], pa.float64())
    return slowdowns.set_column(slowdowns.column_names.index(_COLUMN), _COLUMN, ratios)


def _ratio(unit: Row, past: _Past, days: int) -> float | None:
    def before(by_day: Mapping[date, Sequence[Row]]) -> Iterator[Row]:
        dates = (unit["log_date"] - timedelta(days=age) for age in range(1, days + 1))
        return chain.from_iterable(by_day.get(day, ()) for day in dates)

    ops, most = unit["ops_per_step"], SAME_OPS * unit["ops_per_step"]
    alike = (row for row in before(past[kind_of(unit, _KIND)]) if abs(row["ops_per_step"] - ops) <= most)
    of_run = before(past[unit["job_id"], unit["run_id"]])
    compared = [*islice(alike, _MOST_RUNS)] or [*islice(of_run, _MOST_RUNS)]
    usual_s = median_low(row["actual_step_s"] for row in compared) if compared else 0.0
    return unit["actual_step_s"] / usual_s if usual_s > 0.0 else None
