"""The queries of the Grafana dashboard give the figures of the report's first page."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from jobs.export_database import OF_OPS, export
from jobs.reading.database import Database
from jobs.runtime.project import PROJECT
from schemas.tables import TABLES
from schemas.views import VIEWS
from tests.jobs.conftest import Demo

DASHBOARD: Final = json.loads((PROJECT / "jobs/report/dashboards/grafana.json").read_text(encoding="utf-8"))
PANELS: Final[dict[str, dict[str, Any]]] = {panel["title"]: panel for panel in DASHBOARD["panels"]}


def test_panels_have_a_place_and_a_source_of_their_own() -> None:
    (source,) = DASHBOARD["__inputs"]
    assert len(PANELS) == len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS.values():
        assert panel["datasource"] == {"type": source["pluginId"], "uid": f"${{{source['name']}}}"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in PANELS.values()), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_its_figures_are_those_of_the_report(demo: Demo, tmp_path: Path) -> None:
    """The dashboard's queries on an exported DuckDB file give the figures of the warehouse's report."""
    export(Database(str(demo.warehouse)), tmp_path / "fleet.duckdb", tuple({*TABLES, *VIEWS} - {*OF_OPS}))
    with duckdb.connect(str(tmp_path / "fleet.duckdb"), read_only=True) as connection:

        def rows(sql: str) -> list[dict[str, Any]]:
            for end, day in (("from", "2026-01-05"), ("to", "2026-01-07")):
                sql = sql.replace(f"${{__{end}:date:YYYY-MM-DD}}", day)
            found: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
            return found

        found = {title: rows(panel["targets"][0]["rawSql"]) for title, panel in PANELS.items()}
        (days,) = rows("SELECT sum(lost_gpu_hours) AS lost FROM fleet_day")
        first = rows("SELECT * FROM fix_first")[0]
    assert all(found.values())
    assert found["GPU-hours lost"][0]["lost_gpu_hours"] == pytest.approx(days["lost"])
    assert round(found["of analysed GPU-hours"][0]["lost_share"], 3) == 0.176
    by_cause = [
        value for row in found["Lost, day by day, by cause"] for value in [*row.values()][1:] if value
    ]
    assert sum(by_cause) == pytest.approx(days["lost"])
    assert found["What to fix first"][0]["lost_gpu_hours"] == pytest.approx(first["lost_gpu_hours"])
