"""A unit's causes as a table for a terminal: the time lost to each, and the time that its fix alone saves."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from jobs.report import wording
from jobs.report.cause_words import described
from jobs.report.rows import UnitTables
from schemas.causes import OF_CAUSE
from schemas.vocabulary import CAUSE_UNEXPLAINED

ALL_LOST: Final = "all that is lost"
"""First cell of the last row, which is the sum of the rows above it."""
_MOST_CULPRITS: Final = 3
"""Most culprits in the cell of a cause; the job's page and job_causes have more."""
_ADDS_UP: Final = (
    "Causes: the time lost to each, which adds up, and the time that its fix alone saves, which does not:"
)
_SAVES: Final = "Causes, and the time that each fix alone saves, which does not add up:"


class CauseList(NamedTuple):
    """A heading and a table of causes, which has no rows if no cause was found.

    is_number : whether a column has numbers, for each column
    workers : workers of each culprit that is a group of workers, by the culprit's name
    """

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_number: Sequence[bool]
    workers: Mapping[str, str]


def cause_list(tables: UnitTables) -> CauseList:
    """List the causes found in a unit, sorted by the time that each fix saves, largest first.

    If it is known what the unit lost, the last two rows are the unexplained loss and the sum of all losses.
    """
    causes = sorted(tables.causes, key=lambda row: -row["time_saved_fraction"])
    held = [row for row in causes if row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED]
    rows: list[dict[str, str]] = []
    workers: dict[str, str] = {}
    for row in held:
        words = described(row, {}, tables)
        culprits = cast("list[dict[str, object]]", words["culprits"])[:_MOST_CULPRITS]
        workers |= {str(each["where"]): str(each["workers"]) for each in culprits if each["workers"]}
        named = "; ".join(f"{each['where']}, {each['course']}, {each['effect']}" for each in culprits)
        more = len(row["culprits"]) - len(culprits)
        saved = {"gpu_hours_saved": wording.hours(row["recoverable_gpu_hours"])}
        uncertain = f"; uncertain: {words['flag']}" if words["flag"] else ""
        rows.append(
            {
                "cause": str(words["title"]),
                "time_saved": wording.percent(row["time_saved_fraction"]),
                **({} if tables.job["gpu_hours"] is None else saved),
                "culprits": named + (f"; {more} more" if more else ""),
                "what to do": f"{words['advice']}{uncertain}",
            }
        )
    is_known = bool(held) and tables.job["lost_fraction"] is not None
    if is_known:
        left = [row for row in causes if row["cause"] == CAUSE_UNEXPLAINED]
        rows += [{"cause": name} for name in (*(OF_CAUSE[row["cause"]].words for row in left), ALL_LOST)]
        losing = [*held, *left]
        if tables.job["gpu_hours"] is None:
            shares = [100 * row["lost_fraction"] for row in losing]
            cells = wording.adding_up(shares, 100 * tables.job["lost_fraction"], decimals=1)
            column, amounts = "lost_of_time", [f"{each} %" for each in cells]
        else:
            hours = [row["lost_gpu_hours"] for row in losing]
            column, amounts = "lost_gpu_hours", wording.adding_up(hours, tables.job["lost_gpu_hours"])
        rows = [{"cause": row["cause"], column: each, **row} for row, each in zip(rows, amounts, strict=True)]
    columns = [*rows[0]] if rows else []
    listed = [[row.get(name, "") for name in columns] for row in rows]
    are_numbers = [name not in {"cause", "culprits", "what to do"} for name in columns]
    return CauseList(_ADDS_UP if is_known else _SAVES, columns, listed, are_numbers, workers)
