#!/usr/bin/python
"""Remove the leftovers of services with `present: false`."""

from __future__ import annotations

DOCUMENTATION = """
module: house_removed
short_description: Remove what services with `present false` still have on the machine
description: Instance, programs and downloads that nobody else uses; volumes with data only of
  services that are named for it. What is gone already is left alone.
author: Hearth
options:
  house: {description: The house as derived from the catalogue., type: dict, required: true}
  data: {description: Names of removed services whose data go., type: list, elements: str}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue.house import House
from hearth.machine.engine import SOCKET
from hearth.machine.instances import InstanceError
from hearth.remove.service import traces


def main() -> None:
    """Remove the leftovers; return what was (or would be) removed."""
    module = AnsibleModule(
        argument_spec={
            "house": {"type": "dict", "required": True},
            "data": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    did = []
    try:
        client = Client(endpoint=SOCKET) if Path(SOCKET).exists() else None
        for trace in traces(client, House.from_vars(module.params["house"]), module.params["data"]):
            did.append(f"remove {trace.what}")
            if not module.check_mode:
                trace.remove()
    except (InstanceError, OSError) as error:
        module.fail_json(msg=str(error))
    except (ClientConnectionFailed, LXDAPIException) as error:
        module.fail_json(msg=f"Incus: {error}")
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
