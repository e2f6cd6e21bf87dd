"""The code on jobs/reading/README.md runs as printed, in DuckDB and in other engines and tools."""

import re
import sys
from pathlib import Path

from jobs.runtime.project import PROJECT
from schemas.vocabulary import FLEET_DAY
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.commands import start
from tests.support.examples import table_rows

READERS = re.compile(r"```python\n(# Every table by .*?)```", re.DOTALL)


def test_the_lines_of_the_readme_read_the_tables_without_spark(tmp_path: Path) -> None:
    warehouse = warehouse_of(tmp_path, fleet_day=table_rows(FLEET_DAY))
    (block,) = READERS.findall((PROJECT / "jobs" / "reading" / "README.md").read_text(encoding="utf-8"))
    lines = block.replace("demo/warehouse", warehouse.root)
    names = re.findall(r"^(by_\w+) =", block, re.MULTILINE)
    assert names == ["by_deltalake", "by_pandas", "by_polars", "by_duckdb"]
    counted = f"{lines}\nprint(*map(len, [{', '.join(names)}]))"
    done = start([sys.executable, "-c", counted])
    assert (done.stdout, done.stderr) == ("1 1 1 1\n", "")
