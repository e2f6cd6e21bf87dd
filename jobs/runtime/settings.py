"""The only reader of conf/: base.toml, overlays, and overrides from the command line.

A settings file overrides the file that it names: `extends = "base"`, "local", "cluster", "kubernetes" or
"yarn". Without `extends`, it overrides local.toml.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from jobs.runtime import settings_sections as sections
from jobs.runtime.errors import WrongInputError
from jobs.runtime.nearest import close_match
from jobs.runtime.places import check_apart, check_warehouse, is_url, usual
from jobs.runtime.project import data_root, project_file

SHIPPED: Final = ("base", "local", "cluster", "kubernetes", "yarn")
"""Names of the project's own settings files, for `extends` and for the command line."""

REPORT: Final = "_report"
"""Default folder of the report in a warehouse on this machine."""

_DEFAULT: Final = "local"
_EXTENDS: Final = "extends"
_Layer = tuple[str, dict[str, Any]]  # a file's name and what it says
KEY_ERRORS: Final = {"extra_forbidden": "unknown key", "missing": "missing key"}
"""Words for pydantic's types of errors about keys."""


class SettingsError(WrongInputError):
    """Raised for settings that cannot be used; the one-line message names file and key."""


def write_named(option: str, file: Path, content: bytes) -> None:
    """Write the file that an option names. Raises SettingsError if the file cannot be written."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise SettingsError(f"{option}: {file}: {error.strerror}") from error


class Settings(sections.Section):
    """All settings of one run."""

    paths: sections.PathSettings
    landing: sections.LandingSettings
    health: sections.HealthSettings = sections.HealthSettings()
    simulation: sections.SimulationSettings
    history: sections.HistorySettings
    revision: sections.RevisionSettings
    gates: sections.GateSettings = sections.GateSettings()
    power: sections.PowerSettings
    watch: sections.WatchSettings
    live: sections.LiveSettings
    drain: sections.DrainSettings
    maintenance: sections.MaintenanceSettings
    report: sections.ReportSettings
    spark: sections.SparkSettings

    @property
    def report_folder(self) -> Path | None:
        """Return the local folder of the report: `paths.report`, or else REPORT in the warehouse.

        None if the warehouse is in a store and `paths.report` is not set.
        """
        if self.paths.report is not None:
            return Path(self.paths.report)
        return None if is_url(self.paths.warehouse) else Path(self.paths.warehouse) / REPORT


def load_settings(
    overrides: str | Path | None = None, landing: str | None = None, warehouse: str | None = None
) -> Settings:
    """Load the settings.

    overrides : a settings file, or the name of one of the project's own; None: local.toml
    landing, warehouse : override the paths in the files; relative paths start at the current folder
    Raises SettingsError for a file that cannot be read and for unknown, missing or wrong keys.
    """
    layers = _layers(str(overrides) if overrides is not None else _DEFAULT)
    merged: dict[str, Any] = {}
    for _, values in layers:
        merged = _merge(merged, values)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(_one_line(error, layers)) from None
    named = settings.paths.model_dump(exclude_none=True)
    paths = {name: _anchor(path, data_root()) for name, path in named.items()}
    called = {"landing": landing, "warehouse": warehouse}
    paths |= {name: _anchor(path, Path.cwd()) for name, path in called.items() if path}
    for name in ("warehouse", "ingested"):
        check_warehouse(paths.get(name, ""))
    check_apart(paths["landing"], paths["warehouse"])
    return settings.model_copy(update={"paths": sections.PathSettings(**paths)})


def with_new_warehouse(settings: Settings, warehouse: str) -> Settings:
    """Return settings that write results to another warehouse and read ingested tables from this one."""
    shared = settings.paths.ingested or settings.paths.warehouse
    root = _anchor(warehouse, Path.cwd())
    check_warehouse(root)
    check_apart(settings.paths.landing, root)
    if root in {shared, settings.paths.warehouse}:
        raise SettingsError(f"--warehouse-new: {root} is the warehouse itself")
    paths = settings.paths.model_copy(update={"warehouse": root, "ingested": shared})
    return settings.model_copy(update={"paths": paths})


def with_spark_conf(settings: Settings, conf: Mapping[str, str]) -> Settings:
    """Return settings with additional Spark settings."""
    spark = settings.spark.model_copy(update={"conf": {**settings.spark.conf, **conf}})
    return settings.model_copy(update={"spark": spark})


def _layers(chosen: str) -> list[_Layer]:
    """Load all files of settings, the base file first, as (name, contents)."""
    layers: list[_Layer] = []
    wanted: str | None = chosen
    while wanted is not None:
        name = f"conf/{wanted}.toml" if wanted in SHIPPED else wanted
        values = _read(name, project_file("conf", f"{wanted}.toml") if wanted in SHIPPED else Path(wanted))
        parent = values.pop(_EXTENDS, None if wanted == "base" else _DEFAULT)
        if parent is not None and parent not in SHIPPED:
            raise SettingsError(f"{name}: {_EXTENDS}: must be one of {', '.join(SHIPPED)}, not {parent!r}")
        layers.insert(0, (name, values))
        wanted = parent
    return layers


def _read(name: str, file: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, KeyError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "cannot be read"
        raise SettingsError(f"{name}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: not TOML: {error}") from None


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables of settings: subtables recursively, while other values are replaced."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _one_line(error: ValidationError, layers: Sequence[_Layer]) -> str:
    """Describe the first validation error, with the last file that sets the key, or else the base file."""
    first = error.errors(include_url=False)[0]
    place = first["loc"]
    name = next((name for name, values in reversed(layers) if _has(values, place)), layers[0][0])
    words = KEY_ERRORS.get(first["type"])
    if words is None:
        words = f"{first['msg']}, not {first['input']!r:.60}"
    elif first["type"] == "extra_forbidden" and (near := _instead(place, first["input"], layers[0][1])):
        words += f": {near}"
    return f"{name}: {'.'.join(map(str, place))}: {words}"


def _instead(place: Sequence[int | str], value: object, base: Mapping[str, Any]) -> str:
    """Return a hint for an unknown key; empty if there is none.

    The hint is the closest key in the same table, or else the sections that have the key; for an unknown
    section, the sections that have its keys.
    """
    table: Any = base
    for key in place[:-1]:
        table = table.get(key) if isinstance(table, dict) else None
    if near := close_match(str(place[-1]), [*table] if isinstance(table, dict) else []):
        return near
    is_section = len(place) == 1 and isinstance(value, dict)
    known = {
        section: kind.model_fields
        for section, field in Settings.model_fields.items()
        if isinstance(kind := field.annotation, type) and issubclass(kind, sections.Section)
    }
    wanted = [*value] if isinstance(value, dict) and is_section else [str(place[-1])]
    owners = [f"[{section}] has {key}" for key in wanted for section, keys in known.items() if key in keys]
    return ", ".join(owners) or (f"choose from {', '.join(known)}" if is_section else "")


def _has(values: object, place: Sequence[int | str]) -> bool:
    for key in place:
        if not isinstance(values, dict) or key not in values:
            return isinstance(values, list | tuple)
        values = values[key]
    return True


def _anchor(path: str, folder: Path) -> str:
    if not is_url(path):
        return str((folder / Path(path).expanduser()).resolve())
    scheme, _, place = usual(path).partition("://")
    return f"{scheme}://{place.rstrip('/')}"  # tables' names follow, and stores allow no double slash
