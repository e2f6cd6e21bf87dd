"""The table mitigations: remedies for the causes of a unit, and the time that each would save, by replay."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

LAYERS: Final = "layers between stages"
OVER_DP_RANKS: Final = "microbatches over dp ranks"
SEQUENCES: Final = "sequences over microbatches"
COLLECTIONS: Final = "planned garbage collection"
HOST_EXCHANGED: Final = "host exchanged"
REPLICA_REMOVED: Final = "replica removed"
LIGHTER_REPLICA: Final = "lighter microbatches for a slow replica"
OVERLAP: Final = "communication overlapped"
CHECKPOINTS: Final = "checkpoint interval"

CAUSE_OF: Final[dict[str, str | None]] = {
    LAYERS: "stage_imbalance",
    OVER_DP_RANKS: "data_imbalance",
    SEQUENCES: "data_imbalance",
    COLLECTIONS: "pause",
    HOST_EXCHANGED: "slow_worker",
    REPLICA_REMOVED: "slow_worker",
    LIGHTER_REPLICA: "slow_worker",
    OVERLAP: "communication",
    CHECKPOINTS: None,
}
"""By mitigation, the cause that it is for."""

LEAST_OVERLAP: Final = 0.025
"""From this share of the step on, a night has a row for what overlap saves, even if no cause is found."""

MITIGATIONS: Final = Table(
    "mitigations",
    "One row per analysed unit and mitigation of a cause that the unit has; overlap and checkpoint intervals "
    "have a row for each unit for which a saving could be computed. The unit is replayed with the mitigation "
    "in place and all else as recorded: a fix removes all that is uneven, a mitigation only what can be "
    "changed in practice. `straggler mitigate` answers for any unit, and says why there is no answer. "
    "Savings of several mitigations do not add up.",
    grain=(*UNIT_KEY, "mitigation"),
    columns=col.declared(
        """
        log_date, job_id, run_id
        mitigation (text of MITIGATIONS): what is changed
        cause (text? of CAUSES): cause that it is for; null for checkpoint intervals, which no replay judges
        host (text?): host to exchange; null for other mitigations
        plan (text): what to do, in words
        assumes (text): what must hold for that
        step_s (seconds >= 0): recorded step time, T_actual, less the saving
        time_saved_fraction (share): part of the time that the mitigation saves for the same number of
            samples; below 0 where it costs more. For checkpoint intervals: part of the run's time between its
            failures, failures included
        gpu_hours_saved (gpu_hours): gpu_hours of the unit times time_saved_fraction; without a replica, hours
            of its GPUs are saved too
        """,
        own={"MITIGATIONS": tuple(CAUSE_OF)},
    ),
)
