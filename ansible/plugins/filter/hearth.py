"""Structured data of the house as filters: units, the gateway's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from hearth.gateway_config import gateway_files, litellm_config
from hearth.house.files import consumer_secrets, login_config, puller_models
from hearth.units import UnitError
from hearth.units import systemd_unit as write_unit


def systemd_unit(data: Mapping[str, Any], name: str) -> str:
    """Write a unit from start data; none without it, where Debian brings the unit."""
    if not data:
        return ""
    try:
        return write_unit(name, data)
    except UnitError as error:
        raise AnsibleFilterError(str(error)) from error


def health_at(service: Mapping[str, Any], address: str = "") -> dict[str, Any]:
    """How to ask a service for its health, at its own address or at another one of its instance."""
    health = service["health"]
    base = f"http://{address or service['address']}:{service['port']}"
    return {
        "url": base + health["path"],
        **{key: health[key] for key in ("contains", "within_s", "ready_s")},
    }


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {
            "consumer_secrets": consumer_secrets,
            "gateway_files": gateway_files,
            "health_at": health_at,
            "litellm_config": litellm_config,
            "login_config": login_config,
            "puller_models": puller_models,
            "systemd_unit": systemd_unit,
        }
