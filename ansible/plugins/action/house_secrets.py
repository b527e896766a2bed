"""Make the missing secrets of the house, and its certificate authority.

This is an action because the vault is on the controller, in Ansible's own format.
Arguments: `secrets` (name to random or given), `owners` (the records of services and parts with
the secrets that they require), `domain`, and `forget` (names that are no longer used). No value is
returned; tasks read values with the lookup `house_secret`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from hearth.machine.pki import PkiError, ensure_authority
from hearth.machine.secrets import SecretsError
from hearth.project import current


class ActionModule(ActionBase):
    """Fill the vault, and return the names of the secrets made."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Make the missing secrets; in check mode, only return their names."""
        result = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "secrets": {"type": "dict", "required": True, "no_log": False},
                "owners": {"type": "dict", "required": True},
                "domain": {"type": "str", "required": True},
                "forget": {"type": "list", "elements": "str", "default": [], "no_log": False},
            }
        )
        secrets, vault = arguments["secrets"], current().vault
        needed = {
            secret: name
            for name, record in arguments["owners"].items()
            for secret, kind in record["secrets"].items()
            if kind == "given"
        }
        try:
            gone = sorted(vault.names() & {*arguments["forget"]}) if arguments["forget"] else []
            if self._task.check_mode:
                made = vault.preview(secrets, needed)
            else:
                made = vault.ensure(secrets, needed)
                now = datetime.now(UTC)
                authority, did = ensure_authority(vault.values(), arguments["domain"], now)
                if did != "kept":
                    vault.update(authority.as_secrets())
                    made.append(f"certificate authority ({did})")
                for name in gone:
                    vault.remove(name)
        except (SecretsError, PkiError) as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": bool(made or gone), "made": made, "forgotten": gone}
