"""Classes of jobs that are judged together, and what each is to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pandas import DataFrame as Frame
from pandas import Series


@dataclass(frozen=True)
class JobClass:
    """Answers that are judged together, and what they are to reach; None where nothing is asked.

    mae, p95   : errors, as fractions of the actual step time
    jobs_share : part of all jobs that the class is to hold
    """

    title: str
    holds: Callable[[Frame], "Series[bool]"]
    mae: float | None = None
    p95: float | None = None
    f1: float | None = None
    jobs_share: float | None = None


CLASSES: Final[Mapping[str, JobClass]] = MappingProxyType(
    {
        "dp4pp2": JobClass(
            "dp >= 4, pp >= 2, >= 4 steps",
            lambda rows: (rows.dp_size >= 4) & (rows.pp_size >= 2) & (rows.steps >= 4),
            mae=0.0025,
            p95=0.01,
            f1=0.99,
        ),
        "dp2pp2": JobClass(
            "dp >= 2, pp >= 2",
            lambda rows: (rows.dp_size >= 2) & (rows.pp_size >= 2),
            mae=0.0035,
            p95=0.015,
            f1=0.985,
        ),
        "dp1": JobClass("dp = 1", lambda rows: rows.dp_size == 1),
        "pp1": JobClass("pp = 1", lambda rows: rows.pp_size == 1),
        "unflagged": JobClass(
            "all without a flag (jobs)", lambda rows: ~rows.is_flagged, 0.003, 0.01, 0.99, 0.75
        ),
        "unflagged_rows": JobClass("all without a flag (rows)", lambda rows: rows.flag.isna()),
        "detectable": JobClass("all detectable", lambda rows: rows.is_detectable, 0.01, 0.04, 0.96),
        "all": JobClass("all", lambda rows: rows.dp_size >= 1),
    }
)
"""Classes by the name that --class takes."""
