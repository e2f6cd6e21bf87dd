"""Causes of later days, when a day before them has changed: they are revised by the days before their own.

So the order in which days are done makes no difference: each stage's last run sees what a run in order sees.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta

import pyarrow as pa

from jobs.fingerprints import recorded
from jobs.gates.audit import GateRefusedError, GateWork, LaterDaysRefusedError, Rule
from jobs.gates.result_rules import units_of_other_gpu_hours
from jobs.landing.files import Unit
from jobs.settings_sections import RevisionSettings
from jobs.stage import publish
from jobs.transforms.causes import cause_day
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_DAY,
    JOB_BASELINE,
    JOB_CAUSES,
    STAGE_AGGREGATE,
    STAGE_SIMULATE,
)
from udfs.revise.units import REVISED_FROM, revised_causes


def revise_later_days(
    warehouse: Warehouse,
    revision: RevisionSettings,
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> GateWork:
    """Revise anew the causes of days that look back on these, and count them anew where they were counted.

    Returns what the gates before that did.

    units : what changed on these days, where not all of it; others of the same days look back on it too
    Raises LaterDaysRefusedError where those of the later days are refused.
    """
    own = set(log_dates) if units is None else {min(log_dates)}
    after = {day + timedelta(days=age) for day in log_dates for age in range(1, revision.days + 1)}
    later = _days_done(warehouse, STAGE_SIMULATE, sorted(after - own))
    if not later:
        return GateWork()
    span = (later[-1] - later[0]).days + revision.days
    before = {later[-1] - timedelta(days=age) for age in range(1, span + 1)} - set(later)
    results = {name: warehouse.rows(TABLES[name], later) for name in REVISED_FROM}
    earlier = warehouse.rows(TABLES[JOB_BASELINE], sorted(before))
    revised = revised_causes(results, earlier, **revision.model_dump())
    rule = units_of_other_gpu_hours(results | {JOB_CAUSES: revised})
    try:
        return _replace_causes(warehouse, revised, later, rule)
    except GateRefusedError as error:
        days = ", ".join(day.isoformat() for day in sorted(log_dates))
        published = f"of later days that look back on {days}, which is published but not done"
        raise LaterDaysRefusedError(error.refusals, error.kept_in, published) from None


def _replace_causes(warehouse: Warehouse, revised: pa.Table, later: Sequence[date], rule: Rule) -> GateWork:
    """Publish the causes of later days, and count them anew."""
    gates = _replace(STAGE_SIMULATE, warehouse, {JOB_CAUSES: revised}, later, [rule])
    counted = _days_done(warehouse, STAGE_AGGREGATE, later)
    if not counted:
        return gates
    days = {CAUSE_DAY: cause_day(warehouse.read(TABLES[JOB_CAUSES], counted)).toArrow()}
    return gates.and_also(_replace(STAGE_AGGREGATE, warehouse, days, counted, ()))


def _replace(
    stage: str,
    warehouse: Warehouse,
    rows: Mapping[str, pa.Table],
    log_dates: Sequence[date],
    rules: Sequence[Rule],
) -> GateWork:
    """Replace some tables of days that are done; what ends this early is found and done again.

    By this day's next try, if nothing comes before: their fingerprints stay, unsettled.
    """
    unsettled = [each.unsettled() for each in recorded(warehouse, stage, log_dates).values()]
    return publish(stage, warehouse, rows, log_dates, rules, None, unsettled).gates


def _days_done(warehouse: Warehouse, stage: str, log_dates: Sequence[date]) -> list[date]:
    """Those of these days that a stage is done with; any other is yet to be done, and looks back then."""
    return sorted({log_date for log_date, *_ in recorded(warehouse, stage, log_dates)})
