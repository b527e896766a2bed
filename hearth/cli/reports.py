"""Where measurements go: keys that no command line shows, and files that can be written."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

Files = Mapping[str, list[Path]]
"""Where each form of a report goes, by its ending."""


def key_of(variable: str | None) -> str | None:
    """Return a key from the environment: on a command line every user would see it."""
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise typer.BadParameter(f"{variable} is not set: put the key into that variable")
    return os.environ[variable]


def files_of(name: str, markdown: Path | None, chart: Path | None, out: Path | None) -> Files:
    """Return where each form of a report goes, by its ending; all of them can be written."""
    files = {
        "json": list[Path](),
        "md": [markdown] if markdown else [],
        "png": [chart] if chart else [],
    }
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            for ending, paths in files.items():
                paths.append(out / f"{name}.{ending}")
        for path in [path for paths in files.values() for path in paths]:
            path.open("a").close()
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from error
    return files


def write(
    files: Files,
    as_json: Mapping[str, Any],
    page: Callable[[str], str],
    draw: Callable[[Path], None],
) -> None:
    """Write a report in every form that was asked for; a page is told the command that made it."""
    for path in files["json"]:
        path.write_text(json.dumps(as_json, indent=2, ensure_ascii=False) + "\n", "utf-8")
    for path in files["md"]:
        path.write_text(page(shlex.join(["hearth", *sys.argv[1:]])), "utf-8")
    for path in files["png"]:
        draw(path)
