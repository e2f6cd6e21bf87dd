"""Entry point of the command `straggler`, which stops if another package hides one of this project's.

It checks this before it imports any of these packages, because other projects may also have a package `jobs`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_HERE = Path(__file__).resolve()
_HOMES = {_HERE.parents[1], _HERE.parents[3]}
"""Folders in which to find the packages: the one around this package if installed, the root of a checkout."""
_PACKAGES = ("jobs", "schemas", "udfs")
_WRONG_SETTINGS = 2


def hidden() -> str | None:
    """Return an error message if a package from elsewhere hides one of this project's; None if none does."""
    for name in _PACKAGES:
        spec = find_spec(name)
        places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
        if places and Path(places[0]).resolve().parent not in _HOMES:
            return (
                f"{places[0]!r} hides this project's package {name}: start elsewhere, take its folder out of "
                "PYTHONPATH, or rename it"
            )
    return None


def main() -> int:
    """Run the command that the arguments name; return its exit status."""
    said = hidden()
    if said is not None:
        sys.stderr.write(f"straggler: error: {said}\n")
        return _WRONG_SETTINGS
    status: int = import_module("jobs.console").main()
    return status
