"""One unit for notebooks, from a warehouse or from its logs: causes, culprits, what-if, figures."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from jobs.reading.figures import CHARTS, Figure, Figures
from jobs.reading.rows import Rows
from jobs.reading.scenarios import read_fix, replay_fixes
from jobs.reading.trace_file import file_name, write_trace
from jobs.reading.unit import StoredCauses
from jobs.report.culprit_words import culprit_words
from jobs.runtime.nearest import suggestion
from jobs.runtime.settings import load_settings
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, WORKER_SLOWDOWN
from udfs.custom_scenario import Answer
from udfs.mitigations import Mitigation, mitigated
from udfs.timeline.timelines import KINDS, StepTimelines, culprits_and_neighbours, step_timelines
from udfs.what_if import SimulationSettings

_SHARE: Final = "share_of_steps"
_OF_CAUSE: Final = (
    "cause", "is_cause", "lost_fraction", "time_saved_fraction", "lost_gpu_hours", "flag_reason"
)  # fmt: skip
_CULPRIT_WORDS: Final = (
    "where", "effect", "course", "host", "stage", "dp_rank", "rank", _SHARE, "workers"
)  # fmt: skip


class Timeline:
    """One step of a unit as recorded, replayed and ideal; `save` writes the step for Perfetto."""

    def __init__(self, unit: Unit, found: StepTimelines, ideal: str) -> None:
        self.step = found.step
        self._unit, self._found, self._ideal = unit, found, ideal

    def __repr__(self) -> str:
        times = ", ".join(f"{self._found.step_s(kind):.4g} s {kind}" for kind in KINDS)
        return f"<Timeline of {self._unit.job_id}, step {self.step}: {times}; save() writes it for Perfetto>"

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the trace that `straggler timeline` writes, of the slowest workers and their neighbours.

        path : by default a name from `file_name`, in the current folder
        Returns the path.
        """
        target = Path(path) if path is not None else Path(file_name(self._unit, self.step))
        write_trace(target, self._unit, self._found, culprits_and_neighbours(self._found), self._ideal)
        return target


class OneUnit(ABC):
    """Interface for questions about one unit, whose rows subclasses provide."""

    key: Unit

    @abstractmethod
    def table(self, name: str) -> Rows:
        """Return the unit's rows of a table or view."""

    @abstractmethod
    def _recorded(self) -> tuple[pa.Table, Mapping[str, Any]]:
        """Return the unit's rows of rank_steps, in columns that the simulation uses, and its manifest."""

    @abstractmethod
    def _stored(self) -> StoredCauses | None:
        """Return the unit's stored results, which what_if uses instead of replays; None if there are none."""

    @property
    def causes(self) -> Rows:
        """Return one row per cause: the time lost to it, and the time that fixing it alone saves."""
        rows = self.table(JOB_CAUSES).arrow.select(_OF_CAUSE)
        return Rows(rows.sort_by([("time_saved_fraction", "descending"), ("cause", "ascending")]))

    @property
    def culprits(self) -> Rows:
        """Return a row for each worker, stage or host to which a cause is traced, sorted by cause."""
        workers, (job,) = self._dicts(WORKER_SLOWDOWN), self._dicts(JOB_SLOWDOWN)
        rows = []
        for row in sorted(self._dicts(JOB_CAUSES), key=lambda row: str(row["cause"])):
            for each in (row["culprits"] or ()) if row["is_cause"] else ():
                words = culprit_words(row["cause"], each, job["steps"], {}, None, workers)
                texts = {name: str(words[name]) for name in _CULPRIT_WORDS}
                rows.append({"cause": row["cause"], **texts, _SHARE: words[_SHARE]})
        schema = pa.schema([(name, pa.string()) for name in ("cause", *_CULPRIT_WORDS)])
        place = schema.get_field_index(_SHARE)
        return Rows(pa.Table.from_pylist(rows, schema.set(place, pa.field(_SHARE, pa.float64()))))

    @property
    def figures(self) -> Figures:
        """Return the charts of the unit: workers, steps, causes, waterfall."""
        return Figures(self.key, self._dicts)

    def figure(self, name: str = "workers") -> Figure:
        """Return a chart by name, by default the map of workers. Raises ValueError for an unknown name."""
        if name not in CHARTS:
            raise ValueError(f"no figure {name}: {suggestion(name, CHARTS)}")
        found: Figure = getattr(self.figures, name)
        return found

    def what_if(
        self,
        *fixes: str,
        set: float | None = None,  # noqa: A002  # as on the command line
        factor: float | None = None,
    ) -> Rows:
        """Replay the unit with each fix, and return a row per fix, as `straggler what-if` prints them.

        fixes : names of causes to remove, or predicates over ops, such as "host = 'node-13'"
        set : ops that match a predicate take this many times their recorded time; without it, their ideal
              time. `factor` is another name of `set`.
        Raises PredicateError for a text that is neither, QuestionError for a predicate that no op matches,
        and the errors of replay_scenarios.
        """
        rows, manifest = self._recorded()
        understood = [read_fix(each) for each in fixes]
        times = factor if set is None else set
        found = replay_fixes(rows, manifest, understood, times, load_settings().simulation, self._stored())
        return _rows_of(Answer, [answer for each in found for answer in each.answers])

    def mitigate(self, *layers: int) -> Rows:
        """Replay the unit with each mitigation, such as moved layers or planned garbage collection.

        Returns a row for each mitigation that could be replayed, as `straggler mitigate` prints them.

        layers : number of layers of the model, or of each of its chunks; without it, no layers are moved
        Raises LayersError if `layers` do not fit the unit, and the errors of replay_scenarios.
        """
        rows, manifest = self._recorded()
        how = SimulationSettings(**load_settings().simulation.model_dump())
        return _rows_of(Mitigation, mitigated(rows, manifest, layers or None, how).answers)

    def timeline(self, step: int | None = None) -> Timeline:
        """Return one step, by default the slowest. Raises NoSuchStepError if the step does not exist."""
        rows, manifest = self._recorded()
        how = load_settings().simulation
        found = step_timelines(rows, manifest, step, SimulationSettings(**how.model_dump()))
        return Timeline(self.key, found, how.ideal)

    def _dicts(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(name).arrow.to_pylist(maps_as_pydicts="strict")
        return rows


def _rows_of(kind: type[Answer | Mitigation], answers: Sequence[Answer | Mitigation]) -> Rows:
    """Return answers as rows with the fields of `kind` as columns; without answers, columns without rows."""
    return Rows(pa.table({each.name: [getattr(one, each.name) for one in answers] for each in fields(kind)}))
