"""What a role hands to `service_converge`: one program, and the sidecar proxy in front of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from hearth.render.units import read_fields, systemd_unit

# Debian 12 and 13 bring an older Caddy, whose name for the setting is another one.
_NEW_CADDY_IMAGES = ("debian/forky",)
_PROXY_FILE = "/etc/hearth/proxy.Caddyfile"
_PROXY = """\
# Written by Hearth from `paths` of {service} in inventory/services.yml.
{{
	admin off
	auto_https off
}}

{url} {{
	bind {address}
	@allowed path {paths}
	handle @allowed {{
		reverse_proxy {inside}:{port} {{
			# A response that starts before the whole request was passed on is now and then cut
			# (golang/go#40747): one in a hundred where both processors are busy.
			{buffer}
			# A program on the loopback refuses a Host that it does not know.
			header_up Host 127.0.0.1:{port}
		}}
	}}
	handle {{
		respond "{{\\"error\\":\\"this path is not open to other services\\"}}" 403
	}}
}}
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its unit, files, folders and credentials, and when it is healthy."""

    name: str  # of the unit: without `.service`, or with another suffix, as `.timer`
    # Fields of `StartData`, or of `python_service` instead of a command; none: Debian's unit.
    run: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None  # system user to make; None: named like the program; "": none
    uid: int = 900  # fixed, so that its data outlive the instance; -1: any, on the machine
    folders: Sequence[Mapping[str, Any]] = ()  # path, owner, group, mode; whole: take over content
    files: Sequence[Mapping[str, Any]] = ()  # path, content, owner, group, mode, check (a command)
    # Name to the secret's name in the vault, or to a mapping of such names, written as JSON.
    credentials: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    digests: Sequence[str] = ()  # credentials with the SHA-256 of each secret, not the secret
    watch: Sequence[str] = ()  # further paths that it depends on, e.g. the link to its code
    observe: Sequence[Sequence[Any]] = ()  # commands whose output belongs to the state
    files_only: bool = False  # there is no unit of this name
    reloads: bool = False  # reload instead of restart when only `files` changed
    enabled: bool | None = None  # start at boot; None: a unit of ours does; False: stopped as well
    health: Mapping[str, Any] = field(default_factory=dict)  # url, dns_name or command; ready_s
    notifies: bool = False  # its unit is started once it is healthy
    measures: bool = False  # it measures this machine as it starts: nothing else runs meanwhile
    paths: Sequence[str] = ()  # others may call these only: a sidecar proxy answers the port

    @property
    def unit(self) -> str:
        """The text of its unit; empty for Debian's own unit."""
        if not self.run:
            return ""
        return systemd_unit(
            self.name, {**started_by(self.run), "credentials": sorted(self.credentials)}
        )

    def arguments(self) -> dict[str, Any]:
        """Return the module's arguments without the credentials."""
        given = asdict(self)
        for name in ("run", "paths", "credentials", "digests", "measures"):
            del given[name]
        return given | {
            "watch": [*self.run.get("import_from", ()), *self.watch],
            "unit": self.unit,
            "user": self.name if self.user is None else self.user,
            "enabled": bool(self.run) if self.enabled is None else self.enabled,
            "stopped": self.enabled is False,
        }


def started_by(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return start data with a command, as it is or for a Python module."""
    return python_service(run) if "module" in run else run


def python_service(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return start data with the command and the environment of a Python module.

    `module` is what `python3 -m` runs, with `arguments`. `import_from` names the folders of the
    installed programs with it and its libraries; a new version of one causes a restart.
    """
    rest = dict(run)
    module, arguments = rest.pop("module"), rest.pop("arguments", ())
    folders = rest.pop("import_from")
    environment = {
        "HOME": "/nonexistent",
        "PYTHONPATH": ":".join(folders),
        # Programs are read-only for their users, and compiled when they are installed.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # -P: a module of the same name in the current folder must never be taken for the program's.
    command = ["/usr/bin/python3", "-P", "-m", module, *map(str, arguments)]
    return {**rest, "command": command, "environment": environment | rest.get("environment", {})}


def read_program(data: Mapping[str, Any]) -> Program:
    """Read a role's data; `UnitError` names an unknown or a missing field."""
    return read_fields(Program, data, "a program")


def with_sidecar(program: Program, service: Mapping[str, Any]) -> list[Program]:
    """Return the program, and the proxy that answers its port where its record names `paths`."""
    if not program.paths:
        return [program]
    name = f"{program.name}-proxy"
    run = {
        "summary": f"Sidecar proxy of {program.name}: the catalogue's paths and nothing else",
        "user": name,
        "command": ["/usr/bin/caddy", "run", "--adapter", "caddyfile", "--config", _PROXY_FILE],
        "after": [f"{program.name}.service"],
        "environment": {"HOME": "/nonexistent"},
    }
    new = service["image"] in _NEW_CADDY_IMAGES
    text = _PROXY.format(
        service=service["name"],
        url=service["url"],
        address=service["address"],
        inside=service["inside"],
        port=service["port"],
        paths=" ".join(program.paths),
        buffer="request_buffers unlimited" if new else "buffer_requests",
    )
    check = ["/usr/bin/caddy", "validate", "--adapter", "caddyfile", "--config", "%s"]
    file = {"path": _PROXY_FILE, "content": text, "check": check}
    proxy = Program(name, run, name, program.uid + 1, files=[file], health=program.health)
    return [replace(program, paths=()), proxy]


def credential_values(program: Program, vault: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each credential; KeyError names a secret that the vault does not have."""

    def value(name: str, secret: str) -> str:
        held = vault[secret]
        return sha256(held.encode()).hexdigest() if name in program.digests else held

    return {
        name: value(name, secret)
        if isinstance(secret, str)
        else json.dumps({key: value(name, each) for key, each in secret.items()})
        for name, secret in program.credentials.items()
    }


def rendered_files(programs: Iterable[Program]) -> dict[str, str]:
    """Return what the reference inventory shows of them: file name to content."""
    found: dict[str, str] = {}
    for program in programs:
        if program.run:
            found[f"{program.name}.service"] = program.unit
        for file in program.files:
            proxy = file["path"] == _PROXY_FILE
            name = f"{program.name}.Caddyfile" if proxy else str(file["path"]).rpartition("/")[2]
            found[name] = str(file["content"])
    return found
