"""Show downloads on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

from hearth.sources.model import Progress


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """A progress callback that draws one bar per source while the context is open."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=False),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=console, transient=True) as drawn:

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = drawn.add_task(name, total=total)
            drawn.update(tasks[name], completed=done, total=total)

        yield show
