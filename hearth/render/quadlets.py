"""The start data of a program as Podman's quadlets: a container, its network and its volumes.

A container has no systemd of its own, so its unit is the machine's. The files that a role writes
are written on the machine, below a folder of the service, and mounted where the role wants them.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from hearth.catalogue.house import Service
from hearth.catalogue.naming import size_bytes
from hearth.paths import PROGRAMS
from hearth.render.programs import Program, started_by
from hearth.render.units import (
    CREDENTIALS_FOLDER,
    SLOWEST_S,
    STEPS,
    StartData,
    UnitError,
    quoted,
    read_fields,
)

# Quadlets, and the files of roles with their containers' paths below a folder for each service.
QUADLETS = "/etc/containers/systemd"
FILES = "/etc/hearth/containers"
# The label of all that is ours in Podman: its value is the service.
LABEL = "hearth.service"
# Where Podman keeps volumes, unless its configuration names another place.
VOLUMES = "/var/lib/containers/storage/volumes"
_IP = "/usr/sbin/ip"
_MOUNTED_PROGRAMS = "/opt/hearth"
# Every container has ids of its own, above all that systemd and Incus give out.
_FIRST_ID, IDS, _SLOTS = 0x7000_0000, 65536, 4096
# A group of the container that is the machine's group of render nodes.
_RENDER_GROUP = IDS
# Of one service; the machine's default where its record has none, as for instances.
_MEMORY, _TASKS = "80%", 4096
# Podman looks this often, at first and later; each look starts a program in the container.
_FIRST_LOOKS_S, _LOOKS_S = 2, 60
# Of the time that a program has until it is healthy: on a busy machine, a start that was cut short
# would only be followed by the next one.
_PATIENCE = 5
# To make or to remove the container itself.
_MARGIN_S = 60
# A file of the container; bash alone, since another program would cost a tenth of a second of
# processor time at each look.
_LOOK_FILE = "/etc/hearth-container/healthy"
_LOOK = """\
# Written by Hearth: succeeds if the program's health has the status 200 and the expected text.
exec 3<>/dev/tcp/{address}/{port} || exit 1
printf 'GET %s HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' {path} {address} >&3
IFS= read -r status <&3
[[ $status == *" 200 "* && $(tr -d '\\0' <&3) == *{contains}* ]]
"""


@dataclass(frozen=True, slots=True)
class Given:
    """What the machine has for one container.

    `image` is Podman's id of its image, empty where none is known yet; `render_nodes` are paths of
    devices, owned by the group `render_gid`; `volumes` is the folder with Podman's volumes.
    """

    resolver: str
    image: str = ""
    accelerator: str = "none"
    render_nodes: Sequence[str] = ()
    render_gid: int = 0
    volumes: str = VOLUMES


def unit_name(name: str) -> str:
    """Return the name of a container, and of its unit without `.service`."""
    return f"hearth-{name}"


def first_id(service: Service) -> int:
    """Return the id on the machine of the container's root; 65,536 ids follow from it."""
    # Each /30 is a slot.
    return _FIRST_ID + (int(IPv4Address(str(service.address))) >> 2) % _SLOTS * IDS


def volume_name(service: Service, path: str) -> str:
    """Return the name in Podman of the volume that a container has at a path."""
    return unit_name(service.instance + path.replace("/", "-"))


def own_volumes(service: Service) -> list[str]:
    """Return the names in Podman of the volumes with the service's data."""
    return [volume_name(service, one.path) for one in service.volumes if not one.from_folder]


def on_machine(service: Service, programs: Sequence[Program], given: Given) -> list[Program]:
    """Return what the machine converges for the programs of one service.

    The first program is the service's own; the others share its network.

    Raises:
        UnitError: A program that a container cannot run; the text is one line.
    """
    if not programs or not programs[0].run:
        raise UnitError(f"{service.name}: Debian's own units need an instance; use runtime: incus")
    made = [_network(service)]
    users = {one.name if one.user is None else one.user: one.uid for one in programs if one.run}
    for number, program in enumerate(programs):
        container = _Container(service, given, users, program, programs[0] if number else None)
        made.append(container.program())
    return made


def _network(service: Service) -> Program:
    """Return the network of one container: a /30, with the machine's end named like a link."""
    name, link = unit_name(service.instance), service.host_name
    block = IPv4Network(f"{service.address}/30", strict=False)
    text = _text(
        f"Written by Hearth: the link of {service.name}, as an instance has one.",
        {
            "Unit": [("After", "hearth-firewall.service")],
            "Network": [
                ("NetworkName", name),
                ("Subnet", str(block)),
                ("Gateway", str(block[1])),
                # Names are resolved by the house.
                ("DisableDNS", "true"),
                # The bridge is ours, and so are the rules: Podman's own would hide who sends a
                # packet, and of an internal network it would forward none.
                ("Options", "mode=unmanaged"),
                ("PodmanArgs", f"--interface-name={link}"),
                ("Label", f"{LABEL}={service.name}"),
            ],
            "Service": [
                ("Restart", "on-failure"),
                # Podman makes no network with the addresses of a bridge that a kill left.
                ("ExecStartPre", f"-{_IP} link delete {link}"),
                ("ExecStartPost", f"{_IP} link add {link} type bridge"),
                ("ExecStartPost", f"{_IP} address add {block[1]}/30 dev {link}"),
                ("ExecStartPost", f"{_IP} link set {link} up"),
                # A network with another address is another one: nothing changes an existing one.
                ("ExecStop", f"/usr/bin/podman network rm --force {name}"),
                ("ExecStopPost", f"-{_IP} link delete {link}"),
            ],
        },
    )
    file = {"path": f"{QUADLETS}/{name}.network", "content": text}
    return Program(f"{name}-network", user="", files=[file])


@dataclass(frozen=True, slots=True)
class _Container:
    """The container of one program, and where its paths are on the machine.

    `users` has the id in the container of each user; `joins` is the program whose network it is in.
    """

    service: Service
    given: Given
    users: Mapping[str, int]
    its: Program
    joins: Program | None

    @property
    def name(self) -> str:
        return unit_name(self.its.name)

    def program(self) -> Program:
        """Return the program with the quadlets of its container instead of a unit."""
        files = [self._file(file) for file in self._files()]
        quadlet = f"{QUADLETS}/{self.name}.container"
        files.append({"path": quadlet, "content": self._container()})
        if self.given.image:
            # Beside the quadlet, because it differs from machine to machine.
            text = _text("Written by Hearth.", {"Container": [("Image", self.given.image)]})
            files.append({"path": f"{quadlet}.d/image.conf", "content": text})
        if self.joins is None:
            files += [self._volume(path) for path in self._named()]
        return replace(
            self.its,
            name=self.name,
            run={},
            user="",
            folders=[self._folder(item) for item in self.its.folders if self._is_kept(item)]
            # Only root reads the files of roles on the machine; containers have theirs mounted.
            + [{"path": FILES, "mode": "0700"}],
            files=files,
            watch=[self._on_machine(path) for path in self._watched()],
            observe=[],
            paths=(),
            # A file that changes may be one of the quadlets.
            reloads=False,
            notifies=True,
        )

    def _run(self) -> StartData:
        run = dict(started_by(self.its.run))
        return read_fields(StartData, run | {"credentials": ()}, "start data", f"{self.its.name}: ")

    def _files(self) -> list[Mapping[str, Any]]:
        return [*self.its.files, *self._look()]

    def _watched(self) -> list[str]:
        return [*self.its.run.get("import_from", ()), *self.its.watch]

    def _named(self) -> list[str]:
        """Return the paths of Podman's volumes: data, and what else the program writes."""
        paths = [one.path for one in self.service.volumes if not one.from_folder]
        known = [*(one.path for one in self.service.volumes), f"/run/{self._run().runtime_folder}"]
        return paths + [
            path for path in self._run().writable if not any(_within(path, one) for one in known)
        ]

    def _is_kept(self, folder: Mapping[str, Any]) -> bool:
        """Whether a folder of the role is in a volume; those of its files come with the files."""
        paths = [*self._named(), *(one.path for one in self.service.volumes)]
        return any(_within(str(folder["path"]), path) for path in paths)

    def _on_machine(self, path: str) -> str:
        """Return where a path of the container is on the machine."""
        if _within(path, _MOUNTED_PROGRAMS):
            return f"{PROGRAMS}{path.removeprefix(_MOUNTED_PROGRAMS)}"
        for volume in self.service.volumes:
            if volume.from_folder and _within(path, volume.path):
                return volume.from_folder + path.removeprefix(volume.path)
        for kept in self._named():
            if _within(path, kept):
                name = volume_name(self.service, kept)
                return f"{self.given.volumes}/{name}/_data{path.removeprefix(kept)}"
        return f"{FILES}/{self.service.instance}{path}"

    def _id(self, user: str, path: str) -> int:
        """Return the id on the machine of a user of the container; 0 for files that it reads."""
        if user not in self.users:
            return 0
        given = (one.path for one in self.service.volumes if one.from_folder)
        # Podman maps the ids of a given folder itself.
        shift = 0 if any(_within(path, one) for one in given) else first_id(self.service)
        return shift + self.users[user]

    def _folder(self, folder: Mapping[str, Any]) -> dict[str, Any]:
        path, owner = str(folder["path"]), str(folder.get("owner", "root"))
        ids = {"owner": self._id(owner, path), "group": self._id(folder.get("group", owner), path)}
        # With another address all ids are others, and the files of a volume with them.
        whole = {"whole": True} if any(_within(path, one) for one in self._named()) else {}
        where = {"path": self._on_machine(path)}
        return {**folder, **whole, **where, **{k: str(v) for k, v in ids.items()}}

    def _file(self, file: Mapping[str, Any]) -> dict[str, Any]:
        path = str(file["path"])
        where = self._on_machine(path)
        owner = str(self._id(str(file.get("owner", "root")), path))
        moved = {**file, "path": where, "owner": owner, "group": owner}
        if file.get("check"):
            # The checker is a program of the image, and it may read the other files.
            folder = str(PurePosixPath(path).parent)
            mount = f"{PurePosixPath(where).parent}:{folder}:ro"
            argv = [
                "/usr/bin/podman",
                "run",
                "--rm",
                "--network=none",
                "--read-only",
                "--pull=never",
            ]
            argv += ["--pids-limit=0", f"--volume={mount}", self.given.image or "IMAGE"]
            fresh = f"{folder}/.{PurePosixPath(path).name}.new"
            moved["check"] = argv + [word.replace("%s", fresh) for word in file["check"]]
        return moved

    def _volume(self, path: str) -> dict[str, str]:
        name = volume_name(self.service, path)
        labels = [("VolumeName", name), ("Label", f"{LABEL}={self.service.name}")]
        text = _text(f"Written by Hearth: {path} of {self.service.name}.", {"Volume": labels})
        return {"path": f"{QUADLETS}/{name}.volume", "content": text}

    def _container(self) -> str:
        run = self._run()
        if not run.command or not run.command[0].startswith("/"):
            raise UnitError(f"{self.its.name}: command must start with the full path of a program")
        names = {f"{name}.service" for name in self.users}
        after = [f"hearth-{one}" if one in names else one for one in run.after]
        after += ["hearth-firewall.service"]
        if self.given.accelerator == "cuda":
            after.append("hearth-cdi.service")
        if self.joins:
            after.append(f"{unit_name(self.joins.name)}.service")
        ready_s = float(self.its.health.get("ready_s", _MARGIN_S))
        reload = [("ExecReload", f"/usr/bin/podman kill --signal HUP {self.name}")]
        sections = {
            "Unit": [
                ("Description", run.summary.replace("%", "%%")),
                ("After", " ".join(after)),
                ("Wants", " ".join(after)),
                ("StartLimitIntervalSec", "0"),
            ],
            "Container": self._keys(run),
            "Service": [
                *self._secrets(),
                *(reload if run.reload else []),
                # Podman prints the number of the container there; programs' lines come otherwise.
                ("StandardOutput", "null"),
                ("Restart", "always"),
                ("RestartSec", f"{run.again_s:g}"),
                ("RestartSteps", str(STEPS)),
                ("RestartMaxDelaySec", str(SLOWEST_S)),
                # Podman reports the start when it is healthy; then what needs it starts.
                ("TimeoutStartSec", f"{ready_s * _PATIENCE:g}"),
                ("TimeoutStopSec", str(run.stop_s + _MARGIN_S)),
                *self._limits(run),
            ],
            "Install": [("WantedBy", "multi-user.target")],
        }
        return _text(
            "Written by Hearth from the start data of its role; edits are found and undone.",
            sections,
        )

    def _secrets(self) -> list[tuple[str, str]]:
        """Return the commands that hand the files of credentials to Podman before each start."""
        return [
            (
                "ExecStartPre",
                f"/usr/bin/podman secret create --replace --label {LABEL}={self.service.name} "
                f"{self.name}.{key} {CREDENTIALS_FOLDER}/{self.name}/{key}",
            )
            for key in sorted(self.its.credentials)
        ]

    def _limits(self, run: StartData) -> list[tuple[str, str]]:
        """Return the limits of the unit, which hold for its container; systemd knows percents."""
        limits = self.service.limits
        memory, tasks = limits.memory or _MEMORY, limits.tasks or _TASKS
        bound = memory if memory.endswith("%") else str(size_bytes(memory))
        cpus = [("CPUQuota", f"{limits.cpus * 100:g}%")] if limits.cpus else []
        return [
            # A role's own limit is the tighter one.
            ("MemoryMax", str(run.limits.get("memory", bound))),
            *cpus,
            ("TasksMax", str(run.limits.get("tasks", tasks))),
        ]

    def _keys(self, run: StartData) -> list[tuple[str, str]]:
        service, uid = self.service, self.its.uid
        inside = f"/run/credentials/{self.its.name}.service"
        environment = dict(run.environment)
        # As systemd does for units of instances.
        if self.its.credentials:
            environment["CREDENTIALS_DIRECTORY"] = inside
        if run.runtime_folder:
            environment["RUNTIME_DIRECTORY"] = f"/run/{run.runtime_folder}"
        return [
            ("ContainerName", self.name),
            ("Pull", "never"),
            ("Label", f"{LABEL}={service.name}"),
            *self._link(),
            ("User", str(uid)),
            ("Group", str(uid)),
            *self._ids(),
            ("NoNewPrivileges", "true"),
            ("DropCapability", "all"),
            *(("AddCapability", one) for one in run.capabilities),
            ("ReadOnly", "true"),
            # The first process of a container ignores signals that it does not handle.
            ("RunInit", "true"),
            # Podman's own number would hold for the container; the unit has a limit.
            ("PidsLimit", "0"),
            # The machine's own proxy is not the house's.
            ("PodmanArgs", "--http-proxy=false"),
            ("LogDriver", "journald"),
            ("StopTimeout", str(run.stop_s)),
            *(
                ("Environment", quoted(f"{key}={value}"))
                for key, value in sorted(environment.items())
            ),
            *(
                ("Secret", f"{self.name}.{key},target={inside}/{key},uid={uid},gid={uid},mode=0400")
                for key in sorted(self.its.credentials)
            ),
            *self._mounts(run),
            *self._devices(),
            ("Exec", " ".join(quoted(str(word)) for word in run.command)),
            *self._health(),
        ]

    def _link(self) -> list[tuple[str, str]]:
        if self.joins:
            return [("Network", f"{unit_name(self.joins.name)}.container")]
        return [
            ("HostName", self.service.instance),
            ("Network", f"{unit_name(self.service.instance)}.network"),
            ("IP", str(self.service.address)),
            ("DNS", self.given.resolver),
        ]

    def _ids(self) -> list[tuple[str, str]]:
        first = first_id(self.service)
        maps = [("UIDMap", f"0:{first}:{IDS}"), ("GIDMap", f"0:{first}:{IDS}")]
        if self.given.accelerator == "vulkan" and self.given.render_nodes:
            maps.append(("GIDMap", f"{_RENDER_GROUP}:{self.given.render_gid}:1"))
            maps.append(("GroupAdd", str(_RENDER_GROUP)))
        return maps

    def _mounts(self, run: StartData) -> list[tuple[str, str]]:
        found = [
            ("Volume", f"{PROGRAMS}/{name}:{_MOUNTED_PROGRAMS}/{name}:ro")
            for name in self.service.programs
        ]
        found += [
            ("Volume", f"{volume_name(self.service, path)}.volume:{path}") for path in self._named()
        ]
        found += [
            ("Volume", f"{one.from_folder}:{one.path}:idmap")
            for one in self.service.volumes
            if one.from_folder
        ]
        folders = sorted({str(PurePosixPath(str(file["path"])).parent) for file in self._files()})
        found += [
            ("Volume", f"{FILES}/{self.service.instance}{folder}:{folder}:ro") for folder in folders
        ]
        if run.runtime_folder:
            found.append(("Tmpfs", f"/run/{run.runtime_folder}:mode=1777"))
        return found

    def _devices(self) -> list[tuple[str, str]]:
        if self.given.accelerator == "cuda":
            return [("AddDevice", "nvidia.com/gpu=all")]
        nodes = self.given.render_nodes if self.given.accelerator == "vulkan" else ()
        return [("AddDevice", node) for node in nodes]

    def _health(self) -> list[tuple[str, str]]:
        if "url" not in self.its.health:
            return []
        look = f"/bin/bash {_LOOK_FILE}"
        return [
            ("HealthCmd", look),
            ("HealthInterval", f"{_LOOKS_S}s"),
            ("HealthTimeout", f"{float(self.its.health['within_s']):g}s"),
            ("HealthStartupCmd", look),
            ("HealthStartupInterval", f"{_FIRST_LOOKS_S}s"),
            ("Notify", "healthy"),
        ]

    def _look(self) -> list[dict[str, str]]:
        """Return the file with which Podman looks whether the program is healthy."""
        if "url" not in self.its.health:
            return []
        parts = urlsplit(str(self.its.health["url"]))
        text = _LOOK.format(
            address=parts.hostname,
            port=parts.port,
            path=shlex.quote(parts.path),
            contains=shlex.quote(str(self.its.health["contains"])),
        )
        return [{"path": _LOOK_FILE, "content": text}]


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _text(comment: str, sections: Mapping[str, Iterable[tuple[str, str]]]) -> str:
    lines = [f"# {comment}"]
    # The house's links need no network of the machine, and a boot must not wait for one.
    own = (
        {"Quadlet": [("DefaultDependencies", "false")]}
        if len(sections) > 1 or "Volume" in sections
        else {}
    )
    for title, pairs in {**sections, **own}.items():
        lines += ["", f"[{title}]", *(f"{key}={value}" for key, value in pairs)]
    if any("\n" in line for line in lines):
        raise UnitError("a value of a quadlet must be one line of text")
    return "\n".join(lines) + "\n"
