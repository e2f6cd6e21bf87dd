"""Parts of a run's time are compared with the expectations of another project's tests of goodput.

The scenarios are those of ml-goodput-measurement's tests (github.com/AI-Hypercomputer/ml-goodput-measurement,
ml_goodput_measurement/tests/goodput_test.py, commit 57092cf), written as events of a run: five steps of 3 s
after a start-up of 5 s; a disruption lasts 5 s, and a slow first step takes 5 s longer. `theirs` are the
seconds that the other tests expect in a bucket, or as productive time. `ours` are all parts of the time here,
which add up to the elapsed time. The other tests of anomalous steps are switched off, and have no scenario
here.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.udfs.simulate.test_effective_time import Event, event, seconds


class Scenario(NamedTuple):
    """Events of a run, and how its time was spent. [s]

    source : the other project's test that expects these figures
    """

    source: str
    events: list[Event]
    elapsed_s: float
    theirs: Mapping[str, float]
    ours: Mapping[str, float]


INTERRUPTED = [event("start", 0), event("first_step", 5, 0), event("step", 13, 1), event("step", 22, 4)]
"""Events of five steps, of which the first takes 5 s longer; no event shows the end of the last step."""
AGAIN = [event("restart", 30, 2), event("first_step", 35, 2), event("step", 43, 3), event("stop", 49, 5)]
"""Events after a disruption: 5 s of start-up, then the third step again and the next two."""

SCENARIOS = {
    "no badput but the start": Scenario(
        "GoodputTest.test_goodput_calculator",
        [event("start", 0), event("first_step", 5, 0), event("stop", 20, 5)],
        20,
        {"productive": 15},
        {"productive": 15, "startup": 5},
    ),
    "a slow first step": Scenario(
        "GoodputTest.test_goodput_with_startup_badput",
        [event("start", 0), event("first_step", 5, 0), event("step", 13, 1), event("stop", 25, 5)],
        25,
        {"productive": 15},
        {"productive": 15, "startup": 5, "unknown": 5},
    ),
    "all steps again": Scenario(
        "GoodputDisruptionCompleteRestartTest.test_goodput_calculator",
        [
            event("start", 0), event("first_step", 5, 0), event("failure", 20, 5),
            event("restart", 25, 0), event("first_step", 30, 0), event("step", 36, 2),
        ],
        38,
        {"productive": 6},
        {"productive": 6, "startup": 10, "lost_work": 15, "outage": 5, "unknown": 2},
    ),
    "some steps again": Scenario(
        "GoodputDisruptionPartialRestartTest.test_goodput_calculator",
        [
            event("start", 0), event("first_step", 5, 0), event("failure", 20, 5),
            event("restart", 25, 2), event("first_step", 30, 2), event("step", 36, 4),
        ],
        41,
        {"productive": 12},
        {"productive": 12, "startup": 10, "lost_work": 9, "outage": 5, "unknown": 5},
    ),
    "initialisation and preparation": Scenario(  # two of their buckets are one part here
        "BadputTest.test_badput_calculator_training_preparation",
        [event("start", 0), event("first_step", 3, 0), event("stop", 18, 5)],
        18,
        {"tpu_initialization": 1, "training_prep": 2},
        {"productive": 15, "startup": 3},
    ),
    "data loaded before the first step": Scenario(
        "BadputTest.test_badput_calculator_sync_data_loading",
        [
            event("start", 0), event("data_loading", 3, None, 2),
            event("first_step", 5, 0), event("stop", 20, 5),
        ],
        20,
        {"data_loading_sync": 2},
        {"productive": 15, "startup": 3, "data_loading": 2},
    ),
    "steps lost, and no event of the failure": Scenario(
        "BadputTest.test_badput_calculator_wasted_progress_and_disruptions",
        [*INTERRUPTED, *AGAIN],
        49,
        {"wasted_progress_from_disruption": 6},
        {"productive": 15, "startup": 10, "lost_work": 6, "unknown": 18},
    ),
    "the same, with the event": Scenario(  # their loss begins at the last step, ours at the failure
        "BadputTest.test_badput_calculator_infrastructure_badput_from_disruption",
        [*INTERRUPTED, event("failure", 25, 5), *AGAIN],
        49,
        {"infrastructure_recovery_from_disruption": 8},
        {"productive": 15, "startup": 10, "lost_work": 9, "outage": 5, "unknown": 10},
    ),
    "time after the last step": Scenario(
        "BadputTest.test_badput_calculator_unknown_badput",
        [event("start", 0), event("first_step", 6, 0), event("stop", 26, 5)],
        26,
        {"other": 5},
        {"productive": 15, "startup": 6, "unknown": 5},
    ),
    "an evaluation": Scenario(
        "BadputTest.test_badput_calculator_custom_sync_badput",
        [
            event("start", 0), event("first_step", 6, 0),
            event("evaluation", 21, 5, 5), event("stop", 41, 10),
        ],
        41,
        {"productive": 30, "custom_badput_events": 5},
        {"productive": 30, "startup": 6, "evaluation": 5},
    ),
    "a checkpoint": Scenario(  # the 6 s pass in the run here; in the other test they overlap training
        "BadputTest.test_badput_calculator_checkpoint_badput",
        [event("start", 0), event("first_step", 5, 0), event("checkpoint", 11, 2, 6), event("stop", 26, 5)],
        26,
        {"unproductive_checkpoint_save_time": 6},
        {"productive": 15, "startup": 5, "checkpoint": 6},
    ),
}  # fmt: skip
SAME = {
    "productive": "productive",
    "data_loading_sync": "data_loading",
    "custom_badput_events": "evaluation",
    "unproductive_checkpoint_save_time": "checkpoint",
    "other": "unknown",
    "wasted_progress_from_disruption": "lost_work",
}
"""Buckets of the other project that equal a part here in every scenario, with the name of the part."""


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_has_the_parts_here_and_the_buckets_there(scenario: Scenario) -> None:
    ours = seconds(scenario.events, scenario.elapsed_s / 3600, step_s=3.0)
    assert ours == scenario.ours
    for bucket, theirs in scenario.theirs.items():
        assert bucket not in SAME or ours[SAME[bucket]] == theirs, scenario.source


def test_the_first_buckets_of_a_start_are_one_part_here() -> None:
    theirs = SCENARIOS["initialisation and preparation"].theirs
    assert sum(theirs.values()) == SCENARIOS["initialisation and preparation"].ours["startup"]


def test_the_time_of_recovery_there_is_outage_and_the_last_step_here() -> None:
    quiet, failed = (
        SCENARIOS[name] for name in ("steps lost, and no event of the failure", "the same, with the event")
    )
    last_step_s = failed.ours["lost_work"] - quiet.ours["lost_work"]
    assert failed.theirs["infrastructure_recovery_from_disruption"] == failed.ours["outage"] + last_step_s
