"""Test the data dictionary: as printed in a terminal, and as a page."""

import json
import re
from pathlib import Path

import pytest

from jobs.describe import main
from jobs.report.templates import GROUPS, dictionary_alone
from jobs.runtime.nearest import suggestion
from schemas.queries import QUERIES
from schemas.symbols import SYMBOLS
from schemas.tables import TABLES
from schemas.views import VIEWS
from tests.jobs.conftest import Ask
from tests.jobs.report.pages import Page


@pytest.fixture(scope="module")
def page() -> str:
    return dictionary_alone().decode()


def test_the_page_has_every_column_view_and_query_and_needs_nothing_else(page: str) -> None:
    read = Page(page.encode())
    assert read.open == []
    ids = [values["id"] for _, values in read.tags if values.get("id")]
    assert len(ids) == len(set(ids))
    wanted = {*TABLES, *VIEWS, *(f"query-{name}" for name in QUERIES)}
    wanted |= {f"{table.name}.{column}" for table in TABLES.values() for column in table.column_names}
    assert wanted <= set(ids)
    assert [name for _, names in GROUPS for name in names] == list(TABLES)
    assert {link[1:] for link in read.all("a", "href")} | {*read.all("label", "for")} <= set(ids)
    assert not [values for _, values in read.tags if values.keys() & {"src", "srcset"}]
    assert not re.search(r"@import|url\(|https?://", page)
    assert "prefers-color-scheme: dark" in page


def test_the_page_escapes_what_it_tells(page: str) -> None:
    assert "times_slow > 0" not in page
    assert "count_if(times_slow &gt; 0 OR is_measured)" in page


def test_every_symbol_stands_by_existing_columns(page: str) -> None:
    for symbol in SYMBOLS:
        assert symbol.columns
        for table, column in symbol.columns:
            assert column in TABLES[table].column_names
    assert "S = T / T_ideal" in page
    assert [symbol.equation for symbol in SYMBOLS if symbol.equation] == [f"Eq. {n}" for n in range(1, 6)]


def test_the_list_of_tables_and_views(call: Ask) -> None:
    printed = json.loads(call(main, "--format", "json").out)
    assert [each["name"] for each in printed] == [*TABLES, *VIEWS, *QUERIES]


def test_a_table_a_view_and_a_query(call: Ask) -> None:
    printed = call(main, "Worker_Slowdown", "--warehouse", "any").out
    assert "One row per log_date, job_id, run_id, dp_rank, pp_rank." in printed
    assert re.search(r"\nslowdown_approx  double  \[ratio\]\n    the paper's shortcut", printed)
    assert max(map(len, printed.splitlines())) <= 100
    wide = call(main, "worker_slowdown", "--format", "table").out
    assert re.search(r"\n slowdown_approx +double +ratio +the paper's shortcut", wide)
    sql = call(main, "fix_first", "--sql").out
    assert (
        "Reads job_slowdown, job_causes, mitigations, cause_evidence, fix_parts.\n\nWITH explained AS (\n"
        in sql
    )
    assert call(main, "trend", "--sql", "--format", "csv").out.startswith("name,meaning,reads,sql\ntrend,")
    assert call(main, "trend", "--format", "csv").out.startswith("column,type,unit,key,null,")
    assert call(main, "jobs", "--sql").status == 2


@pytest.mark.parametrize("name", [*VIEWS, *QUERIES])
def test_every_view_and_query_has_its_columns(call: Ask, name: str) -> None:
    printed = json.loads(call(main, name, "--format", "json").out)
    assert all(each["column"] and each["type"] for each in printed)
    assert printed


def test_a_column_of_a_view_has_its_meaning_where_the_tables_agree(call: Ask) -> None:
    said = call(main, "fix_first").out
    assert re.search(
        r"\nlost_gpu_hours  double  \[GPU h\]\n    as in job_causes: gpu_hours x lost_fraction", said
    )
    assert re.search(r"\nhost  string\njob_ids  array<string>\n", said), (
        "no meaning is shown if it differs between tables"
    )


def test_what_a_view_says_of_a_column_follows_its_meaning_in_the_table(call: Ask) -> None:
    said = " ".join(call(main, "fix_first").out.split())
    hours = "as in job_causes: gpu_hours x time_saved_fraction; null without gpu_hours. Here: "
    of_link, fraction = "Mending a link saves the sum of its two rows", "time_saved_fraction_max double"
    assert of_link in said[said.index(hours) : said.index(fraction)]
    assert of_link in said[said.index(fraction) : said.index("lost_gpu_hours_low")]


def test_a_column_that_no_table_has_is_explained_by_the_view(call: Ask) -> None:
    said = call(main, "drain").out
    assert re.search(
        r"\nexpected_gpu_hours  double  \[GPU h\]\n    expected_gpu_hours = share_saved x ", said
    )
    assert re.search(r"\nbreak_even_days  double  \[days\]\n    break_even_days: a drain pays if", said)


def test_a_column_of_some_table(call: Ask) -> None:
    assert "A column of job_causes:\nflag_reason  string  may be null\n" in call(main, "Flag_Reason").out
    assert call(main, "flag_reson").err.startswith("describe: error: ")
    assert "did you mean flag_reason?" in call(main, "flag_reson").err


def test_the_page_is_written(call: Ask, tmp_path: Path, page: str) -> None:
    target = tmp_path / "dictionary.html"
    assert call(main, "--html", target).out.startswith(f"{target}: {len(TABLES)} tables, ")
    assert target.read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Hots", "did you mean host?"),
        ("job", "did you mean job_days or jobs?"),
        ("zzz", "choose from host, jobs, job_days"),
        ("", "choose from host, jobs, job_days"),
    ],
)
def test_the_nearest_name(name: str, message: str) -> None:
    assert suggestion(name, ["host", "jobs", "job_days"]) == message or name == "job"


def test_of_many_names_the_nearest_are_listed() -> None:
    names = [f"gpu-{number}" for number in range(40)]
    said = suggestion("qqq-7", names, "straggler describe")
    assert said.startswith("choose from gpu-7, gpu-")
    assert (said.count("gpu-"), said.endswith(" and 30 more (straggler describe)")) == (10, True)
