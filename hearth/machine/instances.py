"""Describe each instance, and converge it: created, rebuilt, changed, started, or removed."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pylxd import Client
from pylxd.exceptions import LXDAPIException, NotFound

from hearth.catalogue.house import Service
from hearth.machine import engine
from hearth.machine.engine import POOL, EngineError
from hearth.machine.images import IMAGE_KEY, Recipe
from hearth.paths import PROGRAMS

# Fixed numbers, so that what a program wrote to its volume is its own in the next instance, too.
SERVICE_UID = 900
OWNER_KEY = "user.hearth"
# For a record without limits: enough for its models, and a runaway program still leaves the machine
# enough for a repair. They are only a bound, so nothing is added up from them.
DEFAULT_LIMITS = {"limits.memory": "80%", "limits.processes": "4096"}
RUNNING_CODE = 103
_LINK = "eth0"
READY_LIMIT_S = 60
SETTLE_LIMIT_S = 300.0
NESTING_KEY = "security.nesting"
# Marks nesting that Hearth enabled, to tell it from nesting that a person enabled.
NESTED_KEY = "user.hearth.nesting"
# Every unit of Hearth needs this from systemd in an instance: a credential, a read-only system.
PROBE = (
    # Every Debian has this file; a minimal Debian 12 has no /etc/hosts.
    *("systemd-run", "--quiet", "--wait", "--pipe", "--property=LoadCredential=probe:/etc/passwd"),
    *("--property=DynamicUser=yes", "--property=ProtectSystem=strict", "/bin/sh", "-c"),
    'test -r "$CREDENTIALS_DIRECTORY/probe" || { echo no credential >&2; exit 1; }',
)


class InstanceError(RuntimeError):
    """An instance could not be converged; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as Incus' API takes it: config and devices."""

    name: str
    image: str
    config: dict[str, str]
    devices: dict[str, dict[str, str]]
    volumes: tuple[str, ...] = ()
    programs: tuple[Path, ...] = ()  # folders of the machine that it mounts


def describe(
    service: Service, recipe: Recipe, render_nodes: Sequence[str], accelerator: str
) -> Instance:
    """Return the instance that a service's record describes, on a machine with these nodes."""
    config = {
        OWNER_KEY: "1",
        IMAGE_KEY: recipe.alias,
        "boot.autostart": "true",
        # Incus restarts an instance whose first process was killed, without a run of Hearth.
        "boot.autorestart": "true",
        "boot.autostart.priority": str(100 - service.start_order),
        "security.idmap.isolated": "true",
        # Incus' own socket inside would reveal the machine's paths, and no program of ours uses it.
        "security.guestapi": "false",
        **DEFAULT_LIMITS,
    }
    limits = service.limits
    bounds = {"memory": limits.memory, "cpu": limits.cpus, "processes": limits.tasks}
    # Incus takes 2 processors, not 2.0 as the house has them.
    config |= {
        f"limits.{key}": f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in bounds.items()
        if value
    }
    devices = {
        "root": {"type": "disk", "path": "/", "pool": POOL},
        _LINK: {
            "type": "nic",
            "nictype": "routed",
            "ipv4.address": str(service.address),
            "host_name": service.host_name,
        },
    }
    programs = tuple(PROGRAMS / name for name in service.programs)
    for path in programs:
        # The folder with all versions: a switched `current` is seen without a change here.
        mount = _disk(f"/opt/hearth/{path.name}", str(path), readonly="true")
        devices[f"program-{path.name}"] = mount
    for number, volume in enumerate(service.volumes):
        source = volume.from_folder
        own = _disk(volume.path, volume.name, pool=POOL)
        devices[f"data{number}"] = _disk(volume.path, source, shift="true") if source else own
    if accelerator == "cuda":
        devices["gpu"] = {"type": "gpu", "gputype": "physical"}
        config["nvidia.runtime"] = "true"
        config["nvidia.driver.capabilities"] = "compute,utility"
    if accelerator == "vulkan":
        for number, node in enumerate(render_nodes):
            # Not required: a card that appears late must not keep the service from starting.
            devices[f"render{number}"] = {
                "type": "unix-char",
                "source": node,
                "required": "false",
                "gid": str(SERVICE_UID),
                "mode": "0660",
            }
    volumes = tuple(volume.name for volume in service.volumes if not volume.from_folder)
    return Instance(service.instance, recipe.alias, config, devices, volumes, programs)


def _disk(path: str, source: str, **more: str) -> dict[str, str]:
    return {"type": "disk", "path": path, "source": source, **more}


def ensure_pool(client: Client, write: bool) -> list[str]:
    """Create the house's storage pool if it is missing; return what was missing."""
    if client.storage_pools.exists(POOL):
        return []
    if write:
        client.storage_pools.create({"name": POOL, "driver": "dir", "config": {}})
    return [f"storage pool {POOL}"]


def ensure_volumes(client: Client, instance: Instance, write: bool) -> list[str]:
    """Create the missing volumes for the service's data; an existing volume is never touched."""
    present = engine.data_volumes(client) if instance.volumes else {}
    missing = [name for name in instance.volumes if name not in present]
    for name in missing if write else ():
        pool = client.storage_pools.get(POOL)
        pool.volumes.create({"name": name, "type": "custom", "config": {}}, wait=True)
    return [f"volume {name}" for name in missing]


def find(client: Client, name: str) -> Any:
    """Return the instance of that name, or None; InstanceError for one Hearth did not make."""
    try:
        found = client.instances.get(name)
    except NotFound:
        return None
    if found.config.get(OWNER_KEY) != "1":
        raise InstanceError(
            f"Incus already has an instance {name} that Hearth did not make; rename it "
            f"(incus rename {name} NEW) or rename the service"
        )
    return found


def is_running(client: Client, name: str) -> bool:
    """Return whether commands can be run in the instance."""
    found = find(client, name)
    return found is not None and found.status_code == RUNNING_CODE


def stop_those_with_new_links(client: Client, wanted: Iterable[Instance]) -> None:
    """Stop running instances whose address changes; `ensure` starts them again.

    Incus gives a link its address only when it starts the instance, and a new address may be one
    that another instance still has.
    """
    for item in wanted:
        found = find(client, item.name)
        if found is None or found.status_code != RUNNING_CODE:
            continue
        if found.devices.get(_LINK) != item.devices[_LINK]:
            found.stop(force=True, wait=True)


def ensure(client: Client, wanted: Instance, write: bool) -> list[str]:
    """Create, rebuild, update or start one instance; return the steps taken, as text."""
    done = ensure_volumes(client, wanted, write)
    found = find(client, wanted.name)
    mounted = {device.get("source") for device in found.devices.values()} if found else set()
    missing = [path for path in wanted.programs if not path.is_dir()]
    # Incus mounts only what exists.
    for path in missing if write else ():
        path.mkdir(parents=True, exist_ok=True)
    # Only the system is rebuilt; the data are in volumes of their own.
    fresh = found is None or found.config.get(IMAGE_KEY) != wanted.image
    nested = not fresh and NESTING_KEY in found.config
    if fresh:
        verb = "create" if found is None else "rebuild"
        done.append(f"{verb} {wanted.name} from {wanted.image}")
        if not write:
            return done
        if found is not None:
            remove(found)
        found = _create(client, wanted)
    else:
        done += _update(found, wanted, write)
    if found.status_code != RUNNING_CODE:
        done.append(f"start {wanted.name}")
        if write:
            found.start(wait=True)
            wait_ready(client, found)
            done += _ensure_credentials(client, found)
    elif lost := [path for path in missing if str(path) in mounted]:
        # It still has the deleted folder mounted, and would not see the new one.
        done.append(f"restart {wanted.name}, since {lost[0]} was missing")
        if write:
            found.restart(wait=True)
            wait_ready(client, found)
    elif nested and NESTING_KEY not in found.config:
        # The nesting that was just removed may have been needed.
        done += _ensure_credentials(client, found)
    if fresh:
        # Last: an instance that a killed run left unfinished has no image key, and is rebuilt.
        _patch_config(client, found, **{IMAGE_KEY: wanted.image})
    return done


def settle(client: Client, within_s: float = SETTLE_LIMIT_S) -> None:
    """Wait until Incus has finished its running operations, such as those of a killed run."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        response = client.api.operations.get(params={"recursion": "1"}).json()
        running = (response.get("metadata") or {}).get("running") or []
        # The other classes are commands and shells of people, which may never end.
        if all(operation["class"] != "task" for operation in running):
            return
        time.sleep(0.2)


def _ensure_credentials(client: Client, found: Any) -> list[str]:
    """Let systemd in the instance use credentials; AppArmor on some machines forbids them."""
    if _probe(client, found).returncode == 0:
        return []
    # Incus' profile for nesting allows the mounts that credentials need (lxc/incus#887).
    _patch_config(client, found, **{NESTING_KEY: "true", NESTED_KEY: "1"})
    found.restart(wait=True)
    wait_ready(client, found)
    probed = _probe(client, found)
    if probed.returncode:
        lines = probed.stderr.decode(errors="replace").strip().splitlines() or ["no error message"]
        raise InstanceError(
            f"instance {found.name} cannot pass secrets to a hardened unit ({lines[-1]}); look "
            "for AppArmor's denial in `journalctl -k`"
        )
    return [f"{found.name}: {NESTING_KEY}, since this machine's AppArmor forbids credentials"]


def _probe(client: Client, found: Any) -> engine.Output:
    """Start a unit with a credential in the instance."""
    try:
        return engine.run_inside(client, found.name, PROBE)
    except engine.OutputLost as lost:
        # A busy Incus loses output now and then; the exit code says what matters.
        return engine.Output(lost.returncode, b"", b"")


def _patch_config(client: Client, found: Any, **config: str) -> None:
    """Set some keys of a running instance and keep the keys that Incus itself added."""
    # pylxd's `save` sends all keys as first read, and its `sync` does not refresh them.
    client.api.instances[found.name].patch(json={"config": config})


def _create(client: Client, wanted: Instance) -> Any:
    try:
        return client.instances.create(
            {
                "name": wanted.name,
                "type": "container",
                "source": {"type": "image", "alias": wanted.image},
                "config": {k: v for k, v in wanted.config.items() if k != IMAGE_KEY},
                "devices": wanted.devices,
                "profiles": [],
            },
            wait=True,
        )
    except LXDAPIException as error:
        raise InstanceError(f"instance {wanted.name} was not created: {error}") from None


def _update(found: Any, wanted: Instance, write: bool) -> list[str]:
    # Incus adds keys, and the machine may need nesting; all other keys come from the catalogue.
    kept = {
        key: value
        for key, value in found.config.items()
        if key.startswith(("volatile.", "image.", NESTED_KEY))
    }
    nesting = {NESTING_KEY: "true"} if NESTED_KEY in kept else {}
    config = {**kept, **nesting, **wanted.config}
    pairs = (("", found.config, config), ("device ", found.devices, wanted.devices))
    changes = [
        f"{wanted.name}: {kind}{key}"
        for kind, old, new in pairs
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
    # A profile may add devices, such as a network that no firewall rule covers.
    changes += [f"{wanted.name}: profiles"] if found.profiles else []
    if changes and write:
        found.config, found.devices, found.profiles = config, wanted.devices, []
        try:
            found.save(wait=True)
        except LXDAPIException as error:
            raise InstanceError(f"instance {wanted.name} was not changed: {error}") from None
    return changes


def remove(found: Any) -> None:
    """Stop and delete one instance; its volumes stay."""
    with contextlib.suppress(LXDAPIException):
        found.stop(force=True, wait=True)
    found.delete(wait=True)


def wait_ready(client: Client, found: Any) -> None:
    """Wait until the instance's systemd has started, even if a unit in it failed."""
    end = time.monotonic() + READY_LIMIT_S
    while True:
        with contextlib.suppress(LXDAPIException, EngineError, OSError):
            argv = ["systemctl", "is-system-running"]
            state = engine.run_inside(client, found.name, argv).stdout.strip()
            if state in (b"running", b"degraded"):
                return
        if time.monotonic() > end:
            raise InstanceError(
                f"instance {found.name} did not start in {READY_LIMIT_S} s: "
                f"look with `incus console {found.name} --show-log`"
            )
        time.sleep(0.2)
