"""Tables for people and for programs: aligned text, markdown, JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

FORMATS: Final = ("text", "markdown", "json")


@dataclass(frozen=True)
class Section:
    """A table with its title and a sentence on what it shows.

    Columns whose name ends with [%] have two decimals, other broken numbers three.
    """

    title: str
    note: str
    rows: pd.DataFrame


def rendered(heading: str, sections: Sequence[Section], form: str) -> str:
    """All sections in one of FORMATS; ends with a line break."""
    if form == "json":
        return _json(heading, sections)
    is_markdown = form == "markdown"
    parts = [heading]
    for section in sections:
        title = f"### {section.title}" if is_markdown else section.title.upper()
        parts += [title, section.note, _table(section.rows, is_markdown=is_markdown)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: pd.DataFrame, *, is_markdown: bool) -> str:
    if rows.empty:
        return "None."
    names = [str(name) for name in rows.columns]
    columns = [[_shown(name, value) for value in rows[name]] for name in names]
    widths = [max(map(len, [name, *cells])) for name, cells in zip(names, columns, strict=True)]
    is_number = [all(map(_is_number, rows[name])) for name in names]
    lines = [names, *map(list, zip(*columns, strict=True))]
    aligned = [
        [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        for line in lines
    ]
    if not is_markdown:
        return "\n".join("  ".join(line).rstrip() for line in aligned)
    rule = [
        "-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, is_number, strict=True)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [aligned[0], rule, *aligned[1:]])


def _shown(name: str, value: object) -> str:
    if _is_missing(value):
        return "-"
    if isinstance(value, float | np.floating):
        return f"{value:.2f}" if name.endswith("[%]") else f"{value:.3f}"
    return str(value)


def _json(heading: str, sections: Sequence[Section]) -> str:
    return (
        json.dumps(
            {
                "heading": heading,
                "sections": [
                    {"title": each.title, "note": each.note, "rows": _records(each.rows)} for each in sections
                ],
            },
            indent=1,
        )
        + "\n"
    )


def _records(rows: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {str(name): _plain(value) for name, value in row.items()} for row in rows.to_dict(orient="records")
    ]


def _plain(value: object) -> object:
    if _is_missing(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _is_number(value: object) -> bool:
    return _is_missing(value) or isinstance(value, int | float | np.number)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))
