"""A house of containers on this machine, started by Docker Compose or podman-compose."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from hearth.files import write_atomic
from hearth.machine.facts import Listener, listeners
from hearth.paths import COMPOSE

PROJECT = "hearth"
_LABEL = "label=com.docker.compose"
_OURS = ("--filter", f"{_LABEL}.project={PROJECT}")
_COMMAND_S = 60
# Building nothing and pulling nothing, Compose waits only for the health of containers.
UP_S = 1800
_WRITTEN = "written.json"
_CDI = (Path("/etc/cdi"), Path("/var/run/cdi"))
_DAEMON = Path("/etc/docker/daemon.json")
_DAEMON_PID = Path("/var/run/docker.pid")
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

    def containers(self, service: str = "", *, ended: bool = False) -> list[str]:
        """Return the running containers of the house, or of one of its services; or all of them."""
        words = ["ps", "--quiet", *_OURS, *(["--all"] if ended else [])]
        if service:
            words += ["--filter", f"{_LABEL}.service={service}"]
        return self.run(*words).split()

    def container(self, service: str) -> str:
        """Return the name that its compose command gives the container of a service."""
        joint = "-" if self.name == "docker" else "_"
        return joint.join((PROJECT, service, "1"))

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


def _settings() -> dict[str, str]:
    """Return what a person has set in `.env`."""
    try:
        lines = (COMPOSE / ".env").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, given, value in pairs if given}


def profiles() -> list[str]:
    """Return the profiles that are on: the resolver where the machine's address is known."""
    return ["dns"] if _settings().get("HEARTH_ADDRESS") else []


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
        "exec format error": "the image is for another kind of processor: build it on this "
        "machine with `hearth images build`",
        "cannot assign requested address": "this machine does not have the address: correct "
        f"HEARTH_ADDRESS in {COMPOSE}/.env",
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
    info = json.loads(one.run("info", "--format", "{{json .}}"))
    options = info.get("SecurityOptions") or ()
    security = info.get("host", {}).get("security", {})
    if security.get("rootless") or any("rootless" in option for option in options):
        raise ComposeHouseError(
            f"{one.name}: this is a rootless socket, which cannot open ports 80 and 443 and hides "
            "the callers' addresses: unset DOCKER_HOST and put `sudo` before the command"
        )
    if one.name == "docker" and (place := _without_rules()):
        raise ComposeHouseError(
            f"docker: `iptables` is false in {place}, so its networks are open to each other: "
            "remove that, then restart Docker"
        )
    if accelerator == "cuda" and not any(list(folder.glob("nvidia*")) for folder in _CDI):
        raise ComposeHouseError(
            "no CDI file describes an NVIDIA card in /etc/cdi: install nvidia-container-toolkit "
            "and run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
        )
    if accelerator == "cuda" and one.name == "docker" and not info.get("CDISpecDirs"):
        raise ComposeHouseError(
            f'docker: CDI is off: write {{"features": {{"cdi": true}}}} into {_DAEMON}, then '
            "restart Docker"
        )


def _without_rules() -> str:
    """Return where Docker is told to write no firewall rules; empty where it writes them."""
    try:
        found = json.loads(_DAEMON.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    if isinstance(found, dict) and found.get("iptables") is False:
        return str(_DAEMON)
    try:
        pid = _DAEMON_PID.read_text(encoding="utf-8").strip()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return "the options of dockerd" if b"--iptables=false" in words else ""


def refuse_strangers(one: Engine, files: Mapping[str, str]) -> None:
    """Refuse to start where names or ports of the house are taken, before anything is made.

    Raises:
        ComposeHouseError: a container, volume, network or port that is needed is another's.
    """
    whole = yaml.safe_load(files["compose.yml"])
    for kind, words, shown, wanted in (
        ("container", ("ps", "--all"), "Names", map(one.container, whole["services"])),
        ("volume", ("volume", "ls"), "Name", _prefixed(whole["volumes"])),
        ("network", ("network", "ls"), "Name", _prefixed(whole["networks"])),
    ):
        listed = (*words, "--format", f"{{{{.{shown}}}}}")
        others = {*one.run(*listed).split()} - {*one.run(*listed, *_OURS).split()}
        if taken := sorted(others & {*wanted}):
            raise ComposeHouseError(
                f"{one.name}: there is a {kind} {taken[0]} that is not this house's: "
                f"rename it, or remove it with `{one.name} {kind} rm {taken[0]}`"
            )
    # A house that runs holds its ports itself.
    if not one.containers() and (taken := taken_ports(_settings(), listeners())):
        raise ComposeHouseError(taken[0])


def _prefixed(names: Iterable[str]) -> set[str]:
    return {f"{PROJECT}_{name}" for name in names}


def taken_ports(settings: Mapping[str, str], found: Iterable[Listener]) -> list[str]:
    """Return a line for each port of the house that another program holds."""
    address, lines = settings.get("HEARTH_ADDRESS", ""), []
    wanted = {
        ("tcp", int(settings.get(f"HEARTH_{name}_PORT") or port)): f"HEARTH_{name}_PORT"
        for name, port in (("HTTPS", 443), ("HTTP", 80))
    }
    if address:
        wanted |= {("udp", 53): "HEARTH_ADDRESS", ("tcp", 53): "HEARTH_ADDRESS"}
    for item in found:
        name = wanted.get((item.protocol, item.port))
        if name and (not address or item.address in (address, "0.0.0.0", "*", "::")):  # noqa: S104
            by = item.holder or "another program"
            lines.append(
                f"port {item.port}/{item.protocol} is held by {by}: stop that program, or change "
                f"{name} in {COMPOSE}/.env"
            )
    return lines


def write_files(files: Mapping[str, str]) -> list[str]:
    """Write the files of the house of containers; return those that a person had edited.

    Raises:
        ComposeHouseError: the disk is full.
    """
    try:
        COMPOSE.mkdir(parents=True, exist_ok=True)
        COMPOSE.chmod(0o755)
        before = _written()
        edited = [
            name
            for name, text in before.items()
            if _text(name) not in (None, text, files.get(name))
        ]
        for name in before.keys() - files.keys():
            (COMPOSE / name).unlink(missing_ok=True)
        for name, text in files.items():
            if _text(name) != text:
                (COMPOSE / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(COMPOSE / name, text.encode(), 0o644)
        write_atomic(COMPOSE / _WRITTEN, json.dumps(dict(files)).encode())
    except OSError as error:
        raise ComposeHouseError(
            f"{COMPOSE}: cannot write it: {error.strerror}: make room"
        ) from None
    return edited


def _written() -> dict[str, str]:
    """Return what the last run wrote, by file."""
    try:
        return dict(json.loads((COMPOSE / _WRITTEN).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _text(name: str) -> str | None:
    path = COMPOSE / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


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


def up(one: Engine, accelerator: Accelerator, profiles: Sequence[str], service: str = "") -> None:
    """Create and start what differs, or one service of it; return when it has been started.

    Raises:
        ComposeHouseError: the engine's error, or the last line of a container that ended.
    """
    command = compose_command(one, accelerator, profiles)
    words = ["up", "--detach", "--remove-orphans", *([service] if service else [])]
    try:
        _output([*command, *words], UP_S)
    except ComposeHouseError as error:
        for name, state in unhealthy(one).items():
            if "Exited" in state and (lines := logs(name, 1)):
                raise ComposeHouseError(f"{name}: {explained(lines[-1])}") from None
        raise error from None


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
        for container in one.containers(name, ended=True):
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
