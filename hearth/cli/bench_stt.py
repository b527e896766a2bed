"""`hearth bench stt` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from hearth.bench.stt import PARTS
from hearth.cli.console import AsJson


def bench_stt(
    service: Annotated[
        str, typer.Option("--service", help="Which of the house's listening servers.")
    ] = "whisper",
    url: Annotated[
        str | None, typer.Option("--url", help="A listening server that is no house's.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option("--key-env", help="The variable that holds its key.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="The model's name there.")] = "whisper-1",
    against: Annotated[
        str | None,
        typer.Option("--against", help="Another server, measured in turns: a service, or a URL."),
    ] = None,
    against_model: Annotated[
        str, typer.Option("--against-model", help="The model's name there.")
    ] = "whisper-1",
    against_key_env: Annotated[
        str | None, typer.Option("--against-key-env", help="The variable that holds its key.")
    ] = None,
    bare: Annotated[
        str | None,
        typer.Option(
            "--bare", help="A command like `python -m hearth.bench.stt.plain --model ...`."
        ),
    ] = None,
    spoken: Annotated[
        Path | None,
        typer.Option("--spoken", help="A folder of recordings for wer: a.wav with a.txt."),
    ] = None,
    end_of_speech_ms: Annotated[
        int, typer.Option("--end-of-speech-ms", min=200, max=5000, help="The silence that ends.")
    ] = 500,
    quick: Annotated[bool, typer.Option("--quick", help="Some two minutes, not ten.")] = False,
    runs: Annotated[
        int | None, typer.Option("--runs", "-n", min=1, max=100, help="Rounds; 10, or 3 if quick.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help=f"Only {', '.join(PARTS[:-1])} or {PARTS[-1]}; may be repeated."
        ),
    ] = None,
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=600, help="How much speech memory hears.")
    ] = 60,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")
    ] = None,
    chart: Annotated[Path | None, typer.Option("--chart", help="Draw them as a PNG.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write JSON, Markdown and PNG into a folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon after the last word its text is there, and what that costs.

    The end of speech is the last sample above -40 dBFS of a recording that is spoken in real
    time. The part memory is run only when named. Exit code 1 when a ratio is not reached. The
    form of the JSON is docs/schema/bench-stt.json.

    Example: hearth bench stt --quick --chart listening.png
    """
    from hearth.cli.listening import Listening, stt

    stt(
        Listening(
            service=service,
            url=url,
            key_env=key_env,
            model=model,
            against=against,
            against_model=against_model,
            against_key_env=against_key_env,
            bare=bare,
            spoken=spoken,
            end_of_speech_ms=end_of_speech_ms,
            quick=quick,
            runs=runs,
            only=tuple(only or ()),
            minutes=minutes,
            as_json=as_json,
            markdown=markdown,
            chart=chart,
            out=out,
        )
    )
