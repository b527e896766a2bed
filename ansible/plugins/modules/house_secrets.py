#!/usr/bin/python3
"""Make the secrets of the house that it does not have yet, and its certificate authority."""

from __future__ import annotations

DOCUMENTATION = """
module: house_secrets
short_description: Fill the house's vault
description: Makes every random secret and the certificate authority on the first run, and renews
  the intermediate in time. Gives no value back; tasks read them with the lookup `house_secret`.
author: Hearth
options:
  secrets: {description: "Every secret of the house: name to random or given.", type: dict}
  domain: {description: The domain that the authority is limited to., type: str}
"""

from datetime import UTC, datetime

from ansible.module_utils.basic import AnsibleModule
from hearth.pki import PkiError, ensure_authority
from hearth.project import current
from hearth.secrets import SecretsError


def main() -> None:
    """Answer with the names of what was made."""
    module = AnsibleModule(
        argument_spec={
            "secrets": {"type": "dict", "required": True, "no_log": False},
            "domain": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    vault = current().vault
    try:
        if module.check_mode:
            wanted = {key for key, kind in module.params["secrets"].items() if kind == "random"}
            missing = sorted(wanted - set(vault.names()))
            module.exit_json(changed=bool(missing), made=missing)
        made = vault.ensure(module.params["secrets"])
        made += ensure_authority(vault, module.params["domain"], datetime.now(UTC))
    except (SecretsError, PkiError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(made), made=made)


if __name__ == "__main__":
    main()
