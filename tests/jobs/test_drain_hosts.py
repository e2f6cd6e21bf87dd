"""Test the command drain, its rows in a night's summary and on pages, and how drains are evaluated."""

import json
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pytest

from jobs.drain_hosts import main
from jobs.report.news_words import advised, drain_row, drain_rows, drain_text
from jobs.synthetic.fleet import SHIFTS, SickSpell
from schemas.vocabulary import JOB_CAUSES
from tests.evaluation import drain, faults
from tests.evaluation.drain_fleets import World
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.schemas.test_drain import fleet
from tests.support.examples import DAY, culprit, table_rows

COURSES = {"node-1": "..xxx", "node-2": "x....", "node-3": "....."}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = {name: table_rows(name, rows) for name, rows in fleet(COURSES).items()}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **tables).root


def test_hosts_by_what_a_drain_returns(ask: Ask) -> None:
    status, out, _ = ask(main, "--format", "json")
    rows = json.loads(out)
    assert (status, [row["host"] for row in rows]) == (0, ["node-1", "node-2"])
    first, second = rows
    assert (first["verdict"], first["state"], first["days_slow_in_row"]) == ("drain", "slow_2_or_3_days", 3)
    assert first["cost_gpu_hours"] == pytest.approx(8 * 0.5 + 4 * 24)  # with the default settings
    assert second["state"] == "quiet_after_one"
    assert ask(main, "--days", "61").status == 2
    longer = json.loads(ask(main, "--format", "json", "--days", "30").out)
    assert longer[0]["expected_gpu_hours"] > first["expected_gpu_hours"]
    earlier = json.loads(ask(main, "--format", "json", "--as-of", str(DAY)).out)
    assert [(row["host"], row["state"]) for row in earlier] == [("node-2", "slow_1_day")]


def test_people_are_told_what_to_do_and_when_not_to(ask: Ask) -> None:
    status, out, err = ask(main)
    assert status == 0
    assert "node-1" in out
    said = (
        "drain node-1: 329 GPU-hours expected back in 7 days (141 to 624), at a cost of 100; "
        "slow for 3 days in a row; not worth it if it stays slow for less than 1.0 days"
    )
    assert said in err
    assert "node-2" not in err


def test_a_page_shows_the_evidence(ask: Ask) -> None:
    rows = json.loads(ask(main, "--format", "json").out)
    shown = drain_row(rows[0])
    assert shown == {
        "host": "node-1", "verdict": "yes, even at the low end",
        "expected": "329 (141 to 624)", "cost": "100",
        "chance": "47.0 % of days, by no host: the prior alone", "share": "10.0 % of 1,000 GPU-hours a day",
        "state": "slow for 3 days in a row", "until": "1.0 days", "is_worth_it": True,
    }  # fmt: skip
    hidden = drain_row(rows[0] | {"share_saved": 0.06})
    assert hidden["share"] == "6.0 % of 1,000 GPU-hours a day"
    alone = "of the 10.0 % lost to it a drain alone saves 6.0 %: another cause hides the rest"
    assert hidden["state"] == f"slow for 3 days in a row; {alone}"
    assert advised(rows) == rows[:1]
    unknown = rows[0] | dict.fromkeys(("expected_gpu_hours", "break_even_days")) | {"verdict": "unknown"}
    assert (drain_row(unknown)["verdict"], advised([unknown])) == (
        "not known: no GPU-hours stated, or 0",
        [],
    )
    assert drain_text(rows[0] | {"verdict": "probably"}, 7).startswith("probably drain node-1: ")


def test_no_host_to_drain_is_said(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = fleet({"node-3": "....."})
    tables = {name: table_rows(name, rows) for name, rows in healthy.items()}
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", warehouse_of(tmp_path, **tables).root)
    assert "no host to drain" in ask(main).err
    assert "there is no data up to 0001-01-01; the first day is 20" in ask(main, "--as-of", "0001-01-01").err


def test_hosts_that_stay_in_service_say_why(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = fleet({"node-1": "xx-", "node-2": "xxx", "node-3": "x..", "node-4": "..x"})
    at = datetime.combine(DAY, time(8), UTC)
    idle[JOB_CAUSES][-1]["culprits"] = [
        culprit(0.5, 0.5, host="node-4", course="until", first_step=0, last_step=49, last_time=at)
    ]
    tables = {name: table_rows(name, rows) for name, rows in idle.items()}
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", warehouse_of(tmp_path, **tables).root)
    said = ask(main).err
    assert (
        f"do not drain node-1 now: slow for 2 days in a row; no job used it on {DAY + timedelta(2)}" in said
    )
    assert "drain node-2" in said
    assert "do not drain node-4 now: healthy again: slow until step 49, 08:00 UTC, of" in said
    assert "node-3" not in said


def test_hosts_that_no_job_uses_do_not_hide_the_one_to_drain(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = fleet({**{f"idle-{number:02}": "xxxx-" for number in range(12)}, "node-1": "xxxxx"})
    tables = {name: table_rows(name, rows) for name, rows in many.items()}
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", warehouse_of(tmp_path, **tables).root)
    found = json.loads(ask(main, "--format", "json").out)
    assert [row["host"] for row in found[:1]] == ["node-1"]
    assert {row["is_idle"] for row in found[1:]} == {True}
    said = ask(main).err
    assert "drain node-1: " in said
    assert "shown: only the first 10 hosts (--limit 0 shows all)" in said


def test_a_host_of_two_groups_is_advised_with_one_of_them(ask: Ask) -> None:
    (row, *_) = json.loads(ask(main, "--format", "json").out)
    together = {"verdict": "probably", "together_gpu_hours": 600.0, "together_cost_gpu_hours": 100.0}
    a, b, c, d = (
        row | together | {"host": host, "together_hosts": others}
        for host, others in (("b", ["a", "c"]), ("a", ["b"]), ("c", ["b"]), ("d", None))
    )
    assert [each["host"] for each in advised([a, b, c, d])] == ["b", "d"]
    shown = drain_rows(
        [a | dict.fromkeys(("together_low", "together_high", "together_break_even_days"), 1.0), d]
    )
    assert [(each["is_worth_it"], each["expected"].split()[0], each["cost"]) for each in shown] == [
        (True, "600", "100"),
        (True, "329", "100"),
    ]


def test_a_day_after_the_data_is_answered_for_the_last_day_and_says_so(ask: Ask) -> None:
    last = DAY + timedelta(4)
    asked = last + timedelta(5)
    said = f"as of {last}, the last day with data up to {asked}: 5 days before"
    assert said in ask(main, "--as-of", str(asked)).err
    status, out, err = ask(main, "--as-of", str(asked), "--format", "json")
    assert (status, json.loads(out)[0]["as_of_day"]) == (0, str(last))
    assert said in err
    assert "as of" not in ask(main, "--as-of", str(last)).err
    long_after = last + timedelta(60)
    said = f"no host to drain: the last day with data up to {long_after} is {last}, 60 days before"
    assert said in ask(main, "--as-of", str(long_after)).err


def test_the_evaluation_drains_a_slow_host_and_counts_what_that_returns() -> None:
    world = World(20, jobs=1, days=6, most_ops=500)
    (job,) = world.fleet.jobs
    slow = SickSpell(job.hosts[1], 1.5, 0, 6 * SHIFTS)
    world.fleet = replace(world.fleet, spells=[slow])
    course = drain.follow(world, "drain", 1, np.random.default_rng(0))
    since = course.drained.pop(slow.host)
    assert (course.drained, course.false) == ({}, 0)
    assert course.cost == pytest.approx(job.shape.world_size * 0.5 + 8 * 24)
    spared = course.jobs[job.job_id]
    days = [day for day in job.days if day >= since]
    assert days
    saved = [1 - world.step_us(world.ran(spared, day)) / world.step_us(world.ran(job, day)) for day in days]
    gpu_hours = 24.0 * job.shape.world_size
    assert course.returned == pytest.approx(gpu_hours * sum(saved))
    assert course.by_changes == pytest.approx(0.0)
    assert min(saved) > 0.1
    assert f"spare of {slow.host}" in world.results(spared, since)["worker_slowdown"]["host"].to_pylist()


def test_a_log_of_faults_says_how_often_hosts_come_back(tmp_path: Path) -> None:
    """From a log of faults, the times between a host's faults are read; overlapping faults count as one."""
    events = [("a", 0.0, 1.0), ("a", 0.5, 0.6), ("a", 3.0, 4.0), ("b", 1.0, 2.0)]
    log = [
        {"node_id": host, "event_time": at, "event_type": kind}
        for host, start, end in events
        for at, kind in ((start, "fault_start"), (end, "fault_end"))
    ]
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = faults.read(tmp_path / "log.json")
    assert [tuple(each) for each in found] == [("a", 0.0, 1.0), ("a", 3.0, 4.0), ("b", 1.0, 2.0)]
    times = list(faults.quiet_times(found, 10.0))
    assert [tuple(each) for each in times] == [(1, 2.0, True), (2, 6.0, False), (1, 8.0, False)]
    table = faults.chances(times).set_index("faults before")
    assert table.loc["one", "day 1 to 8"] == pytest.approx(1 / (1 + 7))
    assert table.loc["more", "day 1 to 8"] == 0.0


def test_the_test_of_host_record_names_who_comes_back_alone() -> None:
    hosts = [f"host {number}" for number in range(30)]
    often = [faults.Fault("host 0", 7.0 * week, 7.0 * week + 1) for week in range(8)]
    once = [faults.Fault(host, 7.0 * place, 7.0 * place + 1) for place, host in enumerate(hosts[1:9])]
    assert faults.beyond_chance([*often, *once], hosts, 8) == {"host 0"}
    assert faults.beyond_chance(once, hosts, 8) == set()
