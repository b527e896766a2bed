"""Verbs that only look at the house: services, logs, figures, cards and models."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from hearth.approvals import ApprovalError, overlay
from hearth.approvals.store import Store
from hearth.catalogue import suggest
from hearth.catalogue.house import House, Part, Service
from hearth.clients.endpoints import one_line
from hearth.clients.models import key_of
from hearth.machine import engine, systemd
from hearth.project import Project

from . import web_verbs
from .config import Config
from .outgoing import send
from .registry import AUDIT
from .snapshot import read_snapshot
from .verbs import HOUSE, OUTSIDE, Arguments, Call, RefusedError, Reply, Verb

LOG_BYTES = 16 * 1024
_CARDS = "hearth.prom"
_PROMETHEUS_S = 10
_SERIES = 50
# Only the end of a journal leaves the instance, whatever a program wrote into it.
_TAIL = 'most=$1; shift; exec 2>&1; "$@" | exec /usr/bin/tail -c "$most"'

Name = Annotated[str, Field(max_length=64, description="A service or part of the house")]


class AnyService(Arguments):
    """One service, or all."""

    service: Annotated[str, Field(max_length=64, description="Service or part; omit for all")] = ""


class Logs(Arguments):
    """Which journal, and how much of its end."""

    service: Name
    lines: Annotated[int, Field(ge=1, le=400, description="How many of the last lines")] = 60


class Query(Arguments):
    """A question to Prometheus, or none."""

    query: Annotated[
        str, Field(max_length=500, description="PromQL; a summary of the house without")
    ] = ""


class Nothing(Arguments):
    """No arguments."""


class OwnFile(Arguments):
    """One file of the inventory that `propose` may replace."""

    file: Literal["services.yml", "models.yml", "aliases.yml"]
    shipped: Annotated[
        bool, Field(description="The file that Hearth ships, below the house's own")
    ] = False


class Approval(Arguments):
    """One proposal."""

    id: Annotated[str, Field(max_length=64, description="The ID that a changing verb returned")]


def verbs(house: House, config: Config) -> list[Verb]:
    """Return the verbs that only look."""
    look = HouseVerbs(house, config)
    own = [
        Verb(
            "service_status",
            "Tell whether each service of the house is up, since when, and why not.",
            AnyService,
            "free",
            look.service_status,
        ),
        Verb(
            "service_logs",
            "Return the last lines of the log of one service.",
            Logs,
            "free",
            look.service_logs,
            text_bytes=LOG_BYTES,
        ),
        Verb(
            "metrics",
            "Return figures: memory, disks, requests by outcome; or the answer to a PromQL query.",
            Query,
            "free",
            look.metrics,
        ),
        Verb(
            "vram_status",
            "Tell which models are in memory, on a card and as planned, and the cards' state.",
            Nothing,
            "free",
            look.vram_status,
        ),
        Verb(
            "list_local_models",
            "List the models of this house, whether they are ready, and the names of aliases.",
            Nothing,
            "free",
            look.list_local_models,
        ),
        Verb(
            "inventory_file",
            "Return the text of a file of inventory/local, which `propose` replaces whole.",
            OwnFile,
            "free",
            look.inventory_file,
        ),
        Verb(
            "approval_status",
            "Tell what a person decided about a proposal, and what came of it.",
            Approval,
            "free",
            look.approval_status,
        ),
    ]
    return [*own, *web_verbs.verbs(house, config)]


@dataclass(frozen=True, slots=True)
class HouseVerbs:
    """The verbs of one house."""

    house: House
    config: Config

    async def service_status(self, _: Call, arguments: AnyService) -> Reply:
        """Return the rows of the watcher."""
        document = read_snapshot(self.config.snapshot)
        rows = [row for row in document["rows"] if arguments.service in ("", row["name"])]
        if not rows:
            names = [row["name"] for row in document["rows"]]
            raise RefusedError(unknown(arguments.service, names), HOUSE)
        run = document.get("run")
        head = [f"A run is going on: {run['what']}"] if run else []
        data = [{key: row.get(key) for key in _ROW} for row in rows]
        # A program that fails is described by its own last words.
        down = [row["name"] for row in rows if not row["up"]]
        origin = f"outside: words of {', '.join(down)}" if down else "house"
        return Reply("\n".join([*head, *map(_row_text, rows)]), data, origin)

    async def service_logs(self, _: Call, arguments: Logs) -> Reply:
        """Return the end of a journal."""
        owner = self.owner(arguments.service)
        journal = [*systemd.journal_argv(owner.unit), f"--lines={arguments.lines}"]
        tail = ["/bin/sh", "-c", _TAIL, "sh", str(LOG_BYTES - 256), *journal]
        done = await asyncio.to_thread(
            engine.execute, instance_of(owner), tail, timeout=engine.READ_S
        )
        if done.returncode:
            text = f"the journal of {owner.name} cannot be read: {done.stdout[-200:]}"
            raise RefusedError(text, f"{OUTSIDE}log of {owner.name}")
        text = done.stdout.strip() or "(no lines)"
        return Reply(text, {"service": owner.name}, f"outside: log of {owner.name}")

    async def metrics(self, _: Call, arguments: Query) -> Reply:
        """Return a summary, or the answer to a query."""
        if arguments.query:
            return await self._query(arguments.query)
        document = read_snapshot(self.config.snapshot)
        data = {
            "machine": document["machine"],
            "requests": document["requests"],
            "memory_bytes": {r["name"]: r["memory_bytes"] for r in document["rows"]},
            "cpu_s": {r["name"]: r["cpu_s"] for r in document["rows"] if r.get("cpu_s")},
            "findings": [
                {key: one.get(key) for key in ("name", "about", "severity")}
                for one in document["findings"]
            ],
        }
        return Reply(_metrics_text(data), data)

    async def _query(self, query: str) -> Reply:
        scraper = next((one for one in self.house.services.values() if one.scrapes), None)
        if scraper is None:
            raise RefusedError("this house collects no figures: no service scrapes", HOUSE)
        answer = await send(
            scraper.name,
            f"{scraper.url}/api/v1/query",
            _PROMETHEUS_S,
            params={"query": query, "timeout": "8s", "limit": str(_SERIES)},
        )
        found = answer.json(scraper.name)
        if found.get("status") != "success":
            text = f"{scraper.name}: {one_line(found.get('error', 'no answer'))}"
            raise RefusedError(text, f"{OUTSIDE}figures in {scraper.name}")
        result = found.get("data", {}).get("result", [])
        series = result[:_SERIES] if isinstance(result, list) else []
        text = "\n".join(map(_series_text, series)) or "(no series)"
        # Each program writes the labels of its own figures.
        return Reply(text, series, f"outside: figures in {scraper.name}")

    async def vram_status(self, _: Call, __: Nothing) -> Reply:
        """Return the models in memory, and the figures of the cards."""
        document = read_snapshot(self.config.snapshot)
        loaded = document["loaded"]
        known = {key_of(model.id) for model in self.house.models.values()}
        strange = any(key_of(one["name"]) not in known for one in loaded)
        cards = _cards(self.config)
        lines = [
            f"{one_line(one['name'])}: {_gib(one['size_bytes'])} in memory, "
            f"{_gib(one['vram_bytes'])} of it on a card{_planned(one)}"
            for one in loaded
        ] or ["no model is in memory"]
        lines += [f"{name}: {value:g}" for name, value in cards.items()] or ["no card with figures"]
        origin = "outside: names of models that this house does not know" if strange else "house"
        return Reply("\n".join(lines), {"loaded": loaded, "cards": cards}, origin)

    async def list_local_models(self, _: Call, __: Nothing) -> Reply:
        """Return the local models and all aliases."""
        document = read_snapshot(self.config.snapshot)
        models = {
            name: {
                "id": model.id,
                "state": document["models"].get(name, {}).get("state", "unknown"),
                "memory_bytes": model.memory_bytes,
            }
            for name, model in self.house.models.items()
            if model.local
        }
        aliases = {
            name: document["aliases"].get(name, {}).get("text", "unknown")
            for name in self.house.aliases
        }
        lines = [f"model {name} ({one['id']}): {one['state']}" for name, one in models.items()]
        lines += [f"alias {name}: {one_line(text)}" for name, text in aliases.items()]
        return Reply("\n".join(lines) or "no models", {"models": models, "aliases": aliases})

    async def inventory_file(self, _: Call, arguments: OwnFile) -> Reply:
        """Return a file as it is; a house without one has an empty one."""
        project = Project(self.config.project)
        try:
            path = overlay.target(project, arguments.file)
            if arguments.shipped:
                path = project.inventory / arguments.file
            text = await asyncio.to_thread(path.read_text, "utf-8")
        except FileNotFoundError:
            text = ""
        except (ApprovalError, OSError, ValueError) as error:
            raise RefusedError(one_line(error), HOUSE) from None
        return Reply(text, {"bytes": len(text.encode())})

    async def approval_status(self, call: Call, arguments: Approval) -> Reply:
        """Return where a proposal of this consumer stands."""
        store = Store(self.config.approvals, self.config.state / AUDIT)
        try:
            entry = await asyncio.to_thread(store.read, arguments.id)
        except ApprovalError as error:
            raise RefusedError(one_line(error), HOUSE) from None
        proposal = entry.proposal
        if proposal.who.consumer != call.consumer:
            raise RefusedError(f"there is no proposal {arguments.id} of {call.consumer}", HOUSE)
        left_s = max(0, proposal.expires - int(time.time())) if entry.state == "pending" else 0
        data = {"approval": proposal.id, "state": entry.state, "expires_in_s": left_s}
        text = f"{proposal.summary}: {entry.state}" + (f": {entry.text}" if entry.text else "")
        # What came of it quotes tasks and smoke tests, and those quote what services answer.
        quotes = entry.text and entry.state in _CARRIED_OUT
        return Reply(text, data, f"{OUTSIDE}what came of {proposal.id}" if quotes else HOUSE)

    def owner(self, name: str) -> Service | Part:
        """Return a service or part with a journal; RefusedError without."""
        found = self.house.services.get(name) or self.house.parts.get(name)
        if found is None:
            raise RefusedError(unknown(name, [*self.house.services, *self.house.parts]), HOUSE)
        if isinstance(found, Service) and found.runtime == "external":
            text = f"{name} runs on an external server, which has its own log"
            raise RefusedError(text, HOUSE)
        return found


_CARRIED_OUT = frozenset({"done", "failed", "taken_back"})
_ROW = ("name", "kind", "up", "state", "text", "since", "memory_bytes", "version", "accelerator")


def unknown(name: str, names: Iterable[str]) -> str:
    """Return the line about a name that does not exist."""
    return f"no service or part {one_line(name)[:64]!r}: {suggest(name, [*names])}"


def instance_of(owner: Service | Part) -> str | None:
    """Return the instance of a service; None for what runs on the machine."""
    return owner.system if isinstance(owner, Service) else None


def _row_text(row: Mapping[str, Any]) -> str:
    state = "up" if row["up"] else f"DOWN ({row.get('state') or 'not up'})"
    since = ""
    if row.get("since"):
        since = time.strftime(" since %Y-%m-%d %H:%M UTC", time.gmtime(row["since"]))
    text = one_line(row["text"])
    return f"{row['name']}: {state}{since}" + (f": {text}" if text not in ("", "up") else "")


def _metrics_text(data: Mapping[str, Any]) -> str:
    memory = data["machine"].get("memory") or {}
    lines = [
        f"memory: {_gib(memory.get('available_bytes', 0))} of "
        f"{_gib(memory.get('total_bytes', 0))} available"
    ]
    lines += [
        f"disk of {one['path']}: {_gib(one['free_bytes'])} of {_gib(one['total_bytes'])} free"
        for one in data["machine"].get("disk") or []
    ]
    lines += [
        f"{name}: {_gib(count)} of memory" for name, count in data["memory_bytes"].items() if count
    ]
    lines += [f"requests of {name}: {counts}" for name, counts in data["requests"].items()]
    lines += [
        f"finding {one['name']} ({one['severity']}) {one['about']}" for one in data["findings"]
    ]
    return "\n".join(lines)


def _series_text(series: Any) -> str:
    if not isinstance(series, dict):
        return str(series)[:200]
    labels = ", ".join(f"{name}={value}" for name, value in series.get("metric", {}).items())
    value = series.get("value") or ["", "?"]
    return f"{{{labels}}} {value[-1]}"[:400]


def _cards(config: Config) -> dict[str, float]:
    """Return the figures of the cards by name and card, which the watcher reads."""
    try:
        text = (config.snapshot.parent / _CARDS).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    found = {}
    for line in text.splitlines():
        if line.startswith("nvidia_"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def _planned(loaded: Mapping[str, Any]) -> str:
    size = loaded.get("planned_bytes")
    return f"; {_gib(size)} planned" if size else ""


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
