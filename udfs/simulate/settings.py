"""Settings that change the result of a simulation."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property

from udfs.kernel.clocks.estimate import USUAL_LIMITS, Limits
from udfs.kernel.replay.ideal import PAPER_IDEAL
from udfs.kernel.what_if import OPS_TOGETHER


@dataclass(frozen=True)
class SimulationSettings:
    """Options of a simulation that affect its results, such as the ideal, limits and corrections.

    ideal               : how ideal durations are chosen, a name in IDEALS.
    minimum_steps       : fewer replayed steps are `too_few_steps`.
    maximum_discrepancy : above this share of T_actual a unit is `high_discrepancy`.
    maximum_restarts    : with more restarts a unit is not replayed.
    clock_floor_s, clock_floor_fraction : mean offsets of a clock below the lower of the two, in seconds
                          and as a share of the step time, are not corrected.
    log_day_margin_s    : lines whose times lie further outside their log date are left out. [s]
    ops_together        : a unit with more ops is replayed in blocks of steps of about this many ops.
    diagnosed           : whether to look for causes; if not, job_causes has no rows.
    """

    ideal: str = PAPER_IDEAL
    minimum_steps: int = 10
    maximum_discrepancy: float = 0.05
    maximum_restarts: int = 15
    clock_floor_s: float = USUAL_LIMITS.floor_s
    clock_floor_fraction: float = USUAL_LIMITS.floor_fraction
    log_day_margin_s: float = 86_400.0
    ops_together: int = OPS_TOGETHER
    diagnosed: bool = True

    @cached_property
    def text(self) -> str:
        """The settings that change results beyond rounding, as JSON text for result rows and fingerprints."""
        meaningful = {name: value for name, value in asdict(self).items() if name != "ops_together"}
        return json.dumps(meaningful, sort_keys=True)

    @property
    def limits(self) -> Limits:
        """Limits up to which clock offsets stay uncorrected."""
        return Limits(self.clock_floor_s, self.clock_floor_fraction)
