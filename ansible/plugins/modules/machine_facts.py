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

from hearth.catalogue import House, derive, memory_shortage
from hearth.machine.conflicts import obstacles, own_folders, remarks
from hearth.machine.environment import Questions, look
from hearth.machine.facts import Facts, FactsError, listeners, read_facts
from hearth.machine.preflight import choose_accelerator, notes, problems
from hearth.project import current


def questions(house: House, facts: Facts) -> Questions:
    """What other resolvers are asked; once the house is built, nothing any more."""
    return Questions(
        names=tuple(site.fqdn for site in house.sites),
        domain=house.machine.domain,
        own=facts.lan_address,
        servers=() if facts.built else facts.upstream_dns,
    )


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
        facts = read_facts(module.params["record"])
    except FactsError as error:
        module.fail_json(msg=str(error))
    # Without the vault: it is Ansible's own, and a module carries another, smaller Ansible.
    house = derive(current().catalogue())
    around = look(questions(house, facts), own_folders(house))
    locked_out = around.nvidia_on_bus and around.secure_boot
    open_ports = listeners()
    found = problems(services, facts, open_ports, locked_out)
    found += obstacles(house, facts, around, open_ports)
    shortage = memory_shortage((house.services[name] for name in services), facts.memory_bytes)
    found += [shortage] if shortage else []
    for note in (*notes(services, facts, locked_out), *remarks(house, facts, around)):
        module.warn(note)
    if found:
        module.fail_json(msg="\n".join(found))
    chosen = {name: choose_accelerator(item["gpu"], facts) for name, item in services.items()}
    module.exit_json(changed=False, machine=facts.as_vars(), accelerators=chosen)


if __name__ == "__main__":
    main()
