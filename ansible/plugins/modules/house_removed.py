#!/usr/bin/python
"""Remove the leftovers of services with `present: false`."""

from __future__ import annotations

DOCUMENTATION = """
module: house_removed
short_description: Remove what services with `present false` have left on the machine
description: Instances, and programs and downloads that nothing else uses; volumes with data only of
  services that are named for it. A repeated run continues where the last one ended.
author: Hearth
options:
  house: {description: The house as derived from the catalogue., type: dict, required: true}
  data: {description: Names of removed services whose data are deleted., type: list, elements: str}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue.house import House, from_vars
from hearth.machine.engine import SOCKET
from hearth.machine.instances import InstanceError
from hearth.remove.service import traces

SPEC: dict[str, Any] = {
    "argument_spec": {
        "house": {"type": "dict", "required": True},
        "data": {"type": "list", "elements": "str", "default": []},
    }
}
TROUBLES = (InstanceError, OSError, LXDAPIException, ClientConnectionFailed)


def work(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Search and remove; return what was (or would be) removed."""
    client = Client(endpoint=SOCKET) if Path(SOCKET).exists() else None
    did = []
    for trace in traces(client, from_vars(House, params["house"]), params["data"]):
        did.append(f"remove {trace.what}")
        if write:
            trace.remove()
    return {"changed": bool(did), "did": did}


def main() -> None:
    """Run the module, and return what was done."""
    module = AnsibleModule(**SPEC, supports_check_mode=True)
    try:
        result = work(module.params, write=not module.check_mode)
    except TROUBLES as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
