"""What the watcher reads now and then: disks, certificates, updates, backups and receipts."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.catalogue.house import House, Part, Service
from hearth.clients import ClientError
from hearth.clients.endpoints import get_json, lan_address, one_line
from hearth.machine import pki, runs
from hearth.paths import LAST_RUN, RECEIPT_FOLDER, ROOT_CERTIFICATE
from hearth.status import data_folders

# A whole backup can be decrypted with the recovery key only, which the house does not have.
_AGE = b"age-encryption.org/v1\n"
_SECURITY = re.compile(r"^Inst \S+ \[.*security", re.MULTILINE | re.IGNORECASE)
_UPGRADE = ("/usr/bin/apt-get", "--simulate", "-o", "Debug::NoLocking=1", "upgrade")
_APT_S, _FETCH_S = 60, 2.0
_MOST_CHANGED, _OUTCOMES = 50, 12
CANARY = Path("/run/hearth-health/canary.json")
_CANARY_BYTES, _CANARY_S, _MOST_WORK = 2**20, 300, 50
# When each lock was written last before it was seen free: /proc/locks is dear to read each second.
_free: dict[Path, int] = {}
_TICK_S = 1.0


def disks(house: House) -> list[dict[str, Any]]:
    """Return each folder with data of the house, with the size and the free bytes of its disk."""
    found = []
    for folder in data_folders(house):
        usage = shutil.disk_usage(folder)
        found.append({"path": folder, "total_bytes": usage.total, "free_bytes": usage.free})
    return found


def memory(meminfo: Path = Path("/proc/meminfo")) -> dict[str, int]:
    """Return the machine's memory and swap, in bytes."""
    lines = (line.split() for line in meminfo.read_text(encoding="ascii").splitlines())
    known = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
    names = {
        "total_bytes": "MemTotal",
        "available_bytes": "MemAvailable",
        "swap_bytes": "SwapTotal",
        "swap_free_bytes": "SwapFree",
    }
    return {ours: known.get(theirs, 0) for ours, theirs in names.items()}


def requests(house: House) -> dict[str, dict[str, int]]:
    """Return how many requests of each part with `counts` ended in which way, by part."""
    found = {}
    for part in house.parts.values():
        # One that does not answer has a finding of its own.
        with contextlib.suppress(ClientError, ValueError, KeyError, TypeError, AttributeError):
            if part.counts and part.url:
                counted = get_json(f"{part.url}/status", _FETCH_S)["requests"]
                counts = [*counted.items()][:_OUTCOMES]
                found[part.name] = {one_line(name): int(count) for name, count in counts}
    return found


def canary(path: Path = CANARY) -> list[dict[str, Any]]:
    """Return how each piece of the canary's work ended last; nothing where it does not work.

    Each has `what`, `ok` (None where nobody knows), `seconds` (None without an answer), `at` (a
    Unix time) and `text`. A program that reads what people send writes them, so they are checked.
    """
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_CANARY_BYTES))
        # It writes every few seconds, whether it has tried anything or not.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - found["made_boot_s"] > _CANARY_S:
            return []
        return [_work(one) for one in found["results"][:_MOST_WORK]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _work(one: Mapping[str, Any]) -> dict[str, Any]:
    seconds = one.get("seconds")
    return {
        "what": one_line(one["what"]),
        "ok": {True: True, False: False}.get(one["ok"]),
        "seconds": None if seconds is None else float(seconds),
        "at": float(one["at"]),
        "text": one_line(one["text"]),
    }


def certificates(folder: Path = ROOT_CERTIFICATE.parent) -> dict[str, float]:
    """Return when the house's own certificates expire, as Unix times."""
    found = {}
    for path in sorted(folder.glob("*.crt")):
        try:
            found[path.stem] = pki.not_after(path.read_text(encoding="ascii")).timestamp()
        except (OSError, ValueError, pki.PkiError):
            continue
    return found


def waiting_updates() -> int:
    """Return how many packages of the machine wait for a security update."""
    done = subprocess.run(  # noqa: S603 - fixed words
        ["/usr/bin/nice", *_UPGRADE],
        capture_output=True,
        text=True,
        check=True,
        timeout=_APT_S,
        env={"LC_ALL": "C"},
    )
    return len(_SECURITY.findall(done.stdout))


def address(house: House) -> str:
    """Return the machine's address on the LAN; empty without a link."""
    return lan_address(house) or ""


def last_backup(house: House) -> dict[str, Any]:
    """Return when the last backup was made, its size, and whether it starts as a backup does."""
    settings = house.machine.backup
    if not settings.recipient:
        return _backup("no key for backups yet: run `hearth backup --new-key`")
    form = re.compile(rf"hearth-{re.escape(house.machine.name)}-(\d{{8}}T\d{{6}}Z)\.tar\.age")
    try:
        names = [*filter(None, map(form.fullmatch, (p.name for p in Path(settings.to).iterdir())))]
    except OSError as error:
        return _backup(f"{settings.to}: {error.strerror}")
    if not names:
        return _backup(f"no backup in {settings.to} yet")
    newest = max(names, key=lambda found: found[1])
    made = datetime.strptime(newest[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    path = Path(settings.to, newest[0])
    try:
        with path.open("rb") as stream:
            readable = stream.read(len(_AGE)) == _AGE
        size = path.stat().st_size
    except OSError as error:
        return _backup(f"{path}: {error.strerror}", made)
    return _backup("" if readable else f"{path} is not a backup", made, size, readable)


def _backup(text: str, made: float = 0, size: int = 0, readable: bool = False) -> dict[str, Any]:
    return {"made": made, "bytes": size, "readable": readable, "text": text}


def receipt(path: Path = RECEIPT_FOLDER / "receipt.json") -> dict[str, Any]:
    """Return the last receipt, with `made` as a Unix time; empty before the first."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        made = datetime.fromisoformat(found["made"]).timestamp()
        return {**found, "made": made}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def last_run(path: Path = LAST_RUN) -> dict[str, Any] | None:
    """Return when the last run ended, what it changed, and whether it failed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        changed = [one_line(line) for line in found["changed"][:_MOST_CHANGED]]
        failed = found.get("failed") is True
        return {"made": float(found["made"]), "changed": changed, "failed": failed}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def devices(house: House, measured: Mapping[str, Any]) -> dict[str, str]:
    """Return on what each service computes: what the last receipt measured, or what it reports."""
    found = {}
    for service in [*house.offering("speech"), *house.offering("transcription")]:
        try:
            device = get_json(f"{service.url}/status", _FETCH_S)["device"]
        except (ClientError, KeyError, TypeError, AttributeError):
            continue
        found[service.name] = one_line(device)
    proof = measured.get("accelerator") or {}
    for model in house.models.values():
        if model.service and proof.get("model") in (model.name, model.id):
            where = f"{proof.get('measured')}, {proof.get('device')}"
            found[model.service] = one_line(where)
    return found


def versions(house: House, measured: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of each service and part, as the last receipt has it."""
    known = measured.get("versions") or {}
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    named = {one.name: known.get(one.name) or known.get(one.role) for one in owners}
    return {name: one_line(version) for name, version in named.items() if version}


def active_run(lock: Path = runs.LOCK, locks: Path = Path("/proc/locks")) -> dict[str, Any] | None:
    """Return the run that holds the lock of this machine, without touching the lock."""
    try:
        stat = lock.stat()
        # Whoever takes it writes its name into it.
        if _free.get(lock) == stat.st_mtime_ns:
            return None
        device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
        held = [line for line in locks.read_text(encoding="ascii").splitlines() if "FLOCK" in line]
        if not any(f" {device} " in line for line in held):
            # Two writes within a tick of the kernel's clock have the same time.
            if time.time() - stat.st_mtime > _TICK_S:
                _free[lock] = stat.st_mtime_ns
            return None
        text = lock.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    run = runs.read(text)
    what = run.command if run else text.partition("\n")[0]
    return {"what": one_line(what), "since": stat.st_mtime}
