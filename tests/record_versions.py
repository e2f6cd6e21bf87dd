"""Record digests of the results of simulator and revision on golden inputs, by version.

`python -m tests.record_versions` records the digests of the current versions; it never replaces a recorded
digest. tests/test_versions.py compares digests of the current results with the recorded ones.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.runtime.project import PROJECT
from schemas.unit import Unit
from tests.support import published
from tests.support.golden_revision import golden_revision
from tests.support.golden_units import FOLDER, LATER, MISTAKEN, PARTS, GoldenUnit, golden_units
from udfs.revise import REVISION_VERSION
from udfs.simulate.result_tables import SIMULATOR_VERSION
from udfs.simulate.unit_batches import UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

RECORD: Final = FOLDER / "versions.json"
DIGITS: Final = 9
"""Results are rounded to this number of significant digits, because processors may differ in the others."""
SMALLEST: Final = 10
"""Results are rounded to this number of decimals, so that a 0 with a rounding error is 0."""

_DAY: Final = date(2026, 1, 5)
_ABOUT: Final = {"simulator_version", "simulation_settings"}
"""Columns that are not results."""

Results = dict[str, pa.Table]


class Versioned(NamedTuple):
    """A component: its version, where the code states the version, and its results on golden inputs."""

    version: str
    raised_in: str
    compute: Callable[[], Mapping[str, Results]]


def simulated() -> dict[str, Results]:
    """Return result tables of the published traces and of the golden units, by name of trace or unit."""
    traces = PROJECT / "tests" / "data" / "traces"
    units = [
        GoldenUnit(name, published.manifest(traces, name), published.rank_steps(traces, name))
        for name in published.NAMES
    ]
    return _simulated([*units, *golden_units()])


def simulated_later() -> dict[str, Results]:
    """Return result tables of the golden units with later additions to logs, such as run events, by name."""
    return _simulated(golden_units(LATER))


def simulated_parts() -> dict[str, Results]:
    """Return result tables of the golden units whose logs show only a part of a job, by name."""
    return _simulated(golden_units(PARTS))


def simulated_mistaken() -> dict[str, Results]:
    """Return result tables of the golden units whose producers made a mistake, by name."""
    return _simulated(golden_units(MISTAKEN))


def _simulated(units: Sequence[GoldenUnit]) -> dict[str, Results]:
    settings = SimulationSettings()
    return {
        unit.name: simulate_unit(
            UnitRows(Unit(_DAY, unit.name, "r0"), unit.manifest, unit.rank_steps), settings
        )
        for unit in units
    }


_RAISED_IN: Final = "SIMULATOR_VERSION in udfs/simulate/result_tables.py"
VERSIONED: Final = {
    "simulate": Versioned(SIMULATOR_VERSION, _RAISED_IN, simulated),
    "simulate later": Versioned(SIMULATOR_VERSION, _RAISED_IN, simulated_later),
    "simulate parts": Versioned(SIMULATOR_VERSION, _RAISED_IN, simulated_parts),
    "simulate mistaken": Versioned(SIMULATOR_VERSION, _RAISED_IN, simulated_mistaken),
    "revise": Versioned(
        REVISION_VERSION, "REVISION_VERSION in udfs/revise/__init__.py", lambda: {"all": golden_revision()}
    ),
}


def digest(results: Mapping[str, Results]) -> str:
    """Return the SHA-256 of the tables' rows, with rounded numbers and regardless of the order of rows."""
    texts = []
    for unit, tables in sorted(results.items()):
        for name, table in sorted(tables.items()):
            columns = table.drop_columns(sorted(_ABOUT & set(table.column_names)))
            rows = columns.to_pylist(maps_as_pydicts="strict")
            texts.append([unit, name, sorted(json.dumps(_rounded(row), sort_keys=True) for row in rows)])
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _rounded(value: Any) -> Any:  # noqa: ANN401  # whatever a row holds
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, float) and math.isfinite(value) and value:
        exponent = math.floor(math.log10(abs(value)))
        return round(value, min(DIGITS - 1 - exponent, SMALLEST)) + 0.0
    return value.isoformat() if isinstance(value, date) else value


def recorded() -> dict[str, dict[str, str]]:
    """Return the recorded digests by component and version."""
    found: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def record(name: str, versions: dict[str, str]) -> str:
    """Add the digest of a component's current version, and return the line to print.

    Raises SystemExit if another digest is recorded for this version.
    """
    own = VERSIONED[name]
    found = digest(own.compute())
    if versions.setdefault(own.version, found) != found:
        raise SystemExit(f"{name} {own.version} has another digest: raise {own.raised_in} first")
    return f"{name} {own.version}: {found}"


def main() -> None:
    """Record the digests of the current versions."""
    known = recorded() if RECORD.is_file() else {}
    for name in VERSIONED:
        sys.stdout.write(record(name, known.setdefault(name, {})) + "\n")
    RECORD.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
