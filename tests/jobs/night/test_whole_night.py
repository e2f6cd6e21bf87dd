"""Test a night's warnings about days that their producers have not marked complete."""

from datetime import date
from pathlib import Path

from jobs.emitter.rank_log_writer import finish_day
from jobs.night.whole_night import NOT_COMPLETE, not_complete
from jobs.runtime.settings import Settings

DAYS = [date(2026, 1, day) for day in (5, 6, 7)]


def test_a_day_that_its_producers_have_not_marked_complete_is_a_warning(
    test_settings: Settings, tmp_path: Path
) -> None:
    """Of the days without _SUCCESS, a night warns of those that have a folder in the landing."""
    paths = test_settings.paths.model_copy(update={"landing": str(tmp_path)})
    settings = test_settings.model_copy(update={"paths": paths})
    for day in DAYS[:2]:
        (tmp_path / f"log_date={day}" / "job_id=a" / "run_id=r1").mkdir(parents=True)
    finish_day(tmp_path, DAYS[0])
    (notice,) = not_complete(settings, DAYS)
    assert notice.kind == NOT_COMPLETE
    assert notice.text.startswith(f"{DAYS[1]} is not marked complete (no log_date={DAYS[1]}/_SUCCESS): ")
