"""Writes what was measured as Markdown, as it can stand in docs/."""

from __future__ import annotations

from hearth.bench.served.page import cell, table
from hearth.bench.stt.report import view
from hearth.bench.stt.report.figures import Report


def markdown(report: Report, command: str = "hearth bench stt") -> str:
    """Return the report as a Markdown page, with the command that made it."""
    parts = [f"# Listening, measured\n\n`{command}`\n\n{view.machine_text(report)}"]
    for server in report.servers:
        if rows := view.ratio_rows(report, server):
            parts.append(f"## {server.name}: to reach\n\n{table(view.RATIO_COLUMNS, rows)}")
    parts.append(view.bare_text(report))
    for server in report.servers:
        parts.append(f"## {server.name}: medians\n\n" + "\n\n".join(view.said_of(server)))
        if rows := view.live_rows(server):
            parts.append(table(view.LIVE_COLUMNS, rows))
        if rows := view.file_rows(server):
            parts.append(table(view.FILE_COLUMNS, rows))
        parts += [f"* {cell(line)}" for line in view.errors_of(server)]
    if report.stopped:
        parts.append(report.stopped)
    return "\n\n".join(parts) + "\n"
