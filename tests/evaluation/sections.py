from typing import Final

import pandas as pd

from jobs.runtime.arguments import Arguments
from tests.evaluation import score
from tests.evaluation.classes import CLASSES
from tests.evaluation.evaluate import Evaluated
from tests.evaluation.published import injection_list, injection_scores
from tests.evaluation.report import Section

LAST_FOR_TUNING: Final = 99_999
FIRST_RESERVED: Final = 1_000_000
"""Seeds from here on are kept for evaluation."""

COMPARED: Final = ("dp4pp2", "dp2pp2", "detectable")
"""Classes whose sensitivity is shown."""


def heading(found: Evaluated, args: Arguments) -> str:
    """Which seeds were used, and what they are for."""
    last = args.seed + args.jobs - 1
    last_used = max([last, *found.healthy.seed])
    used = f"{args.jobs} generated jobs of seeds {args.seed} to {last}"
    if args.healthy:
        used += f"; {args.healthy} healthy jobs of seeds {last + 1} to {last_used}"
    purpose = "neither for tuning alone nor for evaluation alone"
    if last_used <= LAST_FOR_TUNING:
        purpose = "for tuning"
    elif args.seed >= FIRST_RESERVED:
        purpose = "kept for evaluation"
    return f"{used}. These seeds are {purpose}."


def sections(found: Evaluated, args: Arguments) -> list[Section]:
    """All tables of the classes and causes that the arguments choose."""
    names = args.classes or list(CLASSES)
    chosen = found if args.only_cause is None else found._replace(**_of_cause(found, args.only_cause))
    made = [*_scores(found, chosen, names), *_published(found, list_wrong=args.list_wrong)]
    rows = pd.concat([chosen.answers, chosen.healthy])
    rows = rows[pd.concat([CLASSES[name].holds(rows) for name in names], axis=1).any(axis=1)]
    if args.list_wrong:
        made.append(Section("Wrong labels", "Worst errors first.", score.wrong_labels(rows)))
    if args.list_worst:
        made.append(Section("Largest errors", "", score.worst(rows, args.list_worst)))
    return made


def _of_cause(found: Evaluated, cause: str) -> dict[str, pd.DataFrame]:
    judged = {"answers": found.answers, "healthy": found.healthy, "again": found.again}
    return {name: rows[rows.cause == cause] for name, rows in judged.items()}


def _scores(found: Evaluated, chosen: Evaluated, names: list[str]) -> list[Section]:
    """Scores of generated jobs; what speaks of certain causes looks at all answers."""
    classes = {name: CLASSES[name] for name in names}
    made = [
        Section(
            "Classes",
            "Errors of the saved fraction over all causes and jobs of a class; labels at 2.5 % saved. "
            "All detectable: without jobs in which a communication fault struck in all steps and hit whole "
            "collectives of the dp ranks, or the only link (pp = 2, dp = 1).",
            score.by_class(chosen.answers, classes),
        ),
        Section("Causes", "", score.by_cause(chosen.answers, classes)),
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
            score.calibration(chosen.answers),
        ),
        Section(
            "The paper's indicators as labels",
            "Each only where the job straggles: slowdown from 1.1 on.",
            score.indicators(found.answers),
        ),
    ]
    if not chosen.again.empty:
        usual = chosen.answers[chosen.answers.seed.isin(chosen.again.seed)]
        variants = {str(name): rows for name, rows in chosen.again.groupby("variant", sort=False)}
        note = "The same jobs under other conditions; with 4 steps, faults have no windows."
        made.append(Section("Sensitivity", note, score.sensitivity(usual, variants, COMPARED)))
    return made


def _published(found: Evaluated, *, list_wrong: bool) -> list[Section]:
    if found.injected.empty:
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
    if list_wrong:
        listed = injection_list(found.injected)
        made.append(Section("Wrong labels on injected faults", "Worst first.", listed))
    return made
