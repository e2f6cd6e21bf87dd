"""Convert a run recorded by another tool to rank logs, reading it as the landing does."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from jobs.landing.accounts import UnitAccount, UnitPart
from jobs.landing.content import UnitFiles
from jobs.landing.files import LOGS, LandedFile
from jobs.landing.formats.manifest import no_manifest
from jobs.landing.formats.nccl_inspector import NO_REPLAY
from jobs.landing.formats.rows import LISTS, SCALARS, Bounds
from jobs.landing.one_run import read_staged
from jobs.landing.read_foreign import ForeignUnit
from jobs.landing.stores import store_of
from jobs.landing.unit_rows import UnitRows
from jobs.warehouse.staging import Staging
from schemas.unit import Unit
from schemas.vocabulary import OP_TYPES, RANK_LOG_FORMAT, Reason, Status

_OF_LANDING: Final = ("manifest_status", "manifest_detail", "left_out", "refused_claims")


class ConversionError(Exception):
    """Raised for files that no format fits, or no replay can use; the message says why, and what to do."""


class NothingToConvertError(ConversionError):
    """Raised for a folder without logs, or with logs that a landing reads as they are."""


class Conversion:
    """Files of one run of another tool, to be summarised and written as rank logs.

    given : fields of a manifest that the user gave
    read : the run as read
    job : its row of jobs, as a landing would store it
    rows : its rows of rank_steps, without those of truncated files
    arrivals : rows of collective_arrival, if the files show the last ranks of collectives
    left_out : description of each kind of data that is not converted -> number of its occurrences
    broken : name of each file that cannot be read to its end -> why
    Raises ConversionError if nothing can be converted.
    """

    def __init__(self, files: Sequence[Path], given: Mapping[str, Any], unit: Unit) -> None:
        self._given, self._unit = given, unit
        self._landed = [
            LandedFile(*unit, each.name, str(each.resolve()), each.stat().st_size) for each in files
        ]
        self.left_out: Counter[str] = Counter()
        self.read = read = read_staged(self._read)
        self.job = read.account.job or {}
        self.ops, self.rows, self.arrivals = read.account.ops, read.rows, read.arrivals
        self.broken: dict[str, str] = {}
        self.left_out.update(self.job["left_out"] or {})
        for reject in read.rejects.to_pylist():
            if reject["line"] is not None:
                self.left_out[f"steps of a rank: {reject['detail']}"] += 1
            elif reject["reason"] == Reason.UNKNOWN_FORMAT:
                self.left_out[f"files: {reject['source_file']}, {reject['detail']}"] += 1
            else:
                self.broken[reject["source_file"]] = reject["detail"]

    def write(self, landing: Path, log_date: date) -> Path:
        """Write job.json and one rank log per rank; return the run folder.

        Raises FileExistsError if the folder is not empty, ConversionError if there are no rows to write.
        """
        if not self.rows.num_rows:
            raise ConversionError(f"no ops to write as rank logs: {self.job['manifest_detail'] or 'no rows'}")
        _, job_id, run_id = self._unit
        folder = landing / f"log_date={log_date}" / f"job_id={job_id}" / f"run_id={run_id}"
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        for rank, lines in groupby(self._lines(log_date), key=itemgetter(0)):
            with gzip.open(folder / f"rank-{rank:05d}.jsonl.gz", "wb") as log:
                log.writelines(json.dumps(line, separators=(",", ":")).encode() + b"\n" for _, line in lines)
        fields = {name: value for name, value in self.job.items() if name not in _OF_LANDING}
        present = {name: value for name, value in fields.items() if value is not None}
        manifest = json.dumps({"job_id": job_id, "run_id": run_id, **present}, default=datetime.isoformat)
        (folder / "job.json").write_text(f"{manifest}\n")
        return folder

    def _read(self, staging: Staging) -> UnitAccount:
        part = UnitPart(self._unit, (), self._landed)
        rows = UnitRows(part, UnitFiles(store_of("/"), Bounds()), staging)
        unit = ForeignUnit(rows, self._given)
        job = unit.read(no_manifest(""))
        own = next((file for file in self._landed if file.is_one_of(*LOGS)), None)
        if unit.found.format is None and own is not None:
            analyse = f"straggler analyse {Path(own.path).parent}"
            raise NothingToConvertError(
                f"{own.name}: a landing reads it unchanged. Nothing to convert: {analyse}"
            )
        if unit.found.format is None:
            detail = "; ".join(f"{file.name}: {reject.detail}" for file, reject in unit.found.others)
            why = NO_REPLAY if unit.found.evidence else detail or "no files"
            known = "jobs/landing/formats/README.md lists what is read"
            kind = ConversionError if detail or unit.found.evidence else NothingToConvertError
            raise kind(f"nothing to convert: {why}. {known}")
        if job["manifest_status"] == Status.UNUSABLE_LOG:
            raise ConversionError(job["manifest_detail"])
        self.left_out.update(f"files: {file.name}, evidence without a replay" for file in unit.found.evidence)
        return rows.end(job)

    def _lines(self, log_date: date) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rank and fields of each line, ordered by rank and step.

        Steps without a time of day follow each other without gaps from midnight of `log_date` on.
        """
        rows = self.rows.sort_by([("rank", "ascending"), ("step", "ascending")])
        lists = [rows[name].combine_chunks() for name in LISTS]
        edges = list(pairwise(lists[0].offsets.to_pylist()))
        op, start_us, duration_us, *indexes = (each.values.to_numpy() for each in lists)
        ends_us, scalars = start_us + duration_us, rows.select(SCALARS).to_pylist()
        lasts_us: dict[int, float] = {}
        for row, (first, end) in zip(scalars, edges, strict=True):
            last_us = ends_us[first:end].max(initial=lasts_us.get(row["step"], 0.0))
            lasts_us[row["step"]] = float(last_us)
        zeros_us, now_us = {}, int(datetime.combine(log_date, datetime.min.time(), UTC).timestamp()) * 10**6
        for step in sorted(lasts_us):
            zeros_us[step] = now_us
            now_us += ceil(lasts_us[step])
        ids = {"format": RANK_LOG_FORMAT, "job_id": self._unit.job_id, "run_id": self._unit.run_id}
        names = np.array(OP_TYPES)[op]
        for row, (first, end) in zip(scalars, edges, strict=True):
            present = {name: value for name, value in row.items() if value is not None}
            columns = (names, start_us, duration_us, *indexes)
            values = {name: each[first:end].tolist() for name, each in zip(LISTS, columns, strict=True)}
            yield row["rank"], {**ids, "t0_us": zeros_us[row["step"]], **present, **values}
