"""Measures this house's chat, as `hearth bench chat` was asked to."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx
import typer

from hearth.bench import BenchError
from hearth.bench.chat.bench import ChatReport, Progress, User, bench_chat
from hearth.bench.chat.bench import Service as Seen
from hearth.bench.chat.page import Page, client_of, lines, people
from hearth.bench.chat.process import seen
from hearth.bench.chat.view import chat_view
from hearth.catalogue.house import House, Service
from hearth.cli.console import err, print_error, print_json, show
from hearth.clients.chat import ChatError, Person, sign_in, through
from hearth.clients.edge import front_door
from hearth.clients.endpoints import Way, by_url
from hearth.clients.model_endpoints import gateway_of
from hearth.machine import engine
from hearth.project import VERIFIER, Project, current

ROLE, PASSWORD = "open_webui", "open_webui_admin_password"
SETTINGS, EMAIL = "/etc/hearth/open-webui.json", "WEBUI_ADMIN_EMAIL"


@dataclass(frozen=True, slots=True)
class Asked:
    """What `hearth bench chat` was asked for."""

    model: str
    users: int
    rounds: int
    apart_s: float
    restart: bool


def chat(asked: Asked, as_json: bool) -> None:
    """Measure, show or write the report, and end with 1 where something was not reached."""
    project = current()
    house = project.house()
    try:
        service = _chat_of(house)
        with err.status("[dim]warming up[/dim]") as status:

            def tell(done: int, of: int) -> None:
                status.update(f"[dim]{done} of {of} rounds[/dim]")

            admin = _admin(project, house, service)
            now = seen(service, admin.door, asked.restart)
            users = _Users(gateway_of(house).url, project.vault.get(VERIFIER), admin)
            report = asyncio.run(_measure(asked, users, now, tell))
    except (BenchError, ChatError, engine.EngineError) as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if as_json:
        print_json(report.as_json())
    else:
        show(chat_view(report))
    raise typer.Exit(0 if report.fine else 1)


def _chat_of(house: House) -> Service:
    for service in house.services.values():
        if service.role == ROLE and service.publish:
            return service
    raise BenchError("this house has no chat: put `enabled: true` on it in services.yml")


def _admin(project: Project, house: House, service: Service) -> Person:
    given = json.loads(engine.read_file(service.instance, SETTINGS))["environment"]
    door = through(front_door(house), service.publish[0].fqdn)
    try:
        return sign_in(door, given[EMAIL], project.vault.get(PASSWORD))
    except ChatError as error:
        raise BenchError(f"the first account cannot sign in: {error}") from error


@dataclass(frozen=True, slots=True)
class _Users:
    """Where people ask directly and with which key, and who makes their accounts in the chat."""

    gateway: str
    key: str = field(repr=False)
    admin: Person


async def _measure(asked: Asked, users: _Users, now: Seen, progress: Progress) -> ChatReport:
    way = Way("directly", users.gateway, "openai", asked.model, users.key)
    async with AsyncExitStack() as stack:
        persons = stack.enter_context(people(users.admin, asked.users))
        opened = stack.enter_context(lines(persons))
        asking = []
        for person, line in zip(persons, opened, strict=True):
            straight = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
            client = await stack.enter_async_context(client_of(person))
            page = Page(person, line, client, asked.model)
            asking.append(User(by_url(straight, way), page.ask))
        return await bench_chat(
            asked.model,
            asking,
            rounds=asked.rounds,
            apart_s=asked.apart_s,
            service=now,
            progress=progress,
        )
