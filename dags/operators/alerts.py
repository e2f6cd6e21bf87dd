"""Alerts: callbacks that post to the webhook named by the variable `what_if_webhook`.

A post is JSON: `text` for people, which chat systems show, and facts for programs. A post that fails is
logged as a warning, and never fails the task.
"""

import json
import logging
from collections.abc import Mapping
from http.client import HTTPException
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout
from airflow.sdk.log import mask_secret

if TYPE_CHECKING:
    from airflow.sdk import Context

WEBHOOK: Final = "what_if_webhook"
"""Variable (AIRFLOW_VAR_WHAT_IF_WEBHOOK) with the URL to post to; nothing is posted without it."""

_LOG: Final = logging.getLogger(__name__)


class GateRefused(AirflowFailException):
    """Raised when a quality gate refused rows; the refused rows are not published."""


class WrongSettings(AirflowFailException):
    """Raised for arguments or settings that cannot be used."""


_KINDS: Final = {
    GateRefused: "gate_refused",
    WrongSettings: "wrong_settings",
    AirflowSensorTimeout: "day_not_finished",
}


def alert_failure(context: "Context") -> None:
    """Post that a task has failed and is not retried, and why. Every task has this callback."""
    error = context.get("exception")
    kind = next((name for type_, name in _KINDS.items() if isinstance(error, type_)), "task_failed")
    task = context["task_instance"]
    reason = str(error) if error else "the process ended without a message (killed, or lost with its machine)"
    post(context, kind, f"{task.dag_id}.{task.task_id} failed: {reason}", {})


def alert_warnings(context: "Context") -> None:
    """Post the changes, actions and warnings in a task's XCom, which is the summary of its command."""
    task = context["task_instance"]
    summary = task.xcom_pull(task_ids=task.task_id)
    if not isinstance(summary, dict):
        return
    warnings = summary.get("warnings", [])
    decisions = {name: summary[name] for name in ("changes", "drain", "mitigations") if summary.get(name)}
    texts = [*chain.from_iterable(decisions.values()), *(warning["text"] for warning in warnings)]
    if texts:
        docs = {name: summary[name] for name in ("data_docs",) if name in summary}
        kind = f"{summary.get('kind', 'night')}_{'warnings' if warnings else 'changes'}"
        post(context, kind, "\n".join(texts), {**decisions, "warnings": warnings, **docs})


def alert_late(run: Mapping[str, Any], hours: float) -> None:
    """Post that a run was not completed within `hours` after it was queued.

    run : the run's fields, as in Airflow's REST API
    """
    log_date = run.get("partition_key") or (run.get("logical_date") or "")[:10] or None
    facts = {"dag_id": run["dag_id"], "run_id": run["dag_run_id"], "log_date": log_date}
    text = f"{run['dag_id']} of {log_date} was not done {hours:g} hours after it was queued"
    _send("night_late", text, facts)


def post(context: "Context", kind: str, text: str, facts: Mapping[str, Any]) -> None:
    """Post one alert of a task, if a webhook is set."""
    task = context["task_instance"]
    log_date = getattr(context.get("dag_run"), "partition_key", None) or context.get("ds")
    run = {"dag_id": task.dag_id, "task_id": task.task_id, "run_id": task.run_id, "log_date": log_date}
    _send(kind, text, {**run, **facts})


def _send(kind: str, text: str, facts: Mapping[str, Any]) -> None:
    url = Variable.get(WEBHOOK, default="")
    if not url:
        return
    mask_secret(url)
    if not url.startswith(("http://", "https://")):
        _LOG.warning("no alert: the variable %s does not begin with http:// or https://", WEBHOOK)
        return
    body = json.dumps({"kind": kind, "text": text, **facts}).encode()
    headers = {"Content-Type": "application/json"}
    try:
        request = Request(url, data=body, headers=headers)  # noqa: S310  # the scheme was checked
        with urlopen(request, timeout=10.0):  # noqa: S310  # the same
            _LOG.info("posted an alert: %s", kind)
    except (OSError, HTTPException, ValueError) as error:  # its message may show the address, a secret
        reason = error.reason if isinstance(error, URLError) else error
        why = f"HTTP status {error.code}" if isinstance(error, HTTPError) else type(reason).__name__
        _LOG.warning("the alert %s could not be posted: %s", kind, why)
