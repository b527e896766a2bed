"""Runs inside the house's machine: what the doctor finds where a reading is not the real one.

Swap, cards, drivers, the kernel's own log, a year to come and a watcher that was silent for an hour
cannot be made in a lab. Each check here is the real one on the real house, with one stated reading
replaced. It prints a JSON object: the name of the reading to the keys that were found without it
and with it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hearth.doctor.examination import causes, context_here, run_checks
from hearth.doctor.finding import CHECKS, Context
from hearth.machine.engine import Completed
from hearth.paths import WATCH_UNIT
from hearth.project import current

GIB = 2**30
KILL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=lxc.payload.kokoro,mems_allowed=0,"
    "oom_memcg=/lxc.payload.kokoro,task_memcg=/lxc.payload.kokoro/system.slice/kokoro.service,"
    "task=python3,pid=4711,uid=1000900\n"
)
LLVMPIPE = (
    'msg="inference compute" id=0 library=Vulkan name=Vulkan0 description="llvmpipe (LLVM 19)"\n'
)
YEARS_S = 2.95 * 365 * 86400


def printing(output: str) -> Callable[..., Completed]:
    """Return a reader whose commands print this."""

    def execute(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed(0, output, "")

    return execute


def with_card(context: Context, device: str) -> Context:
    """Let Incus list a card in Ollama's instance."""

    def incus(path: str) -> Any:
        listed = context.incus(path)
        for one in listed:
            if one["name"] == "ollama":
                one["devices"] = {**one["devices"], device: {}}
        return listed

    return replace(context, incus=incus)


def swapped(root: Path) -> Path:
    """Make a /proc in which most of Ollama's memory is in the swap space."""
    folder = root / "proc/4711"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text("0::/lxc.payload.ollama/system.slice/ollama.service\n")
    (folder / "status").write_text(f"VmRSS:\t {GIB // 1024} kB\nVmSwap:\t {2 * GIB // 1024} kB\n")
    return root


def old_snapshot(root: Path) -> Path:
    """Make a machine whose watcher has last looked when it was started."""
    unit, snapshot = root / "etc/systemd/system" / WATCH_UNIT, root / "run/hearth-watch"
    unit.parent.mkdir(parents=True)
    unit.touch()
    snapshot.mkdir(parents=True)
    (snapshot / "snapshot.json").write_text('{"made_boot_s": 0}')
    return root


def render_node(root: Path) -> Path:
    """Make a machine with a card whose driver works."""
    (root / "sys/class/drm/renderD128/device").mkdir(parents=True)
    (root / "drivers/amdgpu").mkdir(parents=True)
    (root / "sys/class/drm/renderD128/device/driver").symlink_to(root / "drivers/amdgpu")
    (root / "dev/dri").mkdir(parents=True)
    (root / "dev/dri/renderD128").touch()
    return root


def readings(context: Context, folder: Path) -> dict[str, tuple[str, Context]]:
    """Return each reading: the check that reads it, and the house as it then appears."""
    half = {"models": [{"name": "qwen3.5:4b", "size": 4 * GIB, "size_vram": GIB}]}
    vulkan = with_card(context, "render0")
    on_card = replace(vulkan, root=render_node(folder / "card"))
    return {
        "out of memory": ("out_of_memory", replace(context, execute=printing(KILL))),
        "swap": ("swap", replace(context, root=swapped(folder / "swap"))),
        "driver": ("cards", with_card(context, "gpu")),
        "device": ("cards", replace(on_card, execute=printing(LLVMPIPE))),
        "model": ("loaded", replace(vulkan, fetch=lambda url: half)),
        "watcher": ("watcher", replace(context, root=old_snapshot(folder / "watcher"))),
        "years later": ("certificates", replace(context, now=context.now + YEARS_S)),
    }


def main() -> None:
    """Print what is found with the real reading, and with the stated one."""
    context = context_here(current())
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name, (check, stated) in readings(context, Path(folder)).items():
            both = [causes(run_checks(one, [CHECKS[check]])) for one in (context, stated)]
            found[name] = [[one.key for one in rows] for rows in both]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
