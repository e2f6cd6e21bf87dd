"""What a benchmark found, beside what was found when the baseline was written.

Machines differ and are shared, so that a time is compared as a ratio to something that ran in those minutes.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BASELINE: Final = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True)
class Figure:
    """One measurement.

    name     : what ran, on what.
    ops      : how many ops it worked on.
    took_s   : how long. [s]
    ratio    : took_s over the time of what it is compared with.
    peak_mib : peak memory where it was watched. [MiB]
    """

    name: str
    ops: int
    took_s: float
    ratio: float
    peak_mib: float | None = None


def show(title: str, compared_with: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Print a table, each line as its figure comes; hands the figures on."""
    baseline = json.loads(BASELINE.read_text()) if BASELINE.is_file() else {}
    print(f"\n{title}\nratio: to {compared_with}")
    heads = (
        f"{'ops':>12s}{'ms':>11s}{'ns/op':>8s}{'ratio':>9s}{'baseline':>10s}{'now/base':>9s}{'peak MiB':>10s}"
    )
    print(f"{'':54s}{heads}")
    for figure in figures:
        known = baseline.get(figure.name)
        against = f"{known:10.3f}{figure.ratio / known:9.2f}" if known else f"{'-':>10s}{'-':>9s}"
        peak = f"{figure.peak_mib:10,.0f}" if figure.peak_mib else ""
        per_op_ns = figure.took_s / figure.ops * 1e9
        print(
            f"{figure.name:54s}{figure.ops:12,d}{figure.took_s * 1e3:11.2f}{per_op_ns:8.1f}"
            f"{figure.ratio:9.3f}{against}{peak}",
            flush=True,
        )
        yield figure


def write_baseline(figures: Iterable[Figure]) -> None:
    """Let later runs be compared with these."""
    ratios = {figure.name: round(figure.ratio, 4) for figure in figures}
    BASELINE.write_text(json.dumps(ratios, indent=2) + "\n")
