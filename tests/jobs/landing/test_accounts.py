"""Types of GPU that rank logs state: into the row of jobs, from all parts of a unit."""

from datetime import date
from typing import Any

from jobs.landing.accounts import CONTRADICTORY, UnitAccount
from schemas.unit import Unit

UNIT = Unit(date(2026, 1, 5), "gpt", "r1")


def account(job: dict[str, Any] | None, **types: str) -> UnitAccount:
    return UnitAccount(UNIT, job, gpu_types={host: set(names.split()) for host, names in types.items()})


def test_what_the_manifest_says_stays_and_lines_add_other_hosts() -> None:
    first = account({"gpu_types": {"a": "H100"}, "left_out": None}, a="A100", b="A100")
    first.add_gpu_types([account(None, c="H100", b="A100")])
    assert first.job == {"gpu_types": {"a": "H100", "b": "A100", "c": "H100"}, "left_out": None}


def test_a_host_of_several_types_is_left_out_and_counted() -> None:
    first = account({"gpu_types": None, "left_out": {"others": 2}}, a="A100", b="A100 H100")
    first.add_gpu_types([account(None, a="H100", c="H100")])
    assert first.job == {"gpu_types": {"c": "H100"}, "left_out": {"others": 2, CONTRADICTORY: 2}}


def test_without_types_nothing_changes_and_further_parts_have_no_row() -> None:
    job: dict[str, Any] = {"gpu_types": None, "left_out": None}
    first, second = account(dict(job)), account(None, a="A100")
    first.add_gpu_types([])
    second.add_gpu_types([])
    assert (first.job, second.job) == (job, None)
