"""SQL in files: filled in from the vocabulary; the comment at a file's top is its meaning."""

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import takewhile
from string import Template
from typing import Final

from schemas import groups
from schemas.table import sql_strings
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    OP_TYPES,
    REPLAYED_STATUSES,
    STATUS_ANALYSED,
    STATUS_FAILED,
    STATUSES,
    STRAGGLING_SLOWDOWN,
)

ALL_DAYS: Final = "true"
OF_PERIOD: Final = "log_date BETWEEN :first_day AND :last_day"
"""What $in_period stands for: in a view all days; in a named query those of a period, both ends included."""

_FUNNEL: Final = (STATUS_FAILED, *(status for status in STATUSES if status != STATUS_FAILED))
"""Statuses by how far a unit has come; our own defect tells nothing about a run."""

WORDS: Final[Mapping[str, str]] = {
    "op_names": sql_strings(OP_TYPES),
    "statuses": f"array({sql_strings(_FUNNEL)})",
    "replayed_statuses": sql_strings(REPLAYED_STATUSES),
    "analysed": sql_strings([STATUS_ANALYSED]),
    "unexplained": sql_strings([CAUSE_UNEXPLAINED]),
    "straggling_slowdown": repr(STRAGGLING_SLOWDOWN),
    "size_bucket": groups.SIZE_BUCKET,
    "groups": groups.GROUPS,
    "is_worker_driven": groups.IS_WORKER_DRIVEN,
    "is_stage_driven": groups.IS_STAGE_DRIVEN,
    "is_sequence_driven": groups.IS_SEQUENCE_DRIVEN,
}
"""What $placeholders stand for, in views and queries alike."""


def load(package: str, name: str, words: Mapping[str, str]) -> tuple[str, str]:
    """Meaning and SQL of a file, wherever the package lies: a folder or a zip."""
    raw = files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    text = Template(raw).substitute({**WORDS, **words})
    comment = list(takewhile(lambda line: line.startswith("--"), text.splitlines()))
    meaning = " ".join(line.removeprefix("--").strip() for line in comment)
    return meaning, "\n".join(text.splitlines()[len(comment) :])


def read_from(sql: str) -> set[str]:
    """Names that follow FROM or JOIN: tables, views, and the query's own."""
    return set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql))
