"""All declared tables by name; table.py has the classes that declare them."""

from typing import Final

from schemas import (
    effective_time,
    exposed_communication,
    fleet_tables,
    gpu_types,
    health_tables,
    ingested_tables,
    job_causes,
    job_changes,
    job_slowdown,
    live_tables,
    log_tables,
    mitigations,
    part_tables,
    power_tables,
    role_tables,
)
from schemas.table import SchemaError, Table
from schemas.vocabulary import TABLE_NAMES

_MODULES: Final = (
    ingested_tables, job_slowdown, job_causes, part_tables, effective_time, gpu_types, exposed_communication,
    role_tables, power_tables, mitigations, fleet_tables, health_tables, job_changes, log_tables, live_tables,
)  # fmt: skip
_DECLARED: Final = {
    table.name: table for module in _MODULES for table in vars(module).values() if isinstance(table, Table)
}
if unnamed := _DECLARED.keys() - set(TABLE_NAMES):
    raise SchemaError(f"declared, but not in a tuple of schemas/vocabulary.py: {sorted(unnamed)}")
TABLES: Final[dict[str, Table]] = {name: _DECLARED[name] for name in TABLE_NAMES}
"""Tables by name, in the order of vocabulary.TABLE_NAMES."""
