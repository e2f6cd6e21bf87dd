"""The table mitigations: practical remedies for causes, and the time that each would save, by replay."""

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
"""By mitigation, the cause that it reduces; None if it reduces none."""

LEAST_OVERLAP: Final = 0.025
"""A night stores a saving by overlap from this share of the step on, even if communication is no cause."""

MITIGATIONS: Final = Table(
    "mitigations",
    "One row per analysed unit and mitigation for a cause of the unit; overlap and checkpoint intervals "
    "have a row for every unit for which a saving could be computed. The unit is replayed with the "
    "mitigation in place and all else as recorded. A fix removes a cause completely, a mitigation only as "
    "far as is possible in practice. `straggler mitigate` answers for any unit, or says why it cannot. "
    "Savings of several mitigations do not add up.",
    grain=(*UNIT_KEY, "mitigation"),
    columns=col.declared(
        """
        log_date, job_id, run_id
        mitigation (text of MITIGATIONS): what is changed
        cause (text? of CAUSES): cause that the mitigation reduces; null for checkpoint intervals, whose
            saving is computed from run events, not by replay
        host (text?): host to exchange; null for other mitigations
        plan (text): what to do, in words
        assumes (text): conditions under which the saving is right, in words
        step_s (seconds >= 0): recorded step time, T_actual, less the saving
        time_saved_fraction (share): part of the time that the mitigation saves for the same number of
            samples; below 0 if it costs more than it saves. For checkpoint intervals: part of the run's time,
            failures included
        gpu_hours_saved (gpu_hours): gpu_hours of the unit x time_saved_fraction; if a replica is removed,
            also the GPU-hours of its GPUs
        """,
        own={"MITIGATIONS": tuple(CAUSE_OF)},
    ),
)
