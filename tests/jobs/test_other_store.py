"""A warehouse in a store that Spark alone reaches, Hadoop's viewfs, and a landing by URL."""

from datetime import timedelta
from pathlib import Path

from jobs import backfill, refresh_changed_days
from tests.support.history import DAYS, History, assert_same_tables, history_in

STORE = "fleet"


def mounted(history: History) -> History:
    """The same folders by URLs; of the warehouse's store neither pyarrow nor fsspec knows anything."""
    store = history.spark.sparkContext._jsc.hadoopConfiguration()
    history.warehouse.mkdir(parents=True, exist_ok=True)
    store.set(f"fs.viewfs.mounttable.{STORE}.link./warehouse", history.warehouse.as_uri())
    paths = {
        "landing": history.landing.as_uri(),
        "warehouse": f"viewfs://{STORE}/warehouse",
        "staging": str(history.landing.with_name("staging")),
    }
    settings = history.settings.model_copy(update={"paths": history.settings.paths.model_copy(update=paths)})
    return History(history.spark, settings)


def test_any_store_that_spark_reaches_will_do(filled: History, tmp_path: Path) -> None:
    local = history_in(tmp_path, filled.spark, filled.settings)
    local.landing.symlink_to(filled.landing)
    remote = mounted(local)
    todo = remote.plan()
    assert [len(batch.log_dates) for batch in todo.batches] == [len(DAYS)]
    backfill.run(remote.spark, remote.settings, todo)
    assert_same_tables(local.tables(), filled.tables())
    assert remote.plan().batches == []
    after = DAYS[-1] + timedelta(days=1)
    assert refresh_changed_days.run(remote.spark, remote.settings, after) == {}
