"""Configuration files of our own programs, as structures, out of the house."""

from collections.abc import Mapping
from typing import Any

House = Mapping[str, Any]


def login_config(house: House) -> dict[str, Any]:
    """What the login guards: consumers' services, and each site's owner and kind of proof."""
    return {
        "domain": house["machine"]["domain"],
        "consumers": {
            name: {"services": record["services"]} for name, record in house["consumers"].items()
        },
        "sites": {
            site["fqdn"]: {"service": site["service"], "auth": site["auth"]}
            for site in house["sites"]
        },
    }


def trust_config(
    house: House, machine: Mapping[str, Any], service: str, root: str
) -> dict[str, Any]:
    """What the page of trust is about: its name, where the machine's address stands, the root."""
    return {
        "site": next(site["fqdn"] for site in house["sites"] if site["service"] == service),
        "domain": house["machine"]["domain"],
        "interface": machine["lan_interface"],
        "root": root,
        # What a person opens afterwards; the others are for programs with a key.
        "pages": [site["fqdn"] for site in house["sites"] if site["auth"] in ("own", "house")],
    }


def puller_models(house: House, service: str) -> dict[str, Any]:
    """What one Ollama shall hold, and which models let the first alias answer soonest."""
    wanted = ("name", "id", "download_bytes", "memory_bytes", "digest")
    local = {
        name: model
        for name, model in house["models"].items()
        if model["service"] == service and model["pulled"]
    }
    # `fast` is what a new house is judged by; without it the smallest model of all comes first.
    first = house["aliases"].get("fast", {}).get("members", [])
    return {
        "models": [{key: model[key] for key in wanted} for model in local.values()],
        "first": [local[name]["id"] for name in first if name in local],
    }


def consumer_secrets(house: House, service: str | None = None) -> dict[str, str]:
    """Consumer to the name of its key; only of those who may call `service`, if one is given."""
    return {
        name: record["secret"]
        for name, record in house["consumers"].items()
        if service is None or service in record["services"]
    }
