"""Structured data of the house as filters, such as the gateway's configuration."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from hearth.backup import timer
from hearth.catalogue import own_agents as own
from hearth.catalogue.house import House, Service, from_vars
from hearth.machine.images import IMAGE_KEY, recipe_of
from hearth.machine.instances import describe
from hearth.machine.secrets import SecretsError
from hearth.plan.runtime import server_settings
from hearth.project import current
from hearth.remove.service import forgotten_secrets
from hearth.render import agents, chat_ui, files, gateway, metrics, speech
from hearth.render.units import UnitError
from hearth.sandbox import units as sandbox_units


def _of_house(project: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the typed house to a projection, made from Ansible's plain data."""

    @wraps(project)
    def call(house: Mapping[str, Any], *arguments: Any) -> Any:
        return project(from_vars(House, house), *arguments)

    return call


def chat_settings(
    house: House, service: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return Open WebUI's settings; one that is not valid is an error of one line."""
    try:
        return chat_ui.chat_settings(house, from_vars(Service, service), options)
    except chat_ui.ChatConfigError as error:
        raise AnsibleFilterError(str(error)) from error


def alert_rules(house: House) -> dict[str, Any]:
    """Return the rules for alerts, with the texts of the findings."""
    # Here, because few runs render rules, and the import takes a while.
    from hearth.doctor import kinds

    return metrics.alert_rules(
        house,
        {
            kind.name: {
                "severity": kind.severity,
                "title": kind.title,
                "todo": kind.todo,
                "page": kind.page,
            }
            for kind in kinds.ALL.values()
        },
    )


def prometheus_config(house: House, service: Mapping[str, Any], rules: str) -> dict[str, Any]:
    """Return the scraper's configuration."""
    return metrics.prometheus_config(house, from_vars(Service, service), rules)


def alertmanager_config(
    house: House, service: Mapping[str, Any], email: Mapping[str, Any], secrets: str
) -> dict[str, Any]:
    """Return the configuration of the service that sends alerts; an error is one line."""
    try:
        return metrics.alertmanager_config(house, from_vars(Service, service), email, secrets)
    except metrics.MetricsError as error:
        raise AnsibleFilterError(str(error)) from error


def agents_config(
    house: House, service: Mapping[str, Any], digests: Mapping[str, str], measured: str = ""
) -> dict[str, Any]:
    """Return the configuration of the agents' server."""
    return agents.agents_config(house, from_vars(Service, service), digests, measured)


def voice_config(
    house: House, service: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the configuration of the voice server; an error is one line."""
    try:
        return speech.voice_config(house, from_vars(Service, service), options)
    except UnitError as error:
        raise AnsibleFilterError(str(error)) from error


def own_agents(root: str) -> dict[str, dict[str, Any]]:
    """Return people's own agents as files of a program: the name of each, and its source."""
    return {
        path.name: {
            "name": path.name,
            "version": "own",
            "url": str(path),
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in own.files(Path(root, "inventory")).values()
    }


def project_files(files: Mapping[str, str], root: str) -> dict[str, dict[str, Any]]:
    """Return files of the project as files of a program: the path of each there, and its source."""
    return {
        name: {
            "name": Path(path).name,
            "version": "own",
            "url": str(Path(root, path)),
            "sha256": sha256(Path(root, path).read_bytes()).hexdigest(),
        }
        for name, path in files.items()
    }


def key_digests(secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each consumer's key, by the consumer's name; these betray nothing."""
    try:
        values = current().vault.values()
    except SecretsError as error:
        raise AnsibleFilterError(str(error)) from error
    # A preview of the first run has none yet.
    return {
        name: sha256(values[secret].encode()).hexdigest()
        for name, secret in secrets.items()
        if secret in values
    }


def trust_config(
    house: House, machine: Mapping[str, Any], service: str, root: str
) -> dict[str, Any]:
    """Return the trust page's data on a machine with these facts."""
    interface, address = machine["lan_interface"], machine["lan_address"]
    return files.trust_config(house, interface, address, service, root)


def health_config(
    house: House, part: str, accelerators: Mapping[str, str], canary: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the house's page's data, with the text of every kind of finding."""
    # Only here: its imports would make every start of Ansible slower.
    from hearth.doctor.kinds import ALL

    kinds = {name: asdict(kind) for name, kind in ALL.items()}
    return files.health_config(house, part, accelerators, canary) | {"findings": kinds}


def _of_service(project: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the typed service to a projection; an error is one line."""

    @wraps(project)
    def call(service: Mapping[str, Any], *arguments: Any) -> Any:
        try:
            return project(from_vars(Service, service), *arguments)
        except UnitError as error:
            raise AnsibleFilterError(str(error)) from error

    return call


def sources_of(files: Mapping[str, str], house: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sources of files by their names in sources.lock.yml."""
    return {name: house["sources"][source] for name, source in files.items()}


def own_credentials(service: Mapping[str, Any]) -> dict[str, str]:
    """Return a service's own secrets as credentials of the same names."""
    return {name: name for name in service["secrets"]}


def addresses_of(hosts: Iterable[str]) -> list[str]:
    """Return the addresses of hosts by name or address; of a name that nobody knows none."""
    found: dict[str, None] = {}
    for host in hosts:
        # An unknown server is down, and that must not keep the house from converging.
        with contextlib.suppress(OSError):
            known = {str(one[4][0]) for one in socket.getaddrinfo(host, None)}
            found |= dict.fromkeys(sorted(known))
    return [*found]


def health_at(service: Mapping[str, Any], address: str = "") -> dict[str, Any]:
    """Return how to check a service's health, at its own address or another of its instance."""
    return files.health_at(from_vars(Service, service), address)


def incus_instances(
    house: House, machine: Mapping[str, Any], accelerators: Mapping[str, str]
) -> dict[str, Any]:
    """Return what Incus needs for each instance: config, devices, volumes."""
    nodes = machine["graphics"]["render_nodes"]
    resolver = house.machine.resolver_address
    made = (
        describe(service, recipe_of(service, resolver), nodes, accelerators[name])
        for name, service in house.services.items()
        if service.runtime == "incus"
    )
    return {
        item.name: {
            "config": {key: value for key, value in item.config.items() if key != IMAGE_KEY},
            "devices": {key: dict(value) for key, value in item.devices.items()},
            "volumes": list(item.volumes),
        }
        for item in made
    }


def backup_files(record: Mapping[str, Any], root: str) -> list[dict[str, str]]:
    """Return the units of the nightly backup, as files to write."""
    return _unit_files(timer.units(root, record["to"], record["at"]))


def sandbox_files(root: str) -> list[dict[str, str]]:
    """Return the units that delete sandboxes in time, as files to write."""
    return _unit_files(sandbox_units.unit_files(root))


def _unit_files(written: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"path": f"/etc/systemd/system/{name}", "content": text} for name, text in written.items()
    ]


def code_digest(root: str) -> str:
    """Return a digest of the code that a program started from the project runs."""
    digest = sha256()
    for path in sorted(
        [*Path(root, "hearth").rglob("*.py"), *Path(root, "requirements").glob("*")]
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class FilterModule:
    """The entry point for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return each filter by its name."""
        of_house = (
            agents_config,
            alert_rules,
            alertmanager_config,
            chat_settings,
            forgotten_secrets,
            incus_instances,
            health_config,
            prometheus_config,
            trust_config,
            voice_config,
            agents.broker_config,
            agents.search_credentials,
            files.consumer_secrets,
            files.context_tokens,
            files.egress_sets,
            files.forwarded_ports,
            files.login_config,
            files.not_public,
            files.puller_models,
            gateway.gateway_files,
            gateway.litellm_config,
        )
        return {
            "addresses_of": addresses_of,
            "backup_files": backup_files,
            "sandbox_files": sandbox_files,
            "code_digest": code_digest,
            "health_at": health_at,
            "installed": speech.current,
            "key_digests": key_digests,
            "kokoro": _of_service(speech.kokoro),
            "model_server": server_settings,
            "own_agents": own_agents,
            "own_credentials": own_credentials,
            "project_files": project_files,
            "sources_of": sources_of,
            "style_hash": files.style_hash,
            "whisper": _of_service(speech.whisper),
            **{project.__name__: _of_house(project) for project in of_house},
        }
