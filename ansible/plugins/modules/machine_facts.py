#!/usr/bin/python
"""Read the machine and refuse one that cannot become this house."""

from __future__ import annotations

DOCUMENTATION = """
module: machine_facts
short_description: Facts that Hearth decides by, and every obstacle at once
description: Returns the machine's wire, memory and graphics, and fails with one line for each
  obstacle before anything on the machine is touched.
author: Hearth
options:
  services: {description: The services of this machine as derived from the catalogue., type: dict}
  record: {description: "The machine's record; what is `auto` there is read.", type: dict}
"""

from ansible.module_utils.basic import AnsibleModule

from hearth.catalogue import derive, memory_shortage
from hearth.house.facts import FactsError, listeners, read_facts, with_record
from hearth.house.preflight import choose_accelerator, notes, problems
from hearth.project import current


def main() -> None:
    """Answer with `machine` (facts) and `accelerators` (service to accelerator)."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "dict", "required": True},
            "record": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    services = module.params["services"]
    try:
        facts = with_record(read_facts(), module.params["record"])
    except FactsError as error:
        module.fail_json(msg=str(error))
    found = problems(services, facts, listeners())
    # Without the vault: it is Ansible's own, and a module carries another, smaller Ansible.
    known = derive(current().catalogue()).services
    shortage = memory_shortage((known[name] for name in services), facts.memory_bytes)
    found += [shortage] if shortage else []
    for note in notes(services, facts):
        module.warn(note)
    if found:
        module.fail_json(msg="\n".join(found))
    chosen = {name: choose_accelerator(item["gpu"], facts) for name, item in services.items()}
    module.exit_json(changed=False, machine=facts.as_vars(), accelerators=chosen)


if __name__ == "__main__":
    main()
