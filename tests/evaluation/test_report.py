"""Tables as people and programs get them."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.evaluation.report import Section, rendered

ROWS = pd.DataFrame({"name": ["one", "two"], "MAE [%]": [0.256, np.nan], "F1": [None, 0.98765]})
SECTIONS = [Section("Scores", "What they are.", ROWS), Section("No rows", "", ROWS.head(0))]


def test_markdown_rounds_and_json_is_exact() -> None:
    assert rendered("Seeds 1 to 2.", SECTIONS, "markdown") == (
        "Seeds 1 to 2.\n\n### Scores\n\nWhat they are.\n\n"
        "| name | MAE [%] | F1 |\n"
        "| --- | ---: | ---: |\n"
        "| one | 0.26 | - |\n"
        "| two | - | 0.988 |\n\n"
        "### No rows\n\nNone.\n"
    )
    assert "\n\nSCORES\n\n" in rendered("Seeds 1 to 2.", SECTIONS, "text")
    assert json.loads(rendered("Seeds 1 to 2.", SECTIONS, "json"))["sections"][0]["rows"] == [
        {"name": "one", "MAE [%]": 0.256, "F1": None},
        {"name": "two", "MAE [%]": None, "F1": pytest.approx(0.98765)},
    ]
