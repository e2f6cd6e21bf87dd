"""The ideals by the names they have in settings and in job_slowdown (model, section 7)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from udfs.kernel.replay.ideal import Ideal

PAPER_IDEAL: Final = "pooled-mean-median"

IDEALS: Final[Mapping[str, Ideal]] = MappingProxyType(
    {
        PAPER_IDEAL: Ideal(within_stage=False, has_means=True),
        "pooled-median": Ideal(within_stage=False, has_means=False),
        "stage-mean-median": Ideal(within_stage=True, has_means=True),
        "stage-median": Ideal(within_stage=True, has_means=False),
    }
)
