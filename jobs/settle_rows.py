"""Settles what is a row of rank_steps and what a reject, where a line alone does not tell."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame

from jobs.landing import Landing
from jobs.read_landing import LandedDays
from jobs.transforms.duplicates import duplicates, repeated_steps, without
from jobs.transforms.landed import arranged, checked_suspects, rank_steps_of, rejects_of, rows_of
from jobs.transforms.rejects import numbered, rejects_table, with_texts
from udfs.landed_rows import STATE_SUSPECT


class SettledRows(NamedTuple):
    """The tables rank_steps and rejects; they can be looked at several times, as all of it is persisted."""

    rank_steps: DataFrame
    rejects: DataFrame


@contextmanager
def settled_rows(days: LandedDays, landing: Landing) -> Iterator[SettledRows]:
    """Settle rows and rejects; the frames can be used until the block ends.

    Days without suspects and duplicates cost one look at the keys of their rows.
    """
    with ExitStack() as kept:
        rows, rejected = rows_of(days.landed), [rejects_of(days.landed), rejects_of(days.whole_files)]
        is_arranged = True
        if days.states.get(STATE_SUSPECT):
            checked = _keep(kept, checked_suspects(days.landed, days.files))
            rejected.append(rejects_of(checked))
            if not rows_of(checked).isEmpty():
                rows, is_arranged = rows.unionByName(rows_of(checked)), False
        repeated = _keep(kept, repeated_steps(rows))
        again = None if repeated.isEmpty() else _keep(kept, duplicates(rows, repeated))
        if again is not None:
            rejected.append(again)
            rows, is_arranged = without(rows, again), False
        if is_arranged:
            rank_steps = rank_steps_of(rows)
            rank_steps.is_cached = True  # as a part of days.landed; nobody should store the same rows twice
        else:
            rank_steps = _keep(kept, rank_steps_of(arranged(rows, days.buckets)))
        rejects = numbered(reduce(DataFrame.unionByName, rejected), days.landed)
        if again is not None:
            rejects = with_texts(rejects, _lines_again(again, days, landing), days.files)
        yield SettledRows(rank_steps, _keep(kept, rejects_table(rejects)))


def _keep(kept: ExitStack, frame: DataFrame) -> DataFrame:
    """Persist a frame until `kept` is closed."""
    kept.callback(frame.persist().unpersist)
    return frame


def _lines_again(rejected: DataFrame, days: LandedDays, landing: Landing) -> DataFrame:
    """Read the lines of files with such rejects again: rows do not carry their text."""
    concerned = rejected.select("source_file").distinct()
    paths = days.files.join(concerned, "source_file").select("path").collect()
    return landing.lines(only=[row["path"] for row in paths])
