#!/usr/bin/python3
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
  overrides: {description: "Values of the machine's record that are not `auto`.", type: dict}
"""

from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule
from hearth.house.facts import FactsError, address_of, listeners, read_facts
from hearth.house.preflight import choose_accelerator, problems


def main() -> None:
    """Answer with `machine` (facts) and `accelerators` (service to accelerator)."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "dict", "required": True},
            "overrides": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    services, wanted = module.params["services"], module.params["overrides"]
    try:
        facts = read_facts()
        if wanted.get("lan_interface"):
            address = wanted.get("lan_address") or address_of(wanted["lan_interface"])
            facts = replace(facts, lan_interface=wanted["lan_interface"], lan_address=address)
        if wanted.get("upstream_dns"):
            facts = replace(facts, upstream_dns=tuple(wanted["upstream_dns"]))
    except FactsError as error:
        module.fail_json(msg=str(error))
    found = problems(services, facts, listeners())
    if found:
        module.fail_json(msg="\n".join(found))
    chosen = {name: choose_accelerator(item["gpu"], facts) for name, item in services.items()}
    module.exit_json(changed=False, machine=facts.as_vars(), accelerators=chosen)


if __name__ == "__main__":
    main()
