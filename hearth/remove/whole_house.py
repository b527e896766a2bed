"""Remove the whole house: what goes, in a safe order, and what stays on purpose."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hearth.machine import runs
from hearth.machine.environment import MASK
from hearth.project import Project
from hearth.remove import Trace, before, incus, machine
from hearth.remove.before import ANSIBLE, BROUGHT, EARLIER, NO_ANSIBLE, Before

ENGINE = "incus-base"
# Users and folders that stay behind when these packages are purged.
_LEFT = {
    "caddy": (("caddy",), ("/var/lib/caddy",)),
    "dnsmasq-base": (("dnsmasq",), ("/etc/dnsmasq.d",)),
    ENGINE: (
        ("incus", "incus-admin", "_incus"),
        ("/var/lib/incus", "/var/log/incus", "/var/cache/incus", "/root/.config/incus"),
    ),
    "lxcfs": ((), ("/var/lib/lxcfs",)),
}
# Created by tools that Hearth runs; removed only if they were not there before.
_TOOLS = (ANSIBLE, "/root/.step", "/root/.cache/incus", "/root/.cache/uv")
_COMMAND = Path("/usr/local/bin/hearth")


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that goes, in order, and everything that stays, each with its reason."""

    goes: list[Trace] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)


def plan_removal(project: Project, data: bool) -> Plan:
    """Return what would go; nothing is changed."""
    seen = before.read_record()
    client = incus.connect()
    volumes = [] if data or client is None else sorted(incus.volumes(client))
    others = incus.foreign(client) if client else []
    goes = machine.units()
    goes += incus.everything(client, data) if client else []
    goes += machine.firewall() + machine.settings(seen)
    left = before.choose_packages(seen, before.requested(), {ENGINE} if volumes or others else ())
    if client is None:
        incus.check_stopped(data, ENGINE in left.goes)
    if ENGINE in left.goes:
        goes += machine.engine()
    # A purge that was killed at its very end leaves its list.
    if left.goes or before.unfinished():
        text = f"packages: {' '.join(left.goes) or 'the list of a finished purge'}"
        goes.append(Trace(text, partial(before.purge, left.goes)))
    goes += _leftovers(left.goes, seen)
    goes += machine.users()
    goes += machine.folders(_files(project, seen, data))
    stays = [f"data  volume {name} in Incus' pool" for name in volumes]
    stays += [f"Incus: {name}, which Hearth did not make" for name in others]
    stays += [f"package {name}: {why}" for name, why in left.stays.items()]
    kernel = machine.settings_in_use(seen)
    stays += [f"kernel setting {name}: {why}" for name, why in kernel.items()]
    goes += _record(keep=bool(volumes or others or left.stays or kernel))
    if goes:
        goes.append(Trace("the state of units in systemd", machine.reload_units))
    return Plan(goes, stays + _on_purpose(project, data))


def _leftovers(going: tuple[str, ...], seen: Before) -> Iterator[Trace]:
    """List what packages leave behind that was not there before they were installed.

    Also of packages that are gone already: a removal may have been killed right after them.
    """
    if not seen.known:
        return
    here = set(before.installed()) - {*going}
    for package in sorted(_LEFT.keys() - here - seen.packages):
        users, folders = _LEFT[package]
        for user in sorted({*users} - seen.users - seen.groups):
            if machine.is_known(user):
                yield Trace(f"user {user} of {package}", partial(machine.drop_user, user))
        gone = [Path(name) for name in folders if name not in seen.paths]
        yield from machine.folders(gone)
        for name, text in seen.subordinate.items() if package == ENGINE else ():
            if before.content(Path(name)) != text:
                yield Trace(f"ranges of users in {name}", partial(_put_back, Path(name), text))


# Folders that go if they hold only Hearth's files.
_EMPTY = (
    *("/etc/systemd/sleep.conf.d", "/etc/systemd/system/incus.service.d", "/etc/sysusers.d"),
    *("/root/.config/hearth", "/root/.cache"),
)


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
    found += [Path(f"/{MASK}")] if f"/{MASK}" not in seen.paths else []
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
    converged = machine.folders([state / "converged"])
    return converged if keep else converged + machine.folders([state, runs.LOCK])


def _on_purpose(project: Project, data: bool) -> list[str]:
    stays = [f"the project and its inventory: {project.root}"]
    if not data and project.vault.path.exists():
        stays.append(
            f"the secrets and the authority: {project.vault.path} and {project.vault.password_file}"
        )
    if Path("/var/backups/hearth").is_dir():
        stays.append("backups: /var/backups/hearth")
    return stays


def _put_back(path: Path, text: str) -> None:
    if text or path.exists():
        path.write_text(text)
