"""While runs are watched, each begin and each end of a cause gives one warning, even if a round is killed."""

import json
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.emitter.rank_log_writer import finish_day
from jobs.entry_points.writing import no_round
from jobs.night import live
from jobs.runtime.settings import Settings
from jobs.synthetic.mechanisms.mechanism import Window
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.warehouse.lock import locked_folder, this_process
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import LIVE_CAUSES, LIVE_SLOWDOWN, LIVE_TABLES, PUBLISHED_TABLES
from tests.support.growing import GrowingRun
from tests.support.history import (
    DAYS,
    JOB_IDS,
    History,
    KilledError,
    Rows,
    assert_same_tables,
    dying_at,
    history_in,
)

DAY = date(2026, 1, 5)
FAULT = WeakGpu(1, 0, 1.5, window=Window(30, 50))
STEPS = 80
BEGUN, GOES_ON, ENDED = 40, 48, 75
"""Steps logged when a round begins: of the last 20, the fault slows ten, eighteen and none."""


class Watched:
    """A landing with one run in progress, which tests watch in rounds."""

    def __init__(self, root: Path, spark: SparkSession, settings: Settings) -> None:
        paths = {"landing": str(root / "landing"), "warehouse": str(root / "warehouse")}
        self.settings = settings.model_copy(
            update={
                "paths": settings.paths.model_copy(update=paths),
                "live": settings.live.model_copy(update={"window_steps": 20}),
            }
        )
        self.root, self.spark = root, spark
        self.run = GrowingRun(root, DAY, [FAULT], STEPS)
        self.summary = root / "summary.json"

    def round(self, step: int | None = None) -> live.RoundDone:
        """Log the first `step` steps, if given, and do one round of watching."""
        if step is not None:
            self.run.log_to(step)
        return live.run(self.spark, self.settings, str(self.summary))

    def kinds(self, step: int | None = None) -> list[str]:
        return [notice.kind for notice in self.round(step).notices]

    def rows(self, name: str) -> Rows:
        rows: Rows = (
            Warehouse.of(self.spark, self.settings).rows(TABLES[name]).to_pylist(maps_as_pydicts="strict")
        )
        return rows

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"


@pytest.fixture
def watched(tmp_path: Path, spark: SparkSession, test_settings: Settings) -> Watched:
    return Watched(tmp_path, spark, test_settings)


@pytest.fixture(scope="module")
def unkilled(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, test_settings: Settings
) -> Watched:
    """A landing and warehouse after three undisturbed rounds, which gave the expected warnings."""
    made = Watched(tmp_path_factory.mktemp("live"), spark, test_settings)
    assert made.kinds(BEGUN) == ["cause_began"]
    (warning,) = json.loads(made.summary.read_text())["warnings"]
    assert "slow worker: node-0000 (stage 0, dp rank 1), since step" in warning["text"]
    assert made.kinds(GOES_ON) == [], "it does not warn again"
    assert made.kinds(ENDED) == ["cause_ended"]
    return made


def test_the_fault_is_found_from_its_first_to_its_last_step(unkilled: Watched) -> None:
    steps = sorted({json.loads(line)["step"] for line in unkilled.run.lines["rank-00000.jsonl"]})
    (row,) = unkilled.rows(LIVE_CAUSES)
    assert row["cause"] == "slow_worker"
    assert row["first_step"] == steps[30]
    assert row["last_step"] == steps[47], "the last step of the latest window with the cause"
    assert (row["is_now"], row["is_warned"]) == (False, True)


def test_an_unfinished_line_waits_and_is_no_reject(unkilled: Watched) -> None:
    steps = sorted({json.loads(line)["step"] for line in unkilled.run.lines["rank-00000.jsonl"]})
    (row,) = unkilled.rows(LIVE_SLOWDOWN)
    assert (row["status"], row["steps"], row["rejects"]) == ("analysed", 20, 0)
    assert (row["first_step"], row["last_step"]) == (steps[ENDED - 20], steps[ENDED - 1])


def test_nothing_else_is_written(unkilled: Watched) -> None:
    """A round writes only the live tables: published tables must have no preliminary rows."""
    assert {path.name for path in unkilled.warehouse.iterdir()} == {*LIVE_TABLES, "_live"}


def test_what_has_not_grown_is_not_read(unkilled: Watched) -> None:
    before = unkilled.rows(LIVE_SLOWDOWN)
    warned = unkilled.round()
    assert (warned.runs, warned.read, warned.bytes_read) == (1, 0, 0)
    (log, *_) = sorted(unkilled.run.folder.glob("rank-*.jsonl"))
    content = log.read_bytes()
    log.write_bytes(content[:-1])
    assert unkilled.round().read == 0, "a step is read when all ranks have logged it"
    log.write_bytes(content)
    finish_day(unkilled.root / "landing", DAY)
    assert unkilled.round(STEPS).runs == 0, "a complete day is left to the night"
    assert unkilled.rows(LIVE_SLOWDOWN) == before


def test_rounds_that_are_killed_are_made_up_for(
    watched: Watched, unkilled: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If rounds are killed before, between or after their commits, no row or warning is lost or repeated."""
    warned = []
    for step in (BEGUN, GOES_ON, ENDED):
        watched.run.log_to(step)
        for place in (LIVE_CAUSES, LIVE_SLOWDOWN, "telling") if step != GOES_ON else ():
            with monkeypatch.context() as patch:
                patch.setattr(Warehouse, "replace", dying_at(place))
                if place == "telling":
                    patch.setattr(live, "_notice", killed)
                with pytest.raises(KilledError):
                    watched.round()
            assert json.loads(watched.summary.read_text())["warnings"] == []
        warned += watched.kinds()
    assert warned == ["cause_began", "cause_ended"]
    for name in LIVE_TABLES:
        assert watched.rows(name) == unkilled.rows(name)


def killed(_row: dict[str, Any]) -> None:
    raise KilledError


def test_a_cause_that_goes_on_over_midnight_is_told_once(watched: Watched) -> None:
    assert watched.kinds(BEGUN) == ["cause_began"]
    finish_day(watched.root / "landing", DAY)
    watched.run = GrowingRun(watched.root, DAY + timedelta(days=1), [WeakGpu(1, 0, 1.5)], STEPS)
    assert watched.kinds(BEGUN) == []
    before, after = sorted(watched.rows(LIVE_CAUSES), key=lambda row: row["log_date"])
    assert after["first_step"] == before["first_step"]
    assert (after["is_now"], after["is_warned"]) == (True, True)


def test_a_night_goes_first(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched.run.log_to(BEGUN)
    with locked_folder(str(watched.warehouse), this_process("run_nightly"), wait=False):
        warned = watched.round()
    assert (warned.read, warned.notices) == (0, [])
    (line,) = caplog.messages
    assert line.startswith(f"this round is left out: {watched.warehouse} is being written by run_nightly (pr")
    assert not any((watched.warehouse / name).exists() for name in LIVE_TABLES)

    def night(*_: object) -> list[Any]:
        with locked_folder(str(watched.warehouse), this_process("run_nightly"), wait=False):
            raise KilledError

    monkeypatch.setattr(live, "windows_of", night)
    with pytest.raises(KilledError):  # not LockedError: a night may begin during a round
        watched.round()


def test_two_rounds_do_not_run_together(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    with no_round(watched.settings, "maintain_tables"):
        assert watched.round(BEGUN).read == 0
    assert "is being written by maintain_tables" in caplog.text


def test_a_night_after_rounds_is_a_night(
    filled: History, spark: SparkSession, test_settings: Settings, tmp_path: Path
) -> None:
    history = history_in(tmp_path, spark, test_settings)
    shutil.copytree(filled.landing, history.landing)
    markers = list(history.landing.glob("log_date=*/_SUCCESS"))
    for marker in markers:
        marker.unlink()
    assert live.run(spark, history.settings).read == len(DAYS) * len(JOB_IDS)
    assert history.rows(LIVE_CAUSES)
    for marker in markers:
        marker.touch()
    history.fill()
    for name in PUBLISHED_TABLES:
        assert_same_tables({name: history.rows(name)}, {name: filled.rows(name)})
    assert not set(LIVE_TABLES) & set(Warehouse.of(spark, history.settings).published.versions or {})
