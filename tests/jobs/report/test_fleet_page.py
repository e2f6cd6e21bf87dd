"""Sums on the fleet's page agree, names remain plain text, and the page remains small."""

import json
import re
import shlex
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.report import templates
from jobs.report.fleet_page import fleet_data, fleet_page, headline, tiles
from jobs.report.host_page import host_pages
from jobs.report.links import job_page_path
from jobs.report.news_words import drain_row, news_texts, outcome_texts, step_change_texts
from jobs.report.read import straggling_units
from jobs.report.rows import FleetTables
from jobs.report.wording import hours, percent
from schemas.vocabulary import CAUSES, JOB_CAUSES, JOB_CHANGES, JOB_SLOWDOWN, JOBS
from tests.jobs.report.fleets import LAST, NAUGHTY, asked, fleet, publication
from tests.jobs.report.pages import Page, unpacked

FLEET = fleet()
TIMES = fleet(with_hours=False)


def total(column: pa.ChunkedArray) -> float:
    return float(pc.sum(column).as_py() or 0.0)


@pytest.mark.parametrize("name", ["lost_gpu_hours", "lost_s"])
def test_days_fixes_units_parts_hosts_and_runs_all_sum_to_what_is_lost(name: str) -> None:
    whole = total(FLEET.totals[name])
    assert whole > 0
    for table in (FLEET.days, FLEET.fixes, FLEET.units, FLEET.parts):
        assert total(table[name]) == pytest.approx(whole, rel=1e-12)
    on_hosts = FLEET.parts.filter(FLEET.parts["host"].is_valid())
    of_hosts = FLEET.fixes.filter(FLEET.fixes["host"].is_valid())
    assert total(of_hosts[name]) == pytest.approx(total(on_hosts[name]), rel=1e-12)
    if name == "lost_gpu_hours":
        assert total(FLEET.runs[name]) == pytest.approx(whole, rel=1e-12)
        assert total(FLEET.host_units[name]) == pytest.approx(total(on_hosts[name]), rel=1e-12)


def test_nothing_of_units_that_were_not_analysed_is_lost_or_to_be_fixed() -> None:
    others = FLEET.units.filter(pc.invert(FLEET.units["is_analysed"]))
    assert others["lost_s"].null_count == others.num_rows > 0
    refused = {job for job in others["job_id"].to_pylist() if int(job[-4:]) % 2 == 0}
    assert refused.isdisjoint(FLEET.parts["job_id"].to_pylist())
    assert refused.isdisjoint(name for row in FLEET.fixes["job_ids"].to_pylist() for name in row)


def test_what_no_cause_explains_is_the_last_row_and_no_row_is_negative() -> None:
    assert FLEET.fixes["cause"].to_pylist().index("unexplained") == FLEET.fixes.num_rows - 1
    assert pc.min(FLEET.fixes["lost_s"]).as_py() >= 0


def test_the_browser_is_given_rows_that_sum_to_the_tiles() -> None:
    """The rows embedded in the page sum to the figures of its tiles, up to 1e-5."""
    for tables, name in ((FLEET, "lost_gpu_hours"), (TIMES, "lost_s")):
        data = fleet_data(tables, publication(tables))
        units, parts = unpacked(data["units"]), unpacked(data["parts"])
        assert parts.lost.sum() == pytest.approx(total(tables.totals[name]), rel=1e-5)
        assert units.lost.sum() == pytest.approx(parts.lost.sum(), rel=1e-5)
        of = "lost_of_gpu_hours" if tables is FLEET else "analysed_s"
        assert units.of.sum() == pytest.approx(total(tables.totals[of]), rel=1e-5)
        first = tables.fixes.slice(0, 1).to_pylist()[0]
        top = parts[(parts.cause == first["cause"]) & (parts.host == first["host"])]
        if first["host"]:
            assert top.lost.sum() == pytest.approx(first[name], rel=1e-5)


def test_the_first_screen_says_what_is_lost_what_to_fix_and_what_that_covers() -> None:
    page = Page(fleet_page(FLEET, publication(FLEET)))
    (totals,) = FLEET.totals.to_pylist()
    lost, of = totals["lost_gpu_hours"], totals["analysed_gpu_hours"]
    assert f"What stragglers cost {hours(lost)} GPU-hours {percent(lost / of)} of {hours(of)}" in page.text
    (first,) = FLEET.fixes.slice(0, 1).to_pylist()
    shown = tiles(FLEET, publication(FLEET))["fix"]
    assert shown["lost"] == f"{hours(first['lost_gpu_hours'])} GPU-hours"
    assert f"{totals['analysed']} of {totals['jobs']} runs" in page.text
    assert f"Fleet report, {LAST - timedelta(days=29)} to {LAST}" in page.text
    assert headline(FLEET, publication(FLEET)) == (
        "2026-05-02 to 2026-05-31: "
        f"Stragglers cost {hours(lost)} of {hours(of)} analysed GPU-hours ({percent(lost / of)})."
    )


def test_what_an_earlier_version_simulated_is_in_no_share_and_the_page_says_so() -> None:
    keys = [{"log_date": LAST - timedelta(days=age), "job_id": "a"} for age in range(2)]
    unknown = {"lost_fraction": None, "lost_gpu_hours": None}
    rows = {
        JOBS: [key | {"gpu_hours": 100.0} for key in keys],
        JOB_SLOWDOWN: [key | {"gpu_hours": 100.0, "actual_total_s": 40.0} for key in keys],
        JOB_CAUSES: [keys[0] | {"lost_fraction": 0.25, "lost_gpu_hours": 25.0}, keys[1] | unknown],
    }
    both = asked(rows, LAST - timedelta(days=1))
    shown = tiles(both, publication(both))
    assert (shown["of"], shown["unknown"]) == ("25.0 % of 100 analysed GPU-hours", 1)
    assert shown["change"].startswith("25.0 % in the last seven days")
    assert both.totals["lost_share_of_time"].to_pylist() == [0.25]
    page = Page(fleet_page(both, publication(both)))
    assert "An earlier version simulated 1 analysed job-day:" in page.text
    older = asked({**rows, JOB_CAUSES: [key | unknown for key in keys]}, LAST - timedelta(days=1))
    said = headline(older, publication(older))
    assert said.endswith("not known, because an earlier version simulated these days.")


def test_the_line_of_days_leaves_out_units_whose_loss_is_not_known_as_the_tile_does() -> None:
    """The tile and its line of days both leave out units of earlier versions, whose loss is not known."""
    days = [LAST - timedelta(days=age) for age in range(2)]
    keys = [{"log_date": day, "job_id": job} for day in days for job in ("late", "before")]
    lost = {"late": (0.25, 25.0), "before": (None, None)}
    causes = [
        key | dict(zip(("lost_fraction", "lost_gpu_hours"), lost[str(key["job_id"])], strict=True))
        for key in keys
    ]
    units = [key | {"gpu_hours": 100.0, "actual_total_s": 40.0} for key in keys]
    found = asked({JOBS: keys, JOB_SLOWDOWN: units, JOB_CAUSES: causes}, min(days))
    shown = tiles(found, publication(found))
    assert shown["of"] == "25.0 % of 200 analysed GPU-hours"
    assert shown["sparkline"]["text"] == "Share lost by day: 25.0 %, 25.0 %"


def test_without_gpu_hours_the_page_speaks_in_per_cent_of_time() -> None:
    page = Page(fleet_page(TIMES, publication(TIMES)))
    (totals,) = TIMES.totals.to_pylist()
    share = percent(totals["lost_s"] / totals["analysed_s"])
    assert headline(TIMES, publication(TIMES)).endswith(
        f": Stragglers cost {share} of the time; no analysed run states its GPU-hours."
    )
    assert f"What stragglers cost {share} of the time" in page.text
    assert page.data["measure"] == {"unit": ""}
    assert tiles(TIMES, publication(TIMES))["fix"]["lost"].endswith(" of the time")
    for content in host_pages(TIMES, publication(TIMES)).values():
        assert "GPU-hours" not in Page(content).text


def test_without_jobs_the_first_sentence_says_so() -> None:
    empty = asked({}, LAST)
    assert headline(empty, publication(empty)) == "2026-05-31: No jobs in this period."
    assert Page(fleet_page(empty, publication(empty))).data["units"]["lost"] == []
    refused = asked({JOB_SLOWDOWN: [_unit("a", LAST) | {"status": "no_ops"}]}, LAST)
    assert headline(refused, publication(refused)) == "2026-05-31: None of 1 run could be analysed."


def test_the_last_seven_days_stand_beside_the_seven_before() -> None:
    units = [_unit(job, LAST - timedelta(days=age)) for job, age in (("old", 8), ("both", 7), ("both", 6))]
    units += [_unit("new", LAST), _unit("old", LAST) | {"slowdown": 1.0}]
    tables = asked(
        {JOB_SLOWDOWN: units, JOB_CAUSES: [_cause(unit) for unit in units]}, LAST - timedelta(days=29)
    )
    text = Page(fleet_page(tables, publication(tables))).text
    assert "Newly straggling: new. No longer straggling: old." in text
    assert "job-days 3 2" in text
    assert "12.5 % in the last seven days, 12.5 % in the seven before" in text


def test_a_host_has_a_page_with_what_is_lost_to_it() -> None:
    pages = host_pages(FLEET, publication(FLEET))
    rows = [row for row in FLEET.fixes.to_pylist() if row["host"]]
    assert rows
    for row in rows:
        page = Page(pages[publication(FLEET).hosts[row["host"]]])
        assert f": {hours(row['lost_gpu_hours'])} GPU-hours" in page.text
        assert "--host=" + row["host"] in page.text
        assert "../dictionary.html#fix_first" not in page.all("a", "href")
    known = FLEET.fixes
    for name in ("lost_gpu_hours_low", "lost_gpu_hours_high"):
        known = known.set_column(known.column_names.index(name), name, known["lost_gpu_hours"])
    pages = host_pages(replace(FLEET, fixes=known), publication(FLEET))
    page = Page(pages[publication(FLEET).hosts[rows[0]["host"]]])
    assert page.all("a", "href").count("../dictionary.html#fix_first") == 1


def test_hosts_to_drain_stand_with_what_that_returns_and_costs() -> None:
    page = Page(fleet_page(FLEET, publication(FLEET)))
    rows = FLEET.drain.to_pylist()
    assert rows
    assert f"As of {LAST}: hosts by the saving of a drain, GPU-hours" in page.text
    for row in rows[:10]:
        shown = drain_row(row)
        line = " ".join(
            each for name, each in shown.items() if name in ("host", "verdict", "expected", "cost")
        )
        assert line in page.text
        assert (f"drain {shown['host']} :" in page.text) == shown["is_worth_it"]
    none = fleet_page(asked({}, LAST), publication(asked({}, LAST)))
    assert "No job has lost time to a host lately." in Page(none).text
    unproven = (
        "No cause is new or gone, and no job's step time is proven to have changed. A proof needs at least 3"
    )
    assert unproven in Page(none).text


def test_the_page_leads_with_what_is_new_on_its_day() -> None:
    units = [_unit("a", LAST - timedelta(days=1)), _unit("a", LAST)]
    before, now = ({"is_cause": is_new, "lost_fraction": 0.2 * is_new} for is_new in (False, True))
    causes = [_cause(units[0]) | before, _cause(units[1]) | now]
    tables = asked({JOB_SLOWDOWN: units, JOB_CAUSES: causes}, LAST)
    text = Page(fleet_page(tables, publication(tables))).text
    (said,) = news_texts(tables.news.to_pylist())
    assert said.startswith("new: slow worker in a")
    assert f"What changed on {LAST}, and what to decide {said}" in text
    assert text.index(said) < text.index("What stragglers cost")
    assert "No cause is new or gone" not in text
    assert "Fixed: " not in text


def test_the_page_names_jobs_whose_step_time_changed_on_its_day_the_largest_first() -> None:
    on_day: dict[str, Any] = {"log_date": LAST, "since": LAST, "cause": "no cause recorded", "also": []}
    sizes = {"a": 0.1, "b": -0.3, "c": 0.05, "d": 0.06, "e": 0.07, "f": 0.08}
    rows = [on_day | {"job_id": job, "change": size} for job, size in sizes.items()]
    rows += [on_day | {"job_id": "earlier", "since": LAST - timedelta(days=1)}]
    rows += [on_day | {"job_id": "lost", "of": "lost", "cause": None}]
    tables = asked({JOB_CHANGES: rows}, LAST)
    said = step_change_texts(tables.changes.to_pylist())
    assert said[0] == "changed: a step of b takes 30.0 % less (5.1 s before, 6.12 s since): no cause recorded"
    assert [text.split()[4] for text in said[:5]] == ["b", "a", "f", "e", "d"]
    assert said[5:] == ["changed: and 1 more (straggler changes)"]
    text = Page(fleet_page(tables, publication(tables))).text
    assert f"What changed on {LAST}, and what to decide {said[0]}" in text
    assert "No cause is new or gone" not in text


def test_what_a_fix_returned_is_said_with_how_it_is_computed() -> None:
    units = [_unit("a", LAST - timedelta(days=1)), _unit("a", LAST)]
    before, now = ({"is_cause": is_slow, "lost_fraction": 0.2 * is_slow} for is_slow in (True, False))
    causes = [_cause(units[0]) | before, _cause(units[1]) | now]
    tables = asked({JOB_SLOWDOWN: units, JOB_CAUSES: causes}, LAST)
    page = fleet_page(tables, publication(tables))
    (said,) = outcome_texts(tables.outcomes.to_pylist())
    assert said in Page(page).text
    assert "Fixed: how much shorter steps are since" in Page(page).text
    assert b'<a href="dictionary.html#fix_outcome">' in page


def test_only_units_that_have_a_page_are_linked() -> None:
    rows = [row for row in _keys(FLEET) if row["log_date"] in {LAST, LAST - timedelta(days=1)}]
    paths = [job_page_path(*row.values()) for row in (rows[0], rows[-1])]
    units = unpacked(fleet_data(FLEET, publication(FLEET, *paths, "2020-01-01/jobs/other.html"))["units"])
    linked = units[units.page.notna()]
    assert linked.log_date.tolist() == [str(row["log_date"]) for row in (rows[0], rows[-1])]
    assert linked.page.tolist() == [f"../{paths[0]}", paths[1].removeprefix(f"{LAST}/")]


def test_names_that_are_markup_stay_names() -> None:
    page = fleet_page(FLEET, publication(FLEET))
    parsed = Page(page)
    assert NAUGHTY in parsed.data["units"]["job_id"]["names"]
    assert "img" not in {tag for tag, _ in parsed.tags}
    assert page.count(b"</script>") == len(parsed.all("script", "src")) + 1
    (run,) = {run for run in parsed.data["units"]["run"]["names"] if "onerror" in run}
    command = shlex.split(f"{parsed.data['report_job']} {run}")
    assert command[1:] == [
        "job-page", "--warehouse", "a b/warehouse", f"--job-id={NAUGHTY}", "--run-id=r1",
    ]  # fmt: skip


def test_a_page_loads_nothing_from_elsewhere_and_the_same_rows_give_the_same_bytes() -> None:
    content = fleet_page(FLEET, publication(FLEET))
    page = Page(content)
    asked_for = [*page.all("script", "src"), *page.all("link", "href")]
    assert sorted(asked_for) == ["./charts-library.js", "./report.css", "./report.js", "data:,"]
    own = b"".join(templates.shared_files().values()).decode()
    addresses = set(re.findall(r"https?://[a-z.]+[a-z]", own))
    assert addresses == {"https://vega.github.io", "https://ui.perfetto.dev"}, (
        "links, from which the page loads nothing"
    )
    assert content == fleet_page(fleet(), publication(FLEET))


@pytest.mark.parametrize("tables", [FLEET, TIMES])
def test_one_chain_leads_from_what_was_recorded_over_what_is_lost_to_what_is_left(
    tables: FleetTables,
) -> None:
    is_hours = tables is FLEET
    amounts, lost, of = (
        ("gpu_hours", "lost_gpu_hours", "lost_of_gpu_hours")
        if is_hours
        else ("seconds", "lost_s", "analysed_s")
    )
    rows = {row["figure"]: row for row in tables.waterfall.to_pylist()}
    assert rows["recorded"][amounts] == pytest.approx(total(tables.totals[of]), rel=1e-12)
    of_causes = sum(row[amounts] or 0.0 for name, row in rows.items() if name in CAUSES)
    assert of_causes == pytest.approx(total(tables.totals[lost]), rel=1e-12)
    left = rows["recorded"][amounts] - of_causes
    assert rows["nothing_lost"][amounts] == pytest.approx(left, rel=1e-9)
    page = Page(fleet_page(tables, publication(tables)))
    drawn = page.all("tr", "data-figure")
    assert drawn[0] == "recorded"
    assert drawn[-1] == "ideal", "the chain ends here if no run has events"
    assert {name for name in drawn if name in CAUSES} == {
        name
        for name in rows
        if name in CAUSES and (rows[name][amounts] or 0) >= 0.0005 * rows["recorded"][amounts]
    }
    assert ("From recorded to productive GPU-hours" in page.text) == is_hours


def test_runs_without_stated_hours_count_in_everything_else_and_the_page_says_so_once() -> None:
    data = fleet_data(FLEET, publication(FLEET))
    units, parts = unpacked(data["units"]), unpacked(data["parts"])
    assert units.is_counted.sum() == FLEET.units["analysed_s"].drop_null().length()
    assert (units.is_counted & units.of.isna()).any()
    assert len(parts) == FLEET.parts.num_rows > parts.lost.count()
    assert units.is_counted[parts.unit].all()
    said = Page(fleet_page(FLEET, publication(FLEET))).text
    assert (
        said.count("without stated GPU-hours: counted in all figures except hours and shares of hours") == 1
    )


def test_op_types_are_shares_of_one_base() -> None:
    shares = dict(
        zip(
            *(FLEET.op_types[name].to_pylist() for name in ("op_type", "analysed_gpu_hours_share")),
            strict=True,
        )
    )
    wasted = dict(
        zip(*(FLEET.op_types[name].to_pylist() for name in ("op_type", "wasted_gpu_hours")), strict=True)
    )
    for name, share in shares.items():
        assert share == pytest.approx(wasted[name] / total(FLEET.totals["analysed_gpu_hours"]), rel=1e-12)


def test_five_months_of_the_papers_fleet_stay_under_four_megabytes() -> None:
    """For five months of a fleet as large as the paper's, the page with links to all units is below 4 MB."""
    tables = fleet(runs=3079, days=150)
    pages = {job_page_path(row["log_date"], row["job_id"], row["run_id"]) for row in _keys(tables)}
    assert len(fleet_page(tables, publication(tables, *pages))) < 4_000_000


def test_the_page_names_every_figure_for_who_does_not_see() -> None:
    page = Page(fleet_page(FLEET, publication(FLEET)))
    titles = page.all("section", "aria-labelledby")
    assert set(titles) <= {*page.all("h2", "id"), *page.all("h3", "id")}
    charts = [values for _, values in page.tags if (values.get("id") or "").startswith("chart-")]
    assert len(charts) == 4
    assert all(values["data-name"] for values in charts)
    assert "html" in {tag for tag, values in page.tags if values.get("lang") == "en"}
    assert json.dumps(page.data, allow_nan=False)


def _unit(job: str, day: date) -> dict[str, Any]:
    return {"job_id": job, "log_date": day}


def _cause(unit: dict[str, Any]) -> dict[str, Any]:
    return {name: unit[name] for name in ("job_id", "log_date")}


def _keys(tables: FleetTables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.units.select(["log_date", "job_id", "run_id"]).to_pylist()
    return rows


def test_units_that_lose_as_much_as_a_straggling_one_get_a_page_whatever_explains_it() -> None:
    units = pa.Table.from_pylist(
        [
            {"log_date": LAST, "job_id": job, "run_id": "r", "slowdown": 1.0}
            | {"is_straggling": is_straggling, "lost_fraction": lost, "lost_gpu_hours": hours}
            for job, is_straggling, lost, hours in (
                ("unexplained", False, 0.2, 9.0),
                ("straggling", True, 0.01, 5.0),
                ("small", False, 0.05, 90.0),
                ("not-known", False, None, None),
                ("earlier", True, None, None),
            )
        ]
    )
    chosen = straggling_units(replace(FLEET, units=units), LAST, 9)
    assert [unit.job_id for unit in chosen] == ["unexplained", "straggling", "earlier"]


def test_runs_that_are_slower_than_before_and_not_analysed_are_listed() -> None:
    slower = {"status": "high_discrepancy", "gpu_hours": 100.0, "slower_than_usual": 1.25}
    units = [
        _unit("a", LAST) | slower,
        _unit("b", LAST) | slower | {"slower_than_usual": 2.0},
        _unit("c", LAST) | slower | {"status": "analysed"},
    ]
    held = {
        "job_id": "b",
        "log_date": LAST,
        "cause": "launch_delay",
        "is_cause": True,
    }
    tables = asked({JOB_SLOWDOWN: units, JOB_CAUSES: [held]}, LAST)
    listed = fleet_data(tables, publication(tables))["slower"]
    assert [(row["job_id"], row["times"], row["gpu_hours"], row["cause"]) for row in listed] == [
        ("b", 2.0, pytest.approx(50.0), "late starts"),
        ("a", 1.25, pytest.approx(20.0), "not known"),
    ]
    assert b"Slower than before, and not analysed" in fleet_page(tables, publication(tables))
