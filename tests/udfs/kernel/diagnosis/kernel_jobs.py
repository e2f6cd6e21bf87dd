"""Generated jobs in the form in which the kernel's functions take them."""

from typing import NamedTuple

import numpy as np

from jobs.synthetic.job import GeneratedJob
from udfs.kernel.arrays import Ints
from udfs.kernel.diagnosis import found as diagnosis
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.fixes import Fixed, Replays
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.first_pass import read
from udfs.kernel.what_if import OPS_TOGETHER, How, WhatIf, analyse
from udfs.layout import read_layout
from udfs.simulate.rank_rows import ReplayedRows, replayed_rows


class Job(NamedTuple):
    """A job as its replayed rows and its layout."""

    rows: ReplayedRows
    layout: Layout

    def analysed(self) -> WhatIf:
        """Return all that the kernel computes for the job."""
        return analyse(self.rows, self.layout, How())

    def blocks(self) -> list[BlockTimes]:
        """Return the job's blocks of steps in the form in which the diagnosis takes them."""
        recorded = read(self.rows, self.layout, OPS_TOGETHER, diagnosed=True)
        return [block.diagnosed for block in recorded.blocks if block.diagnosed is not None]


def job_of(job: GeneratedJob) -> Job:
    layout = read_layout(job.manifest)
    return Job(replayed_rows(job.rank_steps, layout), layout)


def found_in(blocks: list[BlockTimes], layout: Layout, hosts: Ints | None = None) -> Found:
    """Return what the diagnosis measures in a job before it replays any fix."""
    known = np.full((layout.pp_size, layout.dp_size), -1) if hosts is None else hosts
    return Found.of(diagnosis.Job(layout, known, 1.0, 1.0, {}), blocks)


def mean_step_s(found: Found, fixed: Fixed) -> float:
    """Mean replayed step time of a job in which the causes in `fixed` are fixed. [s]"""
    return Replays(found).mean_s(fixed)
