"""The fleet's page: its data are the rows it was made of, names stay names, and it stays small."""

import json
import shlex
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from jobs.report import templates
from jobs.report.fleet_page import fleet_data, fleet_page, headline
from jobs.report.names import job_page_path
from jobs.report.rows import FleetTables
from jobs.report.wording import hours
from tests.jobs.report.fleets import LAST, NAUGHTY, fleet, publication
from tests.jobs.report.pages import Page, unpacked

FLEET = fleet()


def analysed(tables: FleetTables) -> pa.Table:
    return tables.units.filter(pc.equal(tables.units["status"], "analysed"))


def test_the_first_sentence_says_what_was_lost_and_what_fixes_return() -> None:
    lost, of = (pc.sum(analysed(FLEET)[name]).as_py() for name in ("wasted_gpu_hours", "gpu_hours"))
    returned = pc.sum(FLEET.parts["attributed_gpu_hours"]).as_py()
    assert headline(FLEET) == (
        f"Stragglers cost {hours(lost)} of {hours(of)} analysed GPU-hours ({100 * lost / of:.1f} %); "
        f"fixing every cause found would return {hours(returned)}."
    )
    at = FLEET.units.schema.get_field_index("wasted_gpu_hours")
    little = FLEET.units.set_column(at, "wasted_gpu_hours", pa.array([1.0] * FLEET.units.num_rows))
    assert headline(replace(FLEET, units=little)).endswith(
        f"return {hours(returned)} (why this can be more than was lost, is told below)."
    )


def test_without_jobs_or_hours_the_first_sentence_says_so() -> None:
    empty = FleetTables(*(table.slice(0, 0) for table in vars(FLEET).values()))
    assert headline(empty) == "There are no such jobs in this period."
    at = FLEET.units.schema.get_field_index("gpu_hours")
    hourless = FLEET.units.set_column(at, "gpu_hours", pa.nulls(FLEET.units.num_rows, pa.float64()))
    assert "No analysed job states its GPU-hours" in headline(replace(FLEET, units=hourless))
    assert Page(fleet_page(empty, publication(empty))).data["units"]["world_size"] == []


def test_the_embedded_columns_are_the_rows() -> None:
    data = fleet_data(FLEET, publication(FLEET))
    units, parts = unpacked(data["units"]), unpacked(data["parts"])
    wanted = FLEET.units.to_pandas().astype({"log_date": str}).fillna({"team": "(not stated)"})
    names = [name for name in units if name in wanted]
    assert len(names) == 11
    pd.testing.assert_frame_equal(units[names], wanted[names], check_dtype=False, rtol=1e-5)
    assert units.detail.fillna("").tolist() == wanted.status_detail.fillna("").tolist()
    of_unit = units.loc[parts.unit, ["log_date", "job_id", "run_id"]].reset_index(drop=True)
    found = pd.concat([of_unit, parts.drop(columns="unit")], axis="columns")
    wanted = FLEET.parts.to_pandas().astype({"log_date": str})
    pd.testing.assert_frame_equal(found[wanted.columns], wanted, check_dtype=False, rtol=1e-5)


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
    assert command[2:] == [
        "jobs.report_job", "--warehouse", "a b/warehouse", f"--job-id={NAUGHTY}", "--run-id=r1",
    ]  # fmt: skip


def test_a_page_asks_nobody_else_for_anything() -> None:
    page = Page(fleet_page(FLEET, publication(FLEET)))
    asked = [*page.all("script", "src"), *page.all("link", "href")]
    assert sorted(asked) == ["./charts-library.js", "./report.css", "./report.js", "data:,"]
    own = b"".join(templates.shared_files().values())
    assert own.count(b"http") == own.count(b"https://vega.github.io/schema/")


def test_the_same_rows_give_the_same_bytes() -> None:
    assert fleet_page(FLEET, publication(FLEET)) == fleet_page(fleet(), publication(FLEET))


def test_five_months_of_the_papers_fleet_stay_under_five_megabytes() -> None:
    """Without the chart library, which takes less than one; every unit with a page, which takes most."""
    tables = fleet(runs=3079, days=150)
    pages = {job_page_path(row["log_date"], row["job_id"], row["run_id"]) for row in _keys(tables)}
    assert len(fleet_page(tables, publication(tables, *pages))) < 4_000_000


def test_the_page_names_every_figure_for_who_does_not_see() -> None:
    page = Page(fleet_page(FLEET, publication(FLEET)))
    titles = page.all("section", "aria-labelledby")
    assert len(titles) == 11
    assert set(titles) <= set(page.all("h2", "id"))
    assert "html" in {tag for tag, values in page.tags if values.get("lang") == "en"}
    assert json.dumps(page.data, allow_nan=False)
    assert LAST.isoformat() in page.text


def _keys(tables: FleetTables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.units.select(["log_date", "job_id", "run_id"]).to_pylist()
    return rows
