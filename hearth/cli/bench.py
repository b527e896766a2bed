"""`hearth bench`: measure."""

from pathlib import Path
from typing import Annotated

import typer

from hearth.bench.tts import PARTS
from hearth.cli.bench_chat import bench_chat
from hearth.cli.bench_stt import bench_stt
from hearth.cli.console import AsJson

app = typer.Typer(
    name="bench", help="Measure language models, speech and chat.", no_args_is_help=True
)
app.command("chat")(bench_chat)
app.command("stt")(bench_stt)


@app.command("llm")
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


@app.command("tts")
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
