"""Booting a lab machine under systemd-nspawn, and waiting until it is up."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.lab_machine import disk, groups, inside, process
from tests.lab_machine.command import LabError, call
from tests.lab_machine.links import CACHE_PORT
from tests.lab_machine.model import CACHE, Machine
from tests.lab_machine.steps import remark

BOOT_S = 90
HALT_S = 90
# nspawn's exit code when the machine has rebooted: under --keep-unit its caller starts it again.
REBOOTED = 133
_NSPAWN = Path("/run/systemd/nspawn")


def settings(machine: Machine) -> dict[str, str]:
    """The files of /etc that turn a copy of the base disk into this machine."""
    return {
        "etc/hostname": f"{machine.name}\n",
        "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
        f"127.0.1.1 {machine.name}\n",
        "etc/resolv.conf": f"nameserver {machine.resolver}\n",
        "etc/systemd/network/10-host0.network": "[Match]\nName=host0\n\n[Network]\n"
        f"Address={machine.address}/24\nGateway={machine.outer_address}\n"
        "IPv6AcceptRA=no\n",
        "etc/apt/apt.conf.d/02hearth-lab-cache": 'Acquire::http::Proxy "http://'
        f'{machine.outer_address}:{CACHE_PORT}";\nAcquire::https::Proxy "DIRECT";\n',
    }


def settle(machine: Machine) -> None:
    """Write the machine's own settings onto its fresh disk."""
    for name, text in settings(machine).items():
        path = machine.root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def command(machine: Machine) -> list[str]:
    """The systemd-nspawn command line of a machine."""
    binds = {str(CACHE / "uv"): "/root/.cache/uv", **machine.binds}
    return [
        *("systemd-nspawn", "--quiet", "--boot", f"--directory={machine.root}"),
        # machinectl needs systemd outside, which a container or a CI machine may not have.
        *(f"--machine={machine.name}", "--register=no", "--keep-unit"),
        # Incus inside needs all capabilities; a lab is not a security boundary.
        *("--capability=all", "--system-call-filter=@known"),
        *("--bind=/dev/fuse", "--bind=/dev/net/tun"),
        *(f"--bind={source}:{target}" for source, target in binds.items()),
        f"--network-bridge={machine.bridge}",
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
    ]


def begin(machine: Machine) -> None:
    """Start the machine; it survives this process."""
    again = process.again(inside.record(machine), command(machine), REBOOTED)
    process.spawn(
        inside.keeper(machine),
        groups.within(machine, again),
        running=again,
        log=machine.folder / "console.log",
        # nspawn limits /tmp to a tenth of memory; Debian 13 itself mounts half of it.
        env={"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_TMPFS_TMP": "0"},
    )


def wait(machine: Machine) -> None:
    """Wait until systemd inside has started all its units."""
    deadline = time.monotonic() + BOOT_S
    state = ""
    while time.monotonic() < deadline:
        if not inside.running(machine):
            raise LabError(f"{machine.name} ended while booting; see {machine.folder}/console.log")
        state = _state(machine, max(1.0, deadline - time.monotonic()))
        if state == "running":
            return
        if state == "degraded":
            remark(f"{machine.name} is up, but failed: {_failed(machine)}")
            return
        time.sleep(0.1)
    raise LabError(
        f"{machine.name} is {state or 'silent'} after {BOOT_S} s; see `hearth lab shell`"
    )


def _state(machine: Machine, within_s: float) -> str:
    leader = inside.find_leader(machine)
    if leader is None or not Path(f"/proc/{leader}/root/run/dbus/system_bus_socket").exists():
        return ""
    words = inside.entry(machine)
    ask = [*words, "timeout", f"{within_s:g}", "systemctl", "is-system-running", "--wait"]
    return call(ask, timeout_s=within_s + 5, check=False).stdout.strip()


def _failed(machine: Machine) -> str:
    words = [*inside.entry(machine), "systemctl", "--failed", "--plain", "--no-legend"]
    rows = call(words, check=False).stdout.splitlines()
    return ", ".join(row.split()[0] for row in rows if row) or "no unit by name"


def kill_leftovers(machine: Machine) -> None:
    """Remove the remains of nspawn: its files and, after a kill, its pid 1, found by its root."""
    for pid in _inhabitants(machine.root):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for folder in ("propagate", "unix-export"):
        disk.erase(_NSPAWN / folder / machine.name)
    groups.remove(machine)
    # nspawn leaves the lock of its root folder behind, named by the mounted folder's inode.
    if machine.root.exists():
        place = machine.root.stat()
        (_NSPAWN / "locks" / f"inode-{place.st_dev}:{place.st_ino}").unlink(missing_ok=True)


def forget_folders() -> None:
    """Remove nspawn's own folders where nothing else uses them."""
    for folder in (*_NSPAWN.glob("*"), _NSPAWN):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _inhabitants(root: Path) -> list[int]:
    """Pids of other pid namespaces' first processes whose root is this very folder."""
    try:
        wanted = root.stat()
    except OSError:
        return []
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            place = (proc / "root").stat()
            first = inside.is_first_of_its_namespace((proc / "status").read_text())
        except OSError:
            continue
        if first and (place.st_dev, place.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(proc.name))
    return found
