"""Runs the benchmarks of `hearth bench`: finds the servers, measures, and writes the reports."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hearth.bench import accelerator, chat_people
from hearth.bench import chat as chat_bench
from hearth.bench import llm as llm_bench
from hearth.bench.baseline import (
    BY_COMMAND,
    KOKORO_HOW,
    WHISPER_HOW,
    Command,
    MakeRun,
    by_command,
    in_service,
    kokoro_command,
    whisper_command,
)
from hearth.bench.report import chart as charts
from hearth.bench.report import view
from hearth.bench.stt import PARTS as STT_PARTS
from hearth.bench.stt import USUAL
from hearth.bench.stt import run as stt_run
from hearth.bench.stt import view as stt_view
from hearth.bench.tts import PARTS as TTS_PARTS
from hearth.bench.tts import run as tts_run
from hearth.bench.tts import view as tts_view
from hearth.catalogue.house import House, Service
from hearth.cli.console import err, find, print_error, print_json, show
from hearth.clients import ClientError
from hearth.clients.chat import Person, sign_in
from hearth.clients.edge import house_edge
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import (
    CALL_S,
    devices_of,
    direct_and_gateway,
    gateway_of,
    local_model,
    measurer,
    server_api,
)
from hearth.machine import engine
from hearth.project import VERIFIER, Project, current

CHAT_PASSWORD = "open_webui_admin_password"  # noqa: S105 - its name in the vault
CHAT_SETTINGS, CHAT_EMAIL = "/etc/hearth/open-webui.json", "WEBUI_ADMIN_EMAIL"


def llm(pairs: int, name: str, as_json: bool) -> None:
    """Measure, and print the report."""
    project = current()
    house, key = project.house(), project.vault.get(VERIFIER)

    async def measure() -> tuple[llm_bench.LlmReport, accelerator.Proof]:
        model = local_model(house, name)
        async with httpx.AsyncClient(trust_env=False) as client:
            both = direct_and_gateway(client, house, model, key)
            report = await llm_bench.bench_llm(model.name, *both, pairs=pairs, progress=tell)
            proof = await accelerator.prove(server_api(client, house, model), model.id)
            return report, accelerator.on(proof, devices_of(house, model))

    with err.status("[dim]warming up[/dim]") as status:

        def tell(done: int, of: int) -> None:
            status.update(f"[dim]{done} of {of} pairs[/dim]")

        report, proof = asyncio.run(measure())
    if as_json:
        print_json({"llm": report.as_json(), "accelerator": proof.as_json()})
    else:
        show(llm_bench.llm_table(report))
        show(accelerator.proof_text(proof))
    raise typer.Exit(0 if report.fine else 1)


def chat(model: str, users: int, rounds: int, apart_s: float, restart: bool, as_json: bool) -> None:
    """Measure, print the report, and exit with 1 where a target is missed."""
    project = current()
    house = project.house()
    with err.status("[dim]warming up[/dim]") as status:

        def tell(done: int, of: int) -> None:
            status.update(f"[dim]{done} of {of} rounds[/dim]")

        async def measure(admin: Person, process: chat_bench.ChatProcess) -> chat_bench.ChatReport:
            key = project.vault.get(VERIFIER)
            gateway = Endpoint("directly", gateway_of(house).url, model, key, call_s=CALL_S)
            async with AsyncExitStack() as stack:
                persons = stack.enter_context(chat_people.people(admin, users))
                opened = stack.enter_context(chat_people.connections(persons))
                each = []
                for person, connection in zip(persons, opened, strict=True):
                    direct = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
                    client = await stack.enter_async_context(chat_people.client_for(person))
                    page = chat_people.Page(person, connection, client, model)
                    each.append(chat_bench.User(measurer(direct, gateway), page.measure))
                return await chat_bench.bench_chat(
                    model, each, rounds=rounds, apart_s=apart_s, process=process, progress=tell
                )

        try:
            service = _chat_service(house)
            admin = _chat_admin(project, house, service)
            process = chat_people.inspect_process(service, admin.server, restart)
            report = asyncio.run(measure(admin, process))
        except (ClientError, engine.EngineError) as error:
            print_error(str(error))
            raise typer.Exit(1) from error
    if as_json:
        print_json(report.as_json())
    else:
        show(chat_bench.chat_view(report))
    raise typer.Exit(0 if report.fine else 1)


def _chat_service(house: House) -> Service:
    for service in house.services.values():
        if "chat" in service.offers and service.publish:
            return service
    raise ClientError("this house has no chat: put `enabled: true` on it in services.yml")


def _chat_admin(project: Project, house: House, service: Service) -> Person:
    settings = json.loads(engine.read_file(service.instance, CHAT_SETTINGS))["environment"]
    server = house_edge(house).endpoint(service.publish[0].fqdn)
    try:
        return sign_in(server, settings[CHAT_EMAIL], project.vault.get(CHAT_PASSWORD))
    except ClientError as error:
        raise ClientError(f"the first account cannot sign in: {error}") from error


@dataclass(frozen=True, slots=True)
class Targets:
    """The servers that the options name."""

    service: str
    url: str | None
    key_env: str | None
    model: str
    against: str | None
    against_model: str
    against_key_env: str | None

    def first(self, offers: str) -> tuple[Endpoint, Service | None]:
        """Return the first server, and its service if it is one of the house."""
        if self.url:
            return Endpoint("server", self.url, self.model, _key(self.key_env)), None
        service = _service(self.service, offers)
        return Endpoint(service.instance, service.url, self.model), service

    def other(self, offers: str, voice: str | None = None) -> list[Endpoint]:
        """Return the server to compare with, if there is one."""
        if not self.against:
            return []
        key, model = _key(self.against_key_env), self.against_model
        if "://" in self.against:
            return [Endpoint("other", self.against, model, key, voice=voice)]
        service = _service(self.against, offers)
        if not self.url and service.name == self.service.replace("-", "_"):
            raise typer.BadParameter(f"--against {self.against}: name another service, or a URL")
        return [Endpoint(service.instance, service.url, model, key, voice=voice)]


def _service(name: str, offers: str) -> Service:
    service = find(current().house(), name)
    if not isinstance(service, Service) or offers not in service.offers:
        raise typer.BadParameter(f"{name} offers no {offers}: name another service, or a URL")
    return service


def _key(variable: str | None) -> str | None:
    """Return a key from the environment: a command line is visible to every user."""
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise typer.BadParameter(f"{variable} is not set: put the key into that variable")
    return os.environ[variable]


def _baseline(
    command: str | None, service: Service | None, in_house: Command, how: str
) -> tuple[MakeRun | None, str]:
    """Return what makes the baseline, and a description of its options."""
    if argv := shlex.split(command or ""):
        return (lambda status: by_command(argv)), BY_COMMAND
    return (in_service(service, in_house), how) if service else (None, "")


def _parts(known: Sequence[str], only: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
    if unknown := sorted(set(only) - set(known)):
        raise typer.BadParameter(f"--only {unknown[0]}: it is one of {', '.join(known)}")
    return tuple(part for part in known if part in (only or usual))


def tts_plan(
    quick: bool, runs: int | None, only: Sequence[str], voices: tuple[str, ...]
) -> tts_run.Plan:
    """Return how much is requested."""
    plan = tts_run.quick() if quick else tts_run.Plan()
    parts = _parts(TTS_PARTS, only, TTS_PARTS)
    return replace(plan, runs=runs or plan.runs, voices=voices or plan.voices, parts=parts)


def stt_plan(
    quick: bool,
    runs: int | None,
    only: Sequence[str],
    spoken: Path | None,
    end_of_speech_ms: int,
    minutes: int,
) -> stt_run.Plan:
    """Return how much is requested."""
    plan = stt_run.quick() if quick else stt_run.Plan()
    return replace(
        plan,
        runs=runs or plan.runs,
        parts=_parts(STT_PARTS, only, USUAL),
        spoken=spoken,
        end_of_speech_ms=end_of_speech_ms,
        loop_s=60 * minutes,
    )


def tts(
    targets: Targets,
    plan: tts_run.Plan,
    command: str | None,
    against_voice: str | None,
    files: "Files",
    as_json: bool,
) -> None:
    """Measure, print and write the report, and exit with 1 where a target is missed."""
    files.check()
    endpoint, service = targets.first("speech")
    others = targets.other("speech", against_voice)
    baseline, how = _baseline(command, service, kokoro_command, KOKORO_HOW)
    columns = TextColumn("[dim]{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as bar:
        task = bar.add_task("warming up", total=None)

        def tell(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=what)

        try:
            through = _through_caddy(service, targets.model) if service else None
            endpoints = [endpoint, *others]
            report = asyncio.run(
                tts_run.bench_tts(
                    endpoints, plan, baseline=baseline, how=how, through=through, progress=tell
                )
            )
        except ClientError as error:
            print_error(str(error))
            raise typer.Exit(1) from error
    files.write(report, tts_view, tts_view.sections(report), tts_view.panels(report), as_json)


def _through_caddy(service: Service, model: str) -> Endpoint | None:
    """Return a published service as its clients reach it, with a consumer's key."""
    if not service.publish:
        return None
    project = current()
    edge, key = house_edge(project.house()), project.vault.get(VERIFIER)
    return edge.endpoint(service.publish[0].fqdn, key, name="caddy", model=model)


def stt(
    targets: Targets, plan: stt_run.Plan, command: str | None, files: "Files", as_json: bool
) -> None:
    """Measure, print and write the report, and exit with 1 where a target is missed."""
    files.check()
    endpoint, service = targets.first("transcription")
    endpoints = [endpoint, *targets.other("transcription")]
    baseline, how = _baseline(command, service, whisper_command, WHISPER_HOW)
    with err.status("[dim]warming up[/dim]") as status:

        def tell(what: str) -> None:
            status.update(f"[dim]{what}[/dim]")

        try:
            report = asyncio.run(
                stt_run.bench_stt(endpoints, plan, baseline=baseline, how=how, progress=tell)
            )
        except ClientError as error:
            print_error(str(error))
            raise typer.Exit(1) from error
    files.write(report, stt_view, stt_view.sections(report), stt_view.panels(report), as_json)


@dataclass(frozen=True, slots=True)
class Files:
    """Where each form of a report goes."""

    name: str
    markdown: Path | None
    chart: Path | None
    out: Path | None

    def paths(self, suffix: str, given: Path | None = None) -> list[Path]:
        """Return the files of one form."""
        named = [given] if given else []
        return named + ([self.out / f"{self.name}.{suffix}"] if self.out else [])

    def check(self) -> None:
        """Refuse files that cannot be written, before minutes of measuring."""
        try:
            if self.out:
                self.out.mkdir(parents=True, exist_ok=True)
            images = self.paths("png", self.chart) if charts.available() else []
            markdown = self.paths("md", self.markdown)
            for path in [*self.paths("json"), *markdown, *images]:
                path.open("a").close()
        except OSError as error:
            raise typer.BadParameter(f"{error.filename}: {error.strerror}") from error

    def write(
        self,
        report: Any,
        texts: Any,
        sections: Sequence[view.Section],
        panels: Sequence[Sequence[charts.Panel]],
        as_json: bool,
    ) -> None:
        """Print the report, write it in every form, and exit with 1 where a target is missed."""
        foot, document = view.machine_text(report), report.as_json()
        if as_json:
            print_json(document)
        else:
            show(view.terminal(sections, foot))
        for path in self.paths("json"):
            path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
        command = shlex.join(["hearth", *sys.argv[1:]])
        for path in self.paths("md", self.markdown):
            path.write_text(view.markdown(texts.TITLE, command, foot, sections), "utf-8")
        for path in self.paths("png", self.chart):
            if not charts.available():
                print_error(f"{path}: {charts.INSTALL}")
                break
            charts.draw(texts.CHART, foot, panels, path)
        raise typer.Exit(0 if report.fine else 1)
