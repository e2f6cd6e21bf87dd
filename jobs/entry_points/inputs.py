"""Checks of whether a command's input exists, before the command creates anything or starts Spark."""

from pathlib import Path

from jobs.landing.files import Landing, NoLandingError
from jobs.runtime.arguments import Arguments
from jobs.runtime.nearest import missing_folder
from jobs.runtime.places import is_url
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.reader import NO_TABLES
from jobs.warehouse.stored import is_stored
from jobs.warehouse.table_log import has_rows_of
from schemas.vocabulary import PIPELINE_RUNS, PUBLISHED_TABLES


def a_warehouse(settings: Settings, _args: Arguments) -> str | None:
    """Raise SettingsError if the warehouse does not exist."""
    for root in filter(None, (settings.paths.warehouse, settings.paths.ingested)):
        if is_url(root):
            if not is_stored(f"{root}/{PIPELINE_RUNS}"):
                raise SettingsError(f"the warehouse {root} has no tables: {NO_TABLES}")
        elif not Path(root).is_dir():
            raise SettingsError(f"the warehouse {missing_folder(root)}")
        _outside_of_tables(root)
    return None


def a_landing(settings: Settings, _args: Arguments) -> str | None:
    """Raise an error if the landing cannot be read, or if no warehouse can be created at its place.

    Raises NoLandingError also if the given folder lies above or below the one that has the days' folders.
    The first night creates the warehouse's folder, but not the folder above. If that is missing, the path is
    mistyped or a disk is not mounted, and SettingsError is raised.
    """
    Landing(settings.paths.landing, []).check_days()
    room_for(settings.paths.warehouse)
    return None


def room_for(warehouse: str) -> None:
    """Raise SettingsError if the parent folder of a new warehouse does not exist, or lies in a table."""
    parent = Path(warehouse).parent
    if not is_url(warehouse) and not parent.is_dir():
        raise SettingsError(f"the warehouse {warehouse} cannot be made: {missing_folder(str(parent))}")
    _outside_of_tables(warehouse)


def _outside_of_tables(warehouse: str) -> None:
    """Raise SettingsError for a local folder that is a table of some warehouse, or lies in a table."""
    if is_url(warehouse):
        return
    here = Path(warehouse).absolute()
    table = next((each for each in (here, *here.parents) if is_stored(str(each))), None)
    if table is not None:
        place = "is" if table == here else f"lies in {table}, which is"
        raise SettingsError(
            f"the warehouse {warehouse} {place} a table of the warehouse {table.parent}: name the folder of "
            "that warehouse, or one outside of it, by --warehouse"
        )


def logs_of_a_day(settings: Settings, args: Arguments) -> str | None:
    """Check the landing like `a_landing`; return a message if the log date has no run folders.

    If the day's folder is empty, and the warehouse has rows of the day, there is no message, and ingest then
    removes these rows. If the warehouse has rows of the day, and the landing has no folder of it, raises
    NoLandingError: the landing may be the wrong one, or not mounted.
    """
    a_landing(settings, args)
    day, root = args.log_date, settings.paths.warehouse
    landing = Landing(settings.paths.landing, [day])
    if landing.units:
        return None
    tables = [path for path in (f"{root}/{name}" for name in PUBLISHED_TABLES) if is_stored(path)]
    has_rows = any(has_rows_of(path, day) for path in tables)
    if has_rows and day in landing.all_days:
        return None
    nearest = landing.nearest_days(day)
    if has_rows:
        raise NoLandingError(
            f"the landing {landing.root} has no folder of {day}, but the warehouse has rows of that day, "
            f"which stay: {nearest}. To remove them, leave log_date={day}/_SUCCESS there and nothing else"
        )
    return f"nothing to ingest: no run folder of {day} in {landing.root}; {nearest}"
