"""Write a house of containers as files for Docker Compose and podman-compose.

Both read `compose.yml`; the other files of the folder are laid over it. `decisions/056` says which
of Compose's features are left out because only one of the two has them.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import yaml

from hearth.catalogue.house import House, Part, Service
from hearth.catalogue.naming import PERCENT, size_bytes
from hearth.render.containers import (
    CREDENTIALS,
    INIT,
    UID,
    ImageSpec,
    Start,
    caller,
    health_command,
)

_DIGITS = 12
_HTTPS_PORT = 443
_PLAIN_PORT = 80
_DNS_PORT = 53
_PKI = "/etc/hearth/pki"
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_HEAD = """\
# Written by `ansible/playbooks/render.yml` from inventory/, for what runs as containers.
# docs/containers.md explains how to start it.
"""
# Docker asks quickly while a container starts; Podman has no such setting, so both ask often.
_EVERY_S = 5
# A program that measures the machine as it starts has it for itself in an instance. Here all start
# at once, and what is late is only reported later.
_SHARED = 3
# For Docker, and for Podman.
_CUDA: Mapping[str, Mapping[str, Any]] = {
    "cuda": {
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [
                        {
                            "driver": "cdi",
                            "device_ids": ["nvidia.com/gpu=all"],
                            "capabilities": ["gpu"],
                        }
                    ]
                }
            }
        }
    },
    "cuda-podman": {"devices": ["nvidia.com/gpu=all"]},
}
_VULKAN: Mapping[str, Any] = {
    "devices": ["${HEARTH_RENDER_NODE:-/dev/dri/renderD128}"],
    # The group of that file on the machine.
    "group_add": ["${HEARTH_RENDER_GROUP:-992}"],
}
_EXAMPLE = """\
# Settings of compose.yml. Copy this file to `.env`; without one, the values shown here hold.

# The address of this machine on your network: its pages answer there, and the house's names resolve
# to it if you start the resolver (`--profile dns`). Empty: every address, and no resolver.
HEARTH_ADDRESS=

# The ports of the pages.
HEARTH_HTTPS_PORT=443
HEARTH_HTTP_PORT=80

# The certificates that this machine trusts: containers with a way out trust the same.
HEARTH_CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

# For vulkan.yml: the card's file, and the number of its group (`stat -c %g /dev/dri/renderD128`).
HEARTH_RENDER_NODE=/dev/dri/renderD128
HEARTH_RENDER_GROUP=992
"""


class ComposeError(Exception):
    """One line for a person: what cannot be written as containers, and what to change."""


@dataclass(frozen=True, slots=True)
class _Net:
    """The networks of the house: which containers are in each, and under which other name."""

    house: House
    members: dict[str, dict[str, tuple[str, ...]]]
    outward: set[str]

    def join(self, net: str, container: str, *aliases: str) -> None:
        """Put a container into a network."""
        self.members.setdefault(net, {})[container] = aliases

    def of(self, container: str) -> dict[str, Any]:
        """Return the networks of a container as Compose writes them."""
        found: dict[str, Any] = {}
        for net, members in self.members.items():
            if container in members:
                aliases = members[container]
                found[net] = {"aliases": list(aliases)} if aliases else None
        return found

    def all(self) -> dict[str, Any]:
        """Return every network: without a way out, except those that need one."""
        return {net: None if net in self.outward else {"internal": True} for net in self.members}


def compose_files(house: House, specs: Sequence[ImageSpec]) -> dict[str, str]:
    """Return the files of the folder `compose/` by their names.

    Args:
        house: The house of containers (`contained`).
        specs: Its images, as `read_specs` returns them.
    """
    plain = {spec.owner: spec for spec in specs if spec.accelerator == "none"}
    networks = _networks(house, specs)
    services: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    volumes: dict[str, None] = {"secrets": None, "pki": None}
    files: dict[str, str] = {}
    cards: dict[str, dict[str, Any]] = {name: {} for name in ("cuda", "cuda-podman", "vulkan")}
    for spec in plain.values():
        for start in spec.starts:
            services[start.container] = _container(house, networks, spec, start)
            _note(house, spec, start, limits, volumes, files)
    for spec in specs:
        for name in ("cuda", "cuda-podman") if spec.accelerator == "cuda" else ("vulkan",):
            if spec.accelerator == "none":
                continue
            if spec.owner not in plain and name == "cuda":
                for start in spec.starts:
                    _note(house, spec, start, {}, volumes, files)
            cards[name] |= _on_card(house, networks, name, spec, plain.get(spec.owner))
    _give_to_init(services[INIT.name], specs)
    files["config/init/init.json"] = (
        json.dumps(_init(house, specs), indent=2, sort_keys=True) + "\n"
    )
    whole = {
        "name": "hearth",
        "services": services,
        "networks": networks.all(),
        "volumes": volumes,
    }
    files["compose.yml"] = _yaml(whole)
    files["limits.yml"] = _yaml({"services": limits})
    for name, laid in cards.items():
        files[f"{name}.yml"] = _yaml({"services": laid})
    files[".env.example"] = _EXAMPLE
    return files


def _front(house: House) -> Part:
    """Return the part that answers HTTPS; the others share its network namespace."""
    return next(part for part in house.parts.values() if part.port == _HTTPS_PORT)


def _networks(house: House, specs: Sequence[ImageSpec]) -> _Net:
    """Return one network for each connection that the house needs, and those with a way out."""
    nets = _Net(house, {}, set())
    front = _front(house).name
    for flow in house.flows:
        if flow.source in house.services and flow.target in house.services:
            source, target = house.services[flow.source], house.services[flow.target]
            net = f"{source.instance}-{target.instance}"
            nets.join(net, caller(source))
            nets.join(net, target.instance)
    for service in house.services.values():
        if service.sites and service.here:
            nets.join(f"{front}-{service.instance}", front)
            nets.join(f"{front}-{service.instance}", service.instance)
        if service.paths:
            starts = next(spec.starts for spec in specs if spec.owner == service.name)
            for start in starts:
                alias = (service.inside,) if start.container == caller(service) else ()
                nets.join(f"{service.instance}-inside", start.container, *alias)
        if service.anywhere or any(e.source == service.name for e in house.egress):
            nets.join(f"{service.instance}-egress", caller(service))
            nets.outward.add(f"{service.instance}-egress")
    nets.join("lan", front)
    nets.outward.add("lan")
    for part in house.parts.values():
        if part.resolves:
            nets.join("dns", part.name)
            nets.outward.add("dns")
    return nets


def _owner(house: House, spec: ImageSpec) -> Service | Part:
    return house.services.get(spec.owner) or house.parts[spec.owner]


def _container(house: House, nets: _Net, spec: ImageSpec, start: Start) -> dict[str, Any]:
    """Return one container as Compose writes it."""
    owner = _owner(house, spec)
    if owner.name == INIT.name:
        return _init_container(spec, start)
    made: dict[str, Any] = {
        "image": spec.name,
        "pull_policy": "never",
        "command": [_escaped(word) for word in start.command],
    }
    if start.environment:
        made["environment"] = {k: _escaped(v) for k, v in sorted(start.environment.items())}
    made |= _confined(start)
    made |= _network(house, nets, owner, start)
    if start.low_ports:
        # Without a capability, in a container that has its own ports.
        made["sysctls"] = {"net.ipv4.ip_unprivileged_port_start": 0}
    made["volumes"] = _mounts(owner, start, nets)
    made["healthcheck"] = _healthcheck(start)
    if wanted := _before(house, spec, start):
        made["depends_on"] = wanted
    if start.files:
        # A file that is mounted is read when its program starts: another one, another container.
        text = json.dumps(dict(start.files), sort_keys=True).encode()
        made["labels"] = {"io.hearth.files": sha256(text).hexdigest()[:_DIGITS]}
    made["restart"] = "unless-stopped"
    return {key: value for key, value in made.items() if value not in ([], {})}


def _healthcheck(start: Start) -> dict[str, Any]:
    if not start.health:
        # The image's own is for another program.
        return {"test": ["NONE"]}
    return {
        "test": ["CMD-SHELL", _escaped(health_command(start.health))],
        "interval": f"{_EVERY_S}s",
        "timeout": f"{start.health['within_s'] + 2:g}s",
        "retries": 3,
        "start_period": f"{start.health['ready_s'] * (_SHARED if start.measures else 1):g}s",
    }


def _confined(start: Start) -> dict[str, Any]:
    return {
        "user": f"{UID}:{UID}",
        # Python as process 1 would not end when it is asked to.
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": [f"{path}:mode={mode}" for path, mode in sorted(start.memory.items())],
        "stop_grace_period": f"{start.stop_s}s",
    }


def _network(house: House, nets: _Net, owner: Service | Part, start: Start) -> dict[str, Any]:
    front = _front(house).name
    if isinstance(owner, Part) and not owner.resolves and owner.name != front:
        return {"network_mode": f"service:{front}"}
    made: dict[str, Any] = {"networks": nets.of(start.container)}
    ports = []
    if owner.name == front:
        for inside, variable in ((_HTTPS_PORT, "HTTPS"), (_PLAIN_PORT, "HTTP")):
            ports.append(
                f"${{HEARTH_ADDRESS:-0.0.0.0}}:${{HEARTH_{variable}_PORT:-{inside}}}:{inside}"
            )
    elif isinstance(owner, Part):
        made["profiles"] = ["dns"]
        ports = [
            f"${{HEARTH_ADDRESS:-127.0.0.1}}:{_DNS_PORT}:{_DNS_PORT}/{kind}"
            for kind in ("udp", "tcp")
        ]
    return made | ({"ports": ports} if ports else {})


def _mounts(owner: Service | Part, start: Start, nets: _Net) -> list[str]:
    mounts = [f"{_volume(owner, path)}:{path}" for path in start.writable]
    if start.credentials:
        mounts.append(f"{start.name}-credentials:{CREDENTIALS}/{start.name}.service:ro")
    if start.pki:
        mounts.append(f"pki:{_PKI}:ro")
    mounts += [f"./{_file(start, path)}:{path}:ro" for path in start.files]
    if any(
        f"{net}" in nets.outward and net.endswith("-egress") for net in nets.of(start.container)
    ):
        mounts.append(f"${{HEARTH_CERTIFICATES:-{_CERTIFICATES}}}:{_CERTIFICATES}:ro")
    return mounts


def _volume(owner: Service | Part, path: str) -> str:
    for volume in getattr(owner, "volumes", ()):
        if volume.path == path:
            return str(volume.from_folder or volume.name)
    name = owner.instance if isinstance(owner, Service) else owner.name
    return name + path.replace("/", "-")


def _file(start: Start, path: str) -> str:
    return f"config/{start.container}/{path.rpartition('/')[2]}"


def _before(house: House, spec: ImageSpec, start: Start) -> dict[str, Any]:
    """Return what must be there before a container starts."""
    owner = _owner(house, spec)
    wanted: dict[str, Any] = {}
    if start.credentials or start.pki:
        wanted[INIT.name] = {"condition": "service_completed_successfully"}
    healthy = {"condition": "service_healthy"}
    if isinstance(owner, Part):
        front = _front(house).name
        if owner.name != front and not owner.resolves:
            wanted[front] = {"condition": "service_started"}
        return wanted
    if start.container == caller(owner):
        for name in owner.needs:
            wanted[house.services[name].instance] = healthy
    elif owner.paths:
        wanted[caller(owner)] = healthy
    return wanted


def _note(
    house: House,
    spec: ImageSpec,
    start: Start,
    limits: dict[str, Any],
    volumes: dict[str, None],
    files: dict[str, str],
) -> None:
    """Note what one container needs beside its entry: volumes, files and limits."""
    owner = _owner(house, spec)
    if owner.name == INIT.name:
        return
    for path in start.writable:
        if not (name := _volume(owner, path)).startswith("/"):
            volumes[name] = None
    if start.credentials:
        volumes[f"{start.name}-credentials"] = None
    for path, content in start.files.items():
        files[_file(start, path)] = content
    if found := _limits(owner, start):
        limits[start.container] = found


def _limits(owner: Service | Part, start: Start) -> dict[str, Any]:
    """Return the limits of a container; those of a record belong to its program."""
    found: dict[str, Any] = {}
    memory, tasks, cpus = start.limits.get("memory"), start.limits.get("tasks"), None
    if isinstance(owner, Service) and start.container == caller(owner):
        memory, tasks = owner.limits.memory or memory, owner.limits.tasks or tasks
        cpus = owner.limits.cpus
    if memory and not PERCENT.fullmatch(str(memory)):
        found["mem_limit"] = _bytes(str(memory))
    if tasks:
        found["pids_limit"] = int(tasks)
    if cpus:
        found["cpus"] = float(cpus)
    return found


def _bytes(size: str) -> int:
    # systemd's M is a MiB.
    return size_bytes(re.sub(r"([KMGT])$", r"\1iB", size))


def _on_card(
    house: House, nets: _Net, name: str, spec: ImageSpec, plain: ImageSpec | None
) -> dict[str, Any]:
    """Return what differs with a card, for each container of an image."""
    card = _CUDA.get(name, _VULKAN)
    found: dict[str, Any] = {}
    for start in spec.starts:
        whole = _container(house, nets, spec, start)
        same = plain and next(one for one in plain.starts if one.name == start.name)
        before = _container(house, nets, plain, same) if plain and same else {}
        laid = {key: value for key, value in whole.items() if before.get(key) != value}
        if start.devices:
            laid |= card
        if laid:
            found[start.container] = laid
    return found


def _init_container(spec: ImageSpec, start: Start) -> dict[str, Any]:
    return {
        "image": spec.name,
        "pull_policy": "never",
        "command": list(start.command),
        "environment": dict(sorted(start.environment.items())),
        # It gives files to the users of other containers, and can do nothing else.
        "user": "0:0",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["CHOWN", "DAC_OVERRIDE"],
        "security_opt": ["no-new-privileges:true"],
        "network_mode": "none",
        "volumes": ["secrets:/var/lib/hearth/secrets", "pki:/var/lib/hearth/pki"],
        "restart": "no",
    }


def _give_to_init(container: dict[str, Any], specs: Iterable[ImageSpec]) -> None:
    """Mount into the preparation what it reads, and the volumes that it fills."""
    names = sorted({s.name for spec in specs for s in spec.starts if s.credentials})
    container["volumes"] += [
        f"{name}-credentials:/var/lib/hearth/credentials/{name}" for name in names
    ]
    container["volumes"].append("./config/init/init.json:/etc/hearth/init.json:ro")


def _init(house: House, specs: Iterable[ImageSpec]) -> dict[str, Any]:
    """Return what the preparation makes: secrets, the authority, and each program's credentials."""
    starts = [start for spec in specs for start in spec.starts]
    return {
        "domain": house.machine.domain,
        "uid": UID,
        "secrets": sorted(name for name, kind in house.secrets.items() if kind == "random"),
        "credentials": {
            start.name: {"values": dict(start.credentials), "digests": list(start.digests)}
            for start in starts
            if start.credentials
        },
    }


def _escaped(text: str) -> str:
    """Return a text that Compose takes literally, with our own variables kept."""
    return re.sub(r"\$(?!\{HEARTH_)", "$$$$", text)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _yaml(content: Mapping[str, Any]) -> str:
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10000, allow_unicode=True)
    return _HEAD + text.replace(": null\n", ":\n")
