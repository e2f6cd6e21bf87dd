"""Output that no health tool writes becomes events, is left out, or raises the converter's own error."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.console import CONSOLE
from jobs.convert_health import converted
from jobs.landing.formats.health import read_event
from jobs.landing.formats.rows import Bounds
from jobs.landing.health.source import Given, SourceError
from jobs.runtime.arguments import run
from tests.jobs.landing.health.test_sources import COLUMNS, CSV, EVENT, NVSENTINEL, PERFQUERY, SINFO


def _node(**condition: object) -> dict[str, Any]:
    times = {"lastTransitionTime": "2026-01-05T17:15:21Z", "type": "Ready", "status": "False"}
    return {"metadata": {"name": "node-a"}, "status": {"conditions": [times | condition]}}


@pytest.mark.parametrize(
    ("source", "output", "wanted", "left_out"),
    [
        ("nvsentinel", NVSENTINEL | {"errorCode": 79}, 1, 0),
        ("nvsentinel", NVSENTINEL | {"generatedTimestamp": {"seconds": 10**400}}, 0, 1),
        ("nvsentinel", NVSENTINEL | {"generatedTimestamp": {"seconds": 1, "nanos": "x"}}, 0, 1),
        ("npd", _node(type=["Ready"]), 0, 1),
        ("npd", _node(message={"a": [float("nan")]}), 1, 0),
        ("npd", _node(message="between\u2028lines\x85"), 1, 0),
        ("npd", {"metadata": {"name": {}}, "status": {"conditions": ["Ready", 5]}}, 0, 2),
        ("npd", {"metadata": {"name": "node-a"}, "status": {"conditions": 5}}, 0, 0),
        ("npd", EVENT | {"involvedObject": "node-a"}, 0, 1),
        ("npd", EVENT | {"reason": {}}, 0, 1),
        ("dcgm", 'DCGM_FI_DEV_XID_ERRORS{Hostname="a",gpu="1"} 1 ' + "9" * 31, 0, 1),
        ("dcgm", "DCGM_FI_DEV_XID_ERRORS{" + "a" * 200_000 + "} x", 0, 1),
        ("perfquery", PERFQUERY.format(minute=0, symbols="9" * 400) * 2, 1, 2),
        ("perfquery", "# Port counters: Lid 1 port " + "1" * 5_000, 0, 0),
        ("kernel", "Feb 29 10:00:00 node-a kernel: NVRM: Xid (PCI:0): 79, gone", 1, 0),
        ("kernel", "NVRM: Xid (" * 50_000, 0, 1),
        ("sinfo", " " * 200_000 + "x", 0, 1),
        ("scontrol", "\n" * 200_000 + "x", 0, 1),
        ("scontrol", "NodeName=a State=DOWN Reason=" + "[" * 200_000, 0, 1),
        ("csv", CSV.replace("node-a,fan,CRIT,3", "node-a,fan,CRIT,3,4", 1) + '"a\rb",c', 1, 3),
        ("csv", CSV.replace("CRIT,3", "nan,", 1), 0, 3),
    ],
)
def test_odd_output_is_events_or_left_out(
    source: str, output: str | dict[str, Any], wanted: int, left_out: int
) -> None:
    """Output with odd names, times or numbers becomes events, or is counted as left out."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    columns = COLUMNS | ({"value": "Level"} if "nan" in text else {})
    given = Given(
        host="node-a", at=datetime(2025, 1, 9, tzinfo=UTC), columns=columns, words={"CRIT": "error"}
    )
    records = converted(text.encode(), source, given, 100)
    for each in records:
        read_event(
            json.dumps(each, allow_nan=False).encode(), datetime.fromisoformat(each["time"]).date(), Bounds()
        )
    assert (len(records), given.left_out.total()) == (wanted, left_out)


NO_TIMES = ("noon", "", "2026-13-40T25:00:00", "0001-01-01T00:00:00+2300")


@pytest.mark.parametrize("time", NO_TIMES)
@pytest.mark.parametrize("source", ["nvsentinel", "npd", "sinfo", "scontrol", "kernel"])
def test_one_bad_time_costs_what_has_it_and_nothing_else(source: str, time: str) -> None:
    good = "2026-01-05T14:02:11"
    outputs = {
        "nvsentinel": lambda at: json.dumps(NVSENTINEL | {"generatedTimestamp": at}),
        "npd": lambda at: json.dumps(_node(lastTransitionTime=at)),
        "sinfo": lambda at: f"bad fan root {at} node-a",
        "scontrol": lambda at: f"NodeName=node-a State=DRAIN\n Reason=bad fan [root@{at}]",
        "kernel": lambda at: f"{at}+00:00 node-a kernel: NVRM: Xid (PCI:0): 79, gone",
    }
    given = Given(zone=UTC)
    text = "\n".join([outputs[source](good + "Z" * (source in ("nvsentinel", "npd"))), outputs[source](time)])
    records = converted(text.encode(), source, given, 100)
    assert (len(records), given.left_out.total()) == (1, 1)


def test_more_events_than_a_day_may_hold_are_refused() -> None:
    """Output with more events than a day may have is refused: one line of Slurm may name 100,000 nodes."""
    with pytest.raises(SourceError, match="split it"):
        converted(SINFO.encode(), "sinfo", Given(), 4)


@pytest.mark.parametrize("wrong", [["--zone", "Europe"], ["--zone", "../x"], ["--time", "noon"]])
def test_a_wrong_zone_or_time_is_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(CONSOLE, ["convert-health", "x", "--from", "sinfo", *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1
