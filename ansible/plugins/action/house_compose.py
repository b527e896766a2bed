"""Write the folder `compose/` from the images that images.yml has described.

Arguments: `described` (the folder of descriptions), `house` (the house of containers) and `folder`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from hearth.catalogue.house import House, from_vars
from hearth.machine.action import HouseAction
from hearth.machine.container_images import read_specs
from hearth.render.compose import ComposeError, compose_files
from hearth.render.units import UnitError


class ActionModule(HouseAction):
    """Write each file that differs, and remove those that are no longer wanted."""

    arguments: ClassVar = {
        "described": {"type": "path", "required": True},
        "house": {"type": "dict", "required": True},
        "folder": {"type": "path", "required": True},
    }
    errors = (ComposeError, UnitError)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Return what was (or would be) written."""
        folder, house = Path(params["folder"]), from_vars(House, params["house"])
        wanted = compose_files(house, read_specs(Path(params["described"]), house))
        did = []
        for name, text in wanted.items():
            path = folder / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                did.append(f"write {path}")
                if write:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
        for path in sorted(folder.glob("config/*/*")):
            if str(path.relative_to(folder)) not in wanted:
                did.append(f"remove {path}")
                if write:
                    path.unlink()
        return {"changed": bool(did), "did": did}
