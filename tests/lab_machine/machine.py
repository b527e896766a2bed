"""Lab machines from create to destroy."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.lab_machine import base, boot, disk, inside, links, outer, process, resolver
from tests.lab_machine.command import LabError
from tests.lab_machine.model import (
    CACHE,
    STATE,
    Machine,
    allot,
    check_name,
    check_tag,
    load,
    load_all,
    locked,
    store,
)
from tests.lab_machine.steps import remark, step

DEFAULT_SIZE_BYTES = 24 << 30


def create(
    name: str,
    *,
    size_bytes: int = DEFAULT_SIZE_BYTES,
    guest_of: str | None = None,
    memory_bytes: int | None = None,
    names: Mapping[str, str] | None = None,
    binds: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
) -> Machine:
    """Create an empty Debian 13 machine and boot it; remains of a killed one are removed first.

    `names` maps host names (with their subdomains) to the addresses its resolver gives them;
    `binds` maps outer paths to paths inside; `packages` are Debian packages installed from the
    start. A complete machine is never overwritten.
    """
    check_name(name)
    with locked():
        _refuse_whole(name)
        _clean(name)
        proxy = outer.ensure()
        machine = _record(name, size_bytes, guest_of, memory_bytes)
        machine = replace(machine, names=resolver.check_names(names or {}), binds=dict(binds or {}))
        store(machine)
        outer.refresh()
        source = base.ensure(proxy, packages)
    with step(f"Copy the base disk for {name}"):
        disk.copy(source, machine.disk, size_bytes)
        disk.attach(machine.disk, machine.mount)
        boot.settle(machine)
    _boot(machine)
    return load(name)


def start(name: str) -> Machine:
    """Boot a machine that is stopped, or whose outer machine was rebooted."""
    machine = load(name)
    if inside.running(machine):
        return machine
    if not machine.ready:
        raise LabError(f"{name} is incomplete; run `hearth lab create {name}` to create it again")
    with locked():
        _sweep(machine)
        outer.ensure()
    disk.attach(machine.disk, machine.mount)
    _boot(machine)
    return load(name)


def stop(name: str) -> None:
    """Shut a machine down cleanly; its disk stays mounted for `save` and `list`."""
    machine = load(name)
    if inside.running(machine):
        with step(f"Stop {name}"):
            _halt(machine)
    _sweep(machine)
    store(machine, started=False)


def cut(name: str) -> None:
    """Simulate a power cut: kill all processes of a machine at once, without a shutdown.

    Written data stay, synced or not, because the kernel of the outer machine keeps running.
    """
    machine = load(name)
    with step(f"Cut the power of {name}"):
        _kill(machine)
        _sweep(machine)


def reboot(name: str) -> None:
    """Reboot a machine from inside, as `reboot` does, and wait until it is up again."""
    machine = load(name)
    before = inside.leader_pid(name)
    with step(f"Reboot {name}"):
        inside.run(name, ["systemctl", "reboot"], timeout=30)
        deadline = time.monotonic() + boot.BOOT_S
        while inside.find_leader(machine) in (before, None):
            if time.monotonic() > deadline or not inside.running(machine):
                raise LabError(f"{name} did not come back; see {machine.folder}/console.log")
            time.sleep(0.1)
        boot.wait(machine)


def save(name: str, tag: str) -> None:
    """Save the machine's disk under a tag; a running machine is stopped and started again."""
    machine = load(name)
    target = f"{disk.SAVED}/{check_tag(tag)}"
    was_running = inside.running(machine)
    if was_running:
        stop(name)
    with step(f"Save {name} as {tag}"):
        disk.attach(machine.disk, machine.mount)
        (machine.mount / disk.SAVED).mkdir(exist_ok=True)
        disk.remove(machine.mount, target)
        disk.snapshot(machine.mount, disk.ROOT, target)
    if was_running:
        start(name)


def restore(name: str, tag: str) -> None:
    """Return the machine to a saved state and boot it; later changes are lost."""
    machine = load(name)
    disk.attach(machine.disk, machine.mount)
    source = f"{disk.SAVED}/{check_tag(tag)}"
    if not (machine.mount / source).exists():
        known = ", ".join(disk.saved(machine.mount)) or "none"
        raise LabError(f"{name} has no saved state {tag!r}; saved: {known}")
    if inside.running(machine):
        # No clean shutdown: its disk is replaced below.
        _kill(machine)
    with step(f"Restore {name} to {tag}"):
        _sweep(machine)
        disk.attach(machine.disk, machine.mount)
        disk.remove(machine.mount, disk.ROOT)
        disk.snapshot(machine.mount, source, disk.ROOT)
    start(name)


def destroy(name: str, *, keep_packages: bool = False, keep_cache: bool = False) -> None:
    """Remove a machine completely, and with the last one every change that labs made."""
    check_name(name)
    with locked():
        guests = [machine.name for machine in load_all() if machine.house == name]
        if guests:
            raise LabError(f"{name} has guests: destroy {', '.join(guests)} first, or use --all")
        if not (STATE / name).exists() and not links.exists(f"vb-{name}"):
            raise LabError(f"lab machine {name!r} does not exist; see `hearth lab list`")
        with step(f"Destroy {name}"):
            _clean(name)
        if load_all():
            outer.refresh()
        else:
            outer.undo(keep_packages=keep_packages, keep_cache=keep_cache)


def destroy_all(*, keep_packages: bool = False, keep_cache: bool = False) -> list[str]:
    """Destroy every machine, guests first, complete or not; return their names."""
    known = load_all()
    ordered = [m.name for m in known if m.house] + [m.name for m in known if not m.house]
    broken = [path.name for path in STATE.glob("[a-z]*") if path.name not in ordered]
    for name in [*broken, *ordered]:
        destroy(name, keep_packages=keep_packages, keep_cache=keep_cache)
    if not broken and not ordered:
        with locked():  # remains of a `create` that failed before it wrote a record
            outer.undo(keep_packages=keep_packages, keep_cache=keep_cache)
    return [*broken, *ordered]


def set_names(name: str, names: Mapping[str, str]) -> None:
    """Change the names that the resolver of a house serves; this takes effect at once."""
    machine = store(load(name), names=resolver.check_names(names))
    if machine.house:
        raise LabError(f"{name} is a guest: its resolver is {machine.house}")
    resolver.start(machine)


def address(name: str) -> str:
    """The machine's IPv4 address on its LAN."""
    return load(name).address


def _record(name: str, size: int, guest_of: str | None, memory: int | None) -> Machine:
    known = load_all()
    if guest_of and any(machine.name == guest_of and machine.house for machine in known):
        raise LabError(f"{guest_of} is a guest itself; name its house")
    left = {machine.net for machine in known if machine.house == name}
    # A house that is created again returns to the LAN of its remaining guests.
    net, host = (left.pop(), 10) if left else allot(known, guest_of, links.busy_nets())
    return Machine(name, net, host, size, house=guest_of, memory_bytes=memory)


def _refuse_whole(name: str) -> None:
    try:
        machine = load(name)
    except LabError:
        return
    if machine.ready and (inside.running(machine) or not machine.started):
        raise LabError(f"{name} exists; `hearth lab start {name}`, or destroy it first")


def _boot(machine: Machine) -> None:
    if machine.house is None:
        links.create(machine)
        resolver.start(machine)
    elif not links.exists(machine.bridge):
        raise LabError(f"{machine.name} is a guest of {machine.house}; start that first")
    (CACHE / "uv").mkdir(parents=True, exist_ok=True)
    store(machine, ready=True, started=True)
    with step(f"Boot {machine.name}"):
        boot.begin(machine)
        boot.wait(machine)
    remark(f"{machine.name}: {machine.address}; `hearth lab shell {machine.name}`")


def _halt(machine: Machine) -> None:
    identity = process.recorded(inside.record(machine))
    process.end(inside.keeper(machine), gently=signal.SIGKILL)
    # nspawn handles TERM as a request to power off.
    process.end(inside.record(machine), gently=signal.SIGTERM, within_s=boot.HALT_S)
    if identity and process.alive(identity):
        raise LabError(f"{machine.name} does not stop; see {machine.folder}/console.log")


def _kill(machine: Machine) -> None:
    for record in (inside.keeper(machine), inside.record(machine)):
        process.end(record, gently=signal.SIGKILL)


def _sweep(machine: Machine) -> None:
    """Remove the remains of a machine that is not running, except its disk and its LAN."""
    boot.kill_leftovers(machine)
    links.delete(f"vb-{machine.name}")


def _clean(name: str) -> None:
    """Remove everything with this machine's name, also after a kill at any moment."""
    folder: Path = STATE / name
    ghost = Machine(name, 0, 0, 0)
    _kill(ghost)
    _sweep(ghost)
    # The resolver and the mock upstreams of this machine.
    process.end_all(ghost.folder / "run")
    if not any(guest.house == name and inside.running(guest) for guest in load_all()):
        links.delete(ghost.bridge)
    disk.erase(folder)
    if folder.exists():
        raise LabError(f"{folder} is still in use; end the programs that use it and try again")
