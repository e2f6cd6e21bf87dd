"""What is said of the causes of a unit for which no fix was replayed: all that it loses is unexplained."""

from math import nan
from typing import Final

from udfs.kernel.cause import FIXABLE, MOSTLY_UNEXPLAINED, NO_FLAG, CauseFound, Diagnosis, Evidence
from udfs.kernel.what_if import WhatIf

_NO_EVIDENCE: Final = Evidence(nan, nan, nan, nan, nan)


def undiagnosed(found: WhatIf) -> Diagnosis:
    """Return the diagnosis that attributes nothing: fixes save 0, all loss is left over."""
    actual_s, ideal_s = float(found.actual_s.mean()), float(found.times.ideal.mean())
    lost = (actual_s - ideal_s) / actual_s
    nothing = CauseFound(0.0, 0.0, is_cause=False, flag=NO_FLAG, culprits=(), evidence=_NO_EVIDENCE)
    rest = nothing._replace(time_saved_fraction=lost, flag=MOSTLY_UNEXPLAINED if lost > 0 else NO_FLAG)
    return Diagnosis(causes=(*(nothing for _ in FIXABLE), rest), all_fixes_fraction=0.0)
