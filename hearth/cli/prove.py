"""Prove the house: `hearth verify` and `hearth bench`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hearth.bench.tts import PARTS
from hearth.cli.bench_chat import bench_chat
from hearth.cli.say import AsJson, err, show, table, write_json
from hearth.paths import RECEIPT_FOLDER
from hearth.project import Project, current
from hearth.smoke.receipt import Drill, Receipt, Verdict, number, write
from hearth.smoke.run import run

bench = typer.Typer(help="Measure.", no_args_is_help=True)
bench.command("chat")(bench_chat)
_COLOURS = {"passed": "green", "failed": "red", "pending": "yellow", "not measured": "yellow"}


def verify(
    drill: Annotated[
        bool,
        typer.Option(
            "--drill", help="Also break members of aliases on purpose, beside the house: minutes."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the smoke tests on the live house and write the receipt.

    Changes nothing in the house and takes three minutes at most. The receipt lies in
    /var/lib/hearth/receipt and is shown at https://home.DOMAIN.

    Example: hearth verify
    """
    receipt = prove(current(), "home or drill" if drill else "home")
    if as_json:
        write_json(receipt.as_json())
    else:
        show(view(receipt))
    raise typer.Exit(0 if receipt.good else 1)


def prove(project: Project, mark: str) -> Receipt:
    """Run the tests with a line of progress, write the receipt and return it."""
    with err.status("[dim]The house is being verified[/dim]") as status:
        seen = 0

        def tell(verdict: Verdict, total: int) -> None:
            nonlocal seen
            seen += 1
            status.update(f"[dim]{seen} of {total}: {verdict.promise} {verdict.about}[/dim]")
            if verdict.outcome == "failed":
                err.print(f"[red]failed[/red]  {verdict.promise}: {verdict.about}", end=" ")
                err.print(verdict.detail, markup=False)

        receipt = run(project, mark, tell)
    write(receipt, RECEIPT_FOLDER)
    return receipt


def view(receipt: Receipt) -> RenderableType:
    """Return a receipt as people read it in a terminal."""
    figures = table(
        ("figure", "median", "p95", "unit", "n"),
        ((f.name, number(f.median), number(f.p95), f.unit, str(f.n)) for f in receipt.figures),
    )
    open_ends = table(
        ("verdict", "promise", "about", "why"),
        (
            (Text(v.word, _COLOURS[v.outcome]), v.promise, v.about, Text(v.detail))
            for v in receipt.verdicts
            if v.outcome != "passed"
        ),
    )
    colour = "green" if receipt.good else "red"
    end = f"\n[{colour}]{receipt.summary or 'nothing was tested'}[/]  in {receipt.seconds:g} s"
    parts: list[RenderableType] = [figures, ""]
    if open_ends.row_count:
        parts += [open_ends]
    if receipt.drill:
        parts += [_drilled(receipt.drill), ""]
    remarks = [Text(line, style="yellow") for line in receipt.remarks]
    where = f"receipt: {RECEIPT_FOLDER}/index.html"
    return Group(*parts, *_journals(receipt), *remarks, end, where)


def _drilled(drill: Drill) -> RenderableType:
    """Return the last drill as people read it: a line for each alias."""
    rows = (
        (line.alias, f"{line.right} of {line.of}", _seconds(line.quick_s), _seconds(line.slow_s))
        for line in drill.lines
    )
    heads = (f"fallback, drilled {drill.made}", "as promised", "next member", "after silence")
    return table(heads, rows)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{number(value)} s"


def _journals(receipt: Receipt) -> list[Text]:
    """Return the journal of each service that something failed about, once."""
    lines: list[Text] = []
    seen: set[str] = set()
    for verdict in receipt.verdicts:
        # A promise about nobody in particular has a journal of its own.
        whose = verdict.about or verdict.promise
        if verdict.journal and whose not in seen:
            seen.add(whose)
            lines.append(Text(f"\nJournal of {whose}", style="dim"))
            lines += [Text(line) for line in verdict.journal]
    return lines


@bench.command("llm")
def bench_llm(
    pairs: Annotated[int, typer.Option("--pairs", "-n", min=1, help="Calls of each way.")] = 100,
    model: Annotated[str, typer.Option("--model", help="A model or alias.")] = "fast",
    as_json: AsJson = False,
) -> None:
    """Compare first-token time and speed, direct and through LiteLLM, in alternating calls.

    Example: hearth bench llm -n 100
    """
    from hearth.cli.benches import llm

    llm(pairs, model, as_json)


@bench.command("tts")
def bench_tts(
    service: Annotated[
        str, typer.Option("--service", help="Which of the house's speech servers.")
    ] = "kokoro",
    url: Annotated[
        str | None, typer.Option("--url", help="A speech server that is no house's.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option("--key-env", help="The variable that holds its key.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="The model's name there.")] = "kokoro",
    voice: Annotated[
        list[str] | None,
        typer.Option("--voice", help="A voice, the first one for everything; may be repeated."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", help="Another server, measured in turns: a service, or a URL."),
    ] = None,
    against_model: Annotated[
        str, typer.Option("--against-model", help="The model's name there.")
    ] = "kokoro",
    against_voice: Annotated[
        str | None, typer.Option("--against-voice", help="A voice there, if it has others.")
    ] = None,
    against_key_env: Annotated[
        str | None, typer.Option("--against-key-env", help="The variable that holds its key.")
    ] = None,
    bare: Annotated[
        str | None,
        typer.Option("--bare", help="A command like `python -m hearth_kokoro.bare --model ...`."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="About a minute, not a quarter.")] = False,
    runs: Annotated[
        int | None, typer.Option("--runs", "-n", min=1, max=100, help="Rounds; 10, or 3 if quick.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help=f"Only {', '.join(PARTS[:-1])} or {PARTS[-1]}; may be repeated."
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")
    ] = None,
    chart: Annotated[Path | None, typer.Option("--chart", help="Draw them as a PNG.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write JSON, Markdown and PNG into a folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon speech starts, whether it stutters, and what it costs.

    The first sound is the first decoded one above -45 dBFS. Exit code 1 when a ratio is not
    reached. The form of the JSON is docs/schema/bench-tts.json.

    Example: hearth bench tts --quick --chart speech.png
    """
    from hearth.cli.benches import Speech, tts

    tts(
        Speech(
            service=service,
            url=url,
            key_env=key_env,
            model=model,
            voices=tuple(voice or ()),
            against=against,
            against_model=against_model,
            against_voice=against_voice,
            against_key_env=against_key_env,
            bare=bare,
            quick=quick,
            runs=runs,
            only=tuple(only or ()),
            as_json=as_json,
            markdown=markdown,
            chart=chart,
            out=out,
        )
    )
