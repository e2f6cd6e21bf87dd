"""Power section of a job's page: share of GPUs that compute at the same time, and its swing."""

from typing import Any, Final

from jobs.report.rows import Row, UnitTables
from jobs.report.sections import Section
from jobs.report.templates import rounded
from jobs.report.wording import MISSING, percent, seconds
from schemas.vocabulary import JOB_MEGAWATTS, JOB_POWER

CHART: Final = "chart-power"
_FIGURES: Final = {
    "mean": ("mean", "mean_mw"),
    "low": ("least", "low_mw"),
    "high": ("greatest", "high_mw"),
    "swing": ("swing of the mean step", "swing_mw"),
    "step_swing": ("swing of a single step", None),
}
"""By columns of job_power, without `_share`: words, and the column of megawatts."""


def power_section(tables: UnitTables) -> Section | None:
    """Make the power section; None if the unit has no row in job_power."""
    row = _only(tables, JOB_POWER)
    if row is None:
        return None
    megawatts = _only(tables, JOB_MEGAWATTS)
    has_megawatts = megawatts is not None and megawatts["mean_mw"] is not None
    gpus = tables.job["world_size"]
    rows = []
    for name, (words, in_mw) in _FIGURES.items():
        share = row[f"{name}_share"]
        cells = [words, percent(share), f"{share * gpus:,.0f}"]
        if megawatts is not None and has_megawatts:
            cells.append(MISSING if in_mw is None else f"{megawatts[in_mw]:.3f}")
        rows.append(cells)
    return Section(
        name="power",
        title="How many workers compute at once: what its power swings with",
        says=_says(row),
        columns=["", "of the workers", "GPUs", *(["MW"] if has_megawatts else [])],
        rows=rows,
        chart=CHART,
    )


def power_chart(tables: UnitTables) -> list[dict[str, Any]]:
    """Chart of computing GPUs over the mean step; empty if the unit has no row in job_power."""
    row = _only(tables, JOB_POWER)
    if row is None:
        return []
    bins = len(row["computing_share"])
    columns = {
        "at_s": rounded((row["actual_step_s"] * (place + 0.5) / bins for place in range(bins)), 6),
        "share": rounded(row["computing_share"], 4),
        "low": rounded(row["computing_share_low"], 4),
        "high": rounded(row["computing_share_high"], 4),
    }
    return [{"name": "power", "id": CHART, "rows": columns}]


def _says(row: Row) -> str:
    text = "Share of the workers in a forward, backward or optimizer over the mean step; "
    text += "shaded: from the least to the greatest of any recorded step."
    if row["dominant_period_s"] is not None:
        text += f" It swings most with a period of {seconds(row['dominant_period_s'])}."
    return text


def _only(tables: UnitTables, name: str) -> Row | None:
    rows = tables.further.get(name, ())
    return rows[0] if rows else None
