"""Waits until the producers have finished a day: until the `_SUCCESS` of its landing folder is there."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseSensorOperator, ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from dags import PROJECT

if TYPE_CHECKING:
    from airflow.sdk import Context

_ASK: Final = (
    "import sys; from jobs.settings import load_settings; print(load_settings(*sys.argv[1:]).paths.landing)"
)
"""The project's settings say where the landing lies; a DAG starts the project's code and never imports it."""


class DayMarkerSensor(BaseSensorOperator):
    """Succeeds once `<landing>/log_date=<log_date>/_SUCCESS` is there, in a folder or an object store.

    project   : folder where relative paths start; the DAGs' own where empty
    landing   : as the entry points take it; where it is empty the project's settings say
    settings  : settings file on top of conf/, where not empty
    Between two looks the task holds no worker slot (mode reschedule). Raises AirflowSensorTimeout, saying
    what was waited for, when `timeout` has passed; AirflowFailException where there is nothing to wait for.
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
        """Look once, then succeed, ask to be called again, or give up."""
        if not self.log_date:
            raise AirflowFailException(
                "this run has no logical date: trigger it with the day to analyse, such as 2026-01-05"
            )
        try:
            super().execute(context)
        except AirflowSensorTimeout:
            raise AirflowSensorTimeout(
                f"{self.marker()} has not appeared within {self.timeout / 3600:g} hours: the producers have "
                f"not finished {self.log_date}. Once it is there, clear this task to run the night"
            ) from None

    def poke(self, context: "Context") -> bool:  # noqa: ARG002  # Airflow calls it so
        """Tell whether the marker is there."""
        marker = self.marker()
        is_there = ObjectStoragePath(marker).exists()
        self.log.info("%s is %s", marker, "there" if is_there else "not there yet")
        return is_there

    def marker(self) -> str:
        """Path or URL of what the producers write last."""
        landing = self.landing or self._landing_of_settings()
        if "://" not in landing:
            landing = str(Path(self.project or PROJECT, landing))
        return f"{landing.rstrip('/')}/log_date={self.log_date}/_SUCCESS"

    def _landing_of_settings(self) -> str:
        command = [sys.executable, "-c", _ASK, *filter(None, [self.settings])]
        asked = subprocess.run(  # noqa: S603  # our own command; the settings' name passes through no shell
            command, cwd=self.project or PROJECT, capture_output=True, text=True, check=False
        )
        if asked.returncode:
            reason = asked.stderr.strip().splitlines()[-1]
            raise AirflowFailException(f"the settings do not say where the landing lies: {reason}")
        return asked.stdout.strip()
