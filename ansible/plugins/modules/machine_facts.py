#!/usr/bin/python
"""Read the machine and refuse one that cannot become this house."""

from __future__ import annotations

DOCUMENTATION = """
module: machine_facts
short_description: Facts about the machine, and every preflight violation at once
description: Returns the machine's network, memory and graphics, and fails with one line for each
  violation before anything on the machine is changed.
author: Hearth
options:
  services: {description: The services of this machine as derived from the catalogue., type: dict}
  record: {description: "The machine's record; what is `auto` there is read.", type: dict}
"""

from ansible.module_utils.basic import AnsibleModule

from hearth.catalogue import House, derive, memory_shortage
from hearth.catalogue.house import Service, from_vars
from hearth.machine.environment import DnsQueries, read_environment
from hearth.machine.facts import Facts, FactsError, listeners, read_facts
from hearth.machine.preflight import (
    choose_accelerator,
    house_violations,
    house_warnings,
    machine_violations,
    machine_warnings,
    own_folders,
)
from hearth.project import current


def queries(house: House, facts: Facts) -> DnsQueries:
    """Return the queries for other resolvers; none once the house is built."""
    return DnsQueries(
        names=tuple(site.fqdn for site in house.sites),
        domain=house.machine.domain,
        own=facts.lan_address,
        servers=() if facts.built else facts.upstream_dns,
    )


def main() -> None:
    """Return `machine` (facts) and `accelerators` (service to accelerator)."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "dict", "required": True},
            "record": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params["services"]
    services = {name: from_vars(Service, service) for name, service in given.items()}
    try:
        facts = read_facts(module.params["record"])
    except FactsError as error:
        module.fail_json(msg=str(error))
    # Without the vault: a module runs with a reduced Ansible that has none.
    house = derive(current().catalogue())
    environment = read_environment(queries(house, facts), own_folders(house))
    locked_out = environment.nvidia_on_bus and environment.secure_boot
    open_ports = listeners()
    found = machine_violations(services, facts, open_ports, locked_out)
    found += house_violations(house, facts, environment, open_ports)
    shortage = memory_shortage(services.values(), facts.memory_bytes)
    found += [shortage] if shortage else []
    for line in machine_warnings(services, facts, locked_out):
        module.warn(line)
    for line in house_warnings(house, facts, environment):
        module.warn(line)
    if found:
        module.fail_json(msg="\n".join(found))
    chosen = {name: choose_accelerator(item.gpu, facts) for name, item in services.items()}
    module.exit_json(changed=False, machine=facts.as_vars(), accelerators=chosen)


if __name__ == "__main__":
    main()
