"""Make the secrets of the house that it does not have yet, and its certificate authority.

An action and not a module: the vault lies on the controller and is Ansible's own format.
Arguments: `secrets` (name to random or given), `owners` (the records of services and parts, which
say what they cannot do without), `domain`, and `forget` (names that nobody uses any more). No value
is given back; tasks read values with the lookup `house_secret`.
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
    """Fill the vault; answer with the names of what was made."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Make what lacks, or in check mode say what would be made."""
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
                _, authority = ensure_authority(vault, arguments["domain"], datetime.now(UTC))
                made += [] if authority == "kept" else [f"certificate authority ({authority})"]
                for name in gone:
                    vault.remove(name)
        except (SecretsError, PkiError) as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": bool(made or gone), "made": made, "forgotten": gone}
