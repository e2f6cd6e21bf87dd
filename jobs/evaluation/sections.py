"""The tables of an evaluation, with their titles."""

from dataclasses import dataclass
from typing import Final

import pandas as pd

from jobs.evaluation import score
from jobs.evaluation.classes import CLASSES
from jobs.evaluation.evaluate import Evaluated, Wanted
from jobs.evaluation.indicators import beside
from jobs.evaluation.listing import worst, wrong_labels
from jobs.evaluation.published import injection_list, injection_scores
from jobs.evaluation.report import Section

LAST_FOR_TUNING: Final = 99_999
FIRST_KEPT: Final = 1_000_000
"""Seeds from here on are kept for evaluation."""

COMPARED: Final = ("dp4pp2", "dp2pp2", "detectable")
"""Classes whose sensitivity is shown."""


@dataclass(frozen=True)
class Chosen:
    """What to print.

    classes    : names in CLASSES
    cause      : scores and lists of this one alone; None: of all
    wrong      : whether to list the wrong labels
    worst      : how many of the largest errors to list
    """

    classes: tuple[str, ...] = tuple(CLASSES)
    cause: str | None = None
    wrong: bool = False
    worst: int = 0

    def of(self, answers: pd.DataFrame) -> pd.DataFrame:
        """Answers about the chosen cause."""
        return answers if self.cause is None or answers.empty else answers[answers.cause == self.cause]


def heading(wanted: Wanted, found: Evaluated) -> str:
    """Which seeds were used, and what they are for."""
    last = wanted.seed + wanted.jobs - 1
    used = f"{wanted.jobs} generated jobs of seeds {wanted.seed} to {last}"
    if wanted.healthy:
        used += f"; {wanted.healthy} healthy jobs of seeds {last + 1} to {found.last_seed}"
    purpose = "neither for tuning alone nor for evaluation alone"
    if found.last_seed <= LAST_FOR_TUNING:
        purpose = "for tuning"
    elif wanted.seed >= FIRST_KEPT:
        purpose = "kept for evaluation"
    return f"{used}. These seeds are {purpose}."


def sections(found: Evaluated, chosen: Chosen) -> list[Section]:
    """All tables."""
    return [*_scores(found, chosen), *_published(found, chosen), *_lists(found, chosen)]


def _scores(found: Evaluated, chosen: Chosen) -> list[Section]:
    classes = {name: CLASSES[name] for name in chosen.classes}
    answers = chosen.of(found.answers)
    made = [
        Section(
            "Classes",
            "Errors of the saved fraction over all causes and jobs of a class; labels at 2.5 % saved. "
            "All detectable: without jobs in which a communication fault struck in all steps and hit whole "
            "collectives of the dp ranks, or the only link (pp = 2, dp = 1).",
            score.by_class(answers, classes),
        ),
        Section("Causes", "", score.by_cause(answers, classes)),
    ]
    if not found.healthy.empty:
        note = "More jobs, drawn without a fault: labels where the truth is below 2.5 %."
        made.append(Section("Labels on healthy jobs", note, score.healthy_labels(found.healthy)))
    made += [
        Section(
            "Slow workers located",
            "Jobs whose slow worker costs at least 2.5 %: is the cell named worst a slow one?",
            score.located(found.answers, classes),
        ),
        Section(
            "Calibration",
            "Causes of jobs by their predicted saving; a bin holds its upper edge.",
            score.calibration(answers),
        ),
        Section(
            "The paper's indicators as labels",
            "Each only where the job straggles: slowdown from 1.1 on.",
            beside(found.answers),
        ),
    ]
    if found.variants:
        variants = {name: chosen.of(rows) for name, rows in found.variants.items()}
        compared = score.sensitivity(chosen.of(found.usual), variants, COMPARED)
        note = "The same jobs under other conditions; with 4 steps, faults have no windows."
        made.append(Section("Sensitivity", note, compared))
    return made


def _published(found: Evaluated, chosen: Chosen) -> list[Section]:
    if not found.injected:
        return []
    made = [
        Section(
            "Faults injected into published traces",
            "Missed, early: the label is wrong although the saving is not within 1.5 to 3.5 %. False labels: "
            "faults after which another cause is labelled that was not before.",
            injection_scores(found.injected),
        ),
        Section("The published traces", "", found.published),
    ]
    if chosen.wrong:
        made.append(
            Section("Wrong labels on injected faults", "Worst first.", injection_list(found.injected))
        )
    return made


def _lists(found: Evaluated, chosen: Chosen) -> list[Section]:
    rows = pd.concat([chosen.of(found.answers), chosen.of(found.healthy)])
    is_inside = pd.concat([CLASSES[name].holds(rows) for name in chosen.classes], axis=1).any(axis=1)
    rows = rows[is_inside]
    made = []
    if chosen.wrong:
        made.append(Section("Wrong labels", "Worst errors first.", wrong_labels(rows)))
    if chosen.worst:
        made.append(Section("Largest errors", "", worst(rows, chosen.worst)))
    return made
