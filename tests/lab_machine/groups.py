"""A control group for each lab machine: without it, units of two machines would share groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.lab_machine import process
from tests.lab_machine.command import LabError, call
from tests.lab_machine.model import Machine

_ROOT = Path("/sys/fs/cgroup")
_SYSTEMD = Path("/run/systemd/system")


def within(machine: Machine, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in the machine's own group, with its memory limit."""
    if _SYSTEMD.is_dir():
        # The outer systemd owns the tree; it delegates a subtree and leaves that alone.
        limit = [f"--property=MemoryMax={machine.memory_bytes}"] if machine.memory_bytes else []
        scope = ["systemd-run", "--scope", "--quiet", "--collect", f"--unit={_name(machine)}"]
        return [*scope, "--property=Delegate=yes", *limit, "--", *argv]
    made = [parent / _name(machine) for parent in hierarchies(_ROOT)]
    for group in made:
        group.mkdir(exist_ok=True)
    if machine.memory_bytes:
        _limit(made, machine.memory_bytes)
    return process.joining(made, argv)


def beside(pid: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in the groups of another process, under its limits."""
    roots = {"": _ROOT / "unified", "name=systemd": _ROOT / "systemd", "memory": _ROOT / "memory"}
    if not roots[""].is_dir():
        roots[""] = _ROOT
    places = parse_groups(Path(f"/proc/{pid}/cgroup").read_text())
    groups = [Path(f"{roots[kind]}{place}") for kind, place in places.items() if kind in roots]
    return process.joining([group for group in groups if group.is_dir()], argv)


def parse_groups(text: str) -> dict[str, str]:
    """Kind of tree (empty for the unified one) to path of a /proc/PID/cgroup text."""
    rows = (line.split(":", 2) for line in text.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3}


def hierarchies(root: Path) -> list[Path]:
    """The cgroup trees in which a machine needs a group, where no systemd manages them."""
    parts = [root / name for name in ("unified", "systemd", "memory")]
    found = [path for path in parts if (path / "cgroup.procs").exists()]
    return found or [root]


def _limit(made: Sequence[Path], memory_bytes: int) -> None:
    for group in made:
        for name in ("memory.limit_in_bytes", "memory.max"):
            if (group / name).exists():
                (group / name).write_text(f"{memory_bytes}\n")
                return
    raise LabError("--memory: this machine has no memory control group; omit the option")


def remove(machine: Machine) -> None:
    """Remove the machine's groups, which must not contain processes."""
    if _SYSTEMD.is_dir():
        call(["systemctl", "stop", f"{_name(machine)}.scope"], check=False)
        return
    for parent in hierarchies(_ROOT):
        top = parent / _name(machine)
        below = [path for path in top.rglob("*") if path.is_dir()] if top.is_dir() else []
        for path in [*sorted(below, reverse=True), top]:
            try:
                path.rmdir()
            except OSError:  # it does not exist, or a process in it is still exiting
                continue


def _name(machine: Machine) -> str:
    return f"hearth-lab-{machine.name}"
