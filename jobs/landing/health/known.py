"""Registry of all converters to health/1, by name."""

from typing import Final

from jobs.landing.health.counters import dcgm, perfquery
from jobs.landing.health.documents import nvsentinel, problem_detector
from jobs.landing.health.events import csv_rows, kernel, scontrol, sinfo
from jobs.landing.health.source import Source

SOURCES: Final = {
    "dcgm": Source(dcgm, "metrics of DCGM's exporter, as scraped; several scrapes show growth"),
    "nvsentinel": Source(nvsentinel, "HealthEvents of NVSentinel, JSON"),
    "sinfo": Source(sinfo, "sinfo -R: Slurm's reasons, and since when"),
    "scontrol": Source(scontrol, "scontrol show node: the same, node by node"),
    "npd": Source(problem_detector, "node-problem-detector: kubectl get nodes, or events, -o json"),
    "kernel": Source(kernel, "kernel lines with an XID: journalctl -k -o short-iso, or a syslog"),
    "perfquery": Source(perfquery, "perfquery's counters of InfiniBand ports; several calls show growth"),
    "csv": Source(csv_rows, "any CSV, by the mapping [health.csv] of the settings"),
}
