"""Lineage of a task: the tables that it read and wrote, as datasets for Airflow's OpenLineage provider."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset

from schemas.vocabulary import TABLE_NAMES

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

SCHEME: Final = "x-what-if://"
"""URI scheme of this project's assets, which are not files."""

_PLACES: Final = {"landing", *(f"warehouse/{name}" for name in TABLE_NAMES)}
"""Assets with a location; the assets of nights and of the history have none."""


def lineage(
    inlets: Iterable[object], outlets: Iterable[object], place: Callable[[str], str]
) -> "OperatorLineage[Any, Any]":
    """Return a task's inlets and outlets, which are assets, as OpenLineage datasets.

    place : returns the path or URL of `landing` or `warehouse`
    """
    # Imported here, because an Airflow without the provider lacks these modules, and never calls this.
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415  # see above
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415  # see above

    place = cache(place)  # because a call may start a process

    def datasets(assets: Iterable[object]) -> list[Dataset]:
        paths = [each.uri.removeprefix(SCHEME) for each in assets if isinstance(each, Asset)]
        return [Dataset(*_named(path, place)) for path in paths if path in _PLACES]

    return OperatorLineage(inputs=datasets(inlets), outputs=datasets(outlets))


def _named(path: str, place: Callable[[str], str]) -> tuple[str, str]:
    """Return namespace and name of a dataset, by OpenLineage's naming of stores and local files."""
    root, _, within = path.partition("/")
    whole = "/".join(filter(None, [place(root), within]))
    scheme, has_scheme, rest = whole.partition("://")
    if not has_scheme:
        return "file", whole
    bucket, _, key = rest.partition("/")
    return f"{scheme.replace('s3a', 's3')}://{bucket}", key
