"""Test views of health: checks that explain or predict culprits, and culprits without a failed check."""

from datetime import date
from typing import Any

import pytest

from schemas.vocabulary import CAUSE_EVIDENCE, HOST_DAY, HOST_HEALTH, JOB_CAUSES, JOB_SLOWDOWN, MITIGATIONS
from tests.schemas.test_cause_views import UNITS, cause, worker
from tests.schemas.test_views import view
from tests.support.examples import DAY, NEXT_DAY


def evidence(host: str, check: str, **more: object) -> dict[str, Any]:
    return {"job_id": "a", "culprit_host": host, "host": host, "check_name": check, **more}


def health(host: str, check: str, day: date = DAY, **more: object) -> dict[str, Any]:
    return {"log_date": day, "host": host, "check_name": check, **more}


def test_fix_first_says_what_explains_a_host_and_nothing_of_what_only_stands_beside_it() -> None:
    rows = view(
        "fix_first",
        {
            JOB_CAUSES: [cause("a", DAY, 8.0, 8.0, culprits=[worker("x", 0.5), worker("y", 0.5)])],
            JOB_SLOWDOWN: UNITS,
            CAUSE_EVIDENCE: [
                evidence("x", "hot"),
                evidence("x", "hot", log_date=NEXT_DAY),
                evidence("x", "drained", component="node", device=-1),
                evidence("y", "hot", explains=False),
                evidence("y", "hot", cause="pause"),
            ],
        },
    )
    assert {row.host: row.explained_by for row in rows} == {"x": ["gpu 3 hot", "node drained"], "y": None}
    assert [row.lost_gpu_hours for row in rows] == [4.0, 4.0], "several checks do not multiply hours"


def mitigation(name: str, hours: float | None, of: str = "slow_worker", **more: object) -> dict[str, Any]:
    row = {"job_id": "a", "mitigation": name, "cause": of, "gpu_hours_saved": hours}
    return row | {"time_saved_fraction": 0.1, **more}


def test_fix_first_names_the_mitigation_that_saves_most_in_its_units() -> None:
    """fix_first names the mitigation that saves most time in the units of a row.

    Here removing a replica would save the most GPU-hours, but hardly any time, and is not named.
    """
    rows = view(
        "fix_first",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 8.0, culprits=[worker("x", 0.5), worker("y", 0.5)]),
                cause("a", NEXT_DAY, 8.0, 8.0, culprits=[worker("x", 0.5)]),
                cause("b", DAY, 2.0, 2.0, cause="stage_imbalance"),
                cause("c", DAY, 2.0, 2.0, cause="stage_imbalance"),
            ],
            JOB_SLOWDOWN: UNITS,
            MITIGATIONS: [
                mitigation("host exchanged", 6.0, host="x"),
                mitigation("host exchanged", 3.0, host="x", log_date=NEXT_DAY),
                mitigation("lighter microbatches for a slow replica", 11.0),
                mitigation("replica removed", 99.0, time_saved_fraction=0.02),
                mitigation("layers between stages", None, "stage_imbalance", job_id="b"),
            ],
        },
    )
    found = {(row.host, *row.job_ids): (row.mitigation, row.mitigation_gpu_hours) for row in rows}
    assert found == {
        ("x", "a"): ("host exchanged", 9.0),
        ("y", "a"): ("lighter microbatches for a slow replica", 5.5),
        (None, "b"): ("layers between stages", None),
        (None, "c"): (None, None),
    }
    assert sum(row.lost_gpu_hours for row in rows) == 20.0, "several mitigations do not multiply hours"


def test_health_predicts_counts_host_days_that_train() -> None:
    """health_predicts counts (host, day) pairs with training: of 3 with a failed check, 2 are slow."""
    hosts = [{"log_date": day, "host": host} for day in (DAY, NEXT_DAY) for host in ("x", "y", "z")]
    rows = view(
        "health_predicts",
        {
            HOST_DAY: hosts,
            JOB_CAUSES: [cause("a", day, 8.0, 8.0, culprits=[worker("x", 0.5)]) for day in (DAY, NEXT_DAY)],
            JOB_SLOWDOWN: UNITS,
            CAUSE_EVIDENCE: [evidence("x", "hot", device=number) for number in (1, 2)],
            HOST_HEALTH: [
                health("x", "hot"),
                health("x", "hot", device=4),
                health("x", "hot", NEXT_DAY),
                health("y", "hot"),
                health("y", "fan", severity="ok"),
                health("idle", "fan"),
                health("z", "fan"),
            ],
        },
    )
    found = {row.check_name: row for row in rows}
    hot = found["hot"]
    assert (hot.host_days, hot.slow_host_days, hot.explained) == (3, 2, 1)
    assert (hot.slow_share, hot.other_slow_share) == (pytest.approx(2 / 3), 0.0)
    assert hot.lift == pytest.approx((2.5 / 4) / (0.5 / 4))
    assert (found["fan"].host_days, found["fan"].slow_host_days, found["fan"].explained) == (1, 0, 0)


def test_hosts_that_are_slow_with_clean_health_are_listed_on_days_with_health() -> None:
    culprits = [worker(host, 0.5) for host in ("failed", "passed", "silent", "informed")]
    rows = view(
        "slow_with_clean_health",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 8.0, culprits=culprits),
                cause("b", DAY, 4.0, 4.0, culprits=[worker("passed", 0.1)]),
                cause("a", NEXT_DAY, 8.0, 8.0, culprits=culprits),
            ],
            JOB_SLOWDOWN: UNITS,
            HOST_HEALTH: [
                health("failed", "hot"),
                health("failed", "fan", severity="ok"),
                health("passed", "hot", severity="ok"),
                health("informed", "hot", severity="info"),
            ],
        },
    )
    names = ("log_date", "is_watched", "job_ids", "lost_gpu_hours")
    assert {row.host: tuple(row[name] for name in names) for row in rows} == {
        "passed": (DAY, True, ["a", "b"], 6.0),
        "silent": (DAY, False, ["a"], 2.0),
    }
