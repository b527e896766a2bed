"""The broker under attack: the real program with planted secrets, and a record of what happens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from starlette.applications import Starlette
from typer.testing import CliRunner

from hearth.approvals import ApprovalError, ask, carry_out
from hearth.approvals.carry_out import Tools
from hearth.approvals.overlay import Preview
from hearth.approvals.people import People
from hearth.approvals.store import Store
from hearth.catalogue.house import House
from hearth.cli.app import app
from hearth.machine.engine import EngineError
from hearth.project import Project
from hearth_broker import change_verbs, free_verbs, pages, sandbox_verbs
from hearth_broker.app import create_app
from hearth_broker.config import Config
from hearth_fetcher.addresses import Guard
from hearth_fetcher.app import FetcherState
from hearth_fetcher.app import make_app as make_fetcher
from hearth_fetcher.fetching import Fetcher
from hearth_fetcher.limits import Limits
from tests.attacks.engine import Engine
from tests.attacks.passkey import Passkey
from tests.attacks.processes import unseen
from tests.attacks.web import Web
from tests.documents import ROOT, shipped_house

Headers = Mapping[str, str] | Sequence[tuple[str, str]]
CONSUMERS = ("agents", "open_webui", "reader", "coder", "other")
READER_VERBS = ("service_status", "approval_status")
HOME = "https://home.lan"
# Caddy's own headers: its login has let a person in.
AS_A_PERSON = {"Host": "home.lan", "X-Hearth-Consumer": ""}
PAGE_S = 3.0
_PREVIEW = Preview(2, "2 tasks would change something", "")


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """What a tool answered over MCP."""

    response: httpx.Response

    @property
    def failed(self) -> bool:
        """Whether nothing was done."""
        if not self.response.is_success:
            return True
        found = self.response.json()
        return "error" in found or bool(found["result"].get("isError"))


@dataclass(frozen=True, slots=True)
class Made:
    """A proposal that waits for a person: its ID, and the digest of its bytes."""

    id: str
    digest: str

    @property
    def challenge(self) -> bytes:
        """What a passkey must sign."""
        return bytes.fromhex(self.digest)


class Clock:
    """The broker's time, as far ahead of the real one as the test wants."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.ahead_s += seconds


@dataclass(slots=True)
class Count:
    """A number that two places share."""

    value: int = 0


@dataclass(slots=True)
class Target:
    """The broker as an attacker reaches it, and everything that it did."""

    client: httpx.AsyncClient
    folder: Path
    planted: dict[str, str]
    house: House
    engine: Engine
    web: Web
    clock: Clock
    store: Store
    people: People
    project: Project
    carried_out: list[str]
    """The proposals whose execution was started."""
    failures: list[str]
    """What a task of the preview says when it fails, if it does."""
    previewed: Count
    owner: Passkey = field(default_factory=Passkey)
    """The passkey of a person, enrolled."""
    expected: set[str] = field(default_factory=set)
    """The proposals that the owner did approve."""
    page_s: float = PAGE_S
    floods: bool = False
    """Whether it calls more often than the audit log has lines for."""
    replies: list[bytes] = field(default_factory=list)
    calls: int = 0
    """Calls of verbs so far, each of which leaves a line in the audit log."""

    @property
    def team(self) -> str:
        """The key of the house's own agents."""
        return self.planted["key of agents"]

    @property
    def reader(self) -> str:
        """A key for two verbs that only look."""
        return self.planted["key of reader"]

    @property
    def coder(self) -> str:
        """A coding agent's key, with all verbs; the broker does not believe its runs."""
        return self.planted["key of coder"]

    @property
    def chat_ui(self) -> str:
        """The key of the house's chat, whose own tools read for the same chats."""
        return self.planted["key of open_webui"]

    @property
    def other(self) -> str:
        """Another key with all verbs."""
        return self.planted["key of other"]

    @property
    def restart(self) -> dict[str, str]:
        """The arguments of a restart."""
        return {"service": "kokoro"}

    @property
    def local(self) -> Path:
        """The folder that `propose` may change."""
        return self.project.inventory / "local"

    @property
    def outside(self) -> Path:
        """A folder of the machine beside it."""
        return self.folder / "outside"

    @property
    def harmless(self) -> dict[str, Any]:
        """The arguments of a valid proposal."""
        return {"files": self.with_summary("A calm voice."), "why": "tidy up", "checks": []}

    def with_summary(self, text: str) -> dict[str, str]:
        """Return valid files in which a text stands."""
        return {"services.yml": _json({"services": {"kokoro": {"summary": text}}})}

    def long_overlay(self, host: str) -> dict[str, str]:
        """Return a valid file with 800 harmless lines, and then a way out for a service."""
        lines = [f"# {number}: nothing to see here" for number in range(800)]
        lines += ["services:", "  kokoro:", f"    egress: [{host}]"]
        return {"services.yml": "\n".join(lines) + "\n"}

    async def send(
        self, method: str, path: str, *, headers: Headers = (), **more: Any
    ) -> httpx.Response:
        """Send any request, and keep the reply."""
        answer = await self.client.request(method, path, headers=headers, **more)
        self.replies.append(answer.content + repr(answer.headers.raw).encode())
        if path.startswith("/v1/verbs/") and method == "POST":
            self.calls += 1
        return answer

    async def verb(
        self,
        name: str,
        arguments: object = None,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call a verb by HTTP, by default with the agents' key; `None` sends none."""
        sent = {**(headers or {})}
        if key is not None:
            sent["Authorization"] = f"Bearer {key or self.team}"
        place = f"/v1/verbs/{name}"
        return await self.send(
            "POST", place, headers=sent, json={} if arguments is None else arguments
        )

    async def send_as(
        self, name: str, *, content: Any, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Call a verb with the agents' key and a body as it is."""
        sent = {"Authorization": f"Bearer {self.team}", "Content-Type": "application/json"}
        place = f"/v1/verbs/{name}"
        return await self.send("POST", place, headers=sent | {**(headers or {})}, content=content)

    async def rpc(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one message of MCP."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.rpc_raw(message, key=key, headers=headers)

    async def rpc_raw(
        self, message: object, *, key: str | None = "", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send anything as a message of MCP."""
        sent = {"Accept": "application/json, text/event-stream", **(headers or {})}
        if key is not None:
            sent["Authorization"] = f"Bearer {key or self.team}"
        return await self.send("POST", "/mcp", headers=sent, json=message)

    async def tools(self, *, key: str = "") -> set[str]:
        """Return the tools that MCP offers to a key."""
        found = (await self.rpc("tools/list", {}, key=key)).json()
        return {one["name"] for one in found["result"]["tools"]}

    async def mcp(self, tool: str, arguments: Mapping[str, Any], *, key: str = "") -> McpAnswer:
        """Call a verb by MCP."""
        self.calls += 1
        params = {"name": tool, "arguments": arguments}
        return McpAnswer(await self.rpc("tools/call", params, key=key))

    async def sandbox(self) -> str:
        """Make a sandbox, and return its name."""
        answer = await self.verb("sandbox_create", {"service": "kokoro"})
        assert answer.is_success, answer.text
        return str(answer.json()["data"]["name"])

    async def propose(
        self, files: Mapping[str, str], why: str = "tidy up", **more: Any
    ) -> httpx.Response:
        """Propose files."""
        asked = {"files": dict(files), "why": why, "checks": []}
        return await self.verb("propose", asked, **more)

    async def proposed(self, files: Mapping[str, str], why: str = "tidy up", **more: Any) -> Made:
        """Propose files, which must be accepted as a proposal."""
        return self._made(await self.propose(files, why, **more))

    async def pending(self, verb: str = "restart", service: str = "kokoro", **more: Any) -> Made:
        """Make a proposal about a service, which waits for a person."""
        return self._made(await self.verb(verb, {"service": service}, **more))

    def _made(self, answer: httpx.Response) -> Made:
        assert answer.is_success, answer.text
        name = answer.json()["data"]["approval"]
        return Made(name, self.store.read(name).digest)

    def proposals(self) -> list[str]:
        """Return the IDs of all proposals."""
        return [one.proposal.id for one in self.store.entries()]

    def state(self, name: str) -> str:
        """Return the state of a proposal."""
        return self.store.read(name).state

    def preview_fails(self, text: str) -> None:
        """Let a task of the next preview fail with these words."""
        self.failures.append(text)

    def previews_work(self) -> None:
        """Let no task of a preview fail any more."""
        self.failures.clear()

    @property
    def previews(self) -> int:
        """How many previews were made."""
        return self.previewed.value

    def stored(self, name: str) -> dict[str, Any]:
        """Return the bytes of a proposal as JSON."""
        return dict(json.loads((self.store.folder / f"{name}.json").read_bytes()))

    def edit(self, name: str, old: str, new: str) -> None:
        """Edit a stored proposal, as a program with root's rights could."""
        path = self.store.folder / f"{name}.json"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    async def page(self, path: str) -> httpx.Response:
        """Open a page as a person who has signed in to the house."""
        return await self.send("GET", path, headers=AS_A_PERSON)

    def decide_path(self, name: str) -> str:
        """Return where the page sends an approval."""
        return f"/approvals/{name}/approve"

    def decision(self, credential: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the page sends with an assertion."""
        return {"credential": credential}

    async def decide(self, name: str, body: object, *, origin: str | None = HOME) -> httpx.Response:
        """Send an approval as the page does."""
        return await self._post(self.decide_path(name), body, origin)

    async def refuse(self, name: str) -> httpx.Response:
        """Refuse a proposal as the page does."""
        return await self._post(f"/approvals/{name}/refuse", {}, HOME)

    async def _post(self, path: str, body: object, origin: str | None) -> httpx.Response:
        headers = AS_A_PERSON | ({} if origin is None else {"Origin": origin})
        self.calls += 1
        return await self.send("POST", path, headers=headers, json=body)

    def enrolment_code(self, name: str) -> str:
        """Make a one-time code, as `hearth approve --enrol` does on a terminal."""
        return self.people.invite(name)

    async def enrol(self, passkey: Passkey, code: str) -> httpx.Response:
        """Enrol a passkey as the page does, with the challenge that the server gives for it."""
        options = await self._post("/approvals/enrol/options", {"code": code}, HOME)
        # Nothing is decided by them, so they leave no line.
        self.calls -= options.is_success
        challenge = bytes(32)
        if options.is_success:
            text = options.json()["options"]["challenge"]
            challenge = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        body = {"code": code, "credential": passkey.register(challenge)}
        return await self._post("/approvals/enrol", body, HOME)

    def execute(self, name: str) -> int:
        """Carry a proposal out, as systemd does after an approval; return the exit code."""

        def never(*_: object) -> str:
            raise AssertionError("the house was changed")

        tools = Tools(never, never, never)
        before = signal.getsignal(signal.SIGTERM)
        try:
            carry_out.execute_proposal(self.store, name, self.house, self.project, tools)
        except ApprovalError:
            return 1
        finally:
            signal.signal(signal.SIGTERM, before)
        return 0

    def approve_in_terminal(self, name: str, typed: str) -> int:
        """Run `hearth approve ID` with its answer in a pipe; return the exit code."""
        with mock.patch("hearth.cli.approve.Store", return_value=self.store):
            done = CliRunner().invoke(app, ["approve", name], input=typed)
        return done.exit_code

    def played(self, files: Mapping[str, str], text: str) -> str:
        """Run a playbook with proposed files as the preview does; return how it shows a text."""
        for name in ("ansible", "ansible.cfg", "hearth"):
            (self.project.root / name).symlink_to(ROOT / name)
        for name, content in files.items():
            (self.local / name).write_text(content, encoding="utf-8")
        task = {"ansible.builtin.debug": {"msg": text}}
        play = {"hosts": "kokoro", "gather_facts": False, "connection": "local", "tasks": [task]}
        play["vars"] = {"ansible_connection": "local"}
        (self.project.root / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
        known = {"HOME": str(self.folder), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
        argv = [sys.executable, "-m", "ansible", "playbook", "play.yml"]
        with unseen():
            done = subprocess.run(
                argv,
                cwd=self.project.root,
                env=known,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def fetch(self, url: str, *, run: str, key: str = "") -> dict[str, Any]:
        """Let an agent read a page."""
        headers = {"X-Hearth-Run": run}
        answer = await self.verb("web_fetch", {"url": url}, key=key, headers=headers)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def audit_text(self) -> str:
        """Return the audit log as it is."""
        log = self.folder / "audit.jsonl"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log, each of which must be an object."""
        lines = [json.loads(line) for line in self.audit_text().splitlines()]
        assert all(isinstance(line, dict) for line in lines)
        return lines

    def leaked(self) -> list[str]:
        """Return the names of planted secrets that are in a reply or in the audit log."""
        everything = b"\n".join([*self.replies, self.audit_text().encode()])
        return [name for name, secret in self.planted.items() if secret.encode() in everything]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def plant(folder: Path) -> dict[str, str]:
    """Return secrets by name; those that are files in a house are written below `folder`."""
    names = (*(f"key of {name}" for name in CONSUMERS), "file", "internal")
    planted = {name: f"planted-{secrets.token_urlsafe(24)}" for name in names}
    (folder / "outside").mkdir()
    (folder / "outside" / "passwd").write_text(planted["file"], encoding="utf-8")
    return planted


def copy_project(folder: Path) -> Project:
    """Return a checkout with the shipped inventory, and links to the rest."""
    project = Project(folder / "project")
    shutil.copytree(
        ROOT / "inventory", project.inventory, ignore=shutil.ignore_patterns("local", "secrets.yml")
    )
    (project.inventory / "local").mkdir()
    records = project.inventory / "services.yml"
    # As shipped, agents are off until somebody wants them.
    records.write_text(
        records.read_text("utf-8").replace("enabled: false", "enabled: true"), "utf-8"
    )
    for name in ("requirements", "roles"):
        (project.root / name).symlink_to(ROOT / name)
    return project


def watched(house: House) -> dict[str, Any]:
    """Return what the watcher writes about a house in which all is up."""
    plain = {"kind": "service", "up": True, "state": "up", "text": "up", "since": 1, "version": ""}
    rows = [{**plain, "name": name, "memory_bytes": 1} for name in house.services]
    boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    more: dict[str, Any] = {
        "loaded": [],
        "models": {},
        "aliases": {},
        "findings": [],
        "requests": {},
    }
    return {"made_boot_s": boot_s, "rows": rows, "machine": {}, "run": None, **more}


def configure(folder: Path, planted: Mapping[str, str], project: Project) -> Config:
    """Return the broker's configuration with its consumers."""
    consumers = {
        name: {
            "sha256": hashlib.sha256(planted[f"key of {name}"].encode()).hexdigest(),
            "verbs": READER_VERBS if name == "reader" else _ALL,
            "inside": name in ("agents", "open_webui"),
        }
        for name in CONSUMERS
    }
    return Config.model_validate(
        {
            "consumers": consumers,
            "project": str(project.root),
            "state": str(folder),
            "snapshot": str(folder / "snapshot.json"),
            "approvals": str(folder / "approvals"),
        }
    )


@contextlib.asynccontextmanager
async def under_attack(folder: Path) -> AsyncIterator[Target]:
    """Give a broker with planted secrets in an empty folder."""
    planted, project = plant(folder), copy_project(folder)
    house, config, clock = (
        shipped_house(project.inventory),
        configure(folder, planted, project),
        Clock(),
    )
    (folder / "snapshot.json").write_text(json.dumps(watched(house)), encoding="utf-8")
    store = Store(config.approvals, config.state / "audit.jsonl", clock)
    people, engine, web = (
        People(config.approvals, clock),
        Engine(),
        Web(planted["internal"].encode()),
    )
    carried_out: list[str] = []
    failures: list[str] = []

    previewed = Count()

    def preview(*_: object) -> Preview:
        previewed.value += 1
        if failures:
            # As the playbook's own error does, which is no ApprovalError.
            raise EngineError(f"kokoro: a task failed: {failures[-1]}")
        return _PREVIEW

    def asks(request: bytes, within_s: float) -> dict[str, Any]:
        del within_s
        try:
            made = ask.propose(ask.request(request), store, house, project, preview)
        except EngineError as error:
            # As `hearth approve --ask` and the broker's side of it do.
            raise ApprovalError(str(error), outside=True) from None
        return {"id": made.id, "summary": made.summary, "expires": made.expires}

    def start(_: Path, name: str) -> None:
        carried_out.append(name)

    modules = (free_verbs, sandbox_verbs)
    verbs = [verb for module in modules for verb in module.verbs(house, config)]
    verbs += change_verbs.verbs(house, config, asks)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(engine.installed())
        stack.enter_context(mock.patch.object(pages, "Store", return_value=store))
        stack.enter_context(mock.patch.object(pages, "People", return_value=people))
        routes = pages.routes(config, start)
        await stack.enter_async_context(fetching(web))
        client = await stack.enter_async_context(serving(create_app(config, house, verbs, routes)))
        target = Target(
            client,
            folder,
            planted,
            house,
            engine,
            web,
            clock,
            store,
            people,
            project,
            carried_out,
            failures,
            previewed,
        )
        enrolled = await target.enrol(target.owner, people.invite("owner"))
        assert enrolled.is_success, enrolled.text
        target.calls = 0
        yield target


@contextlib.asynccontextmanager
async def fetching(web: Web) -> AsyncIterator[None]:
    """Let the broker's requests to the fetcher reach a real one, whose internet is `web`."""
    limits = Limits(page_s=PAGE_S)
    closed = (IPv4Network("10.140.30.0/24"), IPv4Network("192.168.1.0/24"))
    fetcher = Fetcher(Guard(web.resolve, closed), limits, dial=web)
    app = make_fetcher(FetcherState(limits=limits, fetcher=fetcher), lambda _: None)
    real = httpx.AsyncClient

    def to_the_fetcher(**more: Any) -> httpx.AsyncClient:
        if "transport" in more:
            return real(**more)
        more.pop("verify", None)
        return real(transport=httpx.ASGITransport(app=app), **more)

    path = os.pathsep.join(str(ROOT / "services" / name) for name in ("fetcher", "serving"))
    with (
        mock.patch.object(httpx, "AsyncClient", to_the_fetcher),
        # Its process that reads a page.
        mock.patch.dict(os.environ, PYTHONPATH=path),
    ):
        yield


_ALL = (
    *READER_VERBS,
    *("service_logs", "metrics", "vram_status", "list_local_models", "http_probe", "web_fetch"),
    *("web_search", "comfyui_status", "run_code", "sandbox_create", "sandbox_list"),
    *("sandbox_delete", "sandbox_run", "sandbox_read_file", "sandbox_write_file"),
    *("sandbox_systemctl", "sandbox_probe", "sandbox_diff"),
    *("restart", "start", "stop", "unload_model", "propose"),
)


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """Run an application and give its client; its start and end happen in one task."""
    started, ends = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            started.set()
            await ends.wait()

    task = asyncio.create_task(live())
    await started.wait()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
            yield client
    finally:
        ends.set()
        await task
