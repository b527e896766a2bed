"""Structured data of the house as filters: units, the gateway's configuration."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from ansible.errors import AnsibleFilterError

from hearth.backup.timer import units
from hearth.machine.facts import Facts
from hearth.machine.images import recipe_of
from hearth.machine.instances import IMAGE_KEY, describe
from hearth.remove.service import forgotten
from hearth.render.chat_ui import ChatConfigError
from hearth.render.chat_ui import chat_settings as open_webui_settings
from hearth.render.files import consumer_secrets, login_config, puller_models, trust_config
from hearth.render.gateway import gateway_files, litellm_config
from hearth.render.units import UnitError
from hearth.render.units import systemd_unit as write_unit


def systemd_unit(data: Mapping[str, Any], name: str) -> str:
    """Write a unit from start data; none without it, where Debian brings the unit."""
    if not data:
        return ""
    try:
        return write_unit(name, data)
    except UnitError as error:
        raise AnsibleFilterError(str(error)) from error


def chat_settings(
    house: Mapping[str, Any], service: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What Open WebUI is told; a setting that cannot be is one line."""
    try:
        return open_webui_settings(house, service, options)
    except ChatConfigError as error:
        raise AnsibleFilterError(str(error)) from error


def health_at(service: Mapping[str, Any], address: str = "") -> dict[str, Any]:
    """How to ask a service for its health, at its own address or at another one of its instance."""
    health = service["health"]
    base = f"http://{address or service['address']}:{service['port']}"
    return {
        "url": base + health["path"],
        **{key: health[key] for key in ("contains", "within_s", "ready_s")},
    }


def incus_instances(
    house: Mapping[str, Any], machine: Mapping[str, Any], accelerators: Mapping[str, str]
) -> dict[str, Any]:
    """What Incus is told of each instance: image, config, devices, volumes."""
    facts = Facts.from_vars(machine)
    resolver = house["machine"]["resolver_address"]
    made = (
        describe(service, recipe_of(service, resolver), facts, accelerators[name])
        for name, service in house["services"].items()
        if service["runtime"] == "incus"
    )
    return {
        item.name: {
            "config": {key: value for key, value in item.config.items() if key != IMAGE_KEY},
            "devices": {key: dict(value) for key, value in item.devices.items()},
            "volumes": list(item.volumes),
        }
        for item in made
    }


def backup_units(record: Mapping[str, Any], root: str) -> dict[str, str]:
    """What makes a backup every night: file names and texts of systemd's units."""
    return units(root, record["to"], record["at"])


def style_hash(style: str) -> str:
    """How a page's policy names the one style that it may have."""
    return f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}"


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {
            "backup_units": backup_units,
            "chat_settings": chat_settings,
            "consumer_secrets": consumer_secrets,
            "forgotten_secrets": forgotten,
            "gateway_files": gateway_files,
            "health_at": health_at,
            "incus_instances": incus_instances,
            "litellm_config": litellm_config,
            "login_config": login_config,
            "puller_models": puller_models,
            "style_hash": style_hash,
            "systemd_unit": systemd_unit,
            "trust_config": trust_config,
        }
