"""Tests of the DAGs, run with a separate Airflow whose home is a temporary folder.

Airflow reads its environment variables when it is first imported. So this package imports Airflow, before any
of its modules does.
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

from jobs.runtime.project import PROJECT

DAGS: Final = PROJECT / "dags"
AIRFLOW_HOME: Final = Path(tempfile.mkdtemp(prefix="straggler-fleet-airflow-"))
AIRFLOW: Final = {
    "AIRFLOW_HOME": str(AIRFLOW_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
"""Environment variables for the Airflow of the tests."""


def _import_airflow() -> None:
    """Import Airflow, and restore the root logger: Airflow configures it to print the logs of all tests."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    import_module("airflow")
    root.setLevel(level)
    root.handlers[:] = handlers


if "airflow" in sys.modules:
    raise RuntimeError("airflow was imported before its environment was set")
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ.update(AIRFLOW)
_import_airflow()
