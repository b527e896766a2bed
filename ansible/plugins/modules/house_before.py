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
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.project import current
from hearth.remove.before import BROUGHT, STATE, UNFINISHED, record_before

SPEC: dict[str, Any] = {
    "argument_spec": {"packages": {"type": "list", "elements": "str", "required": True}}
}
TROUBLES: tuple[type[Exception], ...] = ()


def brought(project: Path) -> list[str]:
    """Return what was installed for Hearth before its first run, here or for the transfer."""
    path = project / BROUGHT
    names = path.read_text().split() if path.exists() else []
    # The removal of the others runs on Python itself.
    return sorted({*names} - {"python3"})


def work(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Record it, unless that was done before."""
    project = current().root
    # apt's module brings its own library where it is missing.
    packages = [*params["packages"], "python3-apt", "python3-venv"]
    # A purge that was not finished has left its list, which a run discards.
    unfinished = (STATE / UNFINISHED).exists()
    changed = record_before(project, packages, brought(project), write=write) or unfinished
    return {"changed": changed, "did": ["record the machine before Hearth"] if changed else []}


def main() -> None:
    """Record the machine, and return what was done."""
    module = AnsibleModule(**SPEC, supports_check_mode=True)
    try:
        result = work(module.params, write=not module.check_mode)
    except TROUBLES as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
