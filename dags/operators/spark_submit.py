"""Runs an entry point of this project by spark-submit; its exit status decides whether a retry can help."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags import PROJECT
from schemas.vocabulary import EXIT_DONE, EXIT_GATE_REFUSED, EXIT_WRONG_SETTINGS

if TYPE_CHECKING:
    from airflow.sdk import Context

_FINAL: Final = {
    EXIT_WRONG_SETTINGS: "wrong arguments or settings",
    EXIT_GATE_REFUSED: "a quality gate refused, nothing of this stage was published",
}
"""Exit statuses after which the same command would end in the same way."""

_COMMAND: Final = f"""\
set -e
unset SPARK_HOME PYSPARK_DRIVER_PYTHON  # whatever the worker has exported: Spark is the environment's own
export PYSPARK_PYTHON="$PROGRAMS/python"
export SPARK_CONF_DIR="${{SPARK_CONF_DIR:-$PWD/conf}}" SPARK_DRIVER_MEMORY="${{SPARK_DRIVER_MEMORY:-4g}}"
JAVA_HOME="$(python -m jobs.java)" || exit {EXIT_WRONG_SETTINGS}
export JAVA_HOME
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
# A zip of its own for each task: never older than the code, never half written by another task.
python -c 'import pathlib, sys; from jobs.package import write_zip; write_zip(pathlib.Path(sys.argv[1]))' \\
  "$scratch/project.zip"
mapfile -t arguments < <(printf '%s' "$ARGUMENTS" | grep -v '^$')
(
  set -x  # the log shows the command
  "$PROGRAMS/spark-submit" --py-files "$scratch/project.zip" "jobs/$ENTRY_POINT.py" \\
    ${{LOG_DATE:+--log-date "$LOG_DATE"}} "${{arguments[@]}}" \\
    ${{LANDING:+--landing "$LANDING"}} ${{WAREHOUSE:+--warehouse "$WAREHOUSE"}} \\
    ${{SETTINGS:+--settings "$SETTINGS"}}
)
"""


class SparkSubmitOperator(BashOperator):
    """Runs `jobs/<entry_point>.py` by the spark-submit of the worker's own environment.

    log_date  : the day, for entry points that work on one
    arguments : what else the entry point is told, one argument on each line; templates are filled in
    project   : folder where the command runs and relative paths start; the DAGs' own where empty
    landing, warehouse, settings : given to the entry point where they are not empty
    The command's last line becomes the task's XCom. Raises AirflowFailException, after which nothing is
    retried, for wrong settings and refused gates; AirflowException for any other failure.
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
        super().__init__(bash_command=_COMMAND, env=env, append_env=True, cwd=project, **kwargs)

    def get_env(self, context: "Context") -> dict[str, str]:
        """Return the worker's environment with the arguments, and its own programs before all others."""
        programs = str(Path(sys.executable).parent)
        path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
        return {**super().get_env(context), "PROGRAMS": programs, "PATH": path}

    def execute(self, context: "Context") -> str:
        """Run the command; its output goes to the task's log line by line."""
        shell = [shutil.which("bash") or "bash", "-c", str(self.bash_command)]
        done = self.subprocess_hook.run_command(shell, self.get_env(context), cwd=self.cwd or PROJECT)
        if done.exit_code == EXIT_DONE:
            return str(done.output)
        if done.exit_code in _FINAL:
            raise AirflowFailException(f"{self.task_id}: {_FINAL[done.exit_code]}: {done.output}")
        raise AirflowException(f"{self.task_id}: exit status {done.exit_code}: {done.output}")
