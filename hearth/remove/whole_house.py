"""Remove the whole house: what goes, in a safe order, and what stays on purpose.

Units, rules, settings, files and users are found by looking at the machine and at the records of
converged programs, not by the inventory, which may have changed since.
"""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hearth.files import write_atomic
from hearth.machine import quiet, runs
from hearth.machine.engine import data_volumes
from hearth.machine.environment import MASKED, UNITS
from hearth.paths import FIREWALL_UNIT
from hearth.project import Project
from hearth.remove import RemoveError, Trace, before, containers, incus, run
from hearth.remove.before import ANSIBLE, BROUGHT, EARLIER, NO_ANSIBLE, Before, kernel_value

ENGINE, PODMAN = "incus-base", "podman"
# Users and folders that stay behind when these packages are purged.
_LEFT = {
    "caddy": (("caddy",), ("/var/lib/caddy",)),
    "dnsmasq-base": (("dnsmasq",), ("/etc/dnsmasq.d",)),
    ENGINE: (
        ("incus", "incus-admin", "_incus"),
        ("/var/lib/incus", "/var/log/incus", "/var/cache/incus", "/root/.config/incus"),
    ),
    "lxcfs": ((), ("/var/lib/lxcfs",)),
    PODMAN: ((), ("/var/lib/containers", "/etc/containers", "/etc/cni")),
    "prometheus-blackbox-exporter": (("prometheus",), ()),
    "prometheus-node-exporter": (("prometheus",), ("/var/lib/prometheus",)),
}
# Created by tools that Hearth runs; removed only if they were not there before.
_TOOLS = (ANSIBLE, "/root/.step", "/root/.cache/incus", "/root/.cache/uv")
_COMMAND = Path("/usr/local/bin/hearth")
# Folders that go if they hold only Hearth's files.
_EMPTY = (
    *("/etc/systemd/sleep.conf.d", "/etc/systemd/system/incus.service.d", "/etc/sysusers.d"),
    *("/root/.config/hearth", "/root/.cache"),
)
# Units that would start others again.
_STARTERS = (".timer", ".path")
TABLE = ("inet", "hearth")
# hearth-firewall-watch adds rules with the comment "Hearth" there.
DOCKER = ("ip", "filter", "DOCKER-USER")
# They block all traffic of instances without the table's mark (decision 030).
MARK_RULES = ("302", "303", "301", "304")
# The sockets first: they would start the service again.
ENGINE_UNITS = (
    *("incus.socket", "incus-user.socket", "incus-user.service", "incus-startup.service"),
    *("incus.service", "lxcfs.service"),
)
ENGINE_TABLE = ("inet", "incus")
_ADDRESS = re.compile(r"ip address replace (\S+/32) dev lo")
_BLOCK = re.compile(r"^# BEGIN Hearth\n.*?^# END Hearth\n?", re.DOTALL | re.MULTILINE)
MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")
# Docker, libvirt and tunnels set these once, when they start.
_NEEDED_BY = {
    "net.ipv4.ip_forward": ("bridge", "wireguard"),
    "net.ipv4.conf.all.src_valid_mark": ("wireguard",),
}


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """Everything that goes, in order, and everything that stays, each with its reason."""

    goes: list[Trace] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)


def plan_removal(project: Project, data: bool) -> RemovalPlan:
    """Return what would go; nothing is changed."""
    seen = before.read_record()
    client = incus.connect()
    volumes = [] if data or client is None else sorted(data_volumes(client))
    others = incus.foreign(client) if client else []
    contained = containers.of_all()
    in_podman = containers.stays(data)
    # Their units first: Podman's containers would be started again.
    goes = containers.of_services(contained, contained if data else ())
    goes += containers.unused_images((), all_unused=True)
    goes += units()
    goes += incus.everything(client, data) if client else []
    goes += firewall() + settings(seen)
    needed = ({ENGINE} if volumes or others else set()) | ({PODMAN} if in_podman else set())
    left = before.choose_packages(seen, before.requested(), needed)
    if client is None:
        incus.check_stopped(data, ENGINE in left.goes)
    if ENGINE in left.goes:
        goes += engine()
    # A purge that was killed at its very end leaves its list.
    if left.goes or before.unfinished():
        text = f"packages: {' '.join(left.goes) or 'the list of a finished purge'}"
        goes.append(Trace(text, partial(before.purge, left.goes)))
    goes += _leftovers(left.goes, seen)
    goes += users()
    goes += folders(_files(project, seen, data))
    stays = [f"data  volume {name} in Incus' pool" for name in volumes]
    stays += [f"Incus: {name}, which Hearth did not make" for name in others]
    stays += in_podman
    stays += [f"package {name}: {why}" for name, why in left.stays.items()]
    kernel = settings_in_use(seen)
    stays += [f"kernel setting {name}: {why}" for name, why in kernel.items()]
    goes += _record(keep=bool(volumes or others or in_podman or left.stays or kernel))
    if goes:
        goes.append(Trace("the state of units in systemd", reload_units))
    return RemovalPlan(goes, stays + _on_purpose(project, data))


def _leftovers(going: tuple[str, ...], seen: Before) -> Iterator[Trace]:
    """List what packages leave behind that was not there before they were installed.

    Also of packages that are gone already: a removal may have been killed right after them.
    """
    if not seen.known:
        return
    here = set(before.installed()) - {*going}
    for package in sorted(_LEFT.keys() - here - seen.packages):
        accounts, places = _LEFT[package]
        for user in sorted({*accounts} - seen.users - seen.groups):
            # A package that people installed later shares it with Hearth's.
            shared = any(name.startswith(user) for name in here)
            if is_known(user) and not shared:
                yield Trace(f"user {user} of {package}", partial(drop_user, user))
        yield from folders(Path(name) for name in places if name not in seen.paths)
        for name, text in seen.subordinate.items() if package == ENGINE else ():
            if _others_ranges(Path(name), text) != before.content(Path(name)):
                yield Trace(f"ranges of users in {name}", partial(_drop_ranges, Path(name), text))


def _files(project: Project, seen: Before, data: bool) -> list[Path]:
    """List Hearth's own folders and files, except its records, which go last."""
    state = before.STATE
    records = {
        state / name for name in ("before.json", before.REQUESTED, before.UNFINISHED, "converged")
    }
    found = [Path("/etc/hearth"), Path("/var/cache/hearth")]
    found += [project.root / name for name in (EARLIER, NO_ANSIBLE, BROUGHT)]
    found += [path for path in state.glob("*") if path not in records]
    # A mask that a person made stays.
    masks = (Path("/", UNITS, unit) for unit in MASKED)
    found += [path for path in masks if str(path) not in seen.paths and path.is_symlink()]
    if _COMMAND.is_symlink() and _COMMAND.readlink() == project.root / "scripts" / "hearth":
        found.append(_COMMAND)
    if seen.known:
        found += [Path(name) for name in _TOOLS if name not in seen.paths]
    if data:
        vault = project.vault
        found += [vault.path, vault.password_file, *vault.password_file.parent.glob("*.lock")]
    return found + [
        Path(name) for name in _EMPTY if name not in seen.paths and _is_ours(Path(name), found)
    ]


def _is_ours(folder: Path, going: list[Path]) -> bool:
    """Return whether a folder holds only files that go."""
    return folder.is_dir() and all(
        path in going or path.name.startswith(("hearth", "60-hearth")) for path in folder.glob("*")
    )


def _record(keep: bool) -> list[Trace]:
    """List the records; those of the earlier machine stay until everything is gone."""
    state = before.STATE
    converged = folders([state / "converged"])
    return converged if keep else converged + folders([state, runs.LOCK, quiet.LOCK])


def _on_purpose(project: Project, data: bool) -> list[str]:
    stays = [f"the project and its inventory: {project.root}"]
    if not data and project.vault.path.exists():
        stays.append(
            f"the secrets and the authority: {project.vault.path} and {project.vault.password_file}"
        )
    if Path("/var/backups/hearth").is_dir():
        stays.append("backups: /var/backups/hearth")
    return stays


def _others_ranges(path: Path, earlier: str) -> str:
    """Return the file without root's new ranges: Incus adds them, and accounts get their own."""
    old = earlier.splitlines()
    lines = before.content(path).splitlines(keepends=True)
    return "".join(x for x in lines if x.rstrip("\n") in old or not x.startswith("root:"))


def _drop_ranges(path: Path, earlier: str) -> None:
    path.write_text(_others_ranges(path, earlier))


def units(root: Path = Path("/")) -> list[Trace]:
    """List every unit of the house except the firewall's, first those that start others."""
    names = {path.name for path in (root / UNITS).glob("hearth-*")} | _loaded()
    ordered = sorted(names - {FIREWALL_UNIT}, key=lambda name: (not name.endswith(_STARTERS), name))
    return [Trace(f"unit {name}", partial(drop_unit, name, root)) for name in ordered]


def firewall(root: Path = Path("/")) -> list[Trace]:
    """List the rules, the resolver's address and their unit, which are stopped last."""
    path = root / UNITS / FIREWALL_UNIT
    found = []
    if address := _ADDRESS.search(path.read_text()) if path.exists() else None:
        words = ("address", "delete", address[1], "dev", "lo")
        found.append(_command(f"address {address[1]} of lo", "/usr/sbin/ip", *words))
    if _ran("/usr/sbin/nft", "list", "table", *TABLE):
        found.append(_table(TABLE))
    if rules := _rules_of_docker():
        what = f"rules of the house in Docker's chain {DOCKER[-1]}"
        found.append(Trace(what, partial(_drop_rules, rules)))
    if path.exists():
        # After the table: these block what the table no longer filters.
        found.append(Trace(f"routing rules {', '.join(MARK_RULES)}", _drop_mark_rules))
        found.append(Trace(f"unit {FIREWALL_UNIT}", partial(drop_unit, FIREWALL_UNIT, root)))
    return found


def _command(what: str, *argv: str) -> Trace:
    return Trace(what, partial(_ran, *argv))


def _table(name: tuple[str, str]) -> Trace:
    return _command(f"rules: table {' '.join(name)}", "/usr/sbin/nft", "delete", "table", *name)


def _rules_of_docker() -> list[str]:
    """Return the handles of the house's rules in Docker's own chain."""
    try:
        listed = json.loads(run("/usr/sbin/nft", "--json", "list", "chain", *DOCKER))["nftables"]
    except RemoveError:
        return []
    rules = [item["rule"] for item in listed if "rule" in item]
    return [str(rule["handle"]) for rule in rules if rule.get("comment") == "Hearth"]


def _drop_rules(handles: Iterable[str]) -> None:
    for handle in handles:
        _ran("/usr/sbin/nft", "delete", "rule", *DOCKER, "handle", handle)


def _drop_mark_rules() -> None:
    for number in MARK_RULES:
        _ran("/usr/sbin/ip", "rule", "delete", "pref", number)


def engine() -> list[Trace]:
    """List the units of Incus that outlive its package, and its firewall table."""
    found = [
        _command(f"running {name}", "/usr/bin/systemctl", "stop", name)
        for name in ENGINE_UNITS
        if _ran("/usr/bin/systemctl", "is-active", "--quiet", name)
    ]
    if found or _ran("/usr/sbin/nft", "list", "table", *ENGINE_TABLE):
        found.append(_table(ENGINE_TABLE))
    return found


def settings(before: Before, root: Path = Path("/")) -> list[Trace]:
    """List the files of converged programs, and the changed kernel settings."""
    found = folders(_recorded(root))
    needed = settings_in_use(before, root)
    for name, value in (before.kernel if before.known else {}).items():
        if kernel_value(name) != value and name not in needed:
            text = f"kernel setting {name}, which was {value}"
            found.append(_command(text, "/usr/sbin/sysctl", "-q", "-w", f"{name}={value}"))
    hosts = root / "etc/hosts"
    if hosts.exists() and _BLOCK.search(hosts.read_text()):
        found.append(Trace("the house's names in /etc/hosts", partial(_drop_names, hosts)))
    return found


def settings_in_use(before: Before, root: Path = Path("/")) -> dict[str, str]:
    """Return the changed settings that stay, each with the network that may need it."""
    found: dict[str, str] = {}
    if not before.known:
        return found
    for path in sorted((root / "sys/class/net").glob("*/uevent")):
        if f"/sys/class/net/{path.parent.name}" in before.paths:
            continue
        kind = path.read_text().partition("DEVTYPE=")[2].partition("\n")[0]
        for name, value in before.kernel.items():
            if kind in _NEEDED_BY.get(name, ()) and kernel_value(name) != value:
                found.setdefault(name, f"the {kind} {path.parent.name} may need it")
    return found


def users(root: Path = Path("/")) -> list[Trace]:
    """List the users that Hearth created, by their sysusers files."""
    found = []
    for path in sorted((root / "etc/sysusers.d").glob("hearth-*.conf")):
        names = [line.split()[1] for line in path.read_text().splitlines() if line[:2] == "u "]
        found += [
            Trace(f"user {name}", partial(drop_user, name)) for name in names if is_known(name)
        ]
        found += folders([path])
    return found


def folders(paths: Iterable[Path]) -> list[Trace]:
    """List those of the given folders and files that exist."""
    return [
        Trace(f"{'folder' if path.is_dir() else 'file'} {path}", partial(drop_path, path))
        for path in paths
        if path.exists() or path.is_symlink()
    ]


def drop_path(path: Path) -> None:
    """Remove a file, a link, or a folder with its contents.

    File systems mounted below it are unmounted and keep their contents.

    Raises:
        RemoveError: such a mount is in use.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # The list of mounts has real paths, without links.
    path = path.resolve()
    _unmount(lambda place: path in place.parents)
    if path in _mounts():
        # A disk of its own for Hearth's files: it is emptied and unmounted.
        for inside in path.iterdir():
            drop_path(inside)
        _unmount(lambda place: place == path)
    shutil.rmtree(path)


def drop_user(name: str) -> None:
    """Remove a user and the group of the same name."""
    if _ran("/usr/bin/getent", "passwd", name):
        run("/usr/sbin/userdel", name)
    _ran("/usr/sbin/groupdel", name)


def reload_units() -> None:
    """Let systemd forget the removed units."""
    run("/usr/bin/systemctl", "daemon-reload")
    _ran("/usr/bin/systemctl", "reset-failed", "hearth-*")


def _recorded(root: Path) -> list[Path]:
    """Return the files of the machine that the records of converged programs name."""
    # Older records have no list of files.
    found = {*root.glob("etc/sysctl.d/*-hearth.conf"), *root.glob("etc/systemd/*.d/hearth.conf")}
    for path in sorted((root / "var/lib/hearth/converged").glob("*.json")):
        try:
            found |= {root / name.lstrip("/") for name in json.loads(path.read_text())["files"]}
        except (ValueError, KeyError):
            continue
    # Units and users have functions of their own.
    others = (root / UNITS, root / "etc/sysusers.d")
    return sorted(path for path in found if path.parent not in others)


def _loaded() -> set[str]:
    words = ("list-units", "--all", "--plain", "--no-legend", "hearth-*")
    shown = run("/usr/bin/systemctl", *words)
    return {line.split()[0] for line in shown.splitlines() if line.strip()}


def drop_unit(name: str, root: Path = Path("/")) -> None:
    """Stop a unit, and remove its file and its drop-ins."""
    path = root / UNITS / name
    # A folder holds drop-ins that a person added by `systemctl edit`.
    if not path.is_dir():
        # A transient unit (a test's) can be stopped, but not disabled.
        _ran("/usr/bin/systemctl", "disable", "--now", "--quiet", name)
        _ran("/usr/bin/systemctl", "stop", name)
    drop_path(path)
    stamp = root / "var/lib/systemd/timers" / f"stamp-{name}"
    stamp.unlink(missing_ok=True)


def _drop_names(hosts: Path) -> None:
    new = _BLOCK.sub("", hosts.read_text()).encode()
    try:
        write_atomic(hosts, new)
    except OSError:
        # In some machines the file is a mount, which cannot be replaced.
        hosts.write_bytes(new)


def _unmount(chosen: Callable[[Path], bool]) -> None:
    for place in sorted(filter(chosen, _mounts()), reverse=True):
        _ran("/usr/bin/umount", "--lazy", str(place))
    if left := [*filter(chosen, _mounts())]:
        raise RemoveError(
            f"{left[0]} cannot be unmounted: see why with `umount {shlex.quote(str(left[0]))}`, "
            "then run this again"
        )


def _mounts() -> list[Path]:
    places = [row.split()[1] for row in MOUNTS.read_text().splitlines()]
    # A space is written as \\040.
    return [Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), place)) for place in places]


def is_known(name: str) -> bool:
    """Return whether there is a user or a group of this name."""
    return any(_ran("/usr/bin/getent", kind, name) for kind in ("passwd", "group"))


def _ran(*argv: str) -> bool:
    """Run a program and return whether it succeeded; a missing target is not an error."""
    try:
        run(*argv)
    except RemoveError:
        return False
    return True
