"""What has changed in the landing: units whose files are not those that their fingerprints record."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from jobs.history.fingerprints import File, Fingerprint, Recorded, Wanted, contents_of
from jobs.landing.files import LandedFile, Landing, Unit
from jobs.landing.read_landing import Digests


class LandingChanges(NamedTuple):
    """What ingest has to do.

    landed : files of every unit in the landing
    changed : units never ingested, or of other files, contents, settings or version
    gone : ingested units that are no longer in the landing, on days that still have others
    retouched : fingerprints, with new times, of units that were sent again unchanged
    """

    landed: Mapping[Unit, Sequence[LandedFile]]
    changed: frozenset[Unit]
    gone: frozenset[Unit]
    retouched: tuple[Fingerprint, ...]


def changed_in_landing(
    root: str, ingested: Recorded, log_dates: Sequence[date], want: Wanted, digests: Digests
) -> LandingChanges:
    """Compare the files of these days with the fingerprints of their units.

    Path, size and time of change are compared; where only times differ, the contents decide. A day
    without any folder has been cleared away whole: its units are not gone, they stay as they are.
    """
    landing = Landing(root, log_dates)
    landed = landing.units
    changed, doubtful = set(), []
    for unit, files in landed.items():
        known = ingested.get(unit)
        sizes = {file.name: file.size for file in files}
        if known is None or not known.is_as(want) or {each.name: each.bytes for each in known.files} != sizes:
            changed.add(unit)
        elif _touched(known, files):
            doubtful.append(unit)
    touched = [file for unit in doubtful for file in _touched(ingested[unit], landed[unit])]
    read = digests(landing.root, touched)
    again = [_sent_again(ingested[unit], landed[unit], read) for unit in doubtful]
    same = tuple(each for each in again if contents_of(each.files) == each.inputs)
    changed |= set(doubtful) - {each.unit for each in same}
    days = {unit[0] for unit in landed}
    gone = {unit for unit in ingested if unit not in landed and unit[0] in days}
    return LandingChanges(landed, frozenset(changed), frozenset(gone), same)


def _touched(known: Fingerprint, files: Sequence[LandedFile]) -> list[LandedFile]:
    """Those of a unit's files that were changed at another time than recorded."""
    times = {each.name: each.modified_us for each in known.files}
    return [file for file in files if file.modified_us != times[file.name]]


def _sent_again(known: Fingerprint, files: Sequence[LandedFile], read: Mapping[str, str]) -> Fingerprint:
    """A unit's fingerprint with the new times of its files, and the digests of those."""
    touched = {file.name: file for file in _touched(known, files)}

    def now(file: File) -> File:
        new = touched.get(file.name)
        if new is None:
            return file
        return File(file.name, file.bytes, new.modified_us, read.get(new.source_file))

    return known._replace(files=tuple(map(now, known.files)))
