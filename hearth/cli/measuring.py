"""What commands that measure share: their progress bar, and the files of their results."""

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hearth.bench import chart as charts
from hearth.bench import view
from hearth.bench.session import Progress as ShowProgress
from hearth.cli.console import err, print_error

T = TypeVar("T")


def _create(folder: Path | None) -> Path | None:
    """Create the folder of the results before anything is measured for them."""
    try:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}") from None
    return folder


Out = Annotated[
    Path | None,
    typer.Option(
        callback=_create,
        file_okay=False,
        writable=True,
        help="Write JSON, Markdown and a chart as PNG into a folder.",
    ),
]


def run_shown(work: Callable[[ShowProgress], Coroutine[Any, Any, T]]) -> T:
    """Run a measurement with a progress bar."""
    columns = TextColumn("[dim]{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as bar:
        task = bar.add_task("warming up", total=None)

        def show_progress(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=what)

        return asyncio.run(work(show_progress))


def write_results(
    out: Path,
    name: str,
    report: Any,
    titles: tuple[str, str],
    foot: str,
    sections: Sequence[view.Section],
    rows: Sequence[Sequence[charts.Panel]],
) -> None:
    """Write a report as JSON, as a Markdown page, and as a chart where that can be drawn.

    `name` is that of the files, and `titles` are those of the page and of the chart.
    """
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    (out / f"{name}.json").write_text(text, "utf-8")
    page = view.markdown(titles[0], shlex.join(["hearth", *sys.argv[1:]]), foot, sections)
    (out / f"{name}.md").write_text(page, "utf-8")
    if charts.available():
        charts.draw(titles[1], foot, rows, out / f"{name}.png")
    else:
        print_error(f"{out}: {charts.INSTALL}")
