"""Make the missing secrets of the house, and its certificate authority.

This is an action because the vault is on the controller, in Ansible's own format.
Arguments: `secrets` (name to random or given), `owners` (the records of services and parts with
the secrets that they require), `domain`, and `forget` (names that are no longer used). No value is
returned; tasks read values with the lookup `house_secret`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from hearth.machine.action import HouseAction
from hearth.machine.pki import PkiError, ensure_authority
from hearth.machine.secrets import SecretsError
from hearth.project import current


class ActionModule(HouseAction):
    """Fill the vault, and return the names of the secrets made."""

    arguments: ClassVar = {
        "secrets": {"type": "dict", "required": True, "no_log": False},
        "owners": {"type": "dict", "required": True},
        "domain": {"type": "str", "required": True},
        "forget": {"type": "list", "elements": "str", "default": [], "no_log": False},
    }
    errors = (SecretsError, PkiError)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Make the missing secrets; without `write`, only return their names."""
        secrets, vault = params["secrets"], current().vault
        needed = {
            secret: name
            for name, record in params["owners"].items()
            for secret, kind in record["secrets"].items()
            if kind == "given"
        }
        gone = sorted(vault.names() & {*params["forget"]}) if params["forget"] else []
        made = vault.ensure(secrets, needed, write=write)
        if write:
            authority, did = ensure_authority(vault.values(), params["domain"], datetime.now(UTC))
            if did != "kept":
                vault.update(authority.as_secrets())
                made.append(f"certificate authority ({did})")
            for name in gone:
                vault.remove(name)
        return {"changed": bool(made or gone), "made": made, "forgotten": gone}
