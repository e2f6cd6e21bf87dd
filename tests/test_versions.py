"""Results change only if the version of the component that computes them changes too."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from schemas.vocabulary import CAUSE_UNEXPLAINED, CAUSES, JOB_CAUSES, JOB_SLOWDOWN, STATUSES, Status
from tests import record_versions
from tests.record_versions import (
    VERSIONED,
    Results,
    digest,
    record,
    recorded,
    simulated,
    simulated_later,
    simulated_mistaken,
    simulated_parts,
)
from tests.support.golden_revision import golden_revision

COMMAND = "python -m tests.record_versions"


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return simulated() | simulated_later() | simulated_parts() | simulated_mistaken()


@pytest.mark.parametrize("name", VERSIONED)
def test_a_version_computes_what_it_always_did(name: str) -> None:
    own = VERSIONED[name]
    advice = (
        f"what {name} {own.version} computes has changed: raise {own.raised_in}, then run {COMMAND} to record"
    )
    assert recorded().get(name, {}).get(own.version) == digest(own.compute()), advice


def test_the_golden_units_have_every_status_and_cause(results: dict[str, Results]) -> None:
    """The golden units have every status except internal errors, and every cause except unexplained loss."""
    statuses = {tables[JOB_SLOWDOWN]["status"][0].as_py() for tables in results.values()}
    assert statuses == set(STATUSES) - {Status.FAILED}
    causes = pa.concat_tables([tables[JOB_CAUSES] for tables in results.values()])
    present = set(causes.filter(causes["is_cause"])["cause"].to_pylist())
    assert present >= set(CAUSES) - {CAUSE_UNEXPLAINED}


def test_the_golden_revision_decides_in_every_way() -> None:
    rows = golden_revision()[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")
    decided = {(row["job_id"], row["cause"]): row["is_cause"] for row in rows if row["unrevised"]}
    assert decided == {
        ("slow-stage", "slow_worker"): True,
        ("slow-stage", "stage_imbalance"): False,
        ("heavy-stage", "slow_worker"): False,
        ("heavy-stage", "stage_imbalance"): True,
        ("known-host", "slow_worker"): True,
        ("known-host", "stage_imbalance"): False,
        ("slow-link", "communication"): True,
    }


@pytest.mark.parametrize(("factor", "is_same"), [(1 + 1e-13, True), (1 + 1e-6, False)])
def test_a_digest_knows_a_change_from_rounding(
    results: dict[str, Results], factor: float, is_same: bool
) -> None:
    tables = results["pause"]
    jobs = tables[JOB_SLOWDOWN]
    place = jobs.column_names.index("slowdown")
    changed = jobs.set_column(place, "slowdown", pc.multiply(jobs["slowdown"], factor))
    other = results | {"pause": tables | {JOB_SLOWDOWN: changed}}
    assert (digest(other) == digest(results)) is is_same


def test_a_recorded_digest_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = recorded()["revise"]
    assert record("revise", dict(versions)).startswith(f"revise {VERSIONED['revise'].version}: ")
    none: Results = {}
    monkeypatch.setitem(
        record_versions.VERSIONED, "revise", VERSIONED["revise"]._replace(compute=lambda: {"all": none})
    )
    with pytest.raises(SystemExit, match="has another digest: raise REVISION_VERSION in udfs/revise"):
        record("revise", dict(versions))
