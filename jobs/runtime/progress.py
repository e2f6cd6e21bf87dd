"""That something goes on, what, and for how long: on standard error, and silent where nobody watches."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    track,
)

Task = TypeVar("Task")
Result = TypeVar("Result")

SCREEN: Final = Console(stderr=True)
"""One for all bars, so that one within another stands beneath it."""


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show what is done while the block lasts, of which nobody knows how long it takes."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with _bar(*columns) as bar:
        bar.add_task(text, total=None)
        yield


@contextmanager
def steps(text: str, names: Sequence[str]) -> Iterator[Iterator[str]]:
    """Lend the names one after the other, and show which of how many is being done."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with _bar(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task(text, total=len(names))

        def each() -> Iterator[str]:
            for name in names:
                bar.update(task, description=f"{text}: {name}")
                yield name
                bar.advance(task)

        yield each()


@contextmanager
def counting(text: str, units: int) -> Iterator[Callable[[str, int], None]]:
    """Lend a function that tells what was done, of how many units; show how many are, and the time left."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with _bar(*columns, TextColumn("units,"), TimeRemainingColumn(), TextColumn("left")) as bar:
        task = bar.add_task(text, total=units)
        yield lambda description, done: bar.update(task, description=description, advance=done)


def spread(text: str, work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> list[Result]:
    """Do the tasks, by this process or by several; returns the results in the order of the tasks.

    work : with several processes, a function that they find by its name
    """
    is_hidden = not (tasks and SCREEN.is_terminal)
    with ExitStack() as open_pool:
        results: Iterator[Result] = map(work, tasks)
        if workers > 1:
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            results = open_pool.enter_context(pool).map(work, tasks)
        return list(track(results, text, len(tasks), console=SCREEN, transient=True, disable=is_hidden))


def _bar(*columns: ProgressColumn) -> Progress:
    """Make a bar that is gone when it ends; standard output stays what it is: it may be a file."""
    return Progress(
        *columns, console=SCREEN, transient=True, redirect_stdout=False, disable=not SCREEN.is_terminal
    )
