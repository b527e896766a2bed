"""Return secrets of the house's vault to a task, which must have `no_log`."""

from __future__ import annotations

DOCUMENTATION = """
name: house_secret
short_description: Read secrets of the house
description: Reads the vault made on the first run. One lookup decrypts once, however many names.
author: Hearth
options:
  _terms:
    description: Names of secrets.
    required: true
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from hearth.machine.secrets import SecretsError
from hearth.project import current


class LookupModule(LookupBase):
    """One value per name."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[str]:
        """Return the secrets in the order of their names."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            # One decryption takes 0.2 s, so decrypt once for all names.
            values = current().vault.values()
        except SecretsError as error:
            raise AnsibleError(str(error)) from error
        missing = [name for name in terms if name not in values]
        if missing and (variables or {}).get("ansible_check_mode"):
            # A preview generates no secrets.
            values = dict.fromkeys(missing, "not made yet") | values
        elif missing:
            raise AnsibleError(f"secret {missing[0]} is not set: `hearth secret set {missing[0]}`")
        return [values[name] for name in terms]
