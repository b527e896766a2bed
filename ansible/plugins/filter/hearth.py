"""Structured data of the house as filters: units, the gateway's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from hearth.gateway_config import litellm_config
from hearth.units import UnitError
from hearth.units import systemd_unit as write_unit


def systemd_unit(data: Mapping[str, Any], name: str) -> str:
    """Write a unit from start data; a wrong field is named in one line."""
    try:
        return write_unit(name, data)
    except UnitError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {"systemd_unit": systemd_unit, "litellm_config": litellm_config}
