"""Make each instance what it shall be: created, rebuilt, changed, started, or gone."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from pylxd import Client
from pylxd.exceptions import LXDAPIException, NotFound

from hearth.machine import instance_exec
from hearth.machine.instance_config import IMAGE_KEY, OWNER_KEY, POOL, Instance
from hearth.machine.instance_exec import ExecError, Output
from hearth.paths import PROGRAMS

RUNNING_CODE = 103
READY_LIMIT_S = 60
SETTLE_LIMIT_S = 300.0
NESTING_KEY = "security.nesting"
# That it was Hearth who set it, so that what somebody else set is told apart.
NESTED_KEY = "user.hearth.nesting"
# What every unit of Hearth needs of systemd inside an instance: a secret, and a shut file system.
PROBE = (
    # A file that every Debian has; a small one of release 12 has no /etc/hosts.
    *("systemd-run", "--quiet", "--wait", "--pipe", "--property=LoadCredential=probe:/etc/passwd"),
    *("--property=DynamicUser=yes", "--property=ProtectSystem=strict"),
    *(
        "/bin/sh",
        "-c",
        'test -r "$CREDENTIALS_DIRECTORY/probe" || { echo no credential >&2; exit 1; }',
    ),
)


class InstanceError(RuntimeError):
    """An instance could not be made; the text says which one and what to do."""


def ensure_pool(client: Client, write: bool) -> list[str]:
    """Make the storage pool of the house where it lacks; say what was lacking."""
    if write:
        # Instances see it read-only; it must be there before the first one starts.
        PROGRAMS.mkdir(parents=True, exist_ok=True)
    if client.storage_pools.exists(POOL):
        return []
    if write:
        client.storage_pools.create({"name": POOL, "driver": "dir", "config": {}})
    return [f"storage pool {POOL}"]


def ensure_volumes(client: Client, instance: Instance, write: bool) -> list[str]:
    """Make the volumes that hold the service's data; a volume that is there is never touched."""
    if not instance.volumes:
        return []
    try:
        pool = client.storage_pools.get(POOL)
        present = {volume.name for volume in pool.volumes.all() if volume.type == "custom"}
    except NotFound:
        pool, present = None, set()
    missing = [name for name in instance.volumes if name not in present]
    if write and pool is not None:
        for name in missing:
            pool.volumes.create({"name": name, "type": "custom", "config": {}}, wait=True)
    return [f"volume {name}" for name in missing]


def find(client: Client, name: str) -> Any | None:
    """The instance of that name if it is Hearth's; refuse one that is somebody else's.

    Raises:
        InstanceError: There is one that Hearth did not make.
    """
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
    """Whether commands can be run in the instance."""
    found = find(client, name)
    return found is not None and found.status_code == RUNNING_CODE


def ensure(client: Client, wanted: Instance, write: bool) -> list[str]:
    """Create, rebuild, update or start one instance; give what was done, in words."""
    done = ensure_volumes(client, wanted, write)
    found = find(client, wanted.name)
    if found is not None and found.config.get(IMAGE_KEY) != wanted.image:
        # The system is new, the data stay: they lie in volumes of their own.
        done.append(f"rebuild {wanted.name} from {wanted.image}")
        if write:
            remove(found)
        found = None
    elif found is None:
        done.append(f"create {wanted.name} from {wanted.image}")
    fresh = found is None
    nested = found is not None and NESTING_KEY in found.config
    if found is None:
        if not write:
            return done
        found = _create(client, wanted)
    else:
        done += _update(found, wanted, write)
    if found.status_code != RUNNING_CODE:
        done.append(f"start {wanted.name}")
        if write:
            found.start(wait=True)
            wait_ready(client, found)
            done += _ensure_credentials(client, found)
    elif nested and NESTING_KEY not in found.config:
        # Whoever gave what was just taken away may have known why.
        done += _ensure_credentials(client, found)
    if fresh:
        # Last: one that a killed run did not finish names no image, and is rebuilt.
        _note(client, found, **{IMAGE_KEY: wanted.image})
    return done


def settle(client: Client, within_s: float = SETTLE_LIMIT_S) -> None:
    """Return when Incus has ended what it does by itself, such as what a killed run asked for."""
    end = time.monotonic() + within_s
    while _at_work(client) and time.monotonic() < end:
        time.sleep(0.2)


def _at_work(client: Client) -> list[str]:
    answer = client.api.operations.get(params={"recursion": "1"}).json()
    running = (answer.get("metadata") or {}).get("running") or []
    # The other classes are commands and shells of people, which may last for ever.
    return [operation["description"] for operation in running if operation["class"] == "task"]


def _ensure_credentials(client: Client, found: Any) -> list[str]:
    """Let systemd hand secrets to units inside, which some machines' AppArmor forbids at first."""
    if _inside(client, found, PROBE).exit_code == 0:
        return []
    # Incus' profile for nesting allows the mounts that credentials need (lxc/incus#887).
    _note(client, found, **{NESTING_KEY: "true", NESTED_KEY: "1"})
    found.restart(wait=True)
    wait_ready(client, found)
    probed = _inside(client, found, PROBE)
    if probed.exit_code:
        words = probed.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise InstanceError(
            f"instance {found.name} cannot give a hardened unit its secrets ({words[-1]}); look "
            "for AppArmor's refusal in `journalctl -k`"
        )
    return [f"{found.name}: {NESTING_KEY}, since this machine's AppArmor forbids credentials"]


def _note(client: Client, found: Any, **config: str) -> None:
    """Set some keys of an instance that runs; its start gave it keys of Incus' own, which stay."""
    # pylxd's `save` sends all keys as they were first read, and its `sync` reads none again.
    client.api.instances[found.name].patch(json={"config": config})


def _create(client: Client, wanted: Instance) -> Any:
    try:
        return client.instances.create(
            {
                "name": wanted.name,
                "type": "container",
                "source": {"type": "image", "alias": wanted.image},
                "config": {k: v for k, v in wanted.config.items() if k != IMAGE_KEY},
                "devices": {key: dict(value) for key, value in wanted.devices.items()},
                "profiles": [],
            },
            wait=True,
        )
    except LXDAPIException as error:
        raise InstanceError(f"instance {wanted.name} was not created: {error}") from None


def _update(found: Any, wanted: Instance, write: bool) -> list[str]:
    # Incus adds keys of its own, and the machine may need nesting; all others are the catalogue's.
    kept = {
        key: value
        for key, value in found.config.items()
        if key.startswith(("volatile.", "image.", NESTED_KEY))
    }
    nesting = {NESTING_KEY: "true"} if NESTED_KEY in kept else {}
    config = {**kept, **nesting, **wanted.config}
    devices = {key: dict(value) for key, value in wanted.devices.items()}
    changes = [
        f"{wanted.name}: {key}"
        for key in sorted({*found.config, *config})
        if found.config.get(key) != config.get(key)
    ]
    changes += [
        f"{wanted.name}: device {key}"
        for key in sorted({*found.devices, *devices})
        if found.devices.get(key) != devices.get(key)
    ]
    # One would bring devices of its own: another network, which no rule judges.
    changes += [f"{wanted.name}: profiles"] if found.profiles else []
    if changes and write:
        found.config, found.devices, found.profiles = config, devices, []
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
    """Return when the instance's systemd has come up (or says that something in it failed)."""
    end = time.monotonic() + READY_LIMIT_S
    while True:
        with contextlib.suppress(LXDAPIException, ExecError, OSError):
            state = _inside(client, found, ["systemctl", "is-system-running"]).stdout.strip()
            if state in (b"running", b"degraded"):
                return
        if time.monotonic() > end:
            raise InstanceError(
                f"instance {found.name} did not come up in {READY_LIMIT_S} s: "
                f"look with `incus console {found.name} --show-log`"
            )
        time.sleep(0.2)


def _inside(client: Client, found: Any, argv: Sequence[str]) -> Output:
    return instance_exec.execute(client, found.name, argv)
