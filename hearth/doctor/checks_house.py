"""Findings about what was built: files, images, versions, backups, runs, receipts, the watcher."""

import contextlib
import importlib.metadata
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion

from hearth.backup.create import STATE, backups, fault, made_at
from hearth.catalogue.house import MinimumVersion
from hearth.clients import ClientError
from hearth.clients import canary as work
from hearth.clients.endpoints import one_line
from hearth.doctor import background
from hearth.doctor.finding import Context, Finding, check
from hearth.doctor.kinds import (
    ALERT_NOT_SENT,
    BACKUP_OLD,
    BACKUP_UNREADABLE,
    BY_PROMETHEUS,
    CANARY_FAILED,
    COMMAND_UNFINISHED,
    FILE_EDITED,
    HOUSE_SLOWER,
    IMAGE_OUTDATED,
    IMAGE_UNFINISHED,
    METRICS_MISSING,
    RUN_UNFINISHED,
    RUNS_TWO,
    VERSION_OLD,
    WATCHER_SILENT,
)
from hearth.machine import converged, engine, images, runs, systemd
from hearth.machine.images import IMAGE_KEY
from hearth.machine.versions import is_older
from hearth.paths import PROGRAMS, RECEIPT_FOLDER, TREND, WATCH_STATE, WATCH_UNIT

_SNAPSHOT = Path("run/hearth-watch/snapshot.json")
_STALE_S, _START_S = 12, 30
_BACKUP_AGE = timedelta(days=2)
# What people can read; one cause may stop every program's figures.
_MOST_ALERTS = 50
_TIMER = Path("etc/systemd/system/hearth-backup.timer")
# Of a run of removal, and of a restore, that was cut short.
_CUT = {
    Path(
        "var/lib/hearth/unfinished.json"
    ): "a removal was cut short: run `hearth remove --all` again",
    Path("var/lib/hearth/backup/restoring"): "a restore was cut short: run `hearth restore` again",
}


@check(every_s=600, within_s=7)
def systems(context: Context) -> Iterator[Finding]:
    """Look into the machine and each instance once: files, unfinished programs, versions."""
    debian = [one for one in context.house.minimum_versions.values() if one.kind == "debian"]
    places: list[str | None] = [None, *(one.instance for one in context.entered())]
    names = [one.name for one in debian]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(
            lambda place: engine.run_program(place, converged, {"debian": names}, timeout=6),
            places,
        )
        seen = dict(zip(places, found, strict=True))
    # While a run writes files, they differ from the last record.
    at_rest = runs.active() is None
    for place, there in seen.items():
        at = f"{place}:" if place else ""
        for path, how in there["edited"] if at_rest else ():
            yield Finding(FILE_EDITED, f"{at}{path}", one_line(f"{path}: {how}"))
        for program in there["unfinished"] if at_rest else ():
            why = f"the last run did not end with {program}"
            yield Finding(RUN_UNFINISHED, f"{at}{program}", why)
        where = f"in {place}" if place else "on the machine"
        for minimum in debian:
            if version := there["debian"].get(minimum.name):
                yield from _old(minimum, version, where)


@check(every_s=600)
def versions(context: Context) -> Iterator[Finding]:
    """Find programs, and Python packages in them, that are older than their minimum."""
    for minimum in context.house.minimum_versions.values():
        if minimum.kind == "python":
            for program in sorted((context.root / PROGRAMS.relative_to("/")).glob("*/current")):
                packages = importlib.metadata.distributions(name=minimum.name, path=[str(program)])
                for package in packages:
                    yield from _old(minimum, package.version, f"in {program.parent.name}")
        for service in context.house.services.values() if minimum.kind == "source" else ():
            if minimum.name in service.sources and service.address:
                # One that does not answer has a finding of its own; others name no version.
                with contextlib.suppress(ClientError, KeyError):
                    answer = context.fetch(f"{service.url}{service.health.path}")
                    yield from _old(minimum, str(answer["version"]), f"in {service.name}")


def _old(minimum: MinimumVersion, version: str, where: str) -> Iterator[Finding]:
    try:
        older = is_older(version, minimum)
    except InvalidVersion:
        older = True
    if older:
        why = f"{version} {where}; the oldest supported is {minimum.oldest} ({minimum.reason})"
        yield Finding(VERSION_OLD, f"{minimum.name} {where}", one_line(why))


@check(every_s=600)
def instance_images(context: Context) -> Iterator[Finding]:
    """Find instances of an older image, or that a killed run left without one."""
    if runs.active():
        return
    resolver, services = context.house.machine.resolver_address, context.house.services
    for name, instance in context.instances().items():
        made = (instance.get("config") or {}).get(IMAGE_KEY, "")
        wanted = images.recipe_of(services[name], resolver).alias
        if not made:
            yield Finding(RUN_UNFINISHED, name, f"the instance {name} was not completed")
        elif made != wanted:
            yield Finding(IMAGE_OUTDATED, name, f"it was made from {made}, and {wanted} is wanted")
    for left in images.leftovers(context.root / images.FOLDER.relative_to("/")):
        size = sum(path.stat().st_size for path in left.rglob("*") if path.is_file())
        yield Finding(IMAGE_UNFINISHED, str(left), f"{size / 2**20:.0f} MiB in {left}")


@check(every_s=60)
def run_traces(context: Context) -> Iterator[Finding]:
    """Find two runs at once, and what a run left that was killed."""
    try:
        machine = runs.scope(runs.LOCK)
    except OSError:
        return
    working = runs.at_work(machine)
    alive = [name for name in working if runs.is_alive(name)]
    if len(alive) > 1:
        shown = "; ".join(f"process {name.partition('.')[0]}" for name in alive)
        yield Finding(RUNS_TWO, "", f"{len(alive)} runs are at work: {shown}")
    left = {
        pid: line for name in working if name not in alive for pid, line in working[name].items()
    }
    if left:
        pid, line = next(iter(left.items()))
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        why = f"a killed run left process {pid} ({line}){more}"
        yield Finding(RUN_UNFINISHED, "", one_line(why))
    for path, text in _CUT.items() if not alive else ():
        if (context.root / path).exists():
            yield Finding(COMMAND_UNFINISHED, f"/{path}", text)


@check(every_s=600)
def backup(context: Context) -> Iterator[Finding]:
    """Find that backups are not made any more, or that the last one is damaged."""
    settings, now = context.house.machine.backup, datetime.fromtimestamp(context.now, UTC)
    if settings.recipient is None:
        return
    there = backups(Path(settings.to), context.house.machine.name)
    state = context.root / STATE.relative_to("/")
    note = background.verification(
        context.root / WATCH_STATE.relative_to("/") / background.VERIFIED
    )
    read = note["fault"] if there and note["name"] == there[-1].name else ""
    if there and (why := fault(there[-1], state) or read):
        yield Finding(BACKUP_UNREADABLE, str(there[-1]), f"{there[-1].name}: {why}")
    if settings.at is None:
        return
    try:
        started = datetime.fromtimestamp((context.root / _TIMER).stat().st_mtime, UTC)
    except OSError:
        # No run has set the timer up yet.
        return
    since = max([started, *(made_at(path) for path in there[-1:])])
    if now - since > _BACKUP_AGE:
        what = f"the last one is {there[-1].name}" if there else "none was ever made"
        days = (now - since).total_seconds() / 86400
        yield Finding(BACKUP_OLD, "", f"no backup for {days:.1f} days: {what} in {settings.to}")


@check(every_s=600)
def receipts(context: Context) -> Iterator[Finding]:
    """Find figures of the last receipt that are outside what is usual on this machine."""
    path = context.root / RECEIPT_FOLDER.relative_to("/") / TREND
    # Each receipt comes with it; reading all receipts takes more memory than a watcher should have.
    for one in json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else ():
        if one["judgement"] == "worse":
            why = one_line(f"{one['name']}: {one['evidence']}")
            yield Finding(HOUSE_SLOWER, one_line(one["name"]), why)


@check(every_s=10)
def watcher(context: Context) -> Iterator[Finding]:
    """Find a watcher that has written nothing for a while."""
    if not (context.root / "etc/systemd/system" / WATCH_UNIT).exists():
        return
    try:
        made = float(json.loads((context.root / _SNAPSHOT).read_text())["made_boot_s"])
        old = time.clock_gettime(time.CLOCK_BOOTTIME) - made
        why = f"its last look was {old:.0f} s ago" if old > _STALE_S else ""
    except (OSError, ValueError, KeyError, TypeError):
        why = f"there is no readable /{_SNAPSHOT}"
    # It has just started, and has not looked yet.
    if why and context.now - systemd.unit_state(None, WATCH_UNIT).since > _START_S:
        yield Finding(WATCHER_SILENT, "watch", why)


@check(every_s=3)
def canary(context: Context) -> Iterator[Finding]:
    """Find real pieces of work that failed at the canary's last tries."""
    for one in work.read(context.root / work.RESULTS.relative_to("/")).results:
        if one["ok"] is False:
            yield Finding(CANARY_FAILED, one["what"], f"{one['what']}: {one['text']}")


@check(every_s=15)
def alerts(context: Context) -> Iterator[Finding]:
    """Find what only Prometheus sees: its alerts of these kinds that are firing."""
    scraper = next((one for one in context.house.services.values() if one.scrapes), None)
    if scraper is None:
        return
    # One that does not answer has a finding of its own.
    with contextlib.suppress(ClientError):
        found = context.fetch(f"{scraper.url}/api/v1/alerts").get("data", {}).get("alerts", [])
        firing = [
            one
            for one in found
            if one["state"] == "firing" and one["labels"]["alertname"] in BY_PROMETHEUS
        ]
        if not firing:
            return
        targets = context.fetch(f"{scraper.url}/api/v1/targets?state=active")
        errors = {
            one["labels"]["job"]: one["lastError"] for one in targets["data"]["activeTargets"]
        }
        for one in islice(firing, _MOST_ALERTS):
            yield _alert(context, one, errors)


def _alert(context: Context, one: Mapping[str, Any], errors: Mapping[str, str]) -> Finding:
    """Return the finding of one alert, with what Prometheus has measured."""
    labels = one["labels"]
    kind, about = BY_PROMETHEUS[labels["alertname"]], one_line(labels.get("about", ""))
    since = datetime.fromisoformat(one["activeAt"]).timestamp()
    lasts = f"for {max(0, round((context.now - since) / 60))} minutes"
    if kind is METRICS_MISSING:
        text = f"Prometheus has read no figures of {about} {lasts}: {errors.get(about, '')}"
    elif kind is ALERT_NOT_SENT:
        text = f"{float(one['value']):.0f} messages by {about} failed in the last 10 minutes"
    else:
        text = f"https://{about}/ has given the probe no page {lasts}"
    return Finding(kind, about, one_line(text))
