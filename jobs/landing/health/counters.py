"""Readers of repeatedly scraped metrics and counters: DCGM's exporter, perfquery of InfiniBand ports."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from jobs.landing.formats.health import LARGEST
from jobs.landing.health.source import Given, Grown, Lines, Record, SourceError, record, unix_time
from schemas.vocabulary import HEALTH_ERROR, HEALTH_INFO, HEALTH_OK, HEALTH_SAMPLE, HEALTH_WARNING

_SAMPLE: Final = re.compile(r"(DCGM_FI_\w+)\s*\{(.*)\}\s+(\S+)(?:\s+(\d{1,30}))?\s*")
_LABEL: Final = re.compile(r'\b(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')

_GROWS: Final = {
    "ECC_SBE_VOL_TOTAL": ("gpu", "ecc_corrected", HEALTH_INFO),
    "ECC_DBE_VOL_TOTAL": ("gpu", "ecc_uncorrected", HEALTH_ERROR),
    "CORRECTABLE_REMAPPED_ROWS": ("gpu", "rows_remapped", HEALTH_INFO),
    "UNCORRECTABLE_REMAPPED_ROWS": ("gpu", "rows_remapped_uncorrectable", HEALTH_WARNING),
    "PCIE_REPLAY_COUNTER": ("gpu", "pcie_replay", HEALTH_WARNING),
    "POWER_VIOLATION": ("gpu", "throttle_power", HEALTH_WARNING),
    "THERMAL_VIOLATION": ("gpu", "throttle_thermal", HEALTH_WARNING),
    "RELIABILITY_VIOLATION": ("gpu", "throttle_reliability", HEALTH_WARNING),
    "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("link", "nvlink_crc", HEALTH_WARNING),
    "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("link", "nvlink_crc_data", HEALTH_WARNING),
    "NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("link", "nvlink_replay", HEALTH_WARNING),
    "NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("link", "nvlink_recovery", HEALTH_ERROR),
}
"""Counters of DCGM of which growth is reported -> component, check, severity."""
_NOT_ZERO: Final = {"ROW_REMAP_FAILURE": ("gpu", "row_remap_failure", HEALTH_ERROR)}
_REASONS: Final = ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS")
_REASON_BITS: Final = {
    0x04: "throttle_power",
    0x08: "throttle_hardware",
    0x20: "throttle_thermal",
    0x40: "throttle_thermal",
    0x80: "throttle_power_brake",
}
"""Bits of nvmlClocksEventReasons -> check; the bits of idle GPUs and of requested clocks are left out."""
_BELOW: Final = {
    "PCIE_LINK_WIDTH": ("PCIE_MAX_LINK_WIDTH", "pcie_width"),
    "PCIE_LINK_GEN": ("PCIE_MAX_LINK_GEN", "pcie_generation"),
}
"""Metric of a PCIe link -> metric of its maximum, and the check that fails below the maximum."""

_PORT: Final = re.compile(r"# Port (?:extended )?counters: Lid \d+ port (\d{1,5})\b")
_COUNTER: Final = re.compile(r"(\w+):\.*(\w{1,20})\s*")
_PORT_COUNTERS: Final = {
    "SymbolErrorCounter": ("symbol_errors", HEALTH_WARNING),
    "LinkErrorRecoveryCounter": ("link_error_recovery", HEALTH_WARNING),
    "LinkDownedCounter": ("link_downed", HEALTH_ERROR),
    "PortRcvErrors": ("receive_errors", HEALTH_WARNING),
    "PortRcvRemotePhysicalErrors": ("remote_physical_errors", HEALTH_WARNING),
    "PortXmitDiscards": ("transmit_discards", HEALTH_WARNING),
    "LocalLinkIntegrityErrors": ("link_integrity_errors", HEALTH_WARNING),
    "ExcessiveBufferOverrunErrors": ("buffer_overruns", HEALTH_WARNING),
    "PortXmitWait": ("transmit_wait", HEALTH_INFO),
}
"""Counters of a port of which growth is reported -> check, severity."""


def dcgm(lines: Lines, given: Given) -> Iterator[Record]:
    """Read metrics as printed by DCGM's exporter, from one scrape or several scrapes in a row."""
    grown = Grown()
    most: dict[tuple[object, ...], float] = {}
    for line in lines:
        if given.moves_on(line) or line.startswith("#") or not line.strip():
            continue
        found = _SAMPLE.fullmatch(line.strip())
        if found is None:
            given.left_out["lines that are not samples of a metric"] += 1
            continue
        name, labels = found[1].removeprefix("DCGM_FI_DEV_"), dict(_LABEL.findall(found[2]))
        host = given.host or labels.get("Hostname") or labels.get("hostname") or given.named_host()
        at = given.taken_at() if found[4] is None else unix_time(int(found[4]) / 1e3)
        gpu, value = labels.get("gpu", ""), _number(found[3])
        device = int(gpu) if gpu.isdecimal() and len(gpu) < 6 else None
        if at is None:
            raise SourceError(f"not a time: {found[4]} ms since 1970")
        if value is None or (device is None and "gpu" in labels):
            given.left_out["samples without a number, or of a GPU without one"] += 1
            continue
        most[host, device, name] = value
        for component, check, severity in _dcgm_checks(name, value, grown, (host, device), most):
            yield record(at, host, component, check, HEALTH_SAMPLE, severity, index=device, value=value)


def _dcgm_checks(
    name: str,
    value: float,
    grown: Grown,
    of: tuple[str, int | None],
    most: Mapping[tuple[object, ...], float],
) -> Iterator[tuple[str, str, str]]:
    """Yield component, check and severity of each finding in a metric's value.

    of : host and device
    most : last value of each metric, by host, device and name
    """
    if name in _GROWS:
        component, check, severity = _GROWS[name]
        if (found := grown.severity((*of, name), value, severity)) is not None:
            yield component, check, found
    elif name in _NOT_ZERO:
        component, check, severity = _NOT_ZERO[name]
        yield component, check, severity if value else HEALTH_OK
    elif name == "XID_ERRORS":
        if (found := grown.changed((*of, name), value, HEALTH_ERROR)) is not None:
            yield "gpu", f"xid_{value:.0f}" if found != HEALTH_OK else "xid", found
    elif name in _REASONS:
        set_ = {check for bit, check in _REASON_BITS.items() if int(value) & bit}
        for check in sorted(set(_REASON_BITS.values())):
            yield "gpu", check, HEALTH_WARNING if check in set_ else HEALTH_OK
    elif name in _BELOW:
        maximum, check = _BELOW[name]
        if (at_most := most.get((*of, maximum))) is not None:
            yield "gpu", check, HEALTH_WARNING if value < at_most else HEALTH_OK


def perfquery(lines: Lines, given: Given) -> Iterator[Record]:
    """Read counters of InfiniBand ports as printed by perfquery, from one call or several calls."""
    grown, port = Grown(), None
    for line in lines:
        if given.moves_on(line) or not line.strip():
            continue
        if head := _PORT.match(line):
            port = int(head[1])
        elif counter := _COUNTER.fullmatch(line.strip()):
            if port is None:
                raise SourceError("no line '# Port counters: Lid L port P' before the first counter")
            if counter[1] in _PORT_COUNTERS and counter[2].isdecimal():
                check, worst = _PORT_COUNTERS[counter[1]]
                host, at, value = given.named_host(), given.taken_at(), float(counter[2])
                severity = grown.severity((host, port, check), value, worst)
                if severity is not None:
                    yield record(at, host, "link", check, HEALTH_SAMPLE, severity, index=port, value=value)
        else:
            given.left_out["lines that are not counters"] += not line.startswith("#")


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) <= LARGEST else None
