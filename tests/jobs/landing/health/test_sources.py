"""Converters read the output of health tools; comments name the source of each sample.

No tool was run for the samples: they follow documentation. Values were added for counters, which only grow.
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from jobs.console import CONSOLE
from jobs.convert_health import converted, of_day
from jobs.landing.formats.health import read_event
from jobs.landing.formats.rows import Bounds
from jobs.landing.health.events import nodes
from jobs.landing.health.known import SOURCES
from jobs.landing.health.source import Given, SourceError
from jobs.runtime.arguments import run

# Labels and form: README.md of NVIDIA/dcgm-exporter; counters: its etc/default-counters.csv.
_GPU = 'gpu="{}",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",device="nvidia0",Hostname="node-a"'
DCGM = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{g0}}} 139
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{g0}}} {replays}
DCGM_FI_DEV_XID_ERRORS{{{g0}}} {xid}
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{g1}}} {reasons}
DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{{{g1}}} 16
DCGM_FI_DEV_PCIE_LINK_WIDTH{{{g1}}} {width}
"""


def scrape(minute: int, **values: int) -> str:
    text = DCGM.format(g0=_GPU.format(0), g1=_GPU.format(1), **values)
    return f"# at 2026-01-05T14:{minute:02d}:00Z\n{text}"


# JSON form of the messages in NVIDIA/NVSentinel, data-models/protobufs/health_event.proto.
NVSENTINEL = {
    "version": 1, "agent": "syslog-health-monitor", "componentClass": "GPU", "checkName": "SysLogsXIDError",
    "isFatal": True, "isHealthy": False, "message": "GPU has fallen off the bus", "errorCode": ["79"],
    "recommendedAction": "RESTART_BM", "entitiesImpacted": [{"entityType": "GPU", "entityValue": "3"}],
    "generatedTimestamp": "2026-01-05T14:02:00.123456Z", "nodeName": "node-a",
}  # fmt: skip
STORED = {
    "fullDocument": {
        "healthevent": {
            "nodename": "node-a", "componentclass": "NIC", "checkname": "LinkDown", "ishealthy": True,
            "generatedtimestamp": {"seconds": 1767621720, "nanos": 500_000_000}, "entitiesimpacted": [],
        }
    }
}  # fmt: skip

# Slurm's sinfo and scontrol manual pages, and its quick start (schedmd.com).
SINFO = """\
REASON               USER      TIMESTAMP           NODELIST
Memory errors        alice     2026-01-05T08:03:07 node[05,08]
Not responding       root      2026-01-05T09:15:44 node[01-03]
"""
SCONTROL = """\
NodeName=compute01 Arch=x86_64 CoresPerSocket=6
   OS=Linux 5.7.12-1.el8.elrepo.x86_64 #1 SMP Fri Jul 31 16:22:54 EDT 2020
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1000 Owner=N/A MCS_label=N/A

NodeName=rtx6000 CoresPerSocket=28
   State=DOWN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0 Weight=20 Owner=N/A MCS_label=N/A
   Reason=Not responding [root@2026-01-05T16:16:23]
"""

# kubernetes/node-problem-detector, README.md: conditions and events; the form is that of kubectl -o json.
NODE = {
    "kind": "Node",
    "metadata": {"name": "kind-worker"},
    "status": {
        "conditions": [
            {"lastHeartbeatTime": "2026-01-05T17:15:22Z", "lastTransitionTime": "2026-01-05T17:15:21Z",
             "message": "kernel has no deadlock", "reason": "KernelHasNoDeadlock", "status": "False",
             "type": "KernelDeadlock"},
            {"lastHeartbeatTime": "2026-01-05T17:15:22Z", "lastTransitionTime": "2026-01-05T10:00:00Z",
             "message": "Filesystem is read-only", "reason": "FilesystemIsReadOnly", "status": "True",
             "type": "ReadonlyFilesystem"},
            {"lastHeartbeatTime": "2026-01-05T17:15:06Z", "lastTransitionTime": "2026-01-05T17:09:06Z",
             "message": "ready", "reason": "KubeletReady", "status": "True", "type": "Ready"},
        ]
    },
}  # fmt: skip
EVENT = {
    "kind": "Event", "involvedObject": {"kind": "Node", "name": "kind-worker"}, "reason": "OOMKilling",
    "type": "Warning", "message": "Killed process 1012", "count": 2,
    "firstTimestamp": "2026-01-05T11:00:00Z", "lastTimestamp": "2026-01-05T11:05:00Z",
}  # fmt: skip

# NVIDIA, "XID Errors" (docs.nvidia.com/deploy/xid-errors), with prefixes of journalctl, dmesg and syslog.
KERNEL = """\
2026-01-05T20:30:27-0400 node-a kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=0, GPU has fallen off the bus.
Jan  5 14:02:11 node-b kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python
[ 1399.140323] NVRM: Xid (PCI:0000:01:00): 32, Channel ID 00000009 intr 00800000
2026-01-05T20:30:40-0400 node-a kernel: sof-audio-pci-intel-cnl 0000:00:1f.3: bound 0000:00:02.0
"""

# linux-rdma/rdma-core, infiniband-diags/perfquery; the form as in treydock/infiniband_exporter's tests.
PERFQUERY = """\
# at 2026-01-05T14:{minute:02d}:00Z
# Port extended counters: Lid 134 port 1 (CapMask: 0x5A00 CapMask2: 0x0000000)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................9049592493976
SymbolErrorCounter:..............{symbols}
LinkDownedCounter:...............0
"""

CSV = """\
Timestamp,Node,Alarm,Level,GPU,Speed
2026-01-05 14:02:00,node-a,fan,CRIT,3,
never,node-a,fan,CRIT,3,7
2026-01-05 14:03:00,node-a,fan,CRIT,3,NaN
"""
COLUMNS = {
    "time": "Timestamp", "host": "Node", "component": "=gpu", "check": "Alarm", "severity": "Level",
    "index": "GPU", "value": "Speed",
}  # fmt: skip

Found = list[tuple[Any, ...]]
_SHOWN = ("host", "component", "index", "check", "state", "severity")
TAKEN = datetime(2026, 1, 5, 23, tzinfo=UTC)


def found(source: str, text: str, given: dict[str, Any]) -> tuple[Found, dict[str, int]]:
    """Return events as (host, component, index, check, state, severity), and counts of what was left out.

    Fails if the landing's reader refuses a converted line.
    """
    known = Given(**given)
    records = list(SOURCES[source].convert(text.splitlines(), known))
    rows: Found = []
    for each in records:
        day = datetime.fromisoformat(each["time"]).date()
        read_event(json.dumps(each).encode(), day, Bounds())
        rows.append(tuple(each.get(name) for name in _SHOWN))
    return rows, {what: count for what, count in known.left_out.items() if count}


CASES: dict[str, tuple[str, str, dict[str, Any], set[Any], dict[str, int]]] = {
    "dcgm": (
        "dcgm",
        scrape(0, replays=7, xid=31, reasons=0, width=16)
        + scrape(1, replays=9, xid=79, reasons=0x41, width=8)
        + "nonsense\n",
        {},
        {
            ("node-a", "gpu", 0, "pcie_replay", "sample", "warning"),
            ("node-a", "gpu", 0, "xid_79", "sample", "error"),
            ("node-a", "gpu", 1, "throttle_thermal", "sample", "warning"),
            ("node-a", "gpu", 1, "pcie_width", "sample", "warning"),
        },
        {"lines that are not samples of a metric": 1},
    ),
    "nvsentinel": (
        "nvsentinel",
        json.dumps(NVSENTINEL) + "\n" + json.dumps(STORED) + "\n{}",
        {},
        {
            ("node-a", "gpu", 3, "SysLogsXIDError", "starts", "fatal"),
            ("node-a", "nic", None, "LinkDown", "ends", "ok"),
        },
        {"documents without nodeName, checkName or a time": 1},
    ),
    "sinfo": (
        "sinfo",
        SINFO,
        {},
        {(f"node0{n}", "node", None, "drained", "starts", "error") for n in (1, 2, 3, 5, 8)},
        {"lines without reason, user, time and nodes": 1},
    ),
    "scontrol": (
        "scontrol",
        SCONTROL,
        {"at": TAKEN},
        {
            ("rtx6000", "node", None, "drained", "starts", "error"),
            ("compute01", "node", None, "drained", "sample", "ok"),
        },
        {},
    ),
    "npd": (
        "npd",
        json.dumps({"items": [NODE, EVENT]}),
        {},
        {
            ("kind-worker", "node", None, "KernelDeadlock", "sample", "ok"),
            ("kind-worker", "node", None, "ReadonlyFilesystem", "starts", "error"),
            ("kind-worker", "node", None, "Ready", "sample", "ok"),
            ("kind-worker", "node", None, "OOMKilling", "sample", "warning"),
        },
        {},
    ),
    "kernel": (
        "kernel",
        KERNEL,
        {"at": TAKEN},
        {
            ("node-a", "gpu", None, "xid_79", "sample", "fatal"),
            ("node-b", "gpu", None, "xid_31", "sample", "info"),
        },
        {"XIDs without a time of day": 1, "lines without an XID": 1},
    ),
    "perfquery": (
        "perfquery",
        PERFQUERY.format(minute=0, symbols=15) + PERFQUERY.format(minute=1, symbols=20),
        {"host": "node-a"},
        {
            ("node-a", "link", 1, "symbol_errors", "sample", "warning"),
            ("node-a", "link", 1, "link_downed", "sample", "ok"),
        },
        {},
    ),
    "csv": (
        "csv",
        CSV,
        {"columns": COLUMNS, "words": {"CRIT": "error"}},
        {("node-a", "gpu", 3, "fan", "sample", "error")},
        {"rows with an invalid time, index or value": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_tool_is_read_as_it_documents_itself(case: str) -> None:
    source, text, given, wanted, left_out = CASES[case]
    rows, left = found(source, text, given)
    missed = wanted - set(rows)
    beside = {row for row in rows if row not in wanted and row[-1] != "ok"}
    assert (missed, beside, left) == (set(), set(), left_out)


def test_every_tool_has_a_case() -> None:
    assert set(SOURCES) == {case[0] for case in CASES.values()}


@pytest.mark.parametrize(
    ("source", "text", "given", "says"),
    [
        (
            "dcgm",
            DCGM.format(g0=_GPU.format(0), g1=_GPU.format(1), replays=0, xid=0, reasons=4, width=8),
            {},
            "--time",
        ),
        ("perfquery", PERFQUERY.format(minute=0, symbols=0) * 2, {}, "--host"),
        ("perfquery", "SymbolErrorCounter:..............15", {}, "# Port counters"),
        ("dcgm", 'DCGM_FI_DEV_SM_CLOCK{gpu="0",Hostname="a"} 139 1767622920000000000', {}, "not a time"),
        ("nvsentinel", "{", {}, "not JSON"),
        ("npd", "[1]", {}, "not a JSON object"),
        ("csv", CSV, {}, "[health.csv]"),
        ("csv", CSV, {"columns": COLUMNS | {"check": "Alert"}}, "no column 'Alert'"),
        ("sinfo", "r  u  2026-01-05T08:03:07 node[1-x]", {}, "not a list of nodes"),
        ("sinfo", "r  u  2026-01-05T08:03:07 node[1-99999999]", {}, "more than"),
        ("sinfo", f"r  u  2026-01-05T08:03:07 node[0-{10**26}]", {}, "not a list of nodes"),
        ("sinfo", "r  u  2026-01-05T08:03:07 node[" + "1" * 5_000 + "]", {}, "not a list of nodes"),
        ("sinfo", "r  u  2026-01-05T08:03:07 node[1-3", {}, "not a list of nodes"),
        ("sinfo", "r  u  2026-01-05T08:03:07 " + "n" * 1_001, {}, "long names"),
        ("csv", "Timestamp\n" + "x" * 200_000, {"columns": dict.fromkeys(COLUMNS, "Timestamp")}, "no CSV"),
    ],
)
def test_what_is_missing_or_wrong_is_said(source: str, text: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(SourceError, match=says.replace("[", r"\[").replace("(", r"\(")):
        found(source, text, given)


def test_a_syslogs_day_is_of_the_last_year_that_has_it() -> None:
    line = "Feb 29 14:02:11 node-b kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=1234"
    (row,) = SOURCES["kernel"].convert([line], Given(at=datetime(2029, 1, 2, tzinfo=UTC)))
    assert row["time"].startswith("2028-02-29T14:02:11")
    assert list(SOURCES["kernel"].convert([line], Given(at=datetime(2028, 1, 2, tzinfo=UTC)))) == []


def test_a_list_of_nodes_is_written_out() -> None:
    assert list(nodes("gpu[008-010,12],login,r1n[2]-ib")) == [
        "gpu008", "gpu009", "gpu010", "gpu12", "login", "r1n2-ib",
    ]  # fmt: skip


def test_a_file_may_begin_with_a_mark_and_hold_odd_ends_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = tmp_path / "event.json"
    said = json.dumps(NVSENTINEL | {"message": "one\u2028two"}, ensure_ascii=False)
    event.write_bytes(f"\ufeff{said}\r\n".encode())
    assert run(CONSOLE, ["convert-health", str(event), "--from", "nvsentinel"]) == 0
    assert json.loads(capsys.readouterr().out)["message"] == "79 one\u2028two"


def test_the_command_writes_a_days_file_once_and_clips_what_began_before(tmp_path: Path) -> None:
    log = tmp_path / "sinfo.txt"
    log.write_text(SINFO)
    day = date(2026, 1, 6)
    to = ["--landing", str(tmp_path / "landing"), "--log-date", str(day)]
    (tmp_path / "landing").mkdir()
    for _ in range(2):
        assert run(CONSOLE, ["convert-health", str(log), "--from", "sinfo", *to]) == 0
    (written,) = (tmp_path / "landing" / f"log_date={day}").iterdir()
    lines = written.read_bytes().splitlines()
    events = [read_event(line, day, Bounds())[1] for line in lines]
    midnight_us = int(datetime(2026, 1, 6, tzinfo=UTC).timestamp() * 1e6)
    assert {event.at_us for event in events} == {midnight_us}
    assert len(events) == 5
    assert "since 2026-01-05T0" in (events[0].message or "")
    assert run(CONSOLE, ["convert-health", str(log), "--from", "nvsentinel", *to]) == 1
    assert run(CONSOLE, ["convert-health", str(log), "--from", "sinfo", "--log-date", str(day)]) == 2


def test_a_day_without_events_gets_no_file_and_a_landing_that_is_missing_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, landing = tmp_path / "sinfo.txt", tmp_path / "landing"
    log.write_text(SINFO)
    of_sinfo = ["convert-health", str(log), "--from", "sinfo", "--landing", str(landing)]
    assert run(CONSOLE, [*of_sinfo, "--log-date", "2026-01-06"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"straggler convert-health: error: the landing {landing} does not exist")
    assert not landing.exists()
    landing.mkdir()
    assert run(CONSOLE, [*of_sinfo, "--log-date", "2020-01-06"]) == 0
    assert capsys.readouterr().out == "nothing written: no event of 2020-01-06\n"
    assert not [*landing.iterdir()]


def test_an_error_of_the_system_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "sinfo.txt"
    log.write_text(SINFO)
    (tmp_path / "log_date=2026-01-06").write_text("no folder")
    to = ["--landing", str(tmp_path), "--log-date", "2026-01-06"]
    assert run(CONSOLE, ["convert-health", str(log), "--from", "sinfo", *to]) == 1
    said = capsys.readouterr().err
    assert said.startswith("straggler convert-health: error: [Errno ")


def test_what_ended_before_the_day_is_not_open_on_it() -> None:
    """A failed check is open at the start of a day unless it passed again before the day."""
    failed = NVSENTINEL | {"generatedTimestamp": "2026-01-04T10:00:00Z"}
    gpu_4 = {"entitiesImpacted": [{"entityType": "GPU", "entityValue": "4"}]}
    mended = NVSENTINEL | {"generatedTimestamp": "2026-01-04T12:00:00Z", "isHealthy": True}
    later = NVSENTINEL | {"generatedTimestamp": "2026-01-06T12:00:00Z"}
    given = Given()
    output = "\n".join(map(json.dumps, (mended, failed, failed | gpu_4, later)))
    records = converted(output.encode(), "nvsentinel", given, 100)
    found = list(of_day(records, date(2026, 1, 5), given.left_out))
    assert [(each["index"], each["time"]) for each in found] == [(4, "2026-01-05T00:00:00+00:00")]
    assert given.left_out == {"events of other days": 3}


def test_a_sample_that_passed_ends_what_began_before_the_day() -> None:
    given, day = Given(), date(2026, 1, 6)
    drained = {"state": "starts", "severity": "error", "check": "drained"}
    passed = {"state": "sample", "severity": "ok", "check": "drained"}
    for times, wanted in ((("04T10", "04T12"), []), (("04T12", "04T10"), ["starts"])):
        records = [
            {"host": "a", "component": "node", **each, "time": f"2026-01-{time}:00:00+00:00"}
            for each, time in zip((drained, passed), times, strict=True)
        ]
        assert [each["state"] for each in of_day(records, day, given.left_out)] == wanted


def test_what_failed_again_in_the_second_in_which_it_passed_is_open() -> None:
    states = ("starts", "ends", "starts")
    records = [
        {
            "host": "a",
            "component": "node",
            "severity": "error",
            "check": "drained",
            "state": state,
            "time": time,
        }
        for state, time in zip(
            states, ("2026-01-04T09:00:00+00:00", *["2026-01-04T10:00:00+00:00"] * 2), strict=True
        )
    ]
    (found,) = of_day(records, date(2026, 1, 5), Given().left_out)
    assert (found["state"], found["time"]) == ("starts", "2026-01-05T00:00:00+00:00")


def test_a_line_that_breaks_off_costs_no_other_line() -> None:
    given = Given()
    text = json.dumps(NVSENTINEL) + "\n7\n" + json.dumps(NVSENTINEL)[:-9]
    assert len(converted(text.encode(), "nvsentinel", given, 100)) == 1
    assert given.left_out == {"lines that are not JSON objects": 2}
