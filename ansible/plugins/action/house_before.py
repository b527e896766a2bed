"""Record the machine as it was before Hearth, once.

Argument: `packages`, those to install next. Packages, users and kernel settings are recorded before
Hearth installs its first package. The record is never overwritten; `hearth remove --all` reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from hearth.machine.action import HouseAction
from hearth.project import current
from hearth.remove.before import BROUGHT, record_before


class ActionModule(HouseAction):
    """Record the machine, unless that was done before."""

    arguments: ClassVar = {"packages": {"type": "list", "elements": "str", "required": True}}

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Record it, and return whether that was (or would be) done."""
        project = current().root
        # apt's module brings its own library where it is missing.
        packages = [*params["packages"], "python3-apt", "python3-venv"]
        changed = record_before(project, packages, brought(project), write=write)
        return {"changed": changed, "did": ["record the machine before Hearth"] if changed else []}


def brought(project: Path) -> list[str]:
    """Return what was installed for Hearth before its first run, here or for the transfer."""
    path = project / BROUGHT
    names = path.read_text().split() if path.exists() else []
    # The removal of the others runs on Python itself.
    return sorted({*names} - {"python3"})
