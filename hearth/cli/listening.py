"""`hearth bench stt`: how soon after the last word its text is there."""

import asyncio
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from hearth.bench.stt import PARTS, USUAL
from hearth.bench.stt.bare import BY_COMMAND, by_command
from hearth.bench.stt.bench import bench_stt
from hearth.bench.stt.plan import Plan, quick
from hearth.bench.stt.report.figures import Report
from hearth.bench.stt.report.page import markdown
from hearth.bench.stt.report.view import stt_view
from hearth.bench.stt.setting import ROLE, Setting, in_house
from hearth.catalogue.house import Service
from hearth.cli.console import err, find, print_error, print_json, show
from hearth.cli.reports import Files, files_of, key_of, write
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.project import current


@dataclass(frozen=True, slots=True)
class Listening:
    """What `hearth bench stt` was asked for."""

    service: str = "whisper"
    url: str | None = None
    key_env: str | None = None
    model: str = "whisper-1"
    against: str | None = None
    against_model: str = "whisper-1"
    against_key_env: str | None = None
    bare: str | None = None
    spoken: Path | None = None
    end_of_speech_ms: int = 500
    quick: bool = False
    runs: int | None = None
    only: tuple[str, ...] = ()
    minutes: int = 60
    as_json: bool = False
    markdown: Path | None = None
    chart: Path | None = None
    out: Path | None = None

    @property
    def plan(self) -> Plan:
        """How much is measured."""
        plan = quick() if self.quick else Plan()
        if unknown := sorted(set(self.only) - set(PARTS)):
            raise typer.BadParameter(f"--only {unknown[0]}: it is one of {', '.join(PARTS)}")
        return replace(
            plan,
            runs=self.runs or plan.runs,
            parts=tuple(part for part in PARTS if part in (self.only or USUAL)),
            spoken=self.spoken,
            end_of_speech_ms=self.end_of_speech_ms,
            loop_s=60 * self.minutes,
        )


def stt(asked: Listening) -> None:
    """Measure, show or write the report, and end with 1 where something was not reached."""
    # What cannot be written is said before minutes of measuring, not after them.
    plan = asked.plan
    files = files_of("bench-stt", asked.markdown, asked.chart, asked.out)
    try:
        report = asyncio.run(_listen(_setting(asked), _other(asked), plan))
    except ClientError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if asked.as_json:
        print_json(report.as_json())
    else:
        show(stt_view(report))
    _write(report, files)
    raise typer.Exit(0 if report.fine else 1)


def _write(report: Report, files: Files) -> None:
    def chart(path: Path) -> None:
        # Drawing needs a library that nothing else here does.
        from hearth.bench.stt.report.chart import draw

        draw(report, path)

    write(files, report.as_json(), lambda command: markdown(report, command), chart)


def _setting(asked: Listening) -> Setting:
    """Return the first server: by its URL, or as a service of this house."""
    argv = shlex.split(asked.bare or "")
    own = (lambda status: by_command(argv)) if argv else None
    if asked.url:
        server = Endpoint("server", asked.url, asked.model, key_of(asked.key_env))
        return Setting(server, own, BY_COMMAND)
    setting = in_house(_listener(asked.service), asked.model)
    return replace(setting, bare=own, bare_how=BY_COMMAND) if own else setting


def _other(asked: Listening) -> Endpoint | None:
    """Return the server to compare with: by its URL, or as a service of this house."""
    if not asked.against:
        return None
    key, model = key_of(asked.against_key_env), asked.against_model
    if "://" in asked.against:
        return Endpoint("other", asked.against, model, key)
    service = _listener(asked.against)
    if not asked.url and service.name == asked.service.replace("-", "_"):
        raise typer.BadParameter(f"--against {asked.against}: name another service, or a URL")
    return Endpoint(service.instance, service.url, model, key)


def _listener(name: str) -> Service:
    service = find(current().house(), name)
    if not isinstance(service, Service) or service.role != ROLE:
        raise typer.BadParameter(f"{name} does not listen: name a service of role {ROLE}, or a URL")
    return service


async def _listen(setting: Setting, other: Endpoint | None, plan: Plan) -> Report:
    servers = [setting.server, *([other] if other else [])]
    with err.status("[dim]warming up[/dim]") as status:
        return await bench_stt(
            servers,
            plan,
            bare=setting.bare,
            bare_how=setting.bare_how,
            progress=lambda what: status.update(f"[dim]{what}[/dim]"),
        )
