"""Findings about programs: dead, looping, hung, slow, wrong, out of memory, not connected."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import httpx

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
    "silent": SERVICE_HUNG,
    "slow": SERVICE_SLOW,
    "unhealthy": SERVICE_UNHEALTHY,
}
_SOON_S = 0.3
_KILLED = re.compile(r"oom-kill:.*task_memcg=(\S*?),task=([^,]+),pid=(\d+)")
_SINCE = "-1h"


@check(every_s=1, within_s=7)
def programs(context: Context) -> Iterator[Finding]:
    """Find programs that do not work, each with one reason."""
    owners = {*context.house.services, *context.house.parts}
    for row in context.rows():
        if row.name in owners and row.state in _KINDS:
            since = f" for {_age(context.now - row.since)}" if row.since else ""
            text = f"{row.text}{since}" if row.state == "stopped" else row.text
            yield _found(context, Finding(_KINDS[row.state], row.name, one_line(text)))


def _found(context: Context, found: Finding) -> Finding:
    """Return a finding that also names the models of the service, which suffer with it."""
    models = (one.name for one in context.house.models.values() if one.service == found.about)
    return replace(found, hits=tuple(models))


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{max(0.0, seconds):.0f} s"


@check(every_s=10)
def incus(context: Context) -> Iterator[Finding]:
    """Find an Incus that does not answer, which no look at an instance survives."""
    if not any(service.system for service in context.house.services.values()):
        return
    try:
        context.incus("/1.0")
    except (httpx.HTTPError, KeyError, ValueError) as error:
        yield Finding(INCUS_DOWN, "", f"{engine.SOCKET}: {one_line(error)}", ("*",))


@check(every_s=60)
def out_of_memory(context: Context) -> Iterator[Finding]:
    """Find programs that the kernel killed in the last hour because memory ran out."""
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
