"""Vega-Lite charts of one unit for notebooks, drawn as SVG or PNG on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jobs.report.loss import waterfall
from jobs.runtime.extras import missing
from schemas.causes import OF_CAUSE
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, STEP_SLOWDOWN, WORKER_SLOWDOWN

CHARTS: Final = ("workers", "steps", "causes", "waterfall")
WATERFALL: Final = "waterfall"
"""Name of a chart, and of the view whose rows the chart shows."""
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
_HOTTEST: Final = 30
"""Largest value on the colour scale of the map of workers, as on the pages of the report. [%]"""
_CHAIN: Final = ("#0072b2", "#d55e00")
"""Colours of totals and of differences in the waterfall, as on the pages of the report."""
_DRAW: Final = (
    "import json, sys, vl_convert as v; spec = json.load(sys.stdin); "
    "is_png = sys.argv[1] == '.png'; "
    "drawn = v.vegalite_to_png(spec, scale=2) if is_png else v.vegalite_to_svg(spec).encode(); "
    "sys.stdout.buffer.write(drawn)"
)
_FORMATS: Final = (".png", ".svg")

Rows = Sequence[Mapping[str, Any]]


class FigureError(RuntimeError):
    """Raised when a chart cannot be drawn, because it has no data or the converter failed."""


def _converted(spec: bytes, how: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the chart converter in a separate process, and return the process when it has ended.

    In this process, the converter would panic if standard input is closed, and hang if this process is a
    fork.
    """
    command = [sys.executable, "-X", "utf8", "-c", _DRAW, how]
    return subprocess.run(command, input=spec, capture_output=True, check=False)  # noqa: S603  # our own


@dataclass(frozen=True, repr=False)
class Figure:
    """A Vega-Lite chart, which a notebook shows as SVG; drawing needs no network."""

    title: str
    spec: Mapping[str, Any]

    def svg(self) -> str:
        """Return the chart as SVG. Raises FigureError if the converter fails."""
        return self._drawn(".svg").decode()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the chart as PNG or SVG, by the ending of the file name; return the path.

        Raises ValueError for other endings, FigureError if the converter fails.
        """
        target = Path(path)
        if target.suffix not in _FORMATS:
            raise ValueError(f"{target}: a figure is saved as {' or '.join(_FORMATS)}")
        target.write_bytes(self._drawn(target.suffix))
        return target

    def _drawn(self, how: str) -> bytes:
        if find_spec("vl_convert") is None:
            raise FigureError(missing(ModuleNotFoundError(name="vl_convert")))
        spec = json.dumps(dict(self.spec)).encode()
        drawn = _converted(spec, how)
        if drawn.returncode < 0:  # a signal: V8 aborts if memory is short for a moment; try once more
            drawn = _converted(spec, how)
        if drawn.returncode:
            said = drawn.stderr.decode(errors="replace").strip()
            raise FigureError(f"{self.title} was not drawn, status {drawn.returncode}: {said}")
        return drawn.stdout

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}


class Figures:
    """Charts of one unit: workers, steps, causes, waterfall; a chart is drawn when it is shown or saved.

    Each chart raises FigureError if the unit has no rows for it.
    """

    def __init__(self, key: Unit, rows: Callable[[str], Rows]) -> None:
        """Make the charts of a unit; `rows` returns its rows of a table or view, given the name."""
        self._key, self._job_id, self._rows = key, key.job_id, rows

    def __repr__(self) -> str:
        return f"<Figures of {self._job_id}: {', '.join(CHARTS)}>"

    def _drawn(self, name: str) -> Rows:
        """Return the rows of a table or view that a chart draws. Raises FigureError if there are none."""
        if found := self._rows(name):
            return found
        why = "it is not simulated yet"
        for job in self._rows(JOB_SLOWDOWN):
            why = job["status"] + (f", {job['status_detail']}" if job["status_detail"] else "")
        raise FigureError(f"no rows of {name} to draw for {self._key.words}: {why}")

    @property
    def workers(self) -> Figure:
        """Return a map of workers: by how much each worker alone lengthens the ideal step. [%]"""
        names = ("pp_rank", "dp_rank", "rank", "host")
        rows = [
            {name: row[name] for name in names} | {"adds": 100 * (row["slowdown"] - 1)}
            for row in self._drawn(WORKER_SLOWDOWN)
        ]
        scale = {"domain": [0, _HOTTEST], "clamp": True, "scheme": "oranges"}
        title = f"adds to the ideal step [%], {_HOTTEST} and more"
        encoding = {
            "x": _field("dp_rank", "ordinal", "dp rank"),
            "y": _field("pp_rank", "ordinal", "stage (from 0)"),
            "color": _field("adds", "quantitative", title, scale=scale, legend={"titleLimit": 0}),
            "tooltip": [{"field": name} for name in (*names, "adds")],
        }
        return _figure(f"slowdown by each worker of {self._job_id}", rows, "rect", encoding)

    @property
    def steps(self) -> Figure:
        """Return a chart of the slowdown of each recorded step."""
        found = sorted(self._drawn(STEP_SLOWDOWN), key=lambda row: row["step"])
        rows = [
            {"step": row["step"], "slowdown": row["slowdown"], "burst": row["step"] - place}
            for place, row in enumerate(found)
        ]
        encoding = {
            # Only consecutive steps are joined, because steps between two bursts were not recorded.
            "detail": {"field": "burst"},
            "x": _field("step", "ordinal", "step", axis={"labelOverlap": True}),
            "y": _field("slowdown", "quantitative", "slowdown of the step", scale={"zero": False}),
        }
        return _figure(f"slowdown by step of {self._job_id}", rows, {"type": "line", "point": True}, encoding)

    @property
    def causes(self) -> Figure:
        """Return a chart of the time lost to each cause, and of the time that its fix alone saves."""
        rows = []
        for row in self._drawn(JOB_CAUSES):
            name = OF_CAUSE[row["cause"]].words
            rows.append({"cause": name, "what": "lost", "share": row["lost_fraction"] or 0.0})
            rows.append({"cause": name, "what": "fixed alone saves", "share": row["time_saved_fraction"]})
        encoding = {
            "y": _field("cause", "nominal", None, sort="-x"),
            "x": _field("share", "quantitative", "share of the recorded time", axis={"format": "~%"}),
            "yOffset": {"field": "what"},
            "color": _field("what", "nominal", None),
        }
        return _figure(f"causes of {self._job_id}", rows, "bar", encoding)

    @property
    def waterfall(self) -> Figure:
        """Return a waterfall from recorded to productive time, in GPU-hours or, if unknown, in seconds."""
        found = self._drawn(WATERFALL)
        amounts = "gpu_hours" if any(row["gpu_hours"] is not None for row in found) else "seconds"
        rows = [
            {
                "figure": each["title"],
                "kind": "total" if each["is_total"] else "difference",
                "share": each["share"],
                "from": each["x"],
                "to": each["x"] + each["width"],
            }
            for each in waterfall(found, amounts)
        ]
        scale = {"domain": ["total", "difference"], "range": [*_CHAIN]}
        encoding = {
            "y": _field("figure", "nominal", None, sort=None, axis={"labelLimit": 400}),
            "x": _field("from", "quantitative", "% of what was recorded"),
            "x2": {"field": "to"},
            "color": _field("kind", "nominal", None, scale=scale),
            "tooltip": [{"field": "figure"}, {"field": "share"}],
        }
        return _figure(f"from recorded to productive, {self._job_id}", rows, "bar", encoding)


def _field(name: str, kind: str, title: str | None, **more: object) -> dict[str, object]:
    """Return the encoding of a field of a chart; `more` adds properties of Vega-Lite."""
    return {"field": name, "type": kind, "title": title, **more}


def _figure(title: str, rows: Rows, mark: object, encoding: Mapping[str, object]) -> Figure:
    spec = {
        "$schema": _SCHEMA,
        "title": title,
        "data": {"values": list(rows)},
        "mark": mark,
        "encoding": encoding,
    }
    return Figure(title, spec)
