"""A run that another tool recorded, read as the landing reads it: what is in it, and it as rank logs."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from jobs.landing.files import LandedFile
from jobs.landing.formats import nccl_inspector
from jobs.landing.formats.foreign import ForeignRun, RefusalError
from jobs.landing.formats.rows import LIMITS, LISTS, SCALARS, Bounds, FileError, Rows
from jobs.landing.formats.sound import sound
from jobs.landing.read_foreign import ForeignFiles, Recognised, job_of, plain
from jobs.landing.stores import store_of
from jobs.landing.unit_rows import Block, keys_of, repeated
from schemas.vocabulary import FILE_REASONS, OP_TYPES, RANK_LOG_FORMAT

_DAY: Final = date(1970, 1, 1)
_OF_LANDING: Final = ("manifest_status", "manifest_detail", "left_out")


@dataclass
class Understood:
    """What a run holds.

    job : its row of jobs, as if it lay in a landing
    left_out : what is not stored, in words, and how often
    broken : files that broke off, and why; no row of theirs counts
    arrivals : rows of collective_arrival, as far as the files tell who came last to collectives
    ends_us : end of each step after its start, as the log's own zeros tell it
    """

    job: dict[str, Any]
    rows: int = 0
    ops: int = 0
    ranks: set[int] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)
    ends_us: dict[int, float] = field(default_factory=dict)
    arrivals: list[dict[str, Any]] = field(default_factory=list)

    def count(self, rows: Rows) -> None:
        """Count the rows of a part."""
        self.rows += len(rows.lines)
        self.ops += len(rows.lists[0])
        ends = rows.lists[1] + rows.lists[2]
        edges = np.concatenate([[0], np.cumsum(rows.lengths)]).tolist()
        for scalars, (first, end) in zip(rows.scalars, pairwise(edges), strict=True):
            step, rank = scalars[:2]
            self.ranks.add(rank)
            self.ends_us[step] = max(self.ends_us.get(step, 0.0), float(ends[first:end].max(initial=0.0)))

    def zeros_us(self, day: date) -> dict[int, int]:
        """Unix time of each step where the log tells none: one after the other from a day's midnight on."""
        found, now_us = {}, (day - _DAY).days * 86_400_000_000
        for step, end_us in sorted(self.ends_us.items()):
            found[step] = now_us
            now_us += ceil(end_us)
        return found


class Conversion:
    """Files of one run, to be looked at and written as rank logs.

    given : fields of a manifest that the user gave
    Raises RefusalError where they are of no format, or of one that no replay can be made of.
    """

    def __init__(self, files: Sequence[Path], given: Mapping[str, Any], ids: tuple[str, str]) -> None:
        self._given, self._ids = given, ids
        self._bounds = Bounds()
        self._opener = ForeignFiles(store_of("/"), self._bounds)
        landed = [
            LandedFile(_DAY, *ids, f"/{each.name}", str(each.resolve()), each.stat().st_size)
            for each in files
        ]
        self._found: Recognised = self._opener.recognise(landed)
        if self._found.format is None:
            detail = "; ".join(f"{file.name}: {reject.detail}" for file, reject in self._found.others)
            detail = nccl_inspector.NO_REPLAY if self._found.evidence else detail
            raise RefusalError(
                "convert", detail or "no files", "jobs/landing/formats/README.md lists what is read"
            )
        self._files = list(self._found.files)
        self.understood = self._understood({})

    def write(self, landing: Path, log_date: date) -> Path:
        """Write job.json and a rank log for each rank; returns the run folder.

        Raises FileExistsError where there is something in it already.
        """
        job_id, run_id = self._ids
        folder = landing / f"log_date={log_date}" / f"job_id={job_id}" / f"run_id={run_id}"
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        zeros_us = self.understood.zeros_us(log_date)
        ids = {"format": RANK_LOG_FORMAT, "job_id": job_id, "run_id": run_id}
        for rows in self._rows(self.understood, self._run()):
            _append(folder, rows, ids, zeros_us)
        fields = {name: value for name, value in self.understood.job.items() if name not in _OF_LANDING}
        present = {name: value for name, value in fields.items() if value is not None}
        manifest = json.dumps({"job_id": job_id, "run_id": run_id, **present}, default=datetime.isoformat)
        (folder / "job.json").write_text(f"{manifest}\n")
        return folder

    def _run(self) -> ForeignRun:
        if self._found.format is None:
            raise AssertionError("files of no format were refused before")
        return self._opener.read(self._found.format, self._files, self._given)

    def _understood(self, broken: Mapping[str, str]) -> Understood:
        """Look at all files; once more where some break off, without them."""
        try:
            found = self._look(broken)
        except FileError as error:
            last = self._opener.opened_last
            if last not in self._files or len(self._files) == 1:
                raise
            self._files = [file for file in self._files if file != last]
            return self._understood({**broken, last.name: str(error)})
        return found if len(found.broken) == len(broken) else self._understood(found.broken)

    def _look(self, broken: Mapping[str, str]) -> Understood:
        run = self._run()
        job = job_of(run, self._given, *self._ids)
        found = Understood(job, broken=dict(broken))
        for rows in self._rows(found, run):
            found.count(rows)
        found.job |= {"source_format": run.source_format, "transfers": run.transfers}
        if run.arrivals is not None:
            found.arrivals = run.arrivals.table().to_pylist()
            run.left_out += run.arrivals.left_out
        found.left_out.update({plain(what): count for what, count in run.left_out.items()})
        found.left_out.update(f"files: {file.name}, {reject.detail}" for file, reject in self._found.others)
        found.left_out.update(f"files: {file.name}, evidence and no replay" for file in self._found.evidence)
        return found

    def _rows(self, found: Understood, run: ForeignRun) -> Iterator[Rows]:
        """Rows that the landing would store, part by part; others are counted, broken files noted."""
        is_good = found.job["manifest_status"] is None
        limits = {name: found.job[name] if is_good else None for name in LIMITS}
        seen: dict[tuple[int, int], str] = {}
        for part in self._opener.guarded(run.parts):
            whole = next((each for each in part.rejects if each.reason in FILE_REASONS), None)
            if whole is not None:
                found.broken[part.name] = whole.detail
            if part.name not in found.broken:
                good, bad = sound(part.rows, limits, 1)
                good, again = repeated(Block(1, (), good, ()), seen, part.name)
                seen |= dict.fromkeys(keys_of(good), part.name)
                bad += [*part.rejects, *again]
                found.left_out.update(f"steps of a rank: {each.detail}" for each in bad)
                yield good


def _append(folder: Path, rows: Rows, ids: Mapping[str, str], zeros_us: Mapping[int, int]) -> None:
    """Append rows to the logs of their ranks."""
    edges = np.concatenate([[0], np.cumsum(rows.lengths)]).tolist()
    lines: dict[int, list[bytes]] = {}
    for scalars, (first, end) in zip(rows.scalars, pairwise(edges), strict=True):
        present = {name: value for name, value in zip(SCALARS, scalars, strict=True) if value is not None}
        op, *others = (values[first:end].tolist() for values in rows.lists)
        lists = dict(zip(LISTS, [[OP_TYPES[code] for code in op], *others], strict=True))
        line = {**ids, "t0_us": zeros_us[present["step"]], **present, **lists}
        lines.setdefault(present["rank"], []).append(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    for rank, some in lines.items():
        with gzip.open(folder / f"rank-{rank:05d}.jsonl.gz", "ab") as log:
            log.writelines(some)
