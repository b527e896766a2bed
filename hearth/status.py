"""The state of each service and part, the addresses of the house, and how devices trust it."""

import asyncio
import functools
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hearth.catalogue.house import Flow, House, Part, Service
from hearth.catalogue.schema import HealthRecord
from hearth.clients import canary, health
from hearth.clients.endpoints import get_json, house_edge
from hearth.clients.health import HealthResult
from hearth.clients.models import PENDING, Overview, model_states
from hearth.machine import engine, outside, pki, probe, systemd
from hearth.machine.environment import free_bytes
from hearth.machine.facts import FactsError
from hearth.machine.other_firewalls import firewall_problems
from hearth.paths import FIREWALL_UNIT, RECEIPT, RECEIPT_FOLDER, ROOT_CERTIFICATE, TRUST_CONFIG
from hearth.render.agents import MEASURED, read_scores, untrusted

_TIMEOUT_S = 5
# What people read for an outcome of the probe.
_PROBLEMS = {
    "open": "",
    "silent": "no packet comes back in {:g} s",
    "hung": "it accepts the connection but does not respond within {:g} s",
    "rejected": "a firewall rejects it",
    "refused": "its port is closed",
    "unreachable": "there is no route to it",
}
# The page takes what the watcher wrote for old after as long.
_WRITES_S = 12.0
# A program that was restarted less than this long ago may end again.
_LOOP_S = 10
_WORDS = 160
# How long a slow program is waited for: a person has given up by then.
PATIENCE_S = 5.5
# A single look asks a second time after this long: a machine under load misses a deadline now and
# then, which is no fault.
_AGAIN_S = 0.3
# `hearth status` warns below the first, and is red below the second.
LITTLE_BYTES, FULL_BYTES = 5 * 2**30, 2**30
# `hearth up` makes a new root in its last thirty days, and an intermediate long before that.
_SOON = timedelta(days=30)
_RENEWED = {
    "root": "`hearth up` makes a new one, which every device must install",
    "intermediate": "`hearth up` renews it, and devices need no change",
}

AskUnit = Callable[
    [str | None, str, outside.Processes], Awaitable[tuple[systemd.UnitState | None, str]]
]
"""Reads a unit with these processes: its state, None if not known yet, and its last lines."""


@dataclass(frozen=True, slots=True)
class Row:
    """One service or part; `since` is a Unix time, 0 when it never changed.

    `state` is why a service or part is not up: `stopped`, `loops` (it keeps exiting), `halted` (by
    a signal), `silent` (its health does not answer), `slow`, `unhealthy`, `failing` (it answers,
    and its real work fails) or `unknown`; otherwise it is empty.
    """

    name: str
    kind: str
    up: bool
    text: str
    since: int
    memory_bytes: int = 0
    state: str = ""
    cpu_s: float = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `hearth status` shows."""

    rows: list[Row]
    addresses: list[str]
    accelerator: str
    pending: list[str]
    trust: list[str]
    fingerprint: str
    worked: Mapping[str, canary.Work]

    @property
    def good(self) -> bool:
        """Return whether everything is up."""
        return all(row.up for row in self.rows)


def look(house: House) -> Report:
    """Check every unit, every health endpoint and every connection of the house at once."""
    work = canary.read()
    rows = judged(look_at_rows(house), work)
    overview = models(house)
    moves = [f"{line}; `hearth up` ends this note" for line in moved(house)]
    pending = [
        f"{alias.name}: {alias.text}"
        for alias in overview.aliases.values()
        if alias.state == PENDING
    ]
    return Report(
        rows=rows,
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        accelerator=accelerator(),
        # What was never measured is for `hearth check`.
        pending=[
            *moves,
            *pending,
            *overview.notes,
            *untrusted(house, read_scores(MEASURED)).values(),
        ],
        trust=trust_addresses(house),
        fingerprint=root_fingerprint(),
        worked=work.worked,
    )


def look_at_rows(house: House) -> list[Row]:
    """Return a row for each service and part, and for what belongs to none of them."""
    return asyncio.run(_look_at_rows(house))


async def _look_at_rows(house: House) -> list[Row]:
    # What cannot be seen from outside is asked in threads, which mostly wait.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=16))
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    found, loaded, tried = await asyncio.gather(
        asyncio.gather(*(row_of(owner, unit_from_systemd, _AGAIN_S) for owner in owners)),
        asyncio.to_thread(firewall),
        _try_needs(house),
    )
    return all_rows(house, [*found, loaded], tried, datetime.now(UTC))


def all_rows(
    house: House, rows: Sequence[Row], tried: Mapping[Flow, str], now: datetime
) -> list[Row]:
    """Add to the rows of programs those of connections, certificates and disks."""
    found = [*rows]
    if house.flows:
        # A service that is down has its own row.
        down = {row.name for row in rows if not row.up}
        met = {
            flow: problem
            for flow, problem in tried.items()
            if not down & {flow.source, flow.target}
        }
        found.append(Row("connections", "part", *judge_needs(house, met), since=0))
    # Caddy renews those of the sites; only a run renews the root and the intermediate.
    found.append(Row("certificates", "part", *certificate_validity(now), since=0))
    found.append(Row("disk", "part", *disk_space(house), since=0))
    return found


def judged(rows: Iterable[Row], work: canary.Canary) -> list[Row]:
    """Return the rows; a service that answers is not up while its real work fails."""
    failed = {one["service"]: one for one in reversed(work.results) if one["ok"] is False}
    return [
        replace(row, up=False, state="failing", text=_failed(failed[row.name]))
        if row.up and row.name in failed
        else row
        for row in rows
    ]


def _failed(one: Mapping[str, Any]) -> str:
    return f"it answers, but {one['what']} failed twice: {one['text']}"


def models(house: House) -> Overview:
    """Return each model and alias of the house as it is now."""
    fetch = functools.partial(get_json, within_s=_TIMEOUT_S)
    return model_states(house, outside.read_file, fetch, datetime.now(UTC))


def try_needs(house: House) -> dict[Flow, str]:
    """Send a request along each need, as the instance that needs does; return the problems.

    All at once, each within the time that the other service has for its health; the text of one
    that was answered is empty.
    """
    return asyncio.run(_try_needs(house))


async def _try_needs(house: House) -> dict[Flow, str]:
    made = sockets_for(house, house.flows)
    problems = await asyncio.gather(*(try_need(house, *one) for one in made.items()))
    return dict(zip(made, problems, strict=True))


def sockets_for(house: House, flows: Iterable[Flow]) -> dict[Flow, socket.socket | str]:
    """Return for each need a socket in the network of who needs it, or why there is none.

    Each network is entered once, which takes a thread.
    """
    found = dict[Flow, socket.socket | str]()
    sources: dict[str, list[Flow]] = {}
    for flow in flows:
        sources.setdefault(flow.source, []).append(flow)
    for source, own in sources.items():
        try:
            made = outside.sockets(house.services[source].instance, len(own))
            found |= dict(zip(own, made, strict=True))
        except PermissionError:
            found |= dict.fromkeys(own, "only root can try it")
        except OSError as error:
            found |= dict.fromkeys(own, str(error))
    return found


async def try_need(house: House, flow: Flow, connection: socket.socket | str) -> str:
    """Send a request along one need by its socket, and return the problem if there is one."""
    if isinstance(connection, str):
        return connection
    service = house.services.get(flow.target)
    # Only a service's own port is known to answer requests.
    own = service.health if service and urlsplit(service.url).port == flow.port else None
    within_s = max(probe.WITHIN_S, own.within_s) if own else probe.WITHIN_S
    path = own.path if own else ""
    with connection:
        outcome = await health.reach(connection, flow.target_address, flow.port, path, within_s)
    return _PROBLEMS.get(outcome, outcome).format(
        health.CONNECT_S if outcome == "silent" else within_s
    )


def none_answers(house: House, tried: Mapping[Flow, str]) -> bool:
    """Return whether no instance was answered by another one, of several that were tried."""
    # Parts are on the machine, which no rule for forwarded packets separates from its instances.
    between = [problem for flow, problem in tried.items() if flow.target in house.services]
    return len(between) > 1 and all(between)


def judge_needs(house: House, tried: Mapping[Flow, str]) -> tuple[bool, str]:
    """Return whether all needs of `try_needs` were answered, and a line about those that were not.

    Where another firewall is the cause, the line says what to do.
    """
    problems = {flow: problem for flow, problem in tried.items() if problem}
    if not problems:
        return (
            True,
            f"{len(tried)} of {len(tried)} answer" if tried else "not tried: services are down",
        )
    text = "; ".join(f"{flow.source} to {flow.target}: {why}" for flow, why in problems.items())
    if none_answers(house, tried):
        text = f"no instance reaches another: {next(iter(problems.values()))}"
    return False, ": ".join([text, *firewall_problems(house.machine.instances)[:1]])


def accelerator() -> str:
    """Return what the last receipt measured of the accelerator, in one line."""
    try:
        receipt = json.loads((RECEIPT_FOLDER / RECEIPT).read_text(encoding="utf-8"))
        found = {str(key): str(value) for key, value in receipt["accelerator"].items()}
    except (OSError, ValueError, KeyError, AttributeError):
        found = {}
    if not found:
        return "accelerator not measured yet: run `hearth verify`"
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in found.items())


async def row_of(
    owner: Service | Part, ask: AskUnit, again_s: float = 0, asks_health: bool = True
) -> Row:
    """Look at one service or part from outside; `ask` is called where that does not explain it.

    Its health is requested a second time if the first request has no answer after `again_s`.
    """
    answer = await _health_of(owner, again_s) if asks_health else None
    if answer is not None and isinstance(owner, Service) and owner.runtime == "external":
        state, text = _health(answer)
        return Row(owner.name, "external", not state, text, 0, state=state)
    instance = owner.system if isinstance(owner, Service) else None
    seen = outside.processes(instance, owner.unit)
    kind, unit, log = "service" if isinstance(owner, Service) else "part", None, ""
    if not seen.pids or time.time() - seen.since < _LOOP_S:
        try:
            unit, log = await ask(instance, owner.unit, seen)
        except engine.EngineError as error:
            # Work that was done proves more than a look at the unit.
            if answer is None or not answer.healthy:
                return Row(owner.name, kind, False, str(error), seen.since, state="unknown")
    state, text = _judge(seen, answer, unit, log)
    since = seen.since or (unit.since if unit else 0)
    return Row(owner.name, kind, not state, text, since, seen.memory_bytes, state, seen.cpu_s)


async def _health_of(owner: Service | Part, again_s: float) -> HealthResult | None:
    """Return how the health of a service or part is; None for one that has none."""
    url = owner.health_url or ""
    if url.startswith("dns:"):
        return await asyncio.to_thread(_resolves, url)
    if owner.writes:
        return _writes(Path(owner.writes))
    return await _answer(url, owner.health, again_s) if url and owner.health else None


def _resolves(url: str) -> HealthResult:
    """Return whether a server answers the query of a `dns://SERVER/NAME` with an address."""
    parts, start = urlsplit(url), time.monotonic()
    name = parts.path.lstrip("/")
    # A packet may be lost.
    for _ in range(2):
        try:
            code, addresses = probe.resolve(parts.hostname or "", name, "A")
        except (struct.error, IndexError):
            return HealthResult("its answer to a query is no DNS", time.monotonic() - start)
        if code >= 0:
            break
    took_s = time.monotonic() - start
    if code < 0:
        return HealthResult(f"it does not answer a query for {name}", took_s, late=True)
    reason = "" if addresses else f"it has no address for {name}; is the machine on the network?"
    return HealthResult(reason, took_s)


def _writes(path: Path) -> HealthResult | None:
    """Return whether a file was written lately; None where only root may know."""
    try:
        age_s = time.time() - path.stat().st_mtime
    except PermissionError:
        return None
    except OSError:
        return HealthResult(f"it has not written {path}", 0, late=True)
    # Without the seconds, which would be news every time.
    # One from the future was written before the clock was set back: the next is seconds away.
    reason = "" if age_s <= _WRITES_S else f"it has written nothing new to {path}"
    return HealthResult(reason, 0, late=bool(reason))


async def _answer(url: str, record: HealthRecord, again_s: float) -> HealthResult:
    """Request the health, a second time after `again_s`; return the better result."""
    if not again_s:
        return await health.look(url, record, PATIENCE_S)
    first = asyncio.ensure_future(health.look(url, record, PATIENCE_S))
    if (await asyncio.wait({first}, timeout=again_s))[0]:
        return await first
    second = asyncio.ensure_future(health.look(url, record, PATIENCE_S))
    for one in asyncio.as_completed([first, second]):
        if (result := await one).healthy:
            break
    return result


async def unit_from_systemd(
    instance: str | None, name: str, _seen: outside.Processes
) -> tuple[systemd.UnitState | None, str]:
    """Return the state of a unit, and the last lines of its log if it keeps exiting."""
    return await asyncio.to_thread(read_unit, instance, name)


def read_unit(instance: str | None, name: str) -> tuple[systemd.UnitState, str]:
    """Return what `unit_from_systemd` does; it takes up to a second."""
    unit = systemd.unit_state(instance, name)
    try:
        return unit, systemd.last_log_lines(instance, name) if _loops(unit) else ""
    except engine.EngineError:
        return unit, ""


def _judge(
    seen: outside.Processes, answer: HealthResult | None, unit: systemd.UnitState | None, log: str
) -> tuple[str, str]:
    """Return the state of a row, empty for up, and its text."""
    if unit is not None and _loops(unit):
        return "loops", _why(unit, log)
    if unit is not None and not unit.up:
        return "stopped", f"{unit.active} ({unit.sub}, {unit.result})"
    if seen.halted:
        return "halted", "its process is stopped (SIGSTOP)"
    if answer is not None:
        return _health(answer)
    return ("", "up") if seen.pids or unit else ("stopped", "its program is not running")


def firewall() -> Row:
    """Return whether the house's ruleset is loaded; it has no record of its own."""
    name = "firewall"
    try:
        unit = systemd.unit_state(None, FIREWALL_UNIT)
        listing = ["/usr/sbin/nft", "--terse", "list", "table", "inet", "hearth"]
        table = engine.execute(None, listing, timeout=_TIMEOUT_S)
        # Only root may list rules; for others the state of the unit has to do.
        if unit.up and "No such file" not in table.stderr:
            return Row(name, "part", True, "up", unit.since)
        log = systemd.journal(None, FIREWALL_UNIT, 20)
    except engine.EngineError as error:
        return Row(name, "part", False, str(error), 0)
    # While systemd retries there is no exit code yet.
    words = [unit.exit] if unit.exit else []
    words += [line.partition("Error: ")[2] for line in log if "Error: " in line][-1:]
    why = f" ({': '.join(words)})" if words else ""
    text = "were removed" if unit.up else f"do not load{why}"
    # An older ruleset stays active; without any, the routing rules let nothing pass.
    if table.returncode == 0:
        text += "; older rules are active"
    elif "No such file" in table.stderr:
        text += "; nothing passes between instances"
    return Row(name, "part", False, f"its rules {text}: run `hearth up`", unit.since)


def _loops(unit: systemd.UnitState) -> bool:
    """Return whether a program keeps exiting, even if it is running at this moment."""
    # No unit of the house ever gives up: one that is inactive or failed was stopped by somebody.
    fresh = unit.active == "activating" or (unit.up and time.time() - unit.since < _LOOP_S)
    return unit.restarts >= health.RESTART_LIMIT and fresh


def _why(unit: systemd.UnitState, log: str) -> str:
    """Return how often a program has exited, how, and the last lines of its log."""
    text = f"keeps exiting ({unit.restarts + 1} times; {unit.exit or unit.result})"
    short = log if len(log) <= _WORDS else f"{log[: _WORDS - 1]}…"
    return f"{text}: {short}" if short else text


def _health(result: HealthResult) -> tuple[str, str]:
    """Return the state of a row, and its text."""
    state = "silent" if result.late else "slow" if result.slow else "unhealthy"
    return "" if result.healthy else state, result.reason or "up"


def trust_addresses(house: House) -> list[str]:
    """Return the addresses of the trust page, first the one that needs no DNS."""
    named = [f"http://{site.fqdn}/" for site in house.sites if site.plain]
    if not named:
        return []
    try:
        return [f"http://{house_edge(house).address}/", *named]
    except FactsError:
        # A machine without a link: the name works again when the link is back.
        return named


def moved(house: House) -> list[str]:
    """Return what to change on devices if the address is not that of the last run."""
    try:
        before = str(json.loads(TRUST_CONFIG.read_text(encoding="utf-8"))["address"])
        now = house_edge(house).address
    except (OSError, ValueError, KeyError, TypeError, FactsError):
        return []
    if before == now:
        return []
    return [
        f"the house's address was {before} and is now {now}: where {before} is entered as the DNS "
        f"server, in the router or on a device, enter {now}"
    ]


def root_fingerprint() -> str:
    """Return the root's SHA-256 as devices show it; empty where there is none yet."""
    try:
        return pki.fingerprint(ROOT_CERTIFICATE.read_text(encoding="ascii"))
    except (OSError, ValueError, pki.PkiError):
        return ""


def certificate_validity(now: datetime, folder: Path = ROOT_CERTIFICATE.parent) -> tuple[bool, str]:
    """Return whether root and intermediate are valid, and until when, or what to do."""
    ends = {}
    for name, renewed in _RENEWED.items():
        path = folder / f"{name}.crt"
        try:
            ends[name] = pki.not_after(path.read_text(encoding="ascii"))
        except (OSError, ValueError, pki.PkiError):
            return False, f"{path} cannot be read: `hearth up` writes it"
        left = ends[name] - now
        if left < _SOON:
            when = f"expires in {left.days} days" if left > timedelta(0) else "has expired"
            return False, f"the {name} {when}: {renewed}"
    return True, f"good until {min(ends.values()):%Y-%m-%d}"


def free_space(house: House) -> dict[str, int]:
    """Return the free bytes of each disk with data of the house, by a folder on it."""
    return {folder: free_bytes(Path(folder)) for folder in data_folders(house)}


def data_folders(house: House) -> list[str]:
    """Return the folders with data of the house, each of which may be on a disk of its own."""
    own = (volume.from_folder for one in house.services.values() for volume in one.volumes)
    return [*dict.fromkeys(["/var", *filter(None, own)])]


def disk_space(house: House) -> tuple[bool, str]:
    """Return whether the fullest disk with data of the house has room, and how much.

    Instances have no quotas, so any of them can fill it.
    """
    free = free_space(house)
    folder = min(free, key=free.__getitem__)
    text = f"{free[folder] / 2**30:.1f} GiB free on the disk of {folder}"
    if free[folder] < LITTLE_BYTES:
        text += ": free some, before programs cannot store what people write"
    return free[folder] >= FULL_BYTES, text


def qr_code(address: str) -> str:
    """Return a QR code for a terminal, in half blocks, to be photographed with a phone."""
    import segno

    drawn = StringIO()
    # Micro codes are smaller, and phones do not read them.
    segno.make(address, micro=False).terminal(drawn, compact=True, border=2)
    return drawn.getvalue()
