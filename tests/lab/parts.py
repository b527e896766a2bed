"""The parts of the lab's tests: their order, their minutes, and which command runs them.

`scripts/test` runs the core parts, `scripts/test --all` every part, and `scripts/test --long` what
takes too long for either. A part is one file of this folder.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Part:
    """One file of tests: the minutes it takes on a machine as fast as the reference."""

    name: str
    minutes: float
    core: bool = False


# They build the house that the others use.
FIRST = (
    Part("build", 9.3, core=True),
    Part("second_run", 1.2, core=True),
)
# In any order.
MIDDLE = (
    Part("drift", 1.6, core=True),
    Part("backup", 1.1, core=True),
    Part("secrets", 0.6, core=True),
    Part("lan", 1.0, core=True),
    Part("firewall", 0.5, core=True),
    Part("docker", 3.5),
    Part("compose", 3.5),
    Part("documents", 0.4),
    Part("tts", 0.2),
    Part("tts_page", 2.4),
    Part("stt", 0.8),
    Part("stt_page", 1.8),
    Part("chat", 0.3),
    Part("chat_browsers", 1.8),
    Part("chat_data", 1.0),
    Part("chat_outages", 2.6),
    Part("chat_version", 0.1),
    Part("pipelines", 0.4),
    Part("drill", 1.1),
    Part("thinking", 0.2),
    Part("plan", 3.0),
    Part("kokoro_fastapi", 2.2),
    Part("trust", 0.4),
    Part("unavailable", 0.5),
    Part("home", 1.2),
    Part("health", 7.0),
    Part("gpu", 1.6),
    Part("killed_runs", 0.5),
    Part("faults", 2.3),
    Part("doctor", 2.5),
    Part("torch_engine", 0.7),
    Part("sandbox", 1.6),
    Part("agents", 7.5),
)
# Whole files for `scripts/test --long`; some other files have single tests marked `long`.
LONG = (
    Part("clocks", 4),
    Part("trust_renewal", 2),
    Part("faults_long", 8),
    Part("engines", 1.5),
    Part("podman", 8),
    # Its calls from the chat are red: docs/talking.md says why.
    Part("voice", 6),
    Part("stranger", 45),
)
# They need a house that no test has damaged, and remove it.
LAST = (
    Part("reboot", 3.1, core=True),
    Part("remote", 1.2),
    Part("remove", 2.6),
    Part("destroyed", 0.2),
)
ALL = {part.name: part for part in (*FIRST, *MIDDLE, *LONG, *LAST)}


def commit() -> str:
    """Return the hash of the checkout's commit."""
    argv = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def order(commit_hash: str) -> list[str]:
    """Return the names of all parts in their order, which changes with the commit.

    A late part may find no minutes left; it must not be the same one every time.
    """
    turn = int(commit_hash, 16) % len(MIDDLE)
    middle = (*MIDDLE[turn:], *MIDDLE[:turn])
    return [part.name for part in (*FIRST, *middle, *LONG, *LAST)]


@dataclass(frozen=True, slots=True)
class Budget:
    """The time that is left, and how much slower than the reference this machine is."""

    deadline: float | None
    slowness: float
    reserve_min: float

    def refusal(self, part: Part) -> str | None:
        """Return why a part is not started, or None.

        The parts of `LAST` have their minutes reserved, so that the others cannot take them.
        """
        if self.deadline is None or part in FIRST:
            return None
        left_min = (self.deadline - time.monotonic()) / 60
        reserved = 0.0 if part in LAST else self.reserve_min
        needed = (part.minutes + reserved) * self.slowness
        if needed <= left_min:
            return None
        return f"not started: it needs {needed:.1f} min and {left_min:.1f} min are left"
