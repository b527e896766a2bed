"""`hearth bench`: measurements that a person asks for."""

import asyncio
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from hearth.bench.accelerator import Proof, on, prove
from hearth.bench.llm import LlmReport, Progress, bench_llm
from hearth.bench.tts import PARTS
from hearth.bench.tts.bare import BY_COMMAND, by_command
from hearth.bench.tts.bench import bench_tts
from hearth.bench.tts.report.figures import Report
from hearth.bench.tts.report.page import markdown
from hearth.bench.tts.report.view import tts_view
from hearth.bench.tts.run import Plan, quick
from hearth.bench.tts.setting import ROLE, Setting, beside, in_house
from hearth.bench.view import llm_table, proof_text
from hearth.catalogue.house import House, Service
from hearth.cli.console import err, find, print_error, print_json, show
from hearth.cli.reports import Files, files_of, key_of, write
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import devices_of, direct_and_gateway, local_model, server_api
from hearth.project import VERIFIER, Project, current


def llm(pairs: int, model: str, as_json: bool) -> None:
    """Measure, and show or write the report."""
    project = current()
    house, key = project.house(), project.vault.get(VERIFIER)
    with err.status("[dim]warming up[/dim]") as status:
        report, proof = asyncio.run(
            _measure(
                house,
                model,
                key,
                pairs,
                lambda done, of: status.update(f"[dim]{done} of {of} pairs[/dim]"),
            )
        )
    if as_json:
        print_json({"llm": report.as_json(), "accelerator": proof.as_json()})
    else:
        show(llm_table(report))
        show(proof_text(proof))
    raise typer.Exit(0 if report.fine else 1)


async def _measure(
    house: House, name: str, key: str, pairs: int, progress: Progress
) -> tuple[LlmReport, Proof]:
    model = local_model(house, name)
    async with httpx.AsyncClient(trust_env=False) as client:
        direct, gateway = direct_and_gateway(client, house, model, key)
        report = await bench_llm(model.name, direct, gateway, pairs=pairs, progress=progress)
        proof = await prove(server_api(client, house, model), model.id)
        return report, on(proof, devices_of(house, model))


@dataclass(frozen=True, slots=True)
class Speech:
    """What `hearth bench tts` was asked for."""

    service: str = "kokoro"
    url: str | None = None
    key_env: str | None = None
    model: str = "kokoro"
    voices: tuple[str, ...] = ()
    against: str | None = None
    against_model: str = "kokoro"
    against_voice: str | None = None
    against_key_env: str | None = None
    bare: str | None = None
    quick: bool = False
    runs: int | None = None
    only: tuple[str, ...] = ()
    as_json: bool = False
    markdown: Path | None = None
    chart: Path | None = None
    out: Path | None = None

    @property
    def plan(self) -> Plan:
        """How much is measured."""
        plan = quick() if self.quick else Plan()
        plan = replace(plan, voices=self.voices or plan.voices)
        if unknown := sorted(set(self.only) - set(PARTS)):
            raise typer.BadParameter(f"--only {unknown[0]}: it is one of {', '.join(PARTS)}")
        parts = tuple(part for part in PARTS if part in (self.only or PARTS))
        return replace(plan, runs=self.runs or plan.runs, parts=parts)


def tts(asked: Speech) -> None:
    """Measure, show or write the report, and end with 1 where something was not reached."""
    # What cannot be written is said before a quarter of an hour of measuring, not after it.
    plan, files = asked.plan, files_of("bench-tts", asked.markdown, asked.chart, asked.out)
    try:
        project = current()
        other, setting = _other(asked, project), _setting(asked, project)
        report = asyncio.run(_speech(asked, plan, setting, other))
    except ClientError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if asked.as_json:
        print_json(report.as_json())
    else:
        show(tts_view(report))
    _write(report, files)
    raise typer.Exit(0 if report.fine else 1)


def _setting(asked: Speech, project: Project) -> Setting:
    """Return the first server: by its URL, or as a service of this house."""
    argv = shlex.split(asked.bare or "")
    own = (lambda status: by_command(argv)) if argv else None
    if asked.url:
        server = Endpoint("server", asked.url, asked.model, key_of(asked.key_env))
        return Setting(server, own, BY_COMMAND)
    house = project.house()
    service = find(house, asked.service)
    if not isinstance(service, Service) or service.role != ROLE:
        raise typer.BadParameter(f"{asked.service} does not speak: name a service of role {ROLE}")
    setting = in_house(house, service, asked.model, project.vault.get(VERIFIER))
    return replace(setting, bare=own, bare_how=BY_COMMAND) if own else setting


def _other(asked: Speech, project: Project) -> Endpoint | None:
    """Return the server to compare with: by its URL, or as a service of this house."""
    if not asked.against:
        return None
    key, model, voice = key_of(asked.against_key_env), asked.against_model, asked.against_voice
    if "://" in asked.against:
        return Endpoint("other", asked.against, model, key, voice=voice)
    house = project.house()
    service = find(house, asked.against)
    same = not asked.url and service is find(house, asked.service)
    if same or not isinstance(service, Service):
        raise typer.BadParameter(f"--against {asked.against}: name another service, or a URL")
    return beside(service, model, voice)


async def _speech(asked: Speech, plan: Plan, setting: Setting, other: Endpoint | None) -> Report:
    servers = [setting.server, *([other] if other else [])]
    columns = TextColumn("[dim]{task.description}"), BarColumn(), MofNCompleteColumn()
    with Bar(*columns, TimeElapsedColumn(), console=err, transient=True) as bar:
        task = bar.add_task("warming up", total=None)
        return await bench_tts(
            servers,
            plan,
            bare=setting.bare,
            bare_how=setting.bare_how,
            through=setting.through,
            progress=lambda done, of, what: bar.update(
                task, completed=done, total=of, description=what
            ),
        )


def _write(report: Report, files: Files) -> None:
    def chart(path: Path) -> None:
        # Drawing needs a library that nothing else here does.
        from hearth.bench.tts.report.chart import draw

        draw(report, path)

    write(files, report.as_json(), lambda command: markdown(report, command), chart)
