"""What the watcher reads now and then: disks, certificates, updates, backups and receipts."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hearth.backup.create import STATE, backups, damage, fault, made_at
from hearth.catalogue.house import House
from hearth.clients import ClientError
from hearth.clients.endpoints import get_json, lan_address, one_line
from hearth.files import write_atomic
from hearth.machine import pki, runs
from hearth.paths import (
    LAST_RUN,
    RECEIPT,
    RECEIPT_FOLDER,
    ROOT_CERTIFICATE,
    SITE_CERTIFICATES,
    WATCH_STATE,
)
from hearth.status import data_folders

# A whole backup can be decrypted with the recovery key only, which the house does not have.
VERIFIED = "backup.json"
_WEEK_S = 7 * 86_400.0
_verified: dict[Path, dict[str, Any]] = {}
_SECURITY = re.compile(r"^Inst \S+ \[.*security", re.MULTILINE | re.IGNORECASE)
# Without the new packages that an update needs, such as each kernel's, it is kept back.
_UPGRADE = ("/usr/bin/apt-get", "--simulate", "--with-new-pkgs", "-o", "Debug::NoLocking=1")
_APT_S, _FETCH_S = 60, 2.0
_MOST_CHANGED, _OUTCOMES = 50, 12
_LISTS, _INSTALLED = Path("/var/lib/apt/lists"), Path("/var/lib/dpkg/status")
_AGAIN_S = 6 * 3600.0
_ends: dict[Path, tuple[int, float]] = {}
# The updates counted last, or why not, by the state of the lists and of what is installed.
_counted: dict[tuple[float, ...], int | Exception] = {}
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


def certificates(folder: Path = ROOT_CERTIFICATE.parent) -> dict[str, float]:
    """Return when the house's own certificates expire, as Unix times."""
    found = {}
    for path in sorted(folder.glob("*.crt")):
        try:
            found[path.stem] = pki.not_after(path.read_text(encoding="ascii")).timestamp()
        except (OSError, ValueError, pki.PkiError):
            continue
    return found


def sites_until(house: House, folder: Path = SITE_CERTIFICATES) -> dict[str, Any] | None:
    """Return which site's certificate expires first, and when, as a Unix time; None without any.

    Caddy renews each long before. A new root has a new folder, and the old one stays.
    """
    ends = {}
    for site in house.sites:
        issued = folder.glob(f"*/certificates/*/{site.fqdn}/{site.fqdn}.crt")
        # One may be replaced at this moment.
        with contextlib.suppress(OSError, pki.PkiError):
            if dated := [(path.stat().st_mtime_ns, path) for path in issued]:
                ends[site.fqdn] = _end(*max(dated))
    if not ends:
        return None
    first = min(ends, key=ends.__getitem__)
    return {"name": first, "until": ends[first], "count": len(ends)}


def _end(written: int, path: Path) -> float:
    """Return when a certificate expires; it is read again once it was written again."""
    known = _ends.get(path)
    if known is None or known[0] != written:
        # The site's own comes first, before the intermediate.
        text = path.read_text(encoding="ascii")
        known = _ends[path] = written, pki.not_after(text).timestamp()
    return known[1]


def updates(lists: Path = _LISTS, installed: Path = _INSTALLED) -> dict[str, Any]:
    """Return how many security updates wait, by package lists of which time (0: there are none).

    They are counted when either has changed, and now and then.

    Raises:
        OSError, SubprocessError: they could not be counted.
    """
    made = max((path.stat().st_mtime for path in lists.glob("*Release")), default=0.0)
    state = (made, installed.stat().st_mtime, time.monotonic() // _AGAIN_S)
    if state not in _counted:
        _counted.clear()
        try:
            _counted[state] = waiting_updates()
        except (OSError, subprocess.SubprocessError) as error:
            _counted[state] = error
    waiting = _counted[state]
    if isinstance(waiting, Exception):
        raise waiting
    return {"waiting": waiting, "lists_made": made}


def waiting_updates(apt_config: str = "") -> int:
    """Return how many packages of the machine wait for a security update."""
    done = subprocess.run(  # noqa: S603 - fixed words
        ["/usr/bin/nice", *_UPGRADE, "upgrade"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_APT_S,
        env={"LC_ALL": "C", "APT_CONFIG": apt_config},
    )
    return len(_SECURITY.findall(done.stdout))


def address(house: House) -> str:
    """Return the machine's address on the LAN; empty without a link."""
    return lan_address(house) or ""


def last_backup(
    house: House, state: Path = STATE, verified: Path = WATCH_STATE / VERIFIED
) -> dict[str, Any]:
    """Return when the last backup was made, its size, and whether it is whole.

    It is read as a whole once a week; `verified` is when one was last, as a Unix time.
    """
    settings = house.machine.backup
    if not settings.recipient:
        return _backup("no key for backups yet: run `hearth backup --new-key`")
    try:
        there = backups(Path(settings.to), house.machine.name)
    except OSError as error:
        return _backup(f"{settings.to}: {error.strerror}")
    if not there:
        return _backup(f"no backup in {settings.to} yet")
    path = there[-1]
    made = made_at(path).timestamp()
    try:
        size = path.stat().st_size
    except OSError as error:
        return _backup(f"{path}: {error.strerror}", made)
    found = fault(path, state) or _weekly(path, state, verified)
    note = verification(verified)
    return _backup(f"{path}: {found}" if found else "", made, size, not found, note["at"])


def _weekly(backup: Path, state: Path, verified: Path) -> str:
    """Return how a backup's content was found; it is read if none was for a week."""
    note = verification(verified)
    if time.time() - note["at"] > _WEEK_S or note["at"] > time.time():
        found = damage(backup, state)
        if found is None:
            return ""
        note = {"name": backup.name, "at": time.time(), "fault": found}
        # A full disk costs that it is read again at the next start.
        _verified[verified] = note
        with contextlib.suppress(OSError):
            write_atomic(verified, json.dumps(note).encode(), 0o600)
    return str(note["fault"]) if note["name"] == backup.name else ""


def verification(verified: Path = WATCH_STATE / VERIFIED) -> dict[str, Any]:
    """Return which backup was read as a whole last, `at` which Unix time, and its `fault`."""
    try:
        found = json.loads(verified.read_text(encoding="utf-8"))
        return {
            "name": str(found["name"]),
            "at": float(found["at"]),
            "fault": one_line(found["fault"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return _verified.get(verified, {"name": "", "at": 0.0, "fault": ""})


def _backup(
    text: str, made: float = 0, size: int = 0, readable: bool = False, verified: float = 0
) -> dict[str, Any]:
    known = {"made": made, "bytes": size, "readable": readable, "text": text}
    return {**known, "verified": verified}


def receipt(path: Path = RECEIPT_FOLDER / RECEIPT) -> dict[str, Any]:
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


def device(status: Any) -> str:
    """Return what a program of ours computes on, by its `/status`; empty if that does not say."""
    known = status if isinstance(status, dict) else {}
    where = one_line(known.get("device") or known.get("provider") or "")
    # onnxruntime's name for one is that of a class.
    runtime = where.removesuffix("ExecutionProvider")
    return runtime.lower() if runtime != where else where


def devices(house: House, measured: Mapping[str, Any]) -> dict[str, str]:
    """Return on what each service computes: what the last receipt measured, or what it reports."""
    found = {}
    for service in [*house.offering("speech"), *house.offering("transcription")]:
        with contextlib.suppress(ClientError):
            if where := device(get_json(f"{service.url}/status", _FETCH_S)):
                found[service.name] = where
    proof = measured.get("accelerator") or {}
    for model in house.models.values():
        if model.service and proof.get("model") in (model.name, model.id):
            where = f"{proof.get('measured')}, {proof.get('device')}"
            found[model.service] = one_line(where)
    return found


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
