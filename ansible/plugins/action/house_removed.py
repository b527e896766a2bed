"""Remove what services with `present: false` have left on the machine.

Arguments: `house` (as derived from the catalogue) and `data` (names of removed services whose data
are deleted). Removed are instances, and programs and downloads that nothing else uses. A repeated
run continues where the last one ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue.house import House, from_vars
from hearth.machine.action import HouseAction
from hearth.machine.engine import SOCKET, EngineError
from hearth.machine.instances import InstanceError
from hearth.remove import RemoveError
from hearth.remove.service import traces


class ActionModule(HouseAction):
    """Search for leftovers of removed services, and remove them."""

    arguments: ClassVar = {
        "house": {"type": "dict", "required": True},
        "data": {"type": "list", "elements": "str", "default": []},
    }
    errors = (
        *(InstanceError, RemoveError, EngineError, OSError),
        *(LXDAPIException, ClientConnectionFailed),
    )

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Search and remove; return what was (or would be) removed."""
        client = Client(endpoint=SOCKET) if Path(SOCKET).exists() else None
        did = []
        for trace in traces(client, from_vars(House, params["house"]), params["data"]):
            did.append(f"remove {trace.what}")
            if write:
                trace.remove()
        return {"changed": bool(did), "did": did}
