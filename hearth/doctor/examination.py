"""Run the checks side by side, and leave out what is only a consequence of something else."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from hearth import status
from hearth.catalogue import derive
from hearth.clients.endpoints import one_line
from hearth.doctor import (
    checks_house,
    checks_machine,
    checks_models,
    checks_services,
    kinds,
)
from hearth.doctor.finding import CHECKS, Check, Context, Finding, Kind
from hearth.doctor.kinds import CHECK_FAILED
from hearth.machine.facts import graphics
from hearth.machine.secrets import SecretsError
from hearth.project import Project

T = TypeVar("T")
# Importing them registers their checks.
_MODULES = (checks_services, checks_machine, checks_models, checks_house)
_BAD = {
    kinds.SERVICE_DOWN,
    kinds.SERVICE_LOOPS,
    kinds.SERVICE_HUNG,
    kinds.SERVICE_SLOW,
    kinds.SERVICE_UNHEALTHY,
}
_DEAF = {kinds.SERVICE_HUNG, kinds.SERVICE_SLOW, kinds.SERVICE_UNHEALTHY}
_PATHS = {
    *(kinds.CONNECTIONS, kinds.MODEL_FAILED, kinds.MODELS_UNKNOWN, kinds.KEY_REVOKED),
    kinds.METRICS_MISSING,
}
_SLOWER = {
    *(kinds.SERVICE_SLOW, kinds.MODEL_ON_CPU, kinds.GPU_ON_CPU, kinds.HOUSE_SLOWER),
    kinds.SLOWER_THAN_PHYSICS,
}
_SUFFERS = {
    *(kinds.MODEL_MISSING, kinds.MODELS_UNKNOWN, kinds.MODEL_FAILED, kinds.MODEL_ON_CPU),
    *(kinds.GPU_ON_CPU, kinds.WATCHER_SILENT, kinds.CLOCK_WRONG, kinds.SWAP),
    kinds.METRICS_MISSING,
}
# One cause, one finding: what each kind explains about itself and about what it hits.
EXPLAINS: Mapping[Kind, Collection[Kind]] = {
    kinds.INCUS_DOWN: _BAD | _PATHS | {CHECK_FAILED},
    kinds.DISK_FULL: {
        *(*_BAD, *_PATHS, kinds.INCUS_DOWN, CHECK_FAILED),
        *(kinds.DISK_LOW, kinds.BACKUP_OLD, kinds.BACKUP_UNREADABLE),
    },
    kinds.FIREWALL_GONE: _DEAF | _PATHS,
    kinds.FIREWALL_BLOCKS: _PATHS,
    kinds.DOCKER_BLOCKS: _PATHS,
    kinds.PORT_TAKEN: _BAD,
    kinds.OUT_OF_MEMORY: _BAD | {kinds.MODELS_UNKNOWN},
    kinds.CLOCK_WRONG: {
        *(kinds.CERTIFICATE_ENDING, kinds.BACKUP_OLD, kinds.MODEL_FAILED, kinds.KEY_REVOKED),
        *(kinds.MODELS_UNKNOWN, kinds.SITE_UNREACHABLE),
    },
    kinds.CERTIFICATE_ENDING: {kinds.SITE_UNREACHABLE},
    kinds.ADDRESS_CHANGED: {kinds.DNS_OTHER_SERVER, kinds.KEY_REVOKED},
    kinds.GPU_DRIVER: _SLOWER | _BAD,
    kinds.GPU_ON_CPU: _SLOWER - {kinds.GPU_ON_CPU},
    kinds.SWAP: {kinds.SERVICE_SLOW},
    kinds.RUNS_TWO: {kinds.RUN_UNFINISHED},
    **dict.fromkeys(_BAD, _SUFFERS),
    # A slow program may be so because of these.
    kinds.SERVICE_SLOW: _SUFFERS - {kinds.GPU_ON_CPU, kinds.SWAP},
}
# These follow from any error about a program or the machine, whatever it is about.
_FOLLOWS = {kinds.CANARY_FAILED, kinds.HOUSE_SLOWER, kinds.SITE_UNREACHABLE}
_LEADS = _BAD | {kinds.INCUS_DOWN, kinds.DISK_FULL, kinds.FIREWALL_GONE, kinds.DOCKER_BLOCKS}
_LEADS |= {kinds.FIREWALL_BLOCKS, kinds.GPU_DRIVER, kinds.OUT_OF_MEMORY, kinds.CONNECTIONS}
_LEADS |= {kinds.MODEL_MISSING, kinds.SWAP}
# Threads that outlived their deadline: a check that hangs is not started a second time.
_late: dict[str, threading.Thread] = {}


def context_here(project: Project) -> Context:
    """Return the context of this machine's house, whose look has started."""
    catalogue, vault = project.catalogue(), project.vault
    try:
        names = vault.names()
    except SecretsError:
        # A finding tells so; the rest of the house is examined without keys of the cloud.
        names = frozenset()
    house = derive(catalogue, names, graphics().has)
    return Context(
        house=house,
        rows=_started(lambda: status.look_at_rows(house)),
        models=_started(lambda: status.models(house)),
        now=time.time(),
        vault=vault,
    )


def _started(call: Callable[[], T]) -> Callable[[], T]:
    """Start a call in a thread that ends with the program; return what waits for its result."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future.result


def examine(context: Context, checks: Iterable[Check] | None = None) -> list[Finding]:
    """Return the causes that the checks find, errors first: by default of all checks.

    Takes as long as the longest deadline of a check at most.
    """
    return causes(run_checks(context, CHECKS.values() if checks is None else checks))


def run_checks(context: Context, checks: Iterable[Check]) -> dict[str, list[Finding]]:
    """Run checks side by side, each within its own deadline; return the findings of each.

    A check that raises or takes too long is a finding itself.
    """
    start, found, started = time.monotonic(), dict[str, list[Finding]](), []
    for one in checks:
        if one.name in _late and _late[one.name].is_alive():
            found[one.name] = [_failed(one, "its last run still hangs")]
            continue
        box: list[list[Finding]] = []
        # Daemon threads: one that hangs must not keep the program alive.
        thread = threading.Thread(target=_run, args=(context, one, box), daemon=True)
        thread.start()
        started.append((one, thread, box))
    for one, thread, box in started:
        thread.join(max(0.0, start + one.within_s - time.monotonic()))
        if not box:
            _late[one.name] = thread
        found[one.name] = box[0] if box else [_failed(one, f"took over {one.within_s:g} s")]
    return found


def hanging() -> bool:
    """Return whether a check, or what it has started, is still at work: Python waits for pools."""
    return threading.active_count() > 1


def causes(found: Mapping[str, Iterable[Finding]]) -> list[Finding]:
    """Return the findings of all checks, errors first, without what another one explains."""
    everything = [*{one.key: one for rows in found.values() for one in rows}.values()]
    left = [one for one in everything if not any(explains(by, one) for by in everything)]
    return sorted(left, key=lambda one: (one.kind.severity != "error", one.key))


def explains(cause: Finding, one: Finding) -> bool:
    """Return whether a finding is only a consequence of another one."""
    if one.kind in _FOLLOWS and cause.kind in _LEADS:
        return True
    related = "*" in cause.hits or one.about in (cause.about, *cause.hits)
    return cause is not one and related and one.kind in EXPLAINS.get(cause.kind, ())


def _run(context: Context, one: Check, box: list[list[Finding]]) -> None:
    try:
        box.append(list(one.find(context)))
    except Exception as error:  # a check that fails is a finding, never a silence
        box.append([_failed(one, f"{type(error).__name__}: {one_line(error)}")])


def _failed(one: Check, why: str) -> Finding:
    return Finding(CHECK_FAILED, one.name, why)
