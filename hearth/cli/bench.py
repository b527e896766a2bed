"""`hearth bench`: measure."""

from pathlib import Path
from typing import Annotated

import typer

from hearth.bench import stt, tts
from hearth.cli.console import AsJson

app = typer.Typer(
    name="bench", help="Measure language models, speech and chat.", no_args_is_help=True
)

_ONLY = "Only this part, may be repeated: "
Model = Annotated[str, typer.Option("--model", help="A model or alias.")]
ServerModel = Annotated[str, typer.Option("--model", help="The model's name on the server.")]
Url = Annotated[str | None, typer.Option("--url", help="A server outside the house.")]
KeyEnv = Annotated[
    str | None, typer.Option("--key-env", help="The environment variable with its key.")
]
Against = Annotated[
    str | None,
    typer.Option("--against", help="Another server, measured in turns: a service, or a URL."),
]
AgainstModel = Annotated[
    str, typer.Option("--against-model", help="The model's name on the other server.")
]
AgainstKeyEnv = Annotated[
    str | None,
    typer.Option("--against-key-env", help="The environment variable with its key."),
]
Runs = Annotated[
    int | None, typer.Option("--runs", "-n", min=1, max=100, help="Rounds; 10, or 3 if quick.")
]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the tables as Markdown.")]
Chart = Annotated[Path | None, typer.Option("--chart", help="Draw a chart as a PNG.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write JSON, Markdown and PNG into a folder.")
]


@app.command("llm")
def bench_llm(
    pairs: Annotated[
        int, typer.Option("--pairs", "-n", min=1, help="Calls of each endpoint.")
    ] = 100,
    model: Model = "fast",
    as_json: AsJson = False,
) -> None:
    """Compare first-token time and speed, direct and through LiteLLM, in alternating calls.

    Example: hearth bench llm -n 100
    """
    from hearth.cli import bench_run

    bench_run.llm(pairs, model, as_json)


@app.command("chat")
def bench_chat(
    model: Model = "fast",
    users: Annotated[int, typer.Option("--users", min=1, max=50, help="How many people ask.")] = 5,
    rounds: Annotated[
        int, typer.Option("--rounds", "-n", min=1, max=1000, help="How often they all ask.")
    ] = 20,
    apart_s: Annotated[
        float, typer.Option("--apart", min=0, max=60, help="Within how many seconds; 0: at once.")
    ] = 1.0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the chat first: open pages disconnect.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the first word in the chat with the gateway's own, for several people at a time.

    They get accounts of their own, which are removed with all their chats. In each round all start
    within --apart seconds of each other. Exit code 1 when a target is missed.

    Example: hearth bench chat -n 20 --users 5
    """
    from hearth.cli import bench_run

    bench_run.chat(model, users, rounds, apart_s, restart, as_json)


@app.command("tts")
def bench_tts(
    service: Annotated[
        str, typer.Option("--service", help="Which of the house's TTS services.")
    ] = "kokoro",
    url: Url = None,
    key_env: KeyEnv = None,
    model: ServerModel = "kokoro",
    voice: Annotated[
        list[str] | None,
        typer.Option("--voice", help="A voice, the first one for everything; may be repeated."),
    ] = None,
    against: Against = None,
    against_model: AgainstModel = "kokoro",
    against_voice: Annotated[
        str | None, typer.Option("--against-voice", help="A voice there, if it has others.")
    ] = None,
    against_key_env: AgainstKeyEnv = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", help="A command like `python -m hearth_kokoro.baseline --model ...`."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="About a minute, not a quarter of an hour.")
    ] = False,
    runs: Runs = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"{_ONLY}{', '.join(tts.PARTS)}.")
    ] = None,
    markdown: Markdown = None,
    chart: Chart = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon speech starts, whether it stutters, and what it costs.

    The first sound is the first decoded one above -45 dBFS. Exit code 1 when a target is missed.
    The JSON follows the schema docs/schema/bench-tts.json.

    Example: hearth bench tts --quick --chart speech.png
    """
    from hearth.cli import bench_run as run

    plan = run.tts_plan(quick, runs, tuple(only or ()), tuple(voice or ()))
    files = run.Files("bench-tts", markdown, chart, out)
    targets = run.Targets(service, url, key_env, model, against, against_model, against_key_env)
    run.tts(targets, plan, baseline, against_voice, files, as_json)


@app.command("stt")
def bench_stt(
    service: Annotated[
        str, typer.Option("--service", help="Which of the house's STT services.")
    ] = "whisper",
    url: Url = None,
    key_env: KeyEnv = None,
    model: ServerModel = "whisper-1",
    against: Against = None,
    against_model: AgainstModel = "whisper-1",
    against_key_env: AgainstKeyEnv = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            help="A command like `python -m hearth.bench.whisper_baseline --model ...`.",
        ),
    ] = None,
    spoken: Annotated[
        Path | None,
        typer.Option("--spoken", help="A folder of recordings for wer: a.wav with a.txt."),
    ] = None,
    end_of_speech_ms: Annotated[
        int, typer.Option("--end-of-speech-ms", min=200, max=5000, help="The silence that ends.")
    ] = 500,
    quick: Annotated[bool, typer.Option("--quick", help="About two minutes, not ten.")] = False,
    runs: Runs = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"{_ONLY}{', '.join(stt.PARTS)}.")
    ] = None,
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=600, help="Minutes of speech for memory.")
    ] = 60,
    markdown: Markdown = None,
    chart: Chart = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon after the last word its text arrives, and what that costs.

    The end of speech is the last sample above -40 dBFS of a recording that is spoken in real
    time. The part memory runs only when it is named. Exit code 1 when a target is missed. The
    JSON follows the schema docs/schema/bench-stt.json.

    Example: hearth bench stt --quick --chart listening.png
    """
    from hearth.cli import bench_run as run

    plan = run.stt_plan(quick, runs, tuple(only or ()), spoken, end_of_speech_ms, minutes)
    files = run.Files("bench-stt", markdown, chart, out)
    targets = run.Targets(service, url, key_env, model, against, against_model, against_key_env)
    run.stt(targets, plan, baseline, files, as_json)
