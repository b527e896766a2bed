"""Fakes of three container engines, and a release inside one."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from hearth_kokoro_patch import Plan, plan
from hearth_kokoro_patch.containers import Container, Engine


@dataclass(frozen=True)
class Engines:
    """Fakes on PATH; each has a folder with its containers."""

    place: Path

    def add(self, engine: Engine) -> Path:
        program = self.place / "bin" / engine
        program.parent.mkdir(exist_ok=True)
        text = (Path(__file__).parent / "engine.txt").read_text()
        program.write_text(text.replace("PYTHON", sys.executable))
        program.chmod(0o755)
        home = self.place / engine
        home.mkdir()
        return home

    def calls(self, engine: Engine) -> list[list[str]]:
        lines = (self.place / engine / "calls").read_text().splitlines()
        return [json.loads(line)[1:] for line in lines]


def fill(home: Path, release: Path, name: str = "speech", root: str = "app") -> Path:
    """Put a release into a container, and return its folder there."""
    inside = home / name / root
    inside.parent.mkdir(parents=True)
    shutil.copytree(release, inside)
    return inside


def wanted(there: Container, copy: Path, *steps: str) -> Plan:
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    there.copy_out(copy)
    found = plan(copy, frozenset(steps))
    found.apply()
    return found
