"""Test the sentences with which a night's summary begins."""

from types import SimpleNamespace
from typing import Any, cast

from jobs.night.publish import lead
from jobs.runtime.settings import load_settings
from jobs.warehouse.reader import Reader
from schemas.vocabulary import JOB_CHANGES
from tests.support.answers import answer
from tests.support.examples import DAY


def test_a_summary_names_jobs_whose_step_time_changed() -> None:
    changed: dict[str, Any] = {"log_date": DAY, "since": DAY, "job_id": "india", "cause": "no cause recorded"}
    tables = {JOB_CHANGES: [changed | {"before": 2.04, "after": 2.23, "change": 0.097, "also": []}]}

    def rows(sql: str) -> Any:  # noqa: ANN401  # stands for an Arrow table
        return SimpleNamespace(to_pylist=lambda: [row.asDict() for row in answer(sql, tables)])

    reader = cast("Reader", SimpleNamespace(rows=rows))
    assert lead(reader, load_settings("base"), "warehouse", DAY)["changes"] == [
        "changed: a step of india takes 9.7 % longer (2.04 s before, 2.23 s since): no cause recorded"
    ]
