"""Test which events are posted to a webhook, when, and with which contents.

A server in the test receives the posts.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.execution_time.callback_supervisor import execute_callback

from dags.operators.alerts import alert_failure, alert_warnings
from jobs.emitter.rank_log_writer import finish_day
from tests.dags import DAGS
from tests.dags.conftest import Run, stand_in
from tests.support.examples import DAY

SUMMARY = {
    "warnings": [{"kind": "coverage_low", "text": "few"}, {"kind": "host_rose", "text": "slow"}],
    "data_docs": "/w/_quality",
}

Posts = list[dict[str, Any]]


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Posts]:
    """Alerts that a web server in this process, whose URL is set as the webhook, has received."""
    found: Posts = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Suppress the log of the test's web server."""

    server = HTTPServer(("127.0.0.1", 0), Webhook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AIRFLOW_VAR_WHAT_IF_WEBHOOK", f"http://127.0.0.1:{server.server_port}/hook")
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def notified(posts: Posts) -> list[tuple[str, str]]:
    return [(post["kind"], post["text"]) for post in posts]


@pytest.mark.parametrize(
    ("status", "tries", "alert"),
    [
        (1, 3, ("task_failed", "exit status 1")),
        (2, 1, ("wrong_settings", "wrong arguments or settings")),
        (3, 1, ("gate_refused", "a quality gate refused")),
    ],
)
def test_a_failed_night_is_posted_once_when_no_retry_can_help(
    nightly: DAG, run_dag: Run, tmp_path: Path, posts: Posts, status: int, tries: int, alert: tuple[str, str]
) -> None:
    finish_day(tmp_path, DAY)
    stand_in(
        nightly, tmp_path, f"[ $ENTRY_POINT != simulate_what_if ] || {{ echo the reason; exit {status}; }}"
    )
    assert run_dag(nightly) == {
        "wait_for_day": ("success", 1),
        "ingest_rank_logs": ("success", 1),
        "simulate_what_if": ("failed", tries),
        "revise_causes": ("upstream_failed", 0),
        "aggregate_fleet": ("upstream_failed", 0),
        "publish_night": ("upstream_failed", 0),
    }
    text = f"nightly_what_if.simulate_what_if failed: simulate_what_if: {alert[1]}: the reason"
    assert notified(posts) == [(alert[0], text)]
    assert posts[0]["log_date"] == "2026-01-05"


def test_a_day_that_its_producers_did_not_finish_is_posted_and_not_tried_again(
    nightly: DAG, run_dag: Run, tmp_path: Path, posts: Posts
) -> None:
    stand_in(nightly, tmp_path, "true").timeout = 0
    ended = run_dag(nightly)
    assert ended.pop("wait_for_day") == ("failed", 1)
    assert set(ended.values()) == {("upstream_failed", 0)}
    ((kind, text),) = notified(posts)
    assert kind == "day_not_finished"
    assert "the producers have not finished 2026-01-05" in text


@pytest.mark.parametrize(
    ("warnings", "changes", "posted"),
    [
        (SUMMARY["warnings"], [], [("night_warnings", "few\nslow")]),
        ([], [], []),
        ([], ["new: pauses in a"], [("night_changes", "new: pauses in a\ndrain b\nmitigate a")]),
    ],
    ids=["odd", "good", "changed"],
)
def test_what_a_night_says_of_changes_and_warns_of_is_posted(
    nightly: DAG,
    run_dag: Run,
    tmp_path: Path,
    posts: Posts,
    warnings: list[dict[str, str]],
    changes: list[str],
    posted: list[tuple[str, str]],
) -> None:
    finish_day(tmp_path, DAY)
    todo = {"drain": ["drain b"], "mitigations": ["mitigate a"]} if changes else {}
    summary = json.dumps({**SUMMARY, "warnings": warnings, "changes": changes, **todo})
    leave = f"[ $ENTRY_POINT != publish_night ] || echo '{summary}' > $WHAT_IF_SUMMARY"
    stand_in(nightly, tmp_path, leave)
    assert set(run_dag(nightly).values()) == {("success", 1)}
    assert notified(posts) == posted
    assert [post["warnings"] for post in posts] == [warnings for _ in posted]
    assert [{name: post[name] for name in ("drain", "mitigations") if name in post} for post in posts] == [
        todo for _ in posted
    ]


def test_a_late_night_is_posted_where_a_deadline_is_set(
    nightly: DAG, posts: Posts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not nightly.deadline
    monkeypatch.setenv("WHAT_IF_DEADLINE_HOURS", "1.5")
    found: Any = DagBag(str(DAGS)).dags["nightly_what_if"].deadline
    (deadline,) = found
    assert deadline.interval == timedelta(hours=1.5)
    run = {"dag_id": "nightly_what_if", "dag_run_id": "r", "logical_date": f"{DAY}T00:00:00Z"}
    done = execute_callback(
        deadline.callback.path,
        {"context": {"dag_run": run}},
        Path("nightly_what_if.py"),
        DAGS,
        structlog.get_logger(),
    )
    assert done == (True, None)
    assert notified(posts) == [
        ("night_late", f"nightly_what_if of {DAY} was not done 1.5 hours after it was queued")
    ]
    assert posts[0]["log_date"] == f"{DAY}"


def context(error: Exception | str | None) -> Any:  # noqa: ANN401  # an Airflow context is hard to build
    class Task:
        dag_id, task_id, run_id = "nightly_what_if", "ingest_rank_logs", "manual"

    return {"task_instance": Task(), "exception": error, "ds": "2026-01-05"}


def test_what_began_or_ended_in_a_round_of_watch_is_posted(posts: Posts) -> None:
    summary = {"kind": "live", "warnings": [{"kind": "cause_began", "text": "slow"}]}
    names = {"dag_id": "watch_landing", "task_id": "watch_landing", "run_id": "manual"}
    task: Any = SimpleNamespace(**names, xcom_pull=lambda task_ids: summary if task_ids else None)
    alert_warnings({"task_instance": task})
    assert notified(posts) == [("live_warnings", "slow")]


def test_a_killed_task_is_posted_too(posts: Posts) -> None:
    alert_failure(context(None))
    alert_failure(context("heartbeat lost"))
    assert [kind for kind, _ in notified(posts)] == ["task_failed", "task_failed"]
    assert "killed" in posts[0]["text"]
    assert posts[1]["text"].endswith("failed: heartbeat lost")


def test_without_a_webhook_nothing_is_posted(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_WHAT_IF_WEBHOOK")
    alert_failure(context(ValueError("lost")))
    assert posts == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/secret", "could not be posted: ConnectionRefusedError"),
        ("http://127.0.0.1:9/a secret", "could not be posted: InvalidURL"),
        ("http://secret..example/", "could not be posted: UnicodeError"),
        ("http://[secret/", "could not be posted: ValueError"),
        ("file:///etc/secret", "does not begin with http"),
    ],
)
def test_a_webhook_that_does_not_answer_is_a_line_in_the_log_without_its_address(
    url: str, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_WHAT_IF_WEBHOOK", url)
    alert_failure(context(ValueError("lost")))
    assert message in caplog.text
    assert "secret" not in caplog.text
