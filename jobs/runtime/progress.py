"""Progress bars on standard error, which are silent without a terminal."""

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
"""Shared by all bars, so that a nested bar is drawn below the outer one."""


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner with a text and the elapsed time while the block runs."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with _bar(*columns) as bar:
        bar.add_task(text, total=None)
        yield


@contextmanager
def steps(text: str, names: Sequence[str]) -> Iterator[Iterator[str]]:
    """Yield the names in turn, with a progress bar over them."""
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
    """Show units done and time left; yield a function to call with a description and newly done units."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with _bar(*columns, TextColumn("units,"), TimeRemainingColumn(), TextColumn("left")) as bar:
        task = bar.add_task(text, total=units)
        yield lambda description, done: bar.update(task, description=description, advance=done)


def spread(text: str, work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> list[Result]:
    """Run tasks in this process or several processes; return the results in the order of the tasks.

    work : with several processes, a function that they can import by name
    """
    is_hidden = not (tasks and SCREEN.is_terminal)
    with ExitStack() as open_pool:
        results: Iterator[Result] = map(work, tasks)
        if workers > 1:
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            results = open_pool.enter_context(pool).map(work, tasks)
        return list(track(results, text, len(tasks), console=SCREEN, transient=True, disable=is_hidden))


def _bar(*columns: ProgressColumn) -> Progress:
    return Progress(
        *columns, console=SCREEN, transient=True, redirect_stdout=False, disable=not SCREEN.is_terminal
    )
