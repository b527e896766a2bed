#!/usr/bin/python
"""Install the inventory's pipelines on the machine, whole or not at all."""

from __future__ import annotations

DOCUMENTATION = """
module: house_pipelines
short_description: Install what lies in inventory/pipelines/ and inventory/local/pipelines/
description: Builds a fresh folder under /var/lib/hearth/programs/NAME and switches one link last,
  as house_program does; instances see it read-only.
author: Hearth
options:
  name: {description: Name of the folder among the programs., type: str, required: true}
  valves: {description: "What pipelines are told: name of a pipeline to its valves.", type: dict}
  without: {description: Names of pipelines that are left out., type: list, elements: str}
  owner: {description: The service that it is for; it goes with the last one., type: str}
"""


from ansible.module_utils.basic import AnsibleModule

from hearth.catalogue.pipelines import files
from hearth.paths import PROGRAMS
from hearth.project import current
from hearth.remove.service import want
from hearth.sources import SourceError
from hearth.sources.installers import install_pipelines


def main() -> None:
    """Answer with what was done and the names of the pipelines."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "valves": {"type": "dict", "default": {}},
            "without": {"type": "list", "elements": "str", "default": []},
            "owner": {"type": "str"},
        },
        supports_check_mode=True,
    )
    if module.params["owner"] and not module.check_mode:
        want(module.params["name"], module.params["owner"])
    found, without = files(current().inventory), module.params["without"]
    try:
        installed = install_pipelines(
            found,
            module.params["valves"],
            without,
            PROGRAMS,
            module.params["name"],
            write=not module.check_mode,
        )
    except SourceError as error:
        module.fail_json(msg=str(error))
    names = sorted(found.keys() - set(without))
    module.exit_json(changed=installed.changed, did=installed.did, pipelines=names)


if __name__ == "__main__":
    main()
