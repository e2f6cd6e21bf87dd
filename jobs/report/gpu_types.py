"""Section of a job's page: what its types of GPU cost, type by type."""

import math

from jobs.report.loss import of_unit
from jobs.report.rows import Row, UnitTables
from jobs.report.section import Section
from jobs.report.wording import number, ratio, seconds
from schemas.vocabulary import GPU_TYPE_SLOWDOWN


def gpu_types(tables: UnitTables) -> Section | None:
    """What unlike GPUs cost, type by type."""
    rows = tables.further.get(GPU_TYPE_SLOWDOWN, ())
    if not rows:
        return None
    saved = rows[0]["time_saved_fraction"]
    says = (
        f"If all workers were as fast as those on the fastest type, all else as recorded, "
        f"{of_unit(saved, rows[0]['saved_gpu_hours'])} would be saved. "
        if saved is not None
        else ""
    )
    return Section(
        "gpu-types",
        "Types of GPU",
        f"{says}Times as long: usual computes compared with the fastest type's in the same stages; in "
        "brackets where the difference is within the noise. Slowdown: replayed with this type as recorded "
        "and all else ideal.",
        ("type", "workers", "hosts", "forward", "backward", "times as long", "slowdown"),
        [
            (
                row["gpu_type"],
                number(row["workers"]),
                number(row["hosts"]),
                seconds(row["forward_ideal_s"]),
                seconds(row["backward_ideal_s"]),
                _factor(row),
                ratio(row["slowdown"]),
            )
            for row in sorted(rows, key=lambda row: row["factor"] or math.inf)
        ],
    )


def _factor(row: Row) -> str:
    is_certain = row["is_slower"] or row["factor"] in (None, 1.0)
    return ratio(row["factor"]) if is_certain else f"({ratio(row['factor'])})"
