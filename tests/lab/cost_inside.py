"""What the monitoring costs: `python3 cost_inside.py SECONDS [PART …]` inside a lab machine.

Prints the processor seconds and the proportional memory in bytes of each part and instance that
watches the house. An instance counts whole, with its own systemd and journal. `slowness` is how
many times longer than on the reference machine short pieces of Python take meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PARTS = ("watch", "health", "node-exporter", "blackbox-exporter")
INSTANCES = ("prometheus", "alertmanager", "ntfy")
TICKS = os.sysconf("SC_CLK_TCK")
# A piece of work such as the watcher does, in each pause; its mean time on the reference machine.
PAUSE_S, PIECE_S = 0.5, 0.0020
DOCUMENT = {"services": [{"name": f"s{n}", "up": True, "figures": [n / 3, n]} for n in range(40)]}


def seconds(pid: str) -> float:
    """Return the processor time of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def size(pid: str) -> int:
    """Return its share of the memory, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def processes(group: Path) -> dict[str, float]:
    """Return the processes of a control group and of all groups in it, with their times."""
    found: dict[str, float] = {}
    for folder, _, _ in os.walk(group):
        try:
            found |= {pid: seconds(pid) for pid in Path(folder, "cgroup.procs").read_text().split()}
        except OSError:
            continue
    return found


def piece() -> float:
    """Do the piece of work; return its processor time in seconds."""
    began = time.thread_time()
    for _ in range(20):
        json.loads(json.dumps(DOCUMENT))
        Path("/proc/self/stat").read_text()
    return time.thread_time() - began


def main(duration: float, parts: list[str]) -> None:
    """Measure for some seconds."""
    groups = {one: GROUPS / "system.slice" / f"hearth-{one}.service" for one in parts or PARTS}
    if not parts:
        groups |= {one: GROUPS / f"lxc.payload.{one}" for one in INSTANCES}
    before = {one: processes(group) for one, group in groups.items()}
    end, pieces = time.monotonic() + duration, []
    while time.monotonic() < end:
        pieces.append(piece())
        time.sleep(PAUSE_S)
    after = {one: processes(group) for one, group in groups.items()}
    result: dict[str, list[float]] = {}
    for one, now in after.items():
        assert now, f"nothing runs in {groups[one]}"
        spent = sum(value - before[one].get(pid, 0) for pid, value in now.items())
        result[one] = [spent, sum(map(size, now))]
    slowness = sum(pieces) / len(pieces) / PIECE_S
    print(json.dumps({"costs": result, "slowness": slowness}))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
