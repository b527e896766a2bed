"""The state of each service and part, the addresses of the house, and how devices trust it."""

import functools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import segno

from hearth.catalogue.house import House, Part, Service
from hearth.clients import health
from hearth.clients.endpoints import get_json, house_edge
from hearth.clients.models import PENDING, Overview, model_states
from hearth.machine import engine, pki, systemd
from hearth.machine.facts import FactsError
from hearth.paths import FIREWALL_UNIT, RECEIPT_FOLDER, ROOT_CERTIFICATE

_TIMEOUT_S = 5
# A program that was restarted less than this long ago may end again.
_LOOP_S = 10
_WORDS = 160
# `hearth up` makes a new root in its last thirty days, and an intermediate long before that.
_SOON = timedelta(days=30)
_RENEWED = {
    "root": "`hearth up` makes a new one, which every device must install",
    "intermediate": "`hearth up` renews it, and devices need no change",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One service or part; `since` is a Unix time, 0 when it never changed."""

    name: str
    kind: str
    up: bool
    text: str
    since: int
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `hearth status` shows."""

    rows: list[Row]
    addresses: list[str]
    accelerator: str
    pending: list[str]
    trust: list[str]
    fingerprint: str

    @property
    def good(self) -> bool:
        """Return whether everything is up."""
        return all(row.up for row in self.rows)


def look(house: House) -> Report:
    """Check every unit and every health endpoint of the house at once."""
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    with ThreadPoolExecutor(max_workers=8) as pool:
        rows = [*pool.map(_row, owners), _firewall()]
    # Caddy renews those of the sites; only a run renews the root and the intermediate.
    rows.append(Row("certificates", "part", *certificate_validity(datetime.now(UTC)), since=0))
    overview = models(house)
    pending = [
        f"{alias.name}: {alias.text}"
        for alias in overview.aliases.values()
        if alias.state == PENDING
    ]
    return Report(
        rows=rows,
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        accelerator=accelerator(),
        pending=[*pending, *overview.notes],
        trust=trust_addresses(house),
        fingerprint=root_fingerprint(),
    )


def models(house: House) -> Overview:
    """Return each model and alias of the house as it is now."""
    fetch = functools.partial(get_json, within_s=_TIMEOUT_S)
    return model_states(house, engine.read_file, fetch, datetime.now(UTC))


def accelerator() -> str:
    """Return what the last receipt measured of the accelerator, in one line."""
    try:
        receipt = json.loads((RECEIPT_FOLDER / "receipt.json").read_text(encoding="utf-8"))
        found = {str(key): str(value) for key, value in receipt["accelerator"].items()}
    except (OSError, ValueError, KeyError, AttributeError):
        found = {}
    if not found:
        return "accelerator not measured yet: run `hearth verify`"
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in found.items())


def _row(owner: Service | Part) -> Row:
    if isinstance(owner, Service) and owner.runtime == "external":
        up, text = _health(owner)
        return Row(owner.name, "external", up, text, 0)
    instance = owner.instance if isinstance(owner, Service) else None
    kind = "service" if instance else "part"
    try:
        unit = systemd.unit_state(instance, owner.unit)
        memory = engine.state(instance).memory_bytes if instance else 0
    except engine.EngineError as error:
        return Row(owner.name, kind, False, str(error), 0)
    if _loops(unit):
        up, text = False, _why(instance, owner.unit, unit)
    elif unit.up and isinstance(owner, Service):
        up, text = _health(owner)
    else:
        up, text = unit.up, "up" if unit.up else f"{unit.active} ({unit.sub}, {unit.result})"
    return Row(owner.name, kind, up, text, unit.since, memory)


def _firewall() -> Row:
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
    fresh = not unit.up or time.time() - unit.since < _LOOP_S
    return unit.restarts >= health.RESTART_LIMIT and fresh


def _why(instance: str | None, name: str, unit: systemd.UnitState) -> str:
    """Return how often a program has exited, how, and the last lines of its log."""
    text = f"keeps exiting ({unit.restarts + 1} times; {unit.exit or unit.result})"
    try:
        words = systemd.last_log_lines(instance, name)
    except engine.EngineError:
        words = ""
    short = words if len(words) <= _WORDS else f"{words[: _WORDS - 1]}…"
    return f"{text}: {short}" if short else text


def _health(service: Service) -> tuple[bool, str]:
    result = health.check(service)
    return result.healthy, result.reason or "up"


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


def qr_code(address: str) -> str:
    """Return a QR code for a terminal, in half blocks, to be photographed with a phone."""
    drawn = StringIO()
    # Micro codes are smaller, and phones do not read them.
    segno.make(address, micro=False).terminal(drawn, compact=True, border=2)
    return drawn.getvalue()
