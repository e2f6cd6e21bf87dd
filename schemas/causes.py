"""Causes of slowness, each declared once with all that tables, pages and documents say about it.

Standard library only, as the vocabulary, whose names of causes and flags come from here.
"""

from typing import Final, NamedTuple


class Cause(NamedTuple):
    """A cause of slowness: its name in tables and commands, and what people read about it.

    words     : what it is called in texts
    advice    : what fixes it
    fix       : what its fix changes in the replay
    found_by  : how the diagnosis finds it
    indicator : meaning of the paper's indicator, which its evidence has
    only_where : whose units have rows of it, where only some logs can show it
    in_seconds : whether its effect is seconds longer per step that it strikes, not a share of the usual time
    of_machine : whether another machine would not have it, if its culprit is one; others lie in the job
    is_of_job_if_spread : whether it lies in the job, and in no host, where no host has half of it
    """

    name: str
    words: str
    advice: str
    fix: str
    found_by: str
    indicator: str = ""
    only_where: str = ""
    in_seconds: bool = False
    of_machine: bool = False
    is_of_job_if_spread: bool = False

    @property
    def title(self) -> str:
        """The cause in words, followed in brackets by its name if the name is different."""
        return self.words + (f" ({self.name})" if self.words != self.name.replace("_", " ") else "")


DECLARED: Final = (
    Cause(
        "slow_worker",
        words="slow worker",
        advice="repair or replace the host, or exclude it",
        fix="computes, optimizer, clip, gc and entries into collectives are as its peers'",
        found_by="the level of a worker in each step, by direction, against the lower median of its stage in "
        "that step; of stages, against their own fast steps",
        indicator="with the slowest 3 % of workers ideal, {share} of the waste goes (M_W)",
        of_machine=True,
    ),
    Cause(
        "stage_imbalance",
        words="uneven stages",
        advice="move layers, or the loss, between pipeline stages",
        fix="the work is spread evenly over stages and chunks, its sum kept",
        found_by="work per stage, direction and chunk: a constant, and a part proportional to the data",
        indicator="with the last stage ideal, {share} of the waste goes (M_S)",
    ),
    Cause(
        "data_imbalance",
        words="uneven data",
        advice="give every microbatch of a step the same work",
        fix="the work is spread evenly over microbatches and dp ranks within a step, its sum kept",
        found_by="weights of microbatches on which two halves of the stages agree",
        indicator="forward and backward times of a microbatch rise and fall together with a correlation of "
        "{number}, where 1 is always",
    ),
    Cause(
        "pause",
        words="pauses",
        advice="check what pauses these workers: garbage collection, checkpoints, power, storage",
        fix="no additive spikes in computes, optimizer and clip",
        found_by="residuals above 16 % (a log factor of 0.15) and 6 MAD",
        in_seconds=True,
        is_of_job_if_spread=True,
    ),
    Cause(
        "communication",
        words="slow transfers",
        advice="check the links between these workers",
        fix="transfers take the usual time of their kind",
        found_by="transfers above 1.8 times the usual; steps in which all transfers of one kind are slow, "
        "against the fastest steps that agree",
        in_seconds=True,
        of_machine=True,
    ),
    Cause(
        "launch_delay",
        words="late starts",
        advice="load data ahead: the step waits for it before its first op",
        fix="the first forward-compute and the first data-load of a stage, and gathers that wait for "
        "nothing, start at once, or after all gathers where the job gathers all parameters first",
        found_by="recorded delays of those ops alone: others are mostly waiting",
        in_seconds=True,
    ),
    Cause(
        "data_loading",
        words="slow loading",
        advice="load further ahead, with more loaders, or check the storage that these workers read",
        fix="data-loads take the usual time of their stage",
        found_by="recorded data-loads above 1.8 times the usual, found as transfers are",
        only_where="the log has data-loads",
        in_seconds=True,
    ),
    Cause(
        "mixed_hardware",
        words="unlike GPUs",
        advice="run the job on one type of GPU, or give the slower ones less work",
        fix="computes on slower types of GPU take as long as on the fastest",
        found_by="types stated by host, compared within stages",
        only_where="workers are on two known types of GPU",
    ),
    Cause(
        "unexplained",
        words="unexplained",
        advice="no cause holds for this loss: it is too small, or evidence is missing; compare the timeline "
        "of a slow step with that of a usual step",
        fix="no deviation beyond the noise, beside all fixes",
        found_by="steps in which all workers are slow, single steps of one worker, one microbatch of "
        "one stage",
    ),
)
"""In the order of the kernel's codes; all but the last have a fix that is replayed. Names are stored, codes
are not."""

OF_CAUSE: Final = {each.name: each for each in DECLARED}
"""Causes by their name."""
IN_SECONDS: Final = tuple(each.name for each in DECLARED if each.in_seconds)
"""Causes whose effect is seconds longer per step that they strike; of others a share of the usual time."""

JUDGED_BY_HISTORY: Final = "judged_by_history"
"""Flag of a cause decided by other jobs or earlier days, because the unit's steps could not."""
NOBODY_LATE: Final = "nobody_late"
"""Flag of a cause in a unit where all workers wait for long in steps in which no worker is late."""
OF_FLAG: Final = {
    "few_steps": "from few steps",
    "few_peers": "few workers to compare with",
    "slow_worker_or_stage_imbalance": "with one replica, or all of a stage on one host, a slow worker and a "
    "heavy stage look the same",
    "slow_worker_or_data_imbalance": "with one stage a slow worker and longer data look the same",
    "no_usual_transfer": "no usual transfer to compare with",
    "many_slow_workers": "too many workers are slow to know the usual time",
    "clock_skew": "the clocks of the hosts are too far apart",
    "mostly_unexplained": "most of the loss has no known cause",
    "high_discrepancy": "replay and recording are more than 5 % apart",
    "mixed_hardware_or_stage_imbalance": "types of GPU share no stage: slow types look like heavy stages",
    "mixed_hardware_or_slow_worker": "a slower type is on one host only, which may be slow whatever its type",
    NOBODY_LATE: "all workers wait for long in reduce-scatters, though no worker comes late: a worker that "
    "is slow in its own reduce-scatter looks like a slow network",
    JUDGED_BY_HISTORY: "other jobs or earlier days decided",
}
"""Why to trust a cause less than others, in words; all but the last two in the order of the kernel's codes
from 1 on (0: no reason)."""
FLAG_REASONS: Final = tuple(name for name in OF_FLAG if name not in (NOBODY_LATE, JUDGED_BY_HISTORY))
