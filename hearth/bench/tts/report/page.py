"""Writes what was measured as Markdown, as it can stand in docs/."""

from __future__ import annotations

from hearth.bench.served.page import cell, table
from hearth.bench.tts.report import beside, view
from hearth.bench.tts.report.figures import Report


def markdown(report: Report, command: str = "hearth bench tts") -> str:
    """Return the report as a Markdown page, with the command that made it."""
    parts = [f"# Speech, measured\n\n`{command}`\n\n{view.machine_text(report)}"]
    if rows := beside.beside_rows(report):
        parts.append(f"## Side by side\n\n{table(beside.beside_columns(report), rows)}")
    for server in report.servers:
        rows = view.ratio_rows(report, server)
        if rows:
            parts.append(f"## {server.name}: to reach\n\n{table(view.RATIO_COLUMNS, rows)}")
    parts.append(view.bare_text(report))
    for server in report.servers:
        rows = view.figure_rows(server)
        said = f"{view.server_text(server)}\n\n{table(view.FIGURE_COLUMNS, rows)}"
        parts.append(f"## {server.name}: medians\n\n{said}")
        parts += [f"* {cell(line)}" for line in view.errors_of(server)]
    if report.stopped:
        parts.append(report.stopped)
    return "\n\n".join(parts) + "\n"
