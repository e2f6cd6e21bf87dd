"""Suites of expectations in Great Expectations' own JSON, for the rows that a phase publishes.

Most checks are rules on single rows, declared in schemas/. A suite checks what only many rows together can
show: a median, the share of rows that pass (`mostly`), values that are usual in a fleet. The built-in suite
is job_slowdown.json; a team's own suites are in the folder of the setting `gates.suites`. A suite's name, or
`table` in its meta, names the table that it checks.
"""

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, cast

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from jobs.gates.checks import GateError, Rule
from jobs.runtime.extras import missing
from jobs.runtime.nearest import missing_folder, suggestion
from jobs.runtime.project import data_root, project_file
from jobs.runtime.settings import KEY_ERRORS, SettingsError
from jobs.warehouse.rows import Rows, columns_of
from schemas.table import Severity
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, JOB_CAUSES, RESULT_TABLES, Phase

_LIBRARY: Final = "great_expectations"
_SERVE: Final = """
import sys
from importlib import import_module
from types import ModuleType

class Late(ModuleType):
    def __getattr__(self, name):
        if sys.modules[self.__name__] is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)

sys.modules.update(pyspark=None, sqlalchemy=None)
sys.modules.update({name: Late(name) for name in ("altair", "scipy.stats")})
from jobs.gates.suite_runner import serve
serve()
"""
"""Program of the process that runs suites.

It makes Great Expectations import in half the time: pyspark and sqlalchemy count as not installed, and altair
and scipy.stats, which few expectations need, are imported when an attribute of theirs is first used.
"""
_OURS: Final = "job_slowdown.json"
_TABLES_OF: Final[Mapping[str, Sequence[str]]] = {
    Phase.INGEST: INGESTED_TABLES,
    Phase.SIMULATE: RESULT_TABLES,
    Phase.REVISE: (JOB_CAUSES,),  # it changes job_slowdown, too, but simulate judges that
    Phase.AGGREGATE: FLEET_TABLES,
}


class _Stated(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str | None = None
    meta: dict[str, Any] | None = None
    notes: str | list[str] | None = None


class StatedExpectation(_Stated):
    """An expectation as its file states it.

    Fields that Great Expectations only renders, or that record its last run, may be there and are ignored.
    """

    type: str
    kwargs: dict[str, Any] = {}
    description: str | None = None
    severity: Literal["critical", "warning", "info"] = "critical"
    rendered_content: Any = None
    success_on_last_run: bool | None = None

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return the columns that the expectation names, each with its key."""
        single, lists = ("column", "column_A", "column_B"), ("column_list", "column_set")
        one = [(key, self.kwargs[key]) for key in single if key in self.kwargs]
        return one + [(key, name) for key in lists for name in self.kwargs.get(key) or ()]

    @property
    def name(self) -> str:
        """Return the name by which a release refers to the expectation: its type and columns."""
        return ".".join([self.type, *(name for _, name in self.columns)])

    @property
    def meaning(self) -> str:
        """Return the expectation's description, else a text made from its type and arguments."""
        return self.description or " ".join(
            [self.type, *(f"{key}={json.dumps(value)}" for key, value in self.kwargs.items())]
        )

    @property
    def effect(self) -> Severity:
        """Return `refuses` for severity `critical`, else `warns`; old files state the severity in `meta`."""
        stated = (self.meta or {}).get("severity", self.severity)
        return "refuses" if stated == "critical" else "warns"


class _File(_Stated):
    name: str
    expectations: list[StatedExpectation]


class Suite(NamedTuple):
    """Suite of expectations: the name of its file for error messages, its table and its expectations."""

    file: str
    table: str
    expectations: Sequence[StatedExpectation]

    @property
    def columns(self) -> list[str]:
        """Return the columns of the table that the suite needs, and the key, which identifies bad rows."""
        named = {name for each in self.expectations for _, name in each.columns}
        all_ = any(not each.columns or "row_condition" in each.kwargs for each in self.expectations)
        named |= {*TABLES[self.table].grain}
        return [name for name in TABLES[self.table].column_names if all_ or name in named]


class Suites:
    """Suites of expectations for the tables that one phase publishes.

    Raises SettingsError for a suite of any phase that cannot be read: one line with file and key.
    """

    def __init__(self, folder: str | None, phase: str) -> None:
        found = read_suites(folder)
        self._suites = [each for each in found if each.table in _TABLES_OF.get(phase, ())]
        if self._suites:
            _process()  # its imports take seconds, while the phase computes its rows

    def rules(self, tables: Mapping[str, Rows]) -> list[Rule]:
        """Check the rows of a phase's tables against the suites; return a Rule for each expectation.

        Raises SettingsError for an expectation that Great Expectations refuses, GateError for one that it
        cannot evaluate.
        """
        found = []
        for suite in self._suites:
            if suite.table in tables and tables[suite.table].num_rows:
                started = time.monotonic()
                rules = _judged(suite, columns_of(suite.table, tables[suite.table], suite.columns))
                seconds = time.monotonic() - started
                section = f"suite {suite.file}, run by Great Expectations in {seconds:.1f} s"
                found += [rule._replace(section=section) for rule in rules]
        return found


def read_suites(folder: str | None) -> list[Suite]:
    """Read the built-in suite and the suites in a folder.

    If Great Expectations is not installed, returns no suites, or raises SettingsError if a folder is set.
    """
    if find_spec(_LIBRARY) is None:
        if folder is not None:
            raise SettingsError(f"gates.suites: {missing(ModuleNotFoundError(name=_LIBRARY))}")
        return []
    files: list[tuple[str, Traversable]] = [(_OURS, project_file("jobs", "gates", _OURS))]
    if folder is not None:
        place = data_root() / Path(folder).expanduser()
        if not place.is_dir():
            raise SettingsError(f"gates.suites: {missing_folder(str(place))}")
        files += (own := [(str(file), file) for file in sorted(place.rglob("*.json"))])
        if not own:
            raise SettingsError(f"gates.suites: {place} contains no suite, which is a file *.json")
    return [_read(name, file) for name, file in files]


def _read(name: str, file: Traversable) -> Suite:
    try:
        stated = _File.model_validate_json(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"{key}: " for key in [".".join(map(str, first["loc"]))] if key)
        raise SettingsError(f"{name}: {place}{KEY_ERRORS.get(first['type'], first['msg'])}") from None
    meta = stated.meta or {}
    table, key = (meta["table"], "meta.table") if "table" in meta else (stated.name, "name")
    if table not in TABLES:
        hint = suggestion(str(table), [*TABLES])
        raise SettingsError(f"{name}: {key}: no table is named {table!r}: {hint}")
    for number, each in enumerate(stated.expectations):
        for key, column in each.columns:
            if column not in TABLES[table].column_names:
                hint = suggestion(str(column), TABLES[table].column_names)
                raise SettingsError(
                    f"{name}: expectations.{number}.kwargs.{key}: {table} has no column {column!r}: {hint}"
                )
    return Suite(name, table, stated.expectations)


def _judged(suite: Suite, rows: pa.Table) -> list[Rule]:
    process = _process()
    asked, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    try:
        pickle.dump((suite, rows), asked)
        asked.flush()
        found = pickle.load(answers)  # noqa: S301  # from a process of this module
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        _process.cache_clear()
        process.kill()  # it still runs if it wrote something else than a result
        raise GateError(f"{suite.file}: the process that runs suites ended: {process.wait()}") from error
    if isinstance(found, Exception):
        raise found
    return cast("list[Rule]", found)


@cache
def _process() -> subprocess.Popen[bytes]:
    """Start the process that runs suites; it ends with this process, because its input is then closed.

    It is separate, because an import of Great Expectations changes logging and takes seconds of CPU time.
    """
    return subprocess.Popen(  # noqa: S603  # this program itself
        [sys.executable, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "GX_ANALYTICS_ENABLED": "False"},
    )
