"""Diagnose the published traces as they are, and with faults injected into them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from schemas.vocabulary import FIXABLE_CAUSES, JOB_CAUSES
from tests.evaluation.inject import FAULTS, STRENGTHS
from tests.evaluation.judge import THRESHOLD, Diagnose, DiagnosedJob, Row, diagnosed
from tests.evaluation.recording import Recording, read_recording
from tests.evaluation.score import percent
from tests.support import published
from udfs.what_if import simulate_job

UNSURE: Final = 0.01
"""Savings within this distance of the threshold may be named or not. [share of the step]"""


class Published(NamedTuple):
    """A published trace, as rows of rank_steps with its manifest."""

    name: str
    rank_steps: pa.Table
    manifest: Mapping[str, object]


class Injection(NamedTuple):
    """One fault of one strength to inject into one trace."""

    folder: Path
    fault: int
    strength: int


def trace_folders(folder: Path) -> list[Path]:
    """Find the folders of published traces below a folder; each contains a file trace-NAME.parquet."""
    return sorted(trace.parent for trace in folder.glob("*/trace-*.parquet"))


@cache
def read_published(folder: Path) -> Published:
    """Read a published trace and its meta file."""
    name = folder.name
    return Published(name, published.rank_steps(folder.parent, name), published.manifest(folder.parent, name))


def injections(folders: Sequence[Path]) -> list[Injection]:
    """List every combination of a fault, a strength and a published trace."""
    return [
        Injection(folder, fault, strength)
        for folder in folders
        for fault in range(len(FAULTS))
        for strength in range(STRENGTHS)
    ]


def judge_injection(task: Injection, diagnose: Diagnose = simulate_job) -> Row:
    """Inject a fault into a trace, and compare the diagnoses with and without the fault.

    The places of the fault are drawn from fixed seeds. Fractions are of the actual step time with the fault.
    true         : cost of the fault
    predicted    : saving by a fix of its cause, minus the saving by that fix before the injection
    is_missed    : the cause is not named although the fault costs more than the threshold + UNSURE
    is_early     : the cause is named although its fix saves less than the threshold - UNSURE
    is_located   : whether all workers of the worst culprit have the fault; None if it slows none enough
    false_labels : other causes that are named, and were not named before the injection
    """
    trace = read_published(task.folder)
    recording, before_s, before = _before(task.folder, diagnose)
    fault = FAULTS[task.fault]
    strength = fault.strength(task.strength)
    struck = fault.strike(recording, strength, np.random.default_rng([task.fault, task.strength]))
    after_s = struck.recording.mean_step_s()
    after = diagnosed(diagnose, struck.recording.rank_steps(), trace.manifest)
    was, now = (answers.answer(fault.cause) for answers in (before, after))
    saved_before = was["predicted"] * before_s / after_s
    true = (after_s - before_s) / after_s
    whole = true + saved_before
    named = after.worst_cells(fault.cause, recording.layout.dp_size, recording.layout.pp_size)
    new = [
        cause
        for cause in FIXABLE_CAUSES
        if after.answer(cause)["is_cause"] and not before.answer(cause)["is_cause"] and cause != fault.cause
    ]
    return {
        "trace": trace.name,
        "fault": fault.name,
        "strength": strength,
        "true": true,
        "predicted": now["predicted"] - saved_before,
        "is_missed": not now["is_cause"] and min(true, whole) > THRESHOLD + UNSURE,
        "is_early": now["is_cause"] and not was["is_cause"] and max(true, whole) < THRESHOLD - UNSURE,
        "is_located": bool(named) and named <= struck.cells if struck.cells and true >= THRESHOLD else None,
        "false_labels": ", ".join(new),
    }


@cache
def _before(folder: Path, diagnose: Diagnose) -> tuple[Recording, float, DiagnosedJob]:
    """Durations and delays of a trace without an injected fault, its mean step time [s] and its diagnosis."""
    trace = read_published(folder)
    recording = read_recording(trace.rank_steps, trace.manifest).without_waiting()
    answers = diagnosed(diagnose, recording.rank_steps(), trace.manifest)
    return recording, recording.mean_step_s(), answers


def injection_scores(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trace and fault, and one row over all, with the scores and their target values."""
    groups = list(judged.groupby(["trace", "fault"], sort=False))
    made = []
    for (trace, fault), rows in [*groups, (("all", "all"), judged)]:
        error = (rows.predicted - rows.true).abs()
        made.append(
            {
                "trace": trace,
                "fault": fault,
                "injections": len(rows),
                "costs from [%]": 100 * rows.true.min(),
                "to [%]": 100 * rows.true.max(),
                "MAE [%]": 100 * error.mean(),
                "wanted MAE [%]": 0.25 if trace == "all" else None,
                "largest error [%]": 100 * error.max(),
                "missed": int(rows.is_missed.sum()),
                "early": int(rows.is_early.sum()),
                "false labels": int((rows.false_labels != "").sum()),
                "located [%]": 100 * float(rows.is_located.dropna().astype(float).mean()),
            }
        )
    return pd.DataFrame(made)


def injection_list(judged: pd.DataFrame) -> pd.DataFrame:
    """List injections whose cause was missed or named below the threshold, or which gave other causes."""
    rows = judged[judged.is_missed | judged.is_early | (judged.false_labels != "")]
    rows = rows.assign(error=rows.predicted - rows.true)
    rows = rows.sort_values("error", key=np.abs, ascending=False)
    shown: dict[str, Any] = {name: rows[name] for name in ("trace", "fault", "strength")}
    shown |= {f"{name} [%]": 100 * rows[name] for name in ("predicted", "true", "error")}
    shown |= {name: np.where(rows[f"is_{name}"], "yes", "no") for name in ("missed", "early")}
    return pd.DataFrame({**shown, "false labels": rows.false_labels})


def causes_of(folder: Path, diagnose: Diagnose = simulate_job) -> list[Row]:
    """All rows of the diagnosis for a published trace, the row of unexplained loss included."""
    trace = read_published(folder)
    return [
        {
            "trace": trace.name,
            "cause": row["cause"],
            "saved [%]": percent(row["time_saved_fraction"]),
            "attributed [%]": percent(row.get("attributed_fraction")),
            "label": "yes" if row["is_cause"] else "no",
            "flag": row["flag_reason"],
            "worst culprit": _culprit(row["culprits"]),
        }
        for row in diagnose(trace.rank_steps, trace.manifest)[JOB_CAUSES].to_pylist()
    ]


def _culprit(culprits: list[Row] | None) -> str | None:
    if not culprits:
        return None
    axes = [("dp", culprits[0]["dp_rank"]), ("pp", culprits[0]["pp_rank"])]
    return ", ".join(f"{axis} {rank}" for axis, rank in axes if rank is not None) or "all"
