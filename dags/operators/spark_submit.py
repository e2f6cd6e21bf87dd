"""Operator that runs an entry point by spark-submit, and code that all DAGs' tasks share.

The exit status of an entry point decides whether Airflow retries the task.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from dags import PROJECT
from dags.operators.alerts import GateRefused, WrongSettings, alert_failure
from dags.operators.assets import NIGHT_BY_DATE
from dags.operators.lineage import lineage
from dags.operators.places import place
from schemas.vocabulary import Exit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

SPARK: Final = "what_if_spark"
"""Connection whose host is the Spark master, and whose extra may have Spark settings under `conf`."""

POOL: Final = "what_if_writers"
"""Pool of one slot, which every task that writes takes; `airflow pools set` creates it."""

_SECRET: Final = re.compile("secret|password|token|key", re.IGNORECASE)
"""Names of settings whose values no log may show; Spark's own spark.redaction.regex has these words too."""

_FINAL: Final[dict[int, tuple[type[AirflowFailException], str]]] = {
    Exit.WRONG_SETTINGS: (WrongSettings, "wrong arguments or settings"),
    Exit.GATE_REFUSED: (GateRefused, "a quality gate refused"),
}
"""Error to raise, and its meaning, for exit statuses that a retry would not change."""

_COMMAND: Final = Path(__file__).with_suffix(".sh").read_text(encoding="utf-8")
"""Shell script that starts spark-submit, and ends it when the task ends."""


def of_tasks(execution_timeout: timedelta) -> dict[str, Any]:
    """Return a DAG's default_args: owner, retries, timeout, and locations of data from Airflow variables."""
    places = ("project", "landing", "warehouse", "settings")
    return {
        "owner": "training-efficiency",
        "retries": 2,
        "retry_delay": timedelta(minutes=5),
        "retry_exponential_backoff": 2,
        "execution_timeout": execution_timeout,
        "max_active_tis_per_dag": 1,
        "on_failure_callback": alert_failure,
        **{place: f"{{{{ var.value.get('what_if_{place}', '') }}}}" for place in places},
    }


def _connected() -> tuple[str, Mapping[str, object]]:
    """Return Spark master and settings from the connection `what_if_spark`; empty without a connection."""
    try:
        spark = Connection.get(SPARK)
    except AirflowNotFoundException:
        return "", {}
    master = f"{spark.host}:{spark.port}" if spark.port else spark.host
    conf = spark.extra_dejson.get("conf", {})
    if not isinstance(conf, Mapping):
        raise WrongSettings(
            f"the connection {SPARK}: `conf` in its extra must be an object of names and values"
        )
    return master or "", conf


def _escaped(text: str) -> str:
    """Escape a key or value for a Java properties file."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "./-_,;") else f"\\u{unit:04x}"
        for letter in text
        for unit in memoryview(letter.encode("utf-16-le")).cast("H")
    )


def _given(options: Mapping[str, str]) -> list[str]:
    """Return options and their values, without those that are empty."""
    return [word for option, value in options.items() if value for word in (option, value)]


class SparkSubmitOperator(BashOperator):
    """Operator that runs `jobs/<entry_point>.py` with the worker environment's spark-submit.

    log_date  : the day, for entry points that work on one
    arguments : further arguments of the entry point, one on each line; templates are filled in
    project   : folder where the command runs and relative paths start; empty: the project of these DAGs
    landing, warehouse, settings : passed to the entry point unless empty
    The task's XCom is the summary that the command writes as JSON, or else the command's last line of output.
    The events of the task's assets have the request and the summary as their extra; there are no events if
    the summary says that the current tables did not change (`is_current` is false). The event of
    NIGHT_BY_DATE has the log date as its partition. By default the task takes the slot of the writers' pool.
    Raises WrongSettings or GateRefused, after which Airflow does not retry, and AirflowException for any
    other failure.
    """

    def __init__(
        self,
        *,
        entry_point: str,
        log_date: str = "",
        arguments: str = "",
        project: str = "",
        landing: str = "",
        warehouse: str = "",
        settings: str = "",
        **kwargs: Any,  # noqa: ANN401  # all that any operator takes
    ) -> None:
        env = {
            "ENTRY_POINT": entry_point,
            "LOG_DATE": log_date,
            "ARGUMENTS": arguments,
            "LANDING": landing,
            "WAREHOUSE": warehouse,
            "SETTINGS": settings,
        }
        kwargs = {"pool": POOL, **kwargs}
        super().__init__(bash_command=_COMMAND, env=env, append_env=True, cwd=project, **kwargs)

    def get_env(self, context: "Context") -> dict[str, str]:
        """Return the worker's environment plus the arguments, with this Python's programs first in PATH."""
        programs = str(Path(sys.executable).parent)
        path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
        return {**super().get_env(context), "PROGRAMS": programs, "PATH": path}

    def execute(self, context: "Context") -> object:
        """Run the command, and write its output to the task's log line by line."""
        with TemporaryDirectory(prefix="what-if-") as scratch:
            summary, properties = Path(scratch, "summary.json"), Path(scratch, "spark.properties")
            master, conf = _connected()
            lines = (f"{_escaped(key)}={_escaped(str(value))}\n" for key, value in conf.items())
            properties.touch(0o600, exist_ok=False)  # readable by this user only
            properties.write_text("".join(lines), encoding="ascii")
            secrets = {key: str(value) for key, value in conf.items() if _SECRET.search(key)}
            for secret in secrets.values():
                mask_secret(secret)  # in all later output
            shown = {**conf, **dict.fromkeys(secrets, "(redacted)")}
            listed = ", ".join(f"{key}={value}" for key, value in shown.items())
            self.log.info("Spark's settings of %s: %s", SPARK, listed or "none")
            files = {"WHAT_IF_SUMMARY": str(summary), "WHAT_IF_PROPERTIES": str(properties)}
            last_line = self._run(
                ["--properties-file", str(properties), *_given({"--master": master}), *self._arguments()],
                {**self.get_env(context), **files},
            )
            outcome = json.loads(summary.read_text()) if summary.exists() else last_line
        facts = outcome if isinstance(outcome, dict) else {}
        if not facts.get("is_current", True):
            self.outlets = []  # Airflow makes an event for each outlet of a task that succeeds
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {**self._asked(), **facts}
            if asset == NIGHT_BY_DATE:
                context["outlet_events"][asset].add_partitions(self._asked()["log_date"])
        return outcome

    def get_openlineage_facets_on_complete(self, _task_instance: object) -> "OperatorLineage[Any, Any]":
        """Return the datasets that the task read and published."""
        return lineage(self.inlets, self.outlets, self._place)

    def get_openlineage_facets_on_failure(self, _task_instance: object) -> "OperatorLineage[Any, Any]":
        """Return only the datasets that the task read, because a failed phase publishes nothing."""
        return lineage(self.inlets, [], self._place)

    def _place(self, name: str) -> str:
        asked = self.env or {}
        return place(name, asked[name.upper()], str(self.cwd or ""), asked["SETTINGS"])

    def _arguments(self) -> list[str]:
        asked = self.env or {}
        places = {f"--{name}": asked[name.upper()] for name in ("landing", "warehouse", "settings")}
        return [
            "--load-spark-defaults",
            f"jobs/{asked['ENTRY_POINT']}.py",
            *_given({"--log-date": asked["LOG_DATE"]}),
            *filter(None, asked["ARGUMENTS"].split("\n")),
            *_given(places),
        ]

    def _run(self, arguments: Sequence[str], env: dict[str, str]) -> str:
        """Run spark-submit; return its last line of output."""
        shell = [shutil.which("bash") or "bash", "-c", str(self.bash_command), "spark_submit", *arguments]
        done = self.subprocess_hook.run_command(shell, env, cwd=self.cwd or PROJECT)
        if done.exit_code == Exit.DONE:
            return str(done.output)
        if done.exit_code in _FINAL:
            error, meaning = _FINAL[done.exit_code]
            raise error(f"{self.task_id}: {meaning}: {done.output}")
        raise AirflowException(f"{self.task_id}: exit status {done.exit_code}: {done.output}")

    def _asked(self) -> dict[str, str]:
        """Return the log date and the arguments with which a task runs its entry point."""
        asked = self.env or {}
        words = " ".join(asked["ARGUMENTS"].split())
        return {key: value for key, value in (("log_date", asked["LOG_DATE"]), ("asked", words)) if value}
