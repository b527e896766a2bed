"""Install the files of inventory/pipelines/ and inventory/local/pipelines/, whole or not at all.

Arguments: `name` (of the folder among the programs), `valves` (name of a pipeline to its settings),
`without` (names of pipelines that are left out), and `owner`, `visible`, `programs`, `describe` and
`install` as in house_program. A
fresh folder is built under /var/lib/hearth/programs/NAME and one link is switched last, as there;
instances see it read-only.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

from hearth.catalogue.pipelines import files
from hearth.machine.action import HouseAction
from hearth.machine.container_images import describe
from hearth.paths import PROGRAMS
from hearth.project import current
from hearth.remove.service import claim
from hearth.sources import SourceError
from hearth.sources.installers import install_pipelines
from hearth.sources.programs import check_visible


class ActionModule(HouseAction):
    """Install the pipelines if they differ from the installed ones."""

    arguments: ClassVar = {
        "name": {"type": "str", "required": True},
        "valves": {"type": "dict", "default": {}},
        "without": {"type": "list", "elements": "str", "default": []},
        "owner": {"type": "str", "required": True},
        "visible": {"type": "list", "elements": "str", "required": True},
        "programs": {"type": "path"},
        "describe": {"type": "path"},
        "install": {"type": "bool", "default": True},
    }
    errors = (SourceError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Install them, and return what was (or would be) done and the names of the pipelines."""
        name, without = params["name"], params["without"]
        check_visible(name, params["owner"], params["visible"])
        found = files(current().inventory)
        if params["describe"]:
            contents = {one: path.read_text(encoding="utf-8") for one, path in found.items()}
            given = json.dumps([contents, params["valves"], without], sort_keys=True)
            digest = hashlib.sha256(given.encode()).hexdigest()
            describe(Path(params["describe"]), name, "files", digest)
        if not params["install"]:
            return {"changed": False}
        root = Path(params["programs"] or PROGRAMS)
        claimed = root == PROGRAMS and claim(name, params["owner"], write=write)
        installed = install_pipelines(found, params["valves"], without, root, name, write=write)
        changed = installed.changed or claimed
        names = sorted(found.keys() - set(without))
        return {"changed": changed, "did": installed.did, "pipelines": names}
