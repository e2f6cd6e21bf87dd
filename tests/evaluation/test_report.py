"""Tables as people and programs get them."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.evaluation.report import Section, rendered

ROWS = pd.DataFrame(
    {"name": ["one", "two"], "jobs": np.array([1, 20]), "MAE [%]": [0.256, np.nan], "F1": [None, 0.98765]}
)
SECTIONS = [Section("Scores", "What they are.", ROWS), Section("Nobody", "", ROWS.head(0))]


def test_markdown() -> None:
    assert rendered("Seeds 1 to 2.", SECTIONS, "markdown") == (
        "Seeds 1 to 2.\n\n### Scores\n\nWhat they are.\n\n"
        "| name | jobs | MAE [%] | F1 |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| one | 1 | 0.26 | - |\n"
        "| two | 20 | - | 0.988 |\n\n"
        "### Nobody\n\nNone.\n"
    )


def test_text() -> None:
    assert rendered("Seeds 1 to 2.", SECTIONS[:1], "text") == (
        "Seeds 1 to 2.\n\nSCORES\n\nWhat they are.\n\n"
        " name   jobs   MAE [%]      F1\n"
        " ─────────────────────────────\n"
        " one       1      0.26       -\n"
        " two      20         -   0.988\n"
    )


def test_json_is_exact_and_knows_no_nan() -> None:
    read = json.loads(rendered("Seeds 1 to 2.", SECTIONS, "json"))
    assert read["heading"] == "Seeds 1 to 2."
    assert read["sections"][0]["rows"] == [
        {"name": "one", "jobs": 1, "MAE [%]": 0.256, "F1": None},
        {"name": "two", "jobs": 20, "MAE [%]": None, "F1": pytest.approx(0.98765)},
    ]
    assert read["sections"][1]["rows"] == []
