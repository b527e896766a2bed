"""Measures this house's chat, as `hearth bench chat` was asked to."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx
import typer

from hearth.bench.chat.bench import ChatReport, Progress, User, bench_chat
from hearth.bench.chat.bench import Service as Seen
from hearth.bench.chat.page import Page, client_of, lines, people
from hearth.bench.chat.process import seen
from hearth.bench.chat.view import chat_view
from hearth.catalogue.house import House, Service
from hearth.cli.console import err, print_error, print_json, show
from hearth.clients import ClientError
from hearth.clients.chat import Person, chat_server, sign_in
from hearth.clients.edge import house_edge
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import CALL_S, gateway_of, measurer
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
            now = seen(service, admin.server, asked.restart)
            users = _Users(gateway_of(house).url, project.vault.get(VERIFIER), admin)
            report = asyncio.run(_measure(asked, users, now, tell))
    except (ClientError, engine.EngineError) as error:
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
    raise ClientError("this house has no chat: put `enabled: true` on it in services.yml")


def _admin(project: Project, house: House, service: Service) -> Person:
    given = json.loads(engine.read_file(service.instance, SETTINGS))["environment"]
    door = chat_server(house_edge(house), service.publish[0].fqdn)
    try:
        return sign_in(door, given[EMAIL], project.vault.get(PASSWORD))
    except ClientError as error:
        raise ClientError(f"the first account cannot sign in: {error}") from error


@dataclass(frozen=True, slots=True)
class _Users:
    """Where people ask directly and with which key, and who makes their accounts in the chat."""

    gateway: str
    key: str = field(repr=False)
    admin: Person


async def _measure(asked: Asked, users: _Users, now: Seen, progress: Progress) -> ChatReport:
    way = Endpoint("directly", users.gateway, asked.model, users.key, call_s=CALL_S)
    async with AsyncExitStack() as stack:
        persons = stack.enter_context(people(users.admin, asked.users))
        opened = stack.enter_context(lines(persons))
        asking = []
        for person, line in zip(persons, opened, strict=True):
            straight = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
            client = await stack.enter_async_context(client_of(person))
            page = Page(person, line, client, asked.model)
            asking.append(User(measurer(straight, way), page.ask))
        return await bench_chat(
            asked.model,
            asking,
            rounds=asked.rounds,
            apart_s=asked.apart_s,
            service=now,
            progress=progress,
        )
