"""How the lab breaks a house: processes killed, instances ended, disks filled, memory taken."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.house import NAME, House

# Of `House.processes`, those that run on the machine itself.
PARTS = ("dnsmasq", "login", "caddy", "trust")
MEMORY = Path("/sys/fs/cgroup/memory")
# Half a gigabyte at a time at first, and then whatever other programs free: nothing is left.
FILL = """
mkdir -p "$0"; n=0
for size in 512M 64M 8M 1M 64K 4K; do
  while fallocate -l $size "$0/$n" 2>/dev/null; do n=$((n + 1)); done
  rm -f "$0/$n"
done
systemd-run --quiet --collect --unit=filling /bin/sh -c \\
  'while :; do cat /dev/zero >> "$0/rest" 2>/dev/null; sleep 0.2; done' "$0"
# What was freed before comes back with the next commits of the file system, and is taken as well.
for _ in $(seq 60); do
  sleep 0.5; sync -f "$0" || true
  if head -c 64K /dev/zero 2>/dev/null > "$0/probe"; then rm -f "$0/probe"; else exit 0; fi
done
echo "$(df --output=avail -B1 "$0" | tail -1) bytes are free"
exit 1
"""
EMPTY = 'systemctl stop filling 2>/dev/null || true; rm -rf "$0"; sync -f "${0%/*}/"'


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of the house, and where systemctl must run for it."""

    name: str

    @property
    def instance(self) -> str:
        """Its instance; empty for a part of the machine."""
        if self.name in PARTS:
            return ""
        return "ollama" if self.name.startswith("ollama") else self.name

    @property
    def service(self) -> str:
        """Its name for systemd."""
        return f"hearth-{self.name}" if self.name in PARTS else self.name

    def systemctl(self, words: str) -> str:
        """Return the command that runs systemctl on it."""
        command = f"systemctl {words} {self.service}.service </dev/null"
        return f"incus exec {self.instance} -- {command}" if self.instance else command

    def kill(self) -> str:
        """Return the command that kills its main process."""
        return self.systemctl("kill --kill-whom=main --signal=KILL")

    def shown(self, house: House, *names: str) -> dict[str, str]:
        """Return properties that systemd reports for it."""
        output = house.shell(self.systemctl(f"show -p {','.join(names)}"))
        return dict(line.partition("=")[::2] for line in output.splitlines())


def end_instance(house: House, name: str) -> None:
    """Kill the first process of an instance, which ends all the others."""
    house.shell(
        f"pid=$(incus query /1.0/instances/{name}/state | grep -m1 '\"pid\"' | tr -dc 0-9)\n"
        "kill -KILL $pid"
    )


def until(house: House, what: str, script: str, within_s: float) -> float:
    """Return after how many seconds a script inside succeeded."""
    began = time.monotonic()
    while house.inside("/bin/bash", "-c", script).returncode != 0:
        assert time.monotonic() - began < within_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.3)
    return time.monotonic() - began


@contextmanager
def full(house: House, folder: str) -> Iterator[None]:
    """Leave no byte free on a folder's disk, for as long as the block takes."""
    place = f"{folder.rstrip('/')}/.filled"
    try:
        done = house.inside("/bin/bash", "-c", FILL, place, timeout=120)
        # A file system may reserve a little that it reports as free: a write that fails is proof.
        assert done.returncode == 0, done.stdout + done.stderr
        yield
    finally:
        house.inside("/bin/bash", "-c", EMPTY, place, check=True)


@contextmanager
def nearly_full(house: House, folder: str, left_bytes: int) -> Iterator[None]:
    """Leave this many bytes free on a folder's disk, for as long as the block takes."""
    place = f"{folder.rstrip('/')}/.taken"
    free = f"$(df --output=avail -B1 {folder} | tail -1)"
    try:
        house.shell(f"fallocate -l $(({free} - {left_bytes})) {place}")
        yield
    finally:
        house.shell(f"rm -f {place}; sync -f {folder}")


def outer_pid(unit: Unit) -> int:
    """Return the process ID that a service's main process has on the outer machine."""
    # Incus puts the number of an instance's starts into its cgroup's name.
    place = re.compile(
        rf"/hearth-lab-{NAME}(\.scope)?/.*/lxc\.payload\.{unit.instance}(-\d+)?"
        rf"/system\.slice/{unit.service}\.service$",
        re.MULTILINE,
    )
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            groups = (proc / "cgroup").read_text()
            numbers = re.findall(r"^NSpid:\s+(.*)$", (proc / "status").read_text(), re.MULTILINE)
        except OSError:
            continue
        if place.search(groups):
            found.append((int(numbers[0].split()[-1]), int(proc.name)))
    assert found, f"no process of {unit.service} in {NAME}"
    # The first process that the unit started has the smallest ID inside.
    return min(found)[1]


@contextmanager
def starved(house: House, unit: Unit, left_bytes: int) -> Iterator[Path | None]:
    """Leave one process hardly more memory than it has; its next start is without the limit.

    The lab has no memory cgroup of its own, so this is one of the outer machine; there the
    kernel kills the process. Where the outer machine has none either (cgroup v2), the process
    gets a limit on its address space and None is yielded: an allocation fails then.
    """
    group = MEMORY / f"hearth-lab-{NAME}" / "starved"
    if not group.parent.is_dir():
        pid = outer_pid(unit)
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^VmSize:\s+(\d+) kB", status, re.MULTILINE)
        assert found, status
        limit = 1024 * int(found[1]) + left_bytes
        subprocess.run(["prlimit", f"--pid={pid}", f"--as={limit}"], check=True)
        yield None
        house.shell(unit.systemctl("restart"))
        return
    group.mkdir(exist_ok=True)
    try:
        (group / "memory.limit_in_bytes").write_text(str(left_bytes))
        (group / "cgroup.procs").write_text(str(outer_pid(unit)))
        yield group
    finally:
        for number in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(number)
        group.rmdir()


def kills(group: Path) -> int:
    """Return how many processes of a cgroup the kernel has killed because memory ran out."""
    counts = dict(line.split() for line in (group / "memory.oom_control").read_text().splitlines())
    return int(counts["oom_kill"])


def restarted(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the units whose main process has changed."""
    return {name for name in before if now[name] != before[name]}
