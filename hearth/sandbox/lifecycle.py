"""Create, list and delete sandboxes; sweep those whose hour is over or whose creation was killed.

Incus holds the state: the keys `user.hearth.sandbox*` of the instance. The copy is Incus' own,
which is copy-on-write where the pool can do that.
"""

import contextlib
import json
import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service
from hearth.machine import engine, instances
from hearth.machine.engine import POOL, SANDBOX_NAME, SOCKET
from hearth.machine.images import IMAGE_KEY, available_bytes
from hearth.machine.instances import OWNER_KEY, SERVICE_UID
from hearth.paths import PROGRAMS
from hearth.render.units import CREDENTIALS_FOLDER
from hearth.sandbox import SandboxError

MOST = 8
LIFETIME_S = 3600.0
MEMORY_BYTES = 1 << 30
# What a sandbox may write, and what must stay free on the machine's disk and in its memory.
DISK_BYTES, DISK_RESERVE_BYTES, MEMORY_RESERVE_BYTES = 1 << 30, 2 << 30, 512 << 20
ROOTS = Path("/var/lib/incus/storage-pools") / POOL / "containers"
_KEY = "user.hearth.sandbox"
_MADE, _READY, _ENDS = f"{_KEY}.made", f"{_KEY}.ready", f"{_KEY}.ends"
_ADDRESS, _OWNER, _NOTE = f"{_KEY}.address", f"{_KEY}.owner", f"{_KEY}.note"
# A creation that is not complete after this was killed.
_CREATION_S = 180.0
_CALL_S = 30.0
# Of a credential: enough to see whether it is a JSON object.
_CREDENTIAL_BYTES = 64 * 1024
# Where a program keeps words of people beside its data: logs, caches, and what it may write.
_LEFT = ("/var/log/journal", "/var/cache", "/var/tmp", "/tmp")  # noqa: S108 - of the copy
_UNITS = "/etc/systemd/system"
# Folders in a folder of credentials or units, and of anything else that programs wrote.
_DEPTH, _LEFT_DEPTH = 3, 32
LIMITS = {
    "limits.memory": str(MEMORY_BYTES),
    "limits.memory.swap": "false",
    "limits.cpu": "2",
    "limits.cpu.priority": "0",
    "limits.processes": "512",
    # The kernel's own limits hold also where a machine has no control groups for Incus.
    "limits.kernel.nproc": "512",
    "limits.kernel.fsize": str(DISK_BYTES),
}
# The service's own address, so that its program starts; and folders in place of its data.
_PREPARE = f"""
[ -z "$1" ] || ip address replace "$1/32" dev lo
shift
for folder; do install -d -o {SERVICE_UID} -g {SERVICE_UID} -m 0750 "$folder"; done
"""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One sandbox; times are Unix times, `ready` is 0 until it can be used.

    `service` is the instance it was copied from, or empty; `note` is why it was stopped. `owner` is
    the consumer that created it through the broker; a person's own ones have none.
    """

    name: str
    service: str
    made: float
    ready: float
    ends: float
    address: str = ""
    owner: str = ""
    running: bool = True
    note: str = ""

    def over(self, now: float) -> bool:
        """Return whether it is to be deleted: its time is up, or its creation was killed."""
        return now >= self.ends or (not self.ready and now > self.made + _CREATION_S)


def connect() -> Any:
    """Return a client of Incus for one operation; a client is for one thread only."""
    if not os.path.exists(SOCKET):
        raise SandboxError("Incus is not running: run this on the house's machine, as root")
    import pylxd

    return pylxd.Client(endpoint=SOCKET)


def create_sandbox(
    service: Service | None,
    *,
    with_data: bool = False,
    lifetime_s: float = LIFETIME_S,
    owner: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> Sandbox:
    """Copy the instance of a service, or make an empty one (None), and start it without secrets.

    `with_data` adds copies of the service's volumes. A failure leaves nothing behind.

    Raises:
        SandboxError: there are eight, the machine lacks room, or the service has no instance.
        EngineError: Incus failed.
    """
    if service is not None and service.runtime != "incus":
        where = "in Podman" if service.runtime == "podman" else "outside of this machine"
        raise SandboxError(
            f"{service.name} runs {where}, and a sandbox is a copy of an instance: name a service "
            "with runtime: incus"
        )
    _refuse_without_room()
    name, made = _new_name(), time.time()
    sandbox = Sandbox(
        name=name,
        service=service.instance if service else "",
        made=made,
        ready=0,
        ends=made + lifetime_s,
        address=str(service.address or "") if service else "",
        owner=owner,
    )

    def work() -> float:
        client = connect()
        _refuse_ninth(client)
        try:
            return _make(client, sandbox, service, with_data, tell)
        except BaseException:
            with contextlib.suppress(Exception):
                _delete(client, name)
            raise

    return replace(sandbox, ready=engine.bounded(name, work, _CREATION_S))


def list_sandboxes() -> list[Sandbox]:
    """Return all sandboxes, the oldest first, complete or not."""
    return list(engine.bounded("Incus", lambda: _all(connect()), _CALL_S))


def find_sandbox(name: str, running: bool = True, owner: str | None = None) -> Sandbox:
    """Return one sandbox, by default one that runs; nothing else in Incus is ever returned.

    An `owner` finds only its own: a person's may have data in it.

    Raises:
        SandboxError: there is none of this name, or it was stopped.
    """
    found = next((one for one in list_sandboxes() if one.name == name), None)
    if found is None or found.over(time.time()) or owner not in (None, found.owner):
        raise SandboxError(
            f"no sandbox {name[:40]}: its time may be over; see `hearth sandbox list`"
        )
    if running and not (found.running and found.ready):
        reason = found.note or ("it is stopped" if found.ready else "it is not ready yet")
        raise SandboxError(f"sandbox {name}: {reason}; create another one")
    return found


def delete_sandbox(name: str) -> None:
    """Delete one sandbox with its copies of volumes."""
    find_sandbox(name, running=False)
    engine.bounded(name, lambda: _delete(connect(), name), _CALL_S)


def stop_sandbox(name: str, note: str) -> None:
    """Stop a sandbox that misbehaves at once, and keep the reason; it is deleted in its time."""

    def work() -> None:
        client = connect()
        found = client.instances.get(name)
        client.api.instances[name].patch(json={"config": {_NOTE: note}})
        found.stop(force=True, wait=True)

    engine.bounded(name, work, _CALL_S)


def sweep(now: float | None = None) -> list[str]:
    """Delete what is over, and volumes whose sandbox is gone; return the names.

    One that cannot be deleted does not keep the others: it is tried again at the next sweep.
    """
    now = time.time() if now is None else now

    def work() -> list[str]:
        client = connect()
        # First the volumes: a new sandbox is there before its copies of them.
        volumes = engine.sandbox_volumes(client)
        present = _all(client)
        names = {one.name for one in present}
        gone = {name: one for name, one in volumes.items() if engine.sandbox_of(name) not in names}
        done = []
        for one in present:
            if one.over(now):
                with contextlib.suppress(Exception):
                    _delete(client, one.name)
                    done.append(one.name)
        for name, volume in gone.items():
            with contextlib.suppress(Exception):
                volume.delete(wait=True)
                done.append(name)
        return done

    return list(engine.bounded("Incus", work, 2 * _CALL_S))


def root_of(instance: str) -> Path:
    """Return the folder with an instance's files, as the machine sees it."""
    return ROOTS / instance / "rootfs"


def _new_name() -> str:
    # LXC adds numbers to names of control groups: one with a letter is told from them.
    tokens = iter(lambda: secrets.token_hex(4), "")
    return next(f"sb-{token}" for token in tokens if not token.isdigit())


def _refuse_without_room() -> None:
    needed = DISK_BYTES + DISK_RESERVE_BYTES
    status = os.statvfs(ROOTS if ROOTS.is_dir() else "/var")
    if (free := status.f_bavail * status.f_frsize) < needed:
        raise SandboxError(
            f"the disk has {free >> 20} MiB free, and a sandbox needs {needed >> 20} MiB: "
            "delete another sandbox, or make room"
        )
    needed = MEMORY_BYTES + MEMORY_RESERVE_BYTES
    if (free := available_bytes()) < needed:
        raise SandboxError(
            f"{free >> 20} MiB of memory are free, and a sandbox needs {needed >> 20} MiB: "
            "delete another sandbox, or unload a model"
        )


def _refuse_ninth(client: Any, name: str = "") -> None:
    """Raise if there are too many; of those made at the same time, the last ones by `name`."""
    now = time.time()
    present = [one.name for one in _all(client) if not one.over(now)]
    if len(present) >= MOST and (not name or name in present[MOST:]):
        raise SandboxError(
            f"there are {MOST} sandboxes, which is the limit: delete one "
            "(`hearth sandbox delete NAME`) or wait until the oldest is deleted"
        )


def _all(client: Any) -> list[Sandbox]:
    """Read every sandbox by one request, in the order of their creation in Incus."""
    rows = client.api.instances.get(params={"recursion": "1"}).json()["metadata"] or []
    rows = [row for row in rows if SANDBOX_NAME.fullmatch(row["name"]) and _KEY in row["config"]]
    return [_read(row) for row in sorted(rows, key=_created)]


def _created(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(row["created_at"])


def _read(row: Mapping[str, Any]) -> Sandbox:
    config = row["config"]
    origin = config[_KEY]
    return Sandbox(
        name=row["name"],
        service="" if origin == "empty" else origin,
        made=_number(config.get(_MADE)),
        ready=_number(config.get(_READY)),
        ends=_number(config.get(_ENDS)),
        address=config.get(_ADDRESS, ""),
        owner=config.get(_OWNER, ""),
        running=row["status"] == "Running",
        note=config.get(_NOTE, ""),
    )


def _number(text: str | None) -> float:
    # Without a readable time it is over.
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _make(
    client: Any,
    sandbox: Sandbox,
    service: Service | None,
    with_data: bool,
    tell: Callable[[str], None],
) -> float:
    """Create, clean and start it; return when it was ready."""
    config = _config(sandbox)
    folders: list[str] = []
    name = sandbox.name
    if service is None:
        tell("make an empty instance")
        _post(client, name, {"type": "image", "alias": _image(client)}, config, {"root": _root()})
    else:
        origin = instances.find(client, service.instance)
        if origin is None:
            raise SandboxError(f"{service.name} has no instance here: run `hearth up`")
        tell(f"copy {service.instance}")
        # Without `allow_inconsistent` some pools freeze the service while they copy.
        source = {"type": "copy", "source": service.instance, "instance_only": True}
        source |= {"allow_inconsistent": True}
        _post(client, name, source, config, _devices(origin.devices))
        tell("replace its secrets")
        _replace_secrets(client, name)
        tell("empty what its programs wrote")
        _empty(client, name)
        folders = [volume.path for volume in service.volumes]
    # Several may have passed the first check at the same time.
    _refuse_ninth(client, name)
    if service is not None and with_data:
        tell("copy its data")
        folders = _copy_data(client, name, service)
    tell("start it")
    found = client.instances.get(name)
    found.start(wait=True)
    argv = ["/bin/sh", "-ec", _PREPARE, "sh", sandbox.address, *folders]
    try:
        code = engine.run_inside(client, name, argv).returncode
    except engine.OutputLost as lost:
        # A busy Incus loses output now and then, and nothing here reads it.
        code = lost.returncode
    if code:
        # No text from inside: it may end up in a model.
        raise SandboxError(f"{name}: its address and folders could not be made: try again")
    instances.wait_ready(client, found)
    ready = time.time()
    client.api.instances[name].patch(json={"config": {_READY: repr(ready)}})
    return ready


def _config(sandbox: Sandbox) -> dict[str, str]:
    """Return its whole configuration: a copy inherits every key that is not named here."""
    return {
        OWNER_KEY: "1",
        # It is no instance of a service: nothing rebuilds it, and it keeps no image.
        IMAGE_KEY: "",
        _KEY: sandbox.service or "empty",
        _MADE: repr(sandbox.made),
        _READY: "",
        _ENDS: repr(sandbox.ends),
        _ADDRESS: sandbox.address,
        _OWNER: sandbox.owner,
        _NOTE: "",
        "boot.autostart": "false",
        "boot.autorestart": "false",
        "security.idmap.isolated": "true",
        "security.guestapi": "false",
        "security.privileged": "false",
        "nvidia.runtime": "false",
        **LIMITS,
    }


def _root() -> dict[str, str]:
    # `size` holds where the pool has quotas; elsewhere the guard watches what is written.
    size = str(4 * DISK_BYTES)
    return {"type": "disk", "path": "/", "pool": POOL, "size": size}


def _devices(origin: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return its devices: of the original's only the programs that the machine lends read-only."""
    devices: dict[str, dict[str, str]] = {}
    for name, device in origin.items():
        source = Path(device.get("source", ""))
        lent = device["type"] == "disk" and source.parent == PROGRAMS
        # What is not named here, Incus would take from the original.
        devices[name] = {**device, "readonly": "true"} if lent else {"type": "none"}
    return devices | {"root": _root()}


def _post(
    client: Any,
    name: str,
    source: Mapping[str, Any],
    config: Mapping[str, str],
    devices: Mapping[str, Any],
) -> None:
    given = {"name": name, "type": "container", "profiles": [], "source": source}
    client.instances.create(given | {"config": config, "devices": devices}, wait=True)


def _image(client: Any) -> str:
    """Return the smallest of the house's images of Debian 13."""
    found = [
        (image.size, alias["name"])
        for image in client.images.all()
        for alias in image.aliases
        if alias["name"].startswith("hearth-debian-13-")
    ]
    if not found:
        raise SandboxError("the house has no image of Debian 13: run `hearth up`, then try again")
    return str(min(found)[1])


def _copy_data(client: Any, name: str, service: Service) -> list[str]:
    """Attach copies of the service's volumes; return the folders that stay empty."""
    pool, empty = client.storage_pools.get(POOL), []
    devices = {}
    for number, volume in enumerate(service.volumes):
        if volume.from_folder:
            # Somebody's own folder, of any size.
            empty.append(volume.path)
            continue
        copy = f"{name}-data{number}"
        source = {"type": "copy", "name": volume.name, "pool": POOL}
        pool.volumes.create({"name": copy, "config": {}, "source": source}, wait=True)
        devices[f"data{number}"] = {
            "type": "disk",
            "path": volume.path,
            "pool": POOL,
            "source": copy,
        }
    client.api.instances[name].patch(json={"devices": devices})
    return empty


def _replace_secrets(client: Any, name: str) -> None:
    """Give a stopped copy random credentials, so that its units start."""
    for path in _files(client, name, CREDENTIALS_FOLDER):
        headers = {"X-Incus-type": "file", "X-Incus-mode": "0400"}
        headers |= {"X-Incus-uid": "0", "X-Incus-gid": "0", "X-Incus-write": "overwrite"}
        data = _stand_in(_start_of(client, name, path))
        client.api.instances[name].files.post(params={"path": path}, data=data, headers=headers)


def _empty(client: Any, name: str) -> None:
    """Remove the files that programs wrote, with what people said, from a stopped copy."""
    for folder in sorted({*_LEFT, *_writable(client, name)}):
        for path in _files(client, name, folder, _LEFT_DEPTH):
            client.api.instances[name].files.delete(params={"path": path})


def _writable(client: Any, name: str) -> Iterator[str]:
    """Yield the folders that the units of a copy may write; its data are not in it yet."""
    for path in _files(client, name, _UNITS):
        if not path.endswith((".service", ".conf")):
            continue
        for line in _start_of(client, name, path).decode(errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key == "ReadWritePaths":
                yield from (one.lstrip("+-").replace("%%", "%") for one in shlex.split(value))


def _files(client: Any, name: str, folder: str, depth: int = _DEPTH) -> Iterator[str]:
    """Yield the files below a folder of an instance; none where there is no such folder."""
    from pylxd.exceptions import NotFound

    with contextlib.suppress(NotFound):
        # A file is not read here, whatever its size.
        with client.api.instances[name].files.get(
            params={"path": folder}, is_api=False, stream=True
        ) as response:
            if response.headers.get("X-Incus-type") != "directory":
                yield folder
                return
            entries = json.loads(response.content)["metadata"] or []
        if not depth:
            raise SandboxError(f"{name}: {folder} has too many folders in it")
        for entry in entries:
            yield from _files(client, name, f"{folder}/{entry}", depth - 1)


def _start_of(client: Any, name: str, path: str) -> bytes:
    with client.api.instances[name].files.get(
        params={"path": path}, is_api=False, stream=True
    ) as response:
        return next(response.iter_content(_CREDENTIAL_BYTES), b"")


def _stand_in(secret: bytes) -> bytes:
    """Return a credential of the same shape with random values."""
    try:
        shape = json.loads(secret)
    except ValueError:
        shape = None
    if isinstance(shape, dict):
        return json.dumps({key: secrets.token_hex(32) for key in shape}).encode()
    return secrets.token_hex(32).encode()


def _delete(client: Any, name: str) -> None:
    from pylxd.exceptions import NotFound

    with contextlib.suppress(NotFound):
        instances.remove(client.instances.get(name))
    for volume, one in engine.sandbox_volumes(client).items():
        if engine.sandbox_of(volume) == name:
            one.delete(wait=True)
