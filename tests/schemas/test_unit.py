"""A unit is printed as job, run and day, or as the health of hosts on a day, which has no run."""

from schemas.unit import Unit
from tests.support.examples import DAY


def test_a_unit_is_named_as_people_name_it() -> None:
    assert Unit(DAY, "gpt-175b", "r1").words == "gpt-175b, run r1, 2026-01-05"
    assert Unit.of_day(DAY).words == "health of hosts, 2026-01-05"
