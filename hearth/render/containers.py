"""The house as plain containers: the same records and roles, with names instead of addresses.

A container listens at all of its addresses, and others reach it by its name; which networks it is
in decides who does. The parts share one network namespace, as they do on the machine.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from hearth.catalogue.house import House, Model, Part, Service, Site
from hearth.render.programs import Program, python_service
from hearth.render.units import HARDENING, UnitError

EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a container of its own networks
# One program runs in each container, and this is its user there, whatever its name.
UID = 900
# Where systemd puts credentials; programs find them by the variable, Caddy by the path.
CREDENTIALS = "/run/credentials"
# In every image.
PROBE = "/usr/local/bin/hearth-healthy"
# What every image has, besides what its record lists.
BASE_PACKAGES = ("ca-certificates", "python3")
# Increase this when an image is made otherwise than before.
RECIPE_VERSION = 2
_DIGITS = 12
# What a run of Ansible does on a machine before it starts anything.
INIT = Part(
    summary="Prepares secrets and certificates, and ends.",
    packages=("python3-cryptography", "python3-yaml"),
    name="init",
    role="init",
    unit="hearth-init.service",
    url=None,
    sites=(),
)


def contained(house: House) -> House:
    """Return the house of those services and parts that run as containers."""
    services = {n: _service(s) for n, s in house.services.items() if s.contained}
    parts = {n: p for n, p in house.parts.items() if p.contained}
    # The same addresses as before, for everything that names one.
    urls = {s.url: services[n].url for n, s in house.services.items() if n in services}

    def site(one: Site) -> Site:
        url = urls.get(one.upstream_url or "", one.upstream_url)
        routed = {path: at for path, at in one.routed.items() if at in urls.values()}
        return replace(one, upstream_url=url, upstream=_authority(url), routed=routed)

    def owned(owner: Service | Part) -> dict[str, Any]:
        needs = tuple(name for name in owner.needs if name in services)
        return {"needs": needs, "sites": tuple(site(one) for one in owner.sites)}

    kept = {
        n: replace(s, **owned(s), calls=tuple(c for c in s.calls if c in parts))
        for n, s in services.items()
    }
    made = {n: replace(p, **owned(p)) for n, p in parts.items()} | {INIT.name: INIT}
    there = {*kept, *made}
    consumers = {
        name: replace(one, services=tuple(s for s in one.services if s in there))
        for name, one in house.consumers.items()
        if not one.inside or name in there
    }
    owned_secrets = {name for owner in (*kept.values(), *made.values()) for name in owner.secrets}
    used = owned_secrets | {one.secret for one in consumers.values()}
    return replace(
        house,
        machine=replace(house.machine, resolver_address=EVERYWHERE),
        services=kept,
        parts=made,
        flows=tuple(f for f in house.flows if {f.source, f.target} <= there),
        forbidden=(),
        egress=tuple(e for e in house.egress if e.source in there),
        sites=tuple(site(one) for one in house.sites if one.service in there),
        models={n: _model(m, urls) for n, m in house.models.items()},
        consumers=consumers,
        secrets={name: kind for name, kind in house.secrets.items() if name in used},
    )


def reached_at(house: House, addresses: Mapping[str, str]) -> House:
    """Return a house of containers with addresses instead of names, as the machine reaches it.

    `addresses` are those of containers by name; a container that does not run keeps its name.
    """

    def reached(service: Service) -> Service:
        address = addresses.get(caller(service))
        if not address:
            return service
        return replace(service, address=address, url=f"http://{address}:{service.port}")

    services = {n: reached(s) for n, s in house.services.items()}
    urls = {s.url: services[n].url for n, s in house.services.items()}
    return replace(
        house,
        services=services,
        models={n: _model(m, urls) for n, m in house.models.items()},
    )


def _service(service: Service) -> Service:
    if not service.here:
        return service
    return replace(
        service,
        address=EVERYWHERE,
        url=f"http://{service.instance}:{service.port}",
        inside=f"{service.instance}-inside",
    )


def _model(model: Model, urls: Mapping[str, str]) -> Model:
    return replace(model, url=urls.get(model.url or "", model.url))


def _authority(url: str | None) -> str | None:
    return url.partition("//")[2] if url else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a container starts one program; `container` is its name, where others reach it.

    `writable` are its folders that outlive it, with `folders` in them, and `memory` those that do
    not, each with its mode. `credentials` and `measures` are those of `Program`, and `lost` has the
    rules of the unit that a container does not have, with their values.
    """

    name: str
    container: str
    user: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    health: Mapping[str, Any]
    writable: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    memory: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict)
    digests: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    low_ports: bool = False
    pki: bool = False
    measures: bool = False
    stop_s: int = 10
    limits: Mapping[str, Any] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """What one image holds: Debian packages, program folders with their digests, and its starts.

    `root` is where the programs are in it. `accelerator` is what its programs were installed for,
    and `starts` are for that; `default` is the one that the image itself starts. Images that hold
    the same have the same name, whatever the accelerator.
    """

    repository: str
    owner: str
    accelerator: str
    image: str
    packages: tuple[str, ...]
    root: str
    programs: Mapping[str, str]
    starts: tuple[Start, ...]
    default: Start
    ports: tuple[int, ...] = ()

    @property
    def users(self) -> tuple[str, ...]:
        """The names of the users that its programs run as."""
        return tuple(dict.fromkeys(start.user for start in self.starts))

    @property
    def writable(self) -> tuple[str, ...]:
        """The folders that its programs keep, and what their roles make in them."""
        found = (path for start in self.starts for path in (*start.writable, *start.folders))
        return tuple(dict.fromkeys(found))

    @property
    def recipe(self) -> str:
        """A digest of everything that decides what is in it, the same on every machine."""
        run = (self.default.command, dict(self.default.environment), dict(self.default.health))
        held = (self.image, self.packages, self.root, dict(self.programs))
        given = (RECIPE_VERSION, held, self.users, self.writable, self.ports, run)
        text = json.dumps(given, sort_keys=True).encode()
        return sha256(text).hexdigest()[:_DIGITS]

    @property
    def name(self) -> str:
        """Its name, with the digest of its recipe as the tag."""
        return f"{self.repository}:{self.recipe}"


def start_of(program: Program, owner: Service | Part, *, stored: Sequence[str]) -> Start:
    """Return how a container starts a program; `stored` are the folders that outlive it.

    Raises:
        UnitError: the program is Debian's own unit, which no container has.
    """
    if not program.run:
        raise UnitError(f"{program.name}: only a program with start data runs in a container")
    run = python_service(program.run) if "module" in program.run else dict(program.run)
    writable = [str(path) for path in run.get("writable", ())]
    folders = [str(folder["path"]) for folder in program.folders]
    kept = [path for path in stored if any(_within(one, path) for one in (*writable, *folders))]
    # What a role makes outlives a restart of an instance, too.
    kept += [path for path in folders if not any(_within(path, one) for one in kept)]
    kept = [path for path in kept if not any(_within(path, one) for one in kept if one != path)]
    memory = {"/tmp": "1777"}  # noqa: S108 - of the container
    memory |= {path: "1777" for path in writable if not any(_within(path, one) for one in kept)}
    if folder := run.get("runtime_folder"):
        memory[f"/run/{folder}"] = "1777"
    environment = {key: str(value) for key, value in run.get("environment", {}).items()}
    if program.credentials:
        environment["CREDENTIALS_DIRECTORY"] = f"{CREDENTIALS}/{program.name}.service"
    if folder:
        environment["RUNTIME_DIRECTORY"] = f"/run/{folder}"
    return Start(
        name=program.name,
        container=_container(program, owner),
        user=str(run["user"]),
        command=tuple(str(word) for word in run["command"]),
        environment=environment,
        health=_health(program, owner),
        writable=tuple(kept),
        folders=tuple(path for path in folders if path not in kept),
        memory=memory,
        files={str(file["path"]): str(file["content"]) for file in program.files},
        credentials=dict(program.credentials),
        digests=tuple(program.digests),
        devices=tuple(run.get("devices", ())),
        low_ports="CAP_NET_BIND_SERVICE" in run.get("capabilities", ()),
        pki=any(path.startswith("/etc/hearth/pki/") for path in program.watch),
        measures=program.measures,
        stop_s=int(run.get("stop_s", 10)),
        limits=dict(run.get("limits", {})),
        lost=lost_rules(run),
    )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def caller(service: Service) -> str:
    """Return the container with the program of a service: with a proxy before it, it calls others.

    The proxy has the service's name. The program listens under another name, which only the network
    between the two knows, because a program with several addresses would choose any of them.
    """
    return f"{service.instance}-program" if service.paths else service.instance


def _container(program: Program, owner: Service | Part) -> str:
    if isinstance(owner, Service) and owner.paths:
        if program.name == owner.instance:
            return caller(owner)
        if program.name == f"{owner.instance}-proxy":
            return owner.instance
    return owner.name if isinstance(owner, Part) else program.name


def _health(program: Program, owner: Service | Part) -> dict[str, Any]:
    """Return the URL that a container asks itself for its health, and what is a good answer."""
    wanted = owner.health
    if wanted is None or program.name not in (
        owner.unit.removesuffix(".service"),
        f"{owner.unit.removesuffix('.service')}-proxy",
    ):
        return {}
    if isinstance(owner, Part):
        url = f"http://127.0.0.1:{wanted.port or owner.port}{wanted.path}"
    elif program.name.endswith("-proxy"):
        url = f"{owner.url}{wanted.path}"
    else:
        url = str(program.health.get("url", ""))
    return {
        "url": url,
        "contains": wanted.contains,
        "within_s": wanted.within_s,
        "ready_s": wanted.ready_s,
    }


def health_command(health: Mapping[str, Any]) -> str:
    """Return the line of shell by which a container asks itself for its health."""
    # podman-compose joins the words of a list so that only the first one is run.
    return shlex.join([PROBE, health["url"], health["contains"], f"{health['within_s']:g}"])


# Rules of a unit that a container keeps as well, with what keeps them: dropped capabilities, a root
# that is read-only, its own processes, devices and /tmp, and the runtime's filter of system calls.
_KEPT = (
    *("NoNewPrivileges", "CapabilityBoundingSet", "AmbientCapabilities", "ProtectSystem"),
    *("ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectClock"),
    *("ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules"),
    *("ProtectKernelTunables", "RestrictNamespaces", "RestrictSUIDSGID", "KeyringMode"),
    *("RemoveIPC", "DevicePolicy", "ProtectProc"),
)


def lost_rules(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the rules of a program's unit that a container does not have, with their values."""
    rules = dict(HARDENING)
    for rule, exception in run.get("exceptions", {}).items():
        rules[rule] = exception["value"]
    if run.get("peers"):
        rules["IPAddressAllow"] = " ".join(run["peers"])
    off = ("no", "all", "")
    return {r: v for r, v in rules.items() if r not in _KEPT and v not in off}
