"""Findings about programs: dead, looping, hung, slow, wrong, out of memory, not connected."""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import httpx

from hearth.catalogue.house import Service
from hearth.clients import health
from hearth.clients.endpoints import one_line
from hearth.doctor.finding import Context, Finding, check
from hearth.doctor.kinds import (
    CONNECTIONS,
    INCUS_DOWN,
    OUT_OF_MEMORY,
    SERVICE_DOWN,
    SERVICE_HUNG,
    SERVICE_LOOPS,
    SERVICE_SLOW,
    SERVICE_UNHEALTHY,
)
from hearth.machine import engine, outside
from hearth.status import judge_needs, try_needs

_KINDS = {
    "stopped": SERVICE_DOWN,
    "unknown": SERVICE_DOWN,
    "loops": SERVICE_LOOPS,
    "halted": SERVICE_HUNG,
    "unhealthy": SERVICE_UNHEALTHY,
}
# How long a slow program is waited for: a person has given up by then.
_PATIENCE_S = 5.5
_SOON_S = 0.3
_KILLED = re.compile(r"oom-kill:.*task_memcg=(\S*?),task=([^,]+),pid=(\d+)")
_SINCE = "-1h"


@check(every_s=3, within_s=7)
def programs(context: Context) -> Iterator[Finding]:
    """Find programs that do not work, each with one reason."""
    owners = {*context.house.services, *context.house.parts}
    for row in context.rows():
        if row.name in owners and row.state in _KINDS:
            since = f" for {_age(context.now - row.since)}" if row.since else ""
            text = f"{row.text}{since}" if row.state == "stopped" else row.text
            yield _found(context, Finding(_KINDS[row.state], row.name, one_line(text)))
        elif row.state == "silent" and row.name in context.house.parts:
            yield Finding(SERVICE_HUNG, row.name, one_line(row.text))


# An interval of its own lets its patience delay no other finding of the watcher.
@check(every_s=4, within_s=7)
def silent_programs(context: Context) -> Iterator[Finding]:
    """Find services that answer too late, and tell the slow ones from those that hang."""
    services = context.house.services
    with ThreadPoolExecutor(len(services) + 1) as pool:
        looking = pool.submit(context.rows)
        waited: dict[str, Future[health.HealthResult]] = {}
        if not wait([looking], _SOON_S).done:
            # The look itself takes seconds where a program is silent: wait for it meanwhile.
            waited = {name: pool.submit(_patient, one) for name, one in services.items()}
        rows = [row.name for row in looking.result() if row.state == "silent"]
        # All at once, before the first is waited for.
        later = {
            name: waited.get(name) or pool.submit(_patient, services[name])
            for name in rows
            if name in services
        }
        for name, result in later.items():
            if found := _silence(services[name], result):
                yield _found(context, found)


def _found(context: Context, found: Finding) -> Finding:
    """Return a finding that also names the models of the service, which suffer with it."""
    models = (one.name for one in context.house.models.values() if one.service == found.about)
    return replace(found, hits=tuple(models))


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{max(0.0, seconds):.0f} s"


def _patient(service: Service) -> health.HealthResult:
    return health.check(replace(service, health=replace(service.health, within_s=_PATIENCE_S)))


def _silence(service: Service, later: Future[health.HealthResult]) -> Finding | None:
    """Tell why a service does not answer in time: it is slow, or hangs.

    None if it answered a second request in time: a machine under load misses one now and then.
    """
    limit = f"{service.health.within_s:g} s"
    result = later.result()
    if result.late:
        return Finding(
            SERVICE_HUNG, service.name, f"no answer in {limit}, nor in {_PATIENCE_S:g} s"
        )
    if result.seconds <= service.health.within_s:
        return None
    return Finding(
        SERVICE_SLOW,
        service.name,
        f"its health took {result.seconds:.1f} s; its record allows {limit}",
    )


@check(every_s=10)
def incus(context: Context) -> Iterator[Finding]:
    """Find an Incus that does not answer, which no look at an instance survives."""
    if not any(service.address for service in context.house.services.values()):
        return
    try:
        context.incus("/1.0")
    except (httpx.HTTPError, KeyError, ValueError) as error:
        yield Finding(INCUS_DOWN, "", f"{engine.SOCKET}: {one_line(error)}", ("*",))


@check(every_s=60)
def out_of_memory(context: Context) -> Iterator[Finding]:
    """Find programs that the kernel killed in the last hour for want of memory."""
    argv = ["/usr/bin/journalctl", "--dmesg", "--no-pager", "--output=cat", f"--since={_SINCE}"]
    text = context.output(None, *argv, "--grep=oom-kill:", within_s=5)
    owners = {service.instance: service.name for service in context.house.services.values()}
    killed: dict[str, list[str]] = {}
    for group, task, _ in _KILLED.findall(text):
        inside = outside.instance_of(group)
        if inside and engine.SANDBOX_NAME.fullmatch(inside):
            # What is tried there may take too much: its limit is there for that.
            continue
        about = owners.get(inside, inside) if inside else _part_of(context, group)
        killed.setdefault(about, []).append(task)
    for about, tasks in killed.items():
        times = f"{len(tasks)} times" if len(tasks) > 1 else "once"
        text = f"the kernel killed {', '.join(dict.fromkeys(tasks))} {times} in the last hour"
        yield _found(context, Finding(OUT_OF_MEMORY, about, text))


def _part_of(context: Context, group: str) -> str:
    """Return the part whose unit a cgroup belongs to; empty for other programs."""
    names = (part.name for part in context.house.parts.values() if f"/{part.unit}" in group)
    return next(names, "")


@check(every_s=10, within_s=7)
def connections(context: Context) -> Iterator[Finding]:
    """Find needs that are not answered although both ends run."""
    with ThreadPoolExecutor(2) as pool:
        looking = pool.submit(context.row, "connections")
        # A look of its own is a single one, and one missed answer is no fault: a second one beside.
        again = None if wait([looking], _SOON_S).done else pool.submit(try_needs, context.house)
        row = looking.result()
        if row is None or row.up:
            return
        down = {one.name for one in context.rows() if not one.up}
        tried = again.result() if again else {}
        met = {flow: why for flow, why in tried.items() if not down & {flow.source, flow.target}}
        good, text = judge_needs(context.house, met) if again else (False, row.text)
    if not good:
        yield Finding(CONNECTIONS, "", one_line(text))
