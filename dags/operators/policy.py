"""Defaults shared by all DAGs' tasks: owner, retries, and data paths."""

from datetime import timedelta
from typing import Any

from dags.operators.alerts import alert_failure


def of_tasks(execution_timeout: timedelta) -> dict[str, Any]:
    """Return a DAG's default_args."""
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
