#!/usr/bin/python
"""Record the machine as it was before Hearth, once."""

from __future__ import annotations

DOCUMENTATION = """
module: house_before
short_description: Record the bare machine, for the removal of the house
description: Writes packages, users and kernel settings of the machine before the first package of
  Hearth's is installed. The record is never overwritten; `hearth remove --all` reads it.
author: Hearth
options:
  packages: {description: The packages to install next., type: list, elements: str, required: true}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from hearth.project import current
from hearth.remove.before import BROUGHT, record_before


def brought(project: Path) -> list[str]:
    """Return what was installed for Hearth before its first run, here or for the transfer."""
    path = project / BROUGHT
    names = path.read_text().split() if path.exists() else []
    # The removal of the others runs on Python itself.
    return sorted({*names} - {"python3"})


def main() -> None:
    """Write the record; return whether anything changed."""
    module = AnsibleModule(
        argument_spec={"packages": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    project = current().root
    # Ansible's apt module installs its own library where it is missing.
    packages = [*module.params["packages"], "python3-apt", "python3-venv"]
    changed = record_before(project, packages, brought(project), write=not module.check_mode)
    module.exit_json(changed=changed, did=["record the machine before Hearth"] if changed else [])


if __name__ == "__main__":
    main()
