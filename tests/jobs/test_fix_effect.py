"""The command fix-effect finds planted effects of fixes and no others, and reports wrong arguments."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.fix_effect import main
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, WORKER_SLOWDOWN
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, table_rows

SPAN = 5
FIXED = DAY + timedelta(days=SPAN)
EARLY = DAY - timedelta(days=100)
LAST = DAY + timedelta(days=2 * SPAN - 1)
ALL_DAYS = f"10 days, {DAY} to {LAST}"
Row = dict[str, Any]
Found = Callable[..., dict[str, Row]]


def units() -> tuple[list[Row], list[Row], list[Row]]:
    """Return results, manifests and workers of two teams on days before and after a change.

    The change reduces the waste of team speech, and the slowdown of the hosts sick-0 to sick-3.
    """
    results, manifests, workers = [], [], []
    for since in range(2 * SPAN):
        is_after = since >= SPAN
        for team in ("speech", "vision"):
            for number in range(4):
                key = {"log_date": DAY + timedelta(days=since), "job_id": f"{team}-{number}"}
                waste = (0.1 if is_after else 0.3) if team == "speech" else 0.2
                waste += 0.01 * ((since + number) % 3)
                results.append(key | {"waste_fraction": waste, "gpu_hours": 100.0})
                label = "on" if is_after and team == "speech" else "off"
                manifests.append(key | {"team": team, "labels": {"balancing": label}})
                for host, slowdown in (("sick", 1.0 if is_after else 1.4), ("well", 1.01)):
                    exact = slowdown + 0.001 * ((since + number) % 3)
                    workers.append(key | {"host": f"{host}-{number}", "pp_rank": number, "slowdown": exact})
    left_out = [
        each | {"job_id": "out", "status": "too_few_steps", "waste_fraction": 0.9} for each in results
    ]
    once = {"log_date": EARLY, "job_id": "once"}
    manifests += [once, {"log_date": DAY, "job_id": "out"}]
    return [*results, *left_out[:1], once | {"waste_fraction": 0.2}], manifests, workers


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    names = (JOB_SLOWDOWN, JOBS, WORKER_SLOWDOWN)
    tables = {name: table_rows(name, rows) for name, rows in zip(names, units(), strict=True)}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **tables).root


@pytest.fixture
def found(ask: Ask) -> Found:
    """Function that runs fix_effect and returns its rows by their column `compared`."""

    def rows(*arguments: str) -> dict[str, Row]:
        said = ask(main, "--date", FIXED, "--format", "json", *arguments)
        return {row["compared"]: row for row in json.loads(said.out)}

    return rows


def test_a_team_gets_better_and_all_others_do_not(found: Found) -> None:
    rows = found("--team", "speech")
    assert rows["chosen"]["effect"] == pytest.approx(-0.2, abs=0.01)
    assert rows["chosen"]["low"] < -0.2 < rows["chosen"]["high"] < 0
    assert (rows["chosen"]["verdict"], rows["chosen"]["before"]) == ("better", 4)
    assert rows["chosen"]["saved_gpu_hours"] == pytest.approx(0.2 * 4 * SPAN * 100, rel=0.05)
    assert rows["chosen, same jobs"]["verdict"] == "better"
    assert rows["all others"]["verdict"] == "not enough evidence: the interval holds 0"


def test_people_read_what_the_means_are_of(ask: Ask) -> None:
    said = ask(main, "--date", FIXED, "--fleet")
    assert (
        said.err
        == "means are of waste, 1 - 1/slowdown, which is not what is lost; an effect below 0 is a saving\n"
    )


def test_a_setting_is_compared_with_days_without_it(found: Found) -> None:
    rows = found("--team", "speech", "--label", "balancing=on")
    assert (rows["chosen"]["after"], rows["chosen"]["verdict"]) == (4, "better")
    fleet = found("--fleet", "--label", "balancing=on")
    assert (fleet["chosen"]["before"], fleet["chosen"]["after"]) == (8, 4)
    assert (fleet["all others"]["before"], fleet["all others"]["after"]) == (8, 4)
    answer = found("--fleet", "--label", "balancing=sometimes")
    assert answer["chosen"]["verdict"] == "not enough evidence: 0 jobs after, wanted 3"


def test_a_job_by_its_days_within_the_window(found: Found) -> None:
    rows = found("--job-id", "speech-0", "--days", "4")
    assert (rows["chosen"]["trials"], rows["chosen"]["before"], rows["chosen"]["after"]) == ("units", 4, 4)
    assert rows["chosen"]["verdict"] == "better"
    short = found("--job-id", "speech-0", "--days", "2")
    assert short["chosen"]["verdict"] == "not enough evidence: 2 units before and 2 units after, wanted 3"


def test_two_runs_of_a_job_on_one_day_are_two_units_and_people_read_what_a_unit_is(
    tmp_path: Path, ask: Ask
) -> None:
    """Two runs on one day count as two units, so that the two days after the change have three."""
    keys = [
        {"log_date": FIXED + timedelta(days=since), "job_id": "again", "run_id": run}
        for since, run in ((-1, "r1"), (0, "r1"), (0, "r2"), (1, "r2"))
    ]
    tables = {
        JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN, [key | {"waste_fraction": 0.1} for key in keys]),
        JOBS: table_rows(JOBS, keys),
    }
    root = warehouse_of(tmp_path, **tables).root
    asked = ("--warehouse", root, "--date", FIXED, "--job-id", "again")
    (row, _) = json.loads(ask(main, *asked, "--format", "json").out)
    assert (row["trials"], row["before"], row["after"]) == ("units", 1, 3)
    assert row["verdict"] == "not enough evidence: 1 unit before, wanted 3"
    assert ask(main, *asked).err.endswith("; a unit is one run on one day\n")


def test_a_host_beside_the_others_of_its_jobs(found: Found) -> None:
    rows = found("--host", "sick-0", "--confidence", "0.5")
    assert rows["chosen"]["mean_before"] == pytest.approx(1 - 1 / 1.401, abs=1e-3)
    assert rows["chosen"]["effect"] == pytest.approx(1 / 1.401 - 1, abs=2e-3)
    assert rows["chosen"]["saved_gpu_hours"] is None
    others = rows["other hosts of speech-0"]
    assert others["mean_after"] == pytest.approx(1 - 1 / 1.011, abs=1e-3)
    assert (others["trials"], others["before"], others["after"]) == ("units", SPAN, SPAN)
    assert list(rows) == [
        "chosen", "chosen, same jobs", "other hosts of speech-0", "other hosts of vision-0",
    ]  # fmt: skip


def test_a_host_of_other_days_is_one_line_with_its_days(ask: Ask) -> None:
    late = FIXED + timedelta(days=100)
    said = ask(main, "--date", late, "--host", "sick-0")
    assert (said.status, said.out) == (2, "")
    window = (
        f"from {late - timedelta(days=28)} to {late + timedelta(days=27)}, the 28 days on each side of {late}"
    )
    assert said.err == (
        f"fix_effect: error: host sick-0 served no replayed job {window}; it served on {ALL_DAYS}\n"
    )


@pytest.mark.parametrize(
    ("chosen", "days", "says"),
    [
        (("--job-id", "speech-0"), 28, "job speech-0 was not analysed {}; it was on {}"),
        (("--job-id", "once"), 1, f"job once was not analysed {{}}; it was on {EARLY}"),
        (("--job-id", "out"), 28, "job out was not analysed {}, nor on any other day"),
        (("--team", "speech"), 2, "no job of team speech was analysed {}; some were on {}"),
        (("--fleet",), 1, f"no job was analysed {{}}; some were on 11 days, {EARLY} to {LAST}"),
    ],
)
def test_what_was_analysed_on_other_days_alone_is_one_line_with_the_days(
    ask: Ask, chosen: tuple[str, ...], days: int, says: str
) -> None:
    late = FIXED + timedelta(days=100)
    said = ask(main, "--date", late, *chosen, "--days", days)
    first, last = late - timedelta(days=days), late + timedelta(days=days - 1)
    sides = "the day" if days == 1 else f"the {days} days"
    window = f"from {first} to {last}, {sides} on each side of {late}"
    wanted = f"fix_effect: error: {says.format(window, ALL_DAYS)}\n"
    assert said == (2, "", wanted)


def test_a_job_that_was_not_analysed_in_the_window_is_no_comparison(ask: Ask) -> None:
    """A job is refused if none of its days in the window was analysed, whatever their statuses are."""
    said = ask(main, "--date", FIXED, "--job-id", "out")
    assert said.status == 2
    assert said.err.startswith("fix_effect: error: job out was not analysed from ")
