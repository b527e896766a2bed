"""`hearth bench`: measure."""

import json
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from hearth import status
from hearth.bench import baseline as baselines
from hearth.bench import chat as chat_bench
from hearth.bench import view
from hearth.bench.agents import run as agents_run
from hearth.bench.agents import tasks as agent_tasks
from hearth.bench.agents import view as agents_view
from hearth.bench.agents.choose import select_models
from hearth.bench.session import BenchPlan, Session, measure
from hearth.bench.session import Progress as ShowProgress
from hearth.bench.stt import run as stt_run
from hearth.bench.stt import view as stt_view
from hearth.bench.tts import run as tts_run
from hearth.bench.tts import view as tts_view
from hearth.catalogue.house import House, Service
from hearth.cli.bench_llm import measure_models
from hearth.cli.bench_voice import measure_calls
from hearth.cli.console import AsJson, find, known, show_or_print
from hearth.cli.measuring import Out, run_shown, write_results
from hearth.clients import ClientError
from hearth.clients.chat import Person, sign_in
from hearth.clients.endpoints import Endpoint, house_edge
from hearth.clients.llm import (
    CALL_S,
    gateway_of,
    measurer,
)
from hearth.machine import engine
from hearth.paths import RECEIPT_FOLDER
from hearth.project import VERIFIER, Project, current

app = typer.Typer(
    name="bench",
    help="Measure language models, agents, speech, calls and chat.",
    no_args_is_help=True,
)


_ONLY, _OTHERS = "Only this part, may be repeated: ", "name another service, or a URL"
Model = Annotated[str | None, typer.Option(help="A model or alias. [default: the chat's]")]
Server = Annotated[str, typer.Option(help="A service of the house, or a URL.")]
ServerModel = Annotated[str, typer.Option(help="The model's name on that server.")]
KeyEnv = Annotated[str | None, typer.Option(help="The environment variable with its key.")]
Against = Annotated[
    str | None, typer.Option(help="Another server to compare with: a service, or a URL.")
]
Runs = Annotated[
    int | None, typer.Option("--runs", "-n", min=1, max=100, help="Rounds; 10, or 3 if quick.")
]
_SPEECH: dict[str, tuple[type[Session[Any, Any, Any]], Any]] = {
    "tts": (tts_run.TtsSession, tts_view),
    "stt": (stt_run.SttSession, stt_view),
}


class Thinking(StrEnum):
    """The levels that an alias knows, too."""

    OFF, LOW, MEDIUM, HIGH, AUTO = "off", "low", "medium", "high", "auto"


app.command("llm")(measure_models)
app.command("voice")(measure_calls)


@app.command("agents")
def bench_agents(
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model or alias; may be repeated. [default: all that call tools]"),
    ] = None,
    cloud: Annotated[
        bool, typer.Option("--cloud", help="Measure models in the cloud, too; that costs money.")
    ] = False,
    thinking: Annotated[
        Thinking | None,
        typer.Option(help="How much a model thinks first. [default: as the orchestrator]"),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure all, also what an unfinished run measured.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find out which model can be trusted with tools: 50 tasks with the house's own.

    Each is scored: the right tool, the right arguments, no call where none is expected. No tool is
    actually called. A run that was interrupted continues where it ended. The results are in
    /var/lib/hearth/receipt/bench-agents.json. Exit code 1 when no model can be trusted.

    Example: hearth bench agents --model qwen3.5 --model llama3.1
    """
    project = current()
    house, tasks = project.house(), agent_tasks.all_tasks()
    orchestrator = house.aliases.get("orchestrator")
    level = thinking.value if thinking else orchestrator.thinking if orchestrator else "off"
    chosen, skipped = select_models(
        house, status.models(house), model or (), cloud=cloud, thinking=level
    )
    if not chosen:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise ClientError(f"there is no model to measure: {reasons or 'none calls tools'}")
    plan, path = agents_run.plan_of(level), RECEIPT_FOLDER / "bench-agents.json"
    before = None if again else agents_run.kept(path, plan)
    report = before or agents_run.AgentsReport(
        agents_run.FORM, plan, datetime.now(UTC).isoformat(timespec="seconds")
    )
    report.skipped = skipped
    report.scores = agents_run.earlier_scores(path, plan)
    key = project.vault.get(VERIFIER)

    async def work(progress: ShowProgress) -> agents_run.AgentsReport:
        gateway = Endpoint("gateway", gateway_of(house).url, key=key)
        async with httpx.AsyncClient(trust_env=False) as client:
            bench = agents_run.Bench(client, gateway, tasks, report, path, progress)
            return await bench.run(chosen)

    run_shown(work)
    # A model that was given up says nothing about itself.
    scores = [agents_view.score(one, tasks) for one in report.models.values()]
    report.scores |= {one.model: agents_view.summary(one) for one in scores if not one.stopped}
    agents_run.keep(report, path)
    content = agents_view.document(report, tasks, house.models)
    show_or_print(as_json, content, agents_view.tables(report, tasks, house.models))
    raise typer.Exit(0 if content["best"] else 1)


@app.command("chat")
def bench_chat(
    model: Model = None,
    users: Annotated[int, typer.Option(min=1, max=50, help="How many people chat at once.")] = 5,
    rounds: Annotated[
        int,
        typer.Option("--rounds", "-n", min=1, max=1000, help="How many times each person asks."),
    ] = 20,
    apart_s: Annotated[
        float,
        typer.Option("--apart", min=0, max=60, help="All start within these seconds; 0: at once."),
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
    project = current()
    house = project.house()
    service = next((one for one in house.offering("chat") if one.sites), None)
    if service is None:
        raise ClientError("this house has no chat UI: enable it in inventory/local/services.yml")
    name = _model(house, model)

    async def work(progress: ShowProgress) -> chat_bench.ChatReport:
        admin = _chat_admin(project, house, service)
        process = chat_bench.inspect_process(service, restart)
        key = project.vault.get(VERIFIER)
        gateway = Endpoint("directly", gateway_of(house).url, name, key, call_s=CALL_S)
        async with AsyncExitStack() as stack:
            each = []
            for page in await stack.enter_async_context(chat_bench.open_pages(admin, users, name)):
                direct = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
                each.append((measurer(direct, gateway), page.measure))
            return await chat_bench.bench_chat(
                name, each, rounds=rounds, apart_s=apart_s, process=process, progress=progress
            )

    report = run_shown(work)
    show_or_print(as_json, asdict(report), chat_bench.chat_view(report))
    raise typer.Exit(0 if report.fine else 1)


def _model(house: House, name: str | None) -> str:
    if name := name or (house.default_alias.name if house.default_alias else None):
        return name
    raise ClientError("no alias for chats is offered: name a model with --model")


def _chat_admin(project: Project, house: House, service: Service) -> Person:
    text = engine.read_file(service.instance, "/etc/hearth/open-webui.json")
    email = json.loads(text)["environment"]["WEBUI_ADMIN_EMAIL"]
    server = house_edge(house).endpoint(service.sites[0].fqdn)
    try:
        return sign_in(server, email, project.vault.get(service.admin_secret or ""))
    except ClientError as error:
        raise ClientError(f"the first account cannot sign in: {error}") from error


@app.command("tts")
def bench_tts(
    server: Server = "kokoro",
    key_env: KeyEnv = None,
    model: ServerModel = "kokoro",
    voice: Annotated[
        list[str] | None,
        typer.Option(help="A voice; may be repeated. The first one is used in all parts."),
    ] = None,
    against: Against = None,
    against_model: ServerModel = "kokoro",
    against_voice: Annotated[
        str | None, typer.Option(help="A voice there, if it has others.")
    ] = None,
    against_key_env: KeyEnv = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="About a minute, not a quarter of an hour.")
    ] = False,
    runs: Runs = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"{_ONLY}{', '.join(tts_run.PARTS)}.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon speech starts, whether it stutters, and what it costs.

    The first sound is the first decoded one above -45 dBFS. With --out, the same words in every
    format and voice are kept, with their hash. Exit code 1 when a target is missed.
    The JSON follows the schema docs/schema/bench-tts.json.

    Example: hearth bench tts --quick --out results
    """
    plan = tts_run.QUICK if quick else tts_run.TtsPlan()
    parts, voices = _in_order(tts_run.PARTS, only or tts_run.PARTS), tuple(voice or plan.voices)
    servers = [_server("tts", "server", server, model, key_env)]
    if against:
        named = against, against_model, against_key_env, against_voice
        servers.append(_server("tts", "other", *named))
    plan = replace(plan, runs=runs or plan.runs, parts=parts, voices=voices)
    _speech("tts", plan, servers, out, as_json)


@app.command("stt")
def bench_stt(
    server: Server = "whisper",
    key_env: KeyEnv = None,
    model: ServerModel = "whisper-1",
    against: Against = None,
    against_model: ServerModel = "whisper-1",
    against_key_env: KeyEnv = None,
    spoken: Annotated[
        Path | None, typer.Option(help="A folder of recordings for wer: a.wav with a.txt.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="About two minutes, not ten.")] = False,
    runs: Runs = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"{_ONLY}{', '.join(stt_run.PARTS)}.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how soon after the last word its text arrives, and what that costs.

    The end of speech is the last sample above -40 dBFS of a recording that is spoken in real
    time. Exit code 1 when a target is missed. The JSON follows the schema
    docs/schema/bench-stt.json.

    Example: hearth bench stt --quick --out results
    """
    plan = stt_run.QUICK if quick else stt_run.SttPlan()
    servers = [_server("stt", "server", server, model, key_env)]
    if against:
        servers.append(_server("stt", "other", against, against_model, against_key_env))
    parts = _in_order(stt_run.PARTS, only or stt_run.PARTS)
    plan = replace(plan, runs=runs or plan.runs, parts=parts, spoken=spoken)
    _speech("stt", plan, servers, out, as_json)


def _in_order(parts: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    names = {known("part", name, parts) for name in wanted}
    return tuple(part for part in parts if part in names)


Measured = tuple[Endpoint, Service | None]
"""A server that is measured, and its service if it is one of the house."""


def _server(
    kind: str, label: str, name: str, model: str, key_env: str | None, voice: str | None = None
) -> Measured:
    """Return the server of this URL, or the service of the house of this name."""
    # A command line is visible to every user, so the key is in the environment.
    if key_env and not os.environ.get(key_env):
        raise typer.BadParameter(f"{key_env} is not set: put the key into that variable")
    key = os.environ.get(key_env or "")
    if "://" in name:
        return Endpoint(label, name, model, key, voice=voice), None
    service, offers = find(current().house(), name), _SPEECH[kind][0].offers
    if not isinstance(service, Service) or offers not in service.offers:
        raise typer.BadParameter(f"{name} offers no {offers}: {_OTHERS}")
    return Endpoint(service.instance, service.url, model, key, voice=voice), service


def _through_caddy(service: Service, model: str) -> Endpoint | None:
    """Return a published service as its clients reach it, with a consumer's key."""
    if not service.sites:
        return None
    project = current()
    edge, key = house_edge(project.house()), project.vault.get(VERIFIER)
    return edge.endpoint(service.sites[0].fqdn, key, name="caddy", model=model)


def _speech(
    name: str,
    plan: BenchPlan,
    servers: Sequence[Measured],
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure, print and write the report, and exit with 1 where a target is missed."""
    kind, form = _SPEECH[name]
    endpoints, services = zip(*servers, strict=True)
    service, more = services[0], dict[str, Any]()
    if service and service in services[1:]:
        raise typer.BadParameter(f"--against {service.name}: {_OTHERS}")
    if service:
        command_of, how = kind.in_house
        more = {"baseline": baselines.in_service(service, command_of), "how": how}
    if out and kind is tts_run.TtsSession:
        more["folder"] = out
    if service and kind is tts_run.TtsSession:
        more["through"] = _through_caddy(service, endpoints[0].model)
    report = run_shown(lambda progress: measure(kind, endpoints, plan, progress=progress, **more))
    foot, sections = view.machine_text(report), form.sections(report)
    show_or_print(as_json, asdict(report), view.terminal(sections, foot))
    if out:
        titles = form.TITLE, form.CHART
        write_results(
            out, f"bench-{name}", asdict(report), titles, foot, sections, form.panels(report)
        )
    raise typer.Exit(0 if report.fine else 1)
