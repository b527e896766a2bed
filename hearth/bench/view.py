"""Shows what was measured to a person."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.accelerator import GPU_PROVEN, NO_GPU, NOT_MEASURED, SOFTWARE, Proof
from hearth.bench.llm import LlmReport, WayFigures
from hearth.clients.stats import Difference, Spread

_STYLES = {GPU_PROVEN: "green", NO_GPU: "yellow", SOFTWARE: "yellow"}


def llm_table(report: LlmReport) -> RenderableType:
    """Return the figures of both ways, what the gateway adds, and what failed."""
    table = Table(
        *("calls of", "way", "n", "failed"),
        *("first token ms", "p95", "whole ms", "p95", "tokens/s"),
        title=f"{report.model}, medians",
        box=None,
        pad_edge=False,
    )
    for way in (report.direct, report.gateway):
        table.add_row("one short answer", *_row(way))
    for prompt in report.prompts:
        for way in (prompt.direct, prompt.gateway):
            table.add_row(prompt.prompt, *_row(way))
    below = [Text(added_text(report.added_first_ms))]
    errors = dict.fromkeys(report.direct.errors + report.gateway.errors)
    below += [Text(line, style="red") for line in [report.stopped, *errors] if line]
    return Group(table, *below)


def added_text(added: Difference | None) -> str:
    """Say what the gateway adds to the first token."""
    if added is None:
        return "What the gateway adds is not known: no pair of calls succeeded."
    ratio = f", {added.ratio:.2f} times the direct call" if added.ratio else ""
    return (
        f"The gateway adds {added.median:.1f} ms to the median first token "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs{ratio})."
    )


def proof_text(proof: Proof) -> Text:
    """Say what a model computes on, and how that is known."""
    told = proof.verdict != NOT_MEASURED and proof.ratio
    ratio = f", {proof.ratio:.2f} times the CPU" if told else ""
    speeds = ""
    if proof.deployed_tokens_per_s and proof.cpu_tokens_per_s:
        speeds = (
            f" ({proof.deployed_tokens_per_s:.0f} against {proof.cpu_tokens_per_s:.0f} prompt "
            f"tokens/s, n={proof.n})"
        )
    text = f"{proof.model}: {proof.verdict}{ratio}{speeds}: {proof.reason}"
    return Text(text, style=_STYLES.get(proof.verdict, ""))


def _row(way: WayFigures) -> list[str]:
    return [
        way.way,
        str(way.calls - way.failed),
        str(way.failed) if way.failed else "",
        *_cells(way.first_ms),
        *_cells(way.total_ms),
        _cells(way.tokens_per_s)[0],
    ]


def _cells(spread: Spread | None) -> tuple[str, str]:
    return (f"{spread.median:.1f}", f"{spread.p95:.1f}") if spread else ("-", "-")
