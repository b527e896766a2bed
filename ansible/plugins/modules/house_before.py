#!/usr/bin/python
"""Write down what the machine was before Hearth, once."""

from __future__ import annotations

DOCUMENTATION = """
module: house_before
short_description: Remember the bare machine, for the day when the house goes
description: Writes packages, users and kernel settings of the machine before the first package of
  Hearth's is installed. What is written is never overwritten; `hearth remove --all` reads it.
author: Hearth
options:
  packages: {description: What apt is asked for next., type: list, elements: str, required: true}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from hearth.project import current
from hearth.remove.before import BROUGHT, remember


def brought(project: Path) -> list[str]:
    """Name what was installed for Hearth before its first run: here, or to bring it here."""
    path = project / BROUGHT
    names = path.read_text().split() if path.exists() else []
    # What takes the others away runs by Python itself.
    return sorted({*names} - {"python3"})


def main() -> None:
    """Answer whether anything had to be written."""
    module = AnsibleModule(
        argument_spec={"packages": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    project = current().root
    # apt's module brings its own library where it is not there yet.
    packages = [*module.params["packages"], "python3-apt", "python3-venv"]
    changed = remember(project, packages, brought(project), write=not module.check_mode)
    module.exit_json(changed=changed, did=["remember what was here before"] if changed else [])


if __name__ == "__main__":
    main()
