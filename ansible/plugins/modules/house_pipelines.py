#!/usr/bin/python
"""Install the inventory's pipelines on the machine, whole or not at all."""

from __future__ import annotations

DOCUMENTATION = """
module: house_pipelines
short_description: Install the files of inventory/pipelines/ and inventory/local/pipelines/
description: Builds a fresh folder under /var/lib/hearth/programs/NAME and switches one link last,
  as house_program does; instances see it read-only.
author: Hearth
options:
  name: {description: Name of the folder among the programs., type: str, required: true}
  valves: {description: "Settings of pipelines: name of a pipeline to its valves.", type: dict}
  without: {description: Names of pipelines that are left out., type: list, elements: str}
  owner: {description: The service that uses it; it is removed with the last one., type: str}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.catalogue.pipelines import files
from hearth.paths import PROGRAMS
from hearth.project import current
from hearth.remove.service import is_wanted, want
from hearth.sources import SourceError
from hearth.sources.installers import install_pipelines

SPEC: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "valves": {"type": "dict", "default": {}},
        "without": {"type": "list", "elements": "str", "default": []},
        "owner": {"type": "str", "required": True},
    }
}
TROUBLES = (SourceError,)


def work(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Install them, and return what was (or would be) done and the names of the pipelines."""
    name, without = params["name"], params["without"]
    noted = is_wanted(name, params["owner"])
    if write and not noted:
        want(name, params["owner"])
    found = files(current().inventory)
    installed = install_pipelines(found, params["valves"], without, PROGRAMS, name, write=write)
    changed = installed.changed or not noted
    names = sorted(found.keys() - set(without))
    return {"changed": changed, "did": installed.did, "pipelines": names}


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
