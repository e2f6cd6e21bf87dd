"""Sensor that waits until producers have finished a day: until `_SUCCESS` exists in its landing folder."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from dags.operators.places import place

if TYPE_CHECKING:
    from airflow.sdk import Context


def _is_day(text: str) -> bool:
    """Return whether a text is a date as in the landing's folders, 2026-01-05."""
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


class DayMarkerSensor(BaseSensorOperator):
    """Sensor that succeeds once `<landing>/log_date=<log_date>/_SUCCESS` exists, in a folder or a store.

    project   : folder where relative paths start; empty: the project of these DAGs
    landing   : folder or URL of the landing; empty: that of the project's settings
    settings  : settings file that overrides conf/; empty: none
    Between two checks the task has no worker slot (mode reschedule). If a store does not answer, the next
    check asks again; in a backfill, the task's next try does.
    Raises AirflowSensorTimeout, naming the marker, when `timeout` has passed, in a backfill after the first
    check; AirflowFailException without a valid log date, or without permission to read the marker;
    WrongSettings if the settings do not name the landing.
    """

    template_fields: Sequence[str] = ("log_date", "project", "landing", "settings")

    def __init__(
        self,
        *,
        log_date: str,
        project: str = "",
        landing: str = "",
        settings: str = "",
        **kwargs: Any,  # noqa: ANN401  # all that any sensor takes
    ) -> None:
        super().__init__(mode="reschedule", **kwargs)
        self.log_date = log_date
        self.project = project
        self.landing = landing
        self.settings = settings

    def execute(self, context: "Context") -> None:
        """Check once for the marker, then succeed, defer to the next check, or give up."""
        if not self.log_date:
            raise AirflowFailException(
                "this run has no logical date: trigger it with the day to analyse, such as 2026-01-05"
            )
        if not _is_day(self.log_date):
            raise AirflowFailException(
                f"{self.log_date!r} is not a log date: name the day, or the event's partition, as in "
                "2026-01-05"
            )
        run = context.get("dag_run")
        if run is not None and run.run_type == "backfill":  # made by `airflow backfill create`
            if not self._look():  # raises a store's error: the task's next try looks again
                raise self._unfinished("is missing, and a backfill does not wait")
            return
        try:
            super().execute(context)
        except AirflowSensorTimeout:
            raise self._unfinished(f"has not appeared within {self.timeout / 3600:g} hours") from None

    def poke(self, context: "Context") -> bool:  # noqa: ARG002  # Airflow calls it so
        """Return whether the marker exists; False if the store does not answer."""
        try:
            return self._look()
        except OSError as error:  # raised, it would cost one of the day's three tries
            self.log.warning("%s could not be looked for: %s", self.marker(), error)
            return False

    def _look(self) -> bool:
        marker, is_there = self.marker(), True
        try:
            ObjectStoragePath(marker).read_bytes()  # exists() would be False after any error
        except FileNotFoundError:
            is_there = False
        except PermissionError as error:  # looking again would not help
            raise AirflowFailException(f"looking for {marker} is not allowed: {error}") from error
        self.log.info("%s is %s", marker, "there" if is_there else "still missing")
        return is_there

    def _unfinished(self, how: str) -> AirflowSensorTimeout:
        return AirflowSensorTimeout(
            f"{self.marker()} {how}: the producers have not finished {self.log_date}. "
            "Once it is there, clear this task to run the night"
        )

    def marker(self) -> str:
        """Return the path or URL of the marker that producers write last."""
        landing = place("landing", self.landing, self.project, self.settings)
        return f"{landing}/log_date={self.log_date}/_SUCCESS"
