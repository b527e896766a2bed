"""A house of containers on this machine, started by Docker Compose or podman-compose."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hearth.files import write_atomic
from hearth.paths import COMPOSE

PROJECT = "hearth"
_LABEL = "label=com.docker.compose"
_COMMAND_S = 60
# Building nothing and pulling nothing, Compose waits only for the health of containers.
UP_S = 1800
_WRITTEN = "written.json"
_CDI = (Path("/etc/cdi"), Path("/var/run/cdi"))
Accelerator = Literal["", "cuda", "vulkan"]


class ComposeHouseError(Exception):
    """One line for a person: what of the containers is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Docker or Podman, and the command that reads compose files for it."""

    name: str
    compose: tuple[str, ...]

    def run(self, *words: str, within_s: float = _COMMAND_S) -> str:
        """Return what a command of the engine prints."""
        return _output([self.name, *words], within_s)

    def containers(self, service: str = "") -> list[str]:
        """Return the running containers of the house, or of one of its services."""
        words = ["ps", "--quiet", "--filter", f"{_LABEL}.project={PROJECT}"]
        if service:
            words += ["--filter", f"{_LABEL}.service={service}"]
        return self.run(*words).split()

    def volume(self, name: str) -> Path:
        """Return where a volume of the house is on this machine."""
        shown = self.run("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_{name}")
        return Path(shown.strip())


_ENGINES = (
    Engine("docker", ("docker", "compose")),
    Engine("podman", ("podman-compose",)),
)


def _output(argv: Sequence[str], within_s: float) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and names of ours, no shell
            argv, capture_output=True, text=True, check=False, timeout=within_s
        )
    except FileNotFoundError:
        raise ComposeHouseError(f"{argv[0]}: it is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise ComposeHouseError(f"{argv[0]} {argv[1]}: no answer in {within_s:g} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise ComposeHouseError(f"{argv[0]}: {explained(lines[-1] if lines else 'no reason')}")
    return done.stdout


def explained(line: str) -> str:
    """Return an engine's error with what to do, where that is known."""
    known = {
        "address already in use": "another program has this port: stop it, or set HEARTH_ADDRESS, "
        f"HEARTH_HTTPS_PORT and HEARTH_HTTP_PORT in {COMPOSE}/.env",
        "port is already allocated": "another container has this port: stop it, or set "
        f"HEARTH_HTTPS_PORT and HEARTH_HTTP_PORT in {COMPOSE}/.env",
        "is already in use by container": "a container of another project has this name: rename it",
        "no space left on device": "the disk is full: make room",
        "No such image": "build the images first: `hearth images build`",
        "image not known": "build the images first: `hearth images build`",
        "all predefined address pools": "Docker has no more networks: remove unused ones with "
        "`docker network prune`",
    }
    told = next((text for part, text in known.items() if part.lower() in line.lower()), "")
    return f"{line} ({told})" if told else line


def engine(wanted: str = "") -> Engine:
    """Return the engine of the house here, or the wanted one, or the one that is installed.

    Raises:
        ComposeHouseError: there is none, or it cannot run a house.
    """
    there = [one for one in _ENGINES if shutil.which(one.name) and shutil.which(one.compose[0])]
    for one in there:
        if one.name == wanted:
            return one
    if wanted:
        raise ComposeHouseError(
            f"{wanted}: install it with its compose command: `apt install docker.io docker-compose`"
            " or `apt install podman podman-compose`"
        )
    if not there:
        raise ComposeHouseError(
            "neither Docker nor Podman is here: `apt install docker.io docker-compose`"
        )
    return next((one for one in there if one.containers()), there[0])


def check(one: Engine, accelerator: Accelerator) -> None:
    """Refuse an engine on which the house would not be closed or would not start.

    Raises:
        ComposeHouseError: it is rootless, does not write firewall rules, or does not know the card.
    """
    if one.name == "docker":
        info = json.loads(one.run("info", "--format", "{{json .}}"))
        if any("rootless" in option for option in info.get("SecurityOptions") or ()):
            raise ComposeHouseError(
                "docker: this is a rootless socket, which cannot open ports 80 and 443 and hides "
                "the callers' addresses: unset DOCKER_HOST and put `sudo` before the command"
            )
        if _daemon_settings().get("iptables") is False:
            raise ComposeHouseError(
                "docker: `iptables` is false in /etc/docker/daemon.json, so its networks are open "
                "to each other: remove that line, then restart Docker"
            )
    if accelerator == "cuda" and not any(list(folder.glob("nvidia*")) for folder in _CDI):
        raise ComposeHouseError(
            "no CDI file describes an NVIDIA card in /etc/cdi: install nvidia-container-toolkit "
            "and run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
        )


def _daemon_settings() -> dict[str, Any]:
    try:
        found = json.loads(Path("/etc/docker/daemon.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_files(files: Mapping[str, str]) -> list[str]:
    """Write the files of the house of containers; return those that a person had edited."""
    COMPOSE.mkdir(parents=True, exist_ok=True)
    COMPOSE.chmod(0o755)
    try:
        before = json.loads((COMPOSE / _WRITTEN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    edited = [
        name
        for name, text in before.items()
        if (COMPOSE / name).is_file() and (COMPOSE / name).read_text(encoding="utf-8") != text
    ]
    for name in before.keys() - files.keys():
        (COMPOSE / name).unlink(missing_ok=True)
    for name, text in files.items():
        path = COMPOSE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            # In place, since a container mounts the file itself.
            path.write_text(text, encoding="utf-8")
    write_atomic(COMPOSE / _WRITTEN, json.dumps(dict(files)).encode())
    return edited


def compose_command(one: Engine, accelerator: Accelerator, profiles: Sequence[str]) -> list[str]:
    """Return the command that works on the house's files; its verb follows."""
    names = ["compose.yml"]
    if accelerator:
        podman_card = accelerator == "cuda" and one.name == "podman"
        names.append("cuda-podman.yml" if podman_card else f"{accelerator}.yml")
    # Without controllers the kernel cannot hold limits, and the engine refuses them.
    if "memory" in _controllers():
        names.append("limits.yml")
    words = [word for name in names for word in ("-f", str(COMPOSE / name))]
    if (COMPOSE / ".env").is_file():
        words += ["--env-file", str(COMPOSE / ".env")]
    return [*one.compose, *words, *(w for name in profiles for w in ("--profile", name))]


def _controllers() -> list[str]:
    try:
        return Path("/sys/fs/cgroup/cgroup.controllers").read_text(encoding="utf-8").split()
    except OSError:
        return []


def up(one: Engine, accelerator: Accelerator, profiles: Sequence[str]) -> None:
    """Create and start what differs; it returns when everything has been started."""
    command = compose_command(one, accelerator, profiles)
    _output([*command, "up", "--detach", "--remove-orphans"], UP_S)


def unhealthy(one: Engine) -> dict[str, str]:
    """Return the services whose containers are not up or not healthy, with their state."""
    shown = one.run(
        *("ps", "--all", "--filter", f"{_LABEL}.project={PROJECT}", "--format"),
        '{{.Label "com.docker.compose.service"}}\t{{.Status}}'
        if one.name == "docker"
        else '{{index .Labels "com.docker.compose.service"}}\t{{.Status}}',
    )
    states = dict(line.split("\t", 1) for line in shown.splitlines() if "\t" in line)
    good = ("(healthy)", "Exited (0)")
    checked = ("(unhealthy)", "(health: starting)", "(starting)", "Exited", "Restarting", "Created")
    return {
        name: state
        for name, state in states.items()
        if not any(word in state for word in good) and any(word in state for word in checked)
    }


def first_process(instance: str) -> int:
    """Return the first process of a service's program; 0 where it does not run."""
    one = engine()
    for name in (f"{instance}-program", instance):
        for container in one.containers(name):
            return int(one.run("inspect", "--format", "{{.State.Pid}}", container))
    return 0


def addresses() -> dict[str, str]:
    """Return an address of each running container of the house, by the name of its service.

    The machine reaches containers in networks without a way out as well.
    """
    one = engine()
    containers = one.containers()
    if not containers:
        return {}
    shown = json.loads(one.run("inspect", *containers))
    found = {}
    for each in shown:
        labels, nets = each["Config"]["Labels"], each["NetworkSettings"]["Networks"] or {}
        # A program behind a proxy does not listen where its own connections leave the house.
        known = [
            net["IPAddress"]
            for name, net in nets.items()
            if net.get("IPAddress") and not name.endswith("-egress")
        ]
        if known:
            found[str(labels["com.docker.compose.service"])] = str(known[0])
    return found


def logs(service: str, lines: int) -> list[str]:
    """Return the last lines that the containers of a service have printed."""
    return _logs(service, "--tail", str(lines))


def logs_of_start(service: str) -> list[str]:
    """Return what the program of a service has printed since it was started."""
    one = engine()
    for name in (f"{service}-program", service):
        for container in one.containers(name):
            started = one.run("inspect", "--format", "{{json .State.StartedAt}}", container)
            return _logs(name, "--since", json.loads(started))
    return []


def _logs(service: str, *options: str) -> list[str]:
    one = engine()
    found: list[str] = []
    for name in (service, f"{service}-program"):
        for container in one.containers(name):
            done = subprocess.run(  # noqa: S603 - fixed words
                [one.name, "logs", *options, container],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_COMMAND_S,
            )
            found += (done.stdout + done.stderr).splitlines()
    return found


def read_secrets(one: Engine) -> dict[str, str]:
    """Return the secrets that the preparation has made; only root may read them."""
    path = one.volume("secrets") / "secrets.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ComposeHouseError(
            f"{path}: {error.strerror}: the house has no secrets yet: run `hearth up --compose`"
        ) from None


def copy_certificates(one: Engine) -> None:
    """Copy the public certificates to where people and tests look for them."""
    folder = one.volume("pki")
    for name in ("root.crt", "intermediate.crt"):
        write_atomic(COMPOSE / name, (folder / name).read_bytes(), 0o644)
