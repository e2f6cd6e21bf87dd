"""The manifests of units: rows of jobs, and the manifests that cannot be read."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jobs.transforms.landed_files import MANIFEST, META, LandedFile, Unit
from schemas.vocabulary import REASON_UNREADABLE_FILE, UNIT_KEY
from udfs.landed_rows import reject
from udfs.manifest import ManifestError, no_manifest, parse_manifest, parse_published_meta


class Manifests(NamedTuple):
    """Rows of jobs, one per unit, and rejects as landed_rows.reject makes them."""

    jobs: list[dict[str, Any]]
    rejects: list[dict[str, Any]]


def read_manifests(units: Mapping[Unit, Sequence[LandedFile]], contents: Mapping[str, bytes]) -> Manifests:
    """Read the manifest of every unit: job.json, else the first meta-*.yaml by name.

    units : all files of each unit, by name
    contents : of the manifests, by path; one that is not there could not be read
    """
    found = Manifests([], [])
    for unit, files in units.items():
        key = dict(zip(UNIT_KEY, unit, strict=True))
        manifests = [file for kind in (MANIFEST, META) for file in files if file.is_one_of(kind)]
        if not manifests:
            found.jobs.append(key | no_manifest(f"no {MANIFEST} in the folder"))
            continue
        file = manifests[0]
        try:
            found.jobs.append(key | _read(file, contents.get(file.path)))
        except ManifestError as error:
            found.jobs.append(key | no_manifest(str(error)))
            place = {"source_file": file.source_file, "block_start": None, "position": None}
            found.rejects.append(reject(key | place, REASON_UNREADABLE_FILE, str(error)))
    return found


def _read(file: LandedFile, content: bytes | None) -> dict[str, Any]:
    if file.size == 0:
        raise ManifestError("the file is empty")
    if content is None:
        raise ManifestError("not readable to its end")
    if file.is_one_of(MANIFEST):
        return parse_manifest(content, file.job_id, file.run_id)
    return parse_published_meta(content)
