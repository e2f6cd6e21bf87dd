"""Causes of slowness, each declared once with all texts about it that tables and pages contain.

This module imports only the standard library, because schemas.vocabulary, which DAGs import, takes the names
of causes and flags from here.
"""

from typing import Final, NamedTuple


class Cause(NamedTuple):
    """A cause of slowness: its name in tables and commands, and the texts about it.

    words     : its name in texts
    advice    : what to do about it
    fix       : what changes in the replay in which it is fixed
    found_by  : how the diagnosis finds it
    indicator : meaning of the paper's indicator for it, a part of its evidence; empty: the paper has none
    only_where : condition under which a unit has a row of it; empty: every replayed unit has one
    in_seconds : whether `effect` of its culprits is in seconds per affected step; else a share of the usual
        time
    of_machine : whether it can lie in a machine, so that another machine would end it; else it lies in the
        job
    is_of_job_if_spread : whether it counts as lying in the job unless one host accounts for at least half of
        it
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
        """The cause in words, followed by its name in brackets if the words differ from the name."""
        return self.words + (f" ({self.name})" if self.words != self.name.replace("_", " ") else "")


DECLARED: Final = (
    Cause(
        "slow_worker",
        words="slow worker",
        advice="repair or replace the host, or exclude it",
        fix="its computes, optimizer, clip, gc and entries into collectives take as long as its peers'",
        found_by="a worker's time in each step, by direction, compared with the lower median of its stage in "
        "that step; a stage's time, compared with its own fast steps",
        indicator="with the slowest 3 % of workers ideal, {share} of the waste goes (M_W)",
        of_machine=True,
    ),
    Cause(
        "stage_imbalance",
        words="uneven stages",
        advice="move layers, or the loss, between pipeline stages",
        fix="the work is spread evenly over stages and chunks, its sum kept",
        found_by="work per stage, direction and chunk, fitted as a constant plus a part linear in the data",
        indicator="with the last stage ideal, {share} of the waste goes (M_S)",
    ),
    Cause(
        "data_imbalance",
        words="uneven data",
        advice="give every microbatch of a step the same work",
        fix="the work is spread evenly over microbatches and dp ranks within a step, its sum kept",
        found_by="weights of microbatches, if the two halves of the stages give similar weights",
        indicator="forward and backward times of a microbatch rise and fall together with a correlation of "
        "{number}, where 1 is always",
    ),
    Cause(
        "pause",
        words="pauses",
        advice="check what pauses these workers: garbage collection, checkpoints, power, storage",
        fix="computes, optimizer and clip lose their additive spikes",
        found_by="residuals above 16 % (a log factor of 0.15) and 6 MAD",
        in_seconds=True,
        is_of_job_if_spread=True,
    ),
    Cause(
        "communication",
        words="slow transfers",
        advice="check the links between these workers",
        fix="transfers take the usual time of their kind",
        found_by="transfers above 1.8 times the usual time; steps in which all transfers of a kind are slow, "
        "compared with the fastest steps that agree with each other",
        in_seconds=True,
        of_machine=True,
    ),
    Cause(
        "launch_delay",
        words="late starts",
        advice="load data ahead, because steps wait for data before their first op",
        fix="the first forward-compute and the first data-load of a stage, and gathers that wait for no op, "
        "start at once; if the job gathers all parameters first, the compute starts after all gathers",
        found_by="recorded delays of these ops; delays of other ops are mostly waiting for other workers",
        in_seconds=True,
    ),
    Cause(
        "data_loading",
        words="slow loading",
        advice="load further ahead, with more loaders, or check the storage that these workers read",
        fix="data-loads take the usual time of their stage",
        found_by="recorded data-loads above 1.8 times the usual time, by the same method as for transfers",
        only_where="the log has data-loads",
        in_seconds=True,
    ),
    Cause(
        "mixed_hardware",
        words="unlike GPUs",
        advice="run the job on one type of GPU, or give the slower GPUs less work",
        fix="computes on slower types of GPU take as long as on the fastest",
        found_by="types stated by host, compared within stages",
        only_where="workers are on two known types of GPU",
    ),
    Cause(
        "unexplained",
        words="unexplained",
        advice="no cause holds for this loss: it is too small, or evidence is missing; compare the timeline "
        "of a slow step with that of a usual step",
        fix="all causes are fixed, and all other deviations beyond the noise removed",
        found_by="steps in which all workers are slow, single steps of one worker, one microbatch of "
        "one stage",
    ),
)
"""All causes, in the order of the kernel's codes; all but the last have a fix that is replayed. Tables store
names, never codes."""

OF_CAUSE: Final = {each.name: each for each in DECLARED}
"""Causes by their name."""
IN_SECONDS: Final = tuple(each.name for each in DECLARED if each.in_seconds)
"""Causes whose culprits' `effect` is in seconds per affected step; for others it is a share of usual time."""

JUDGED_BY_HISTORY: Final = "judged_by_history"
"""Flag of a cause that other jobs or earlier days decided, because the unit's own steps were not enough."""
NOBODY_LATE: Final = "nobody_late"
"""Flag of causes of a unit with steps in which all workers wait long in reduce-scatters, but none is late."""
OF_FLAG: Final = {
    "few_steps": "from few steps",
    "few_peers": "few workers to compare with",
    "slow_worker_or_stage_imbalance": "with one replica, or all of a stage on one host, a slow worker and a "
    "heavy stage look the same",
    "slow_worker_or_data_imbalance": "with one stage a slow worker and longer data look the same",
    "no_usual_transfer": "no usual transfer to compare with",
    "many_slow_workers": "too many workers are slow, so that the usual time is not known",
    "clock_skew": "the clocks of the hosts are too far apart",
    "mostly_unexplained": "most of the loss has no known cause",
    "high_discrepancy": "replay and recording are more than 5 % apart",
    "mixed_hardware_or_stage_imbalance": "types of GPU share no stage: slow types look like heavy stages",
    "mixed_hardware_or_slow_worker": "a slower type is on one host only, which may be slow whatever its type",
    NOBODY_LATE: "all workers wait for long in reduce-scatters, though no worker comes late: a worker that "
    "is slow in its own reduce-scatter looks like a slow network",
    JUDGED_BY_HISTORY: "other jobs or earlier days decided",
}
"""By flag, the reason why a cause is less reliable. All but the last two are in the order of the kernel's
codes, which begin at 1 (0: no flag)."""
FLAG_REASONS: Final = tuple(name for name in OF_FLAG if name not in (NOBODY_LATE, JUDGED_BY_HISTORY))
