"""Remove services from Podman: containers and their units, networks, volumes, secrets, images.

Everything of ours in Podman has a label with its service, and so has every quadlet: a name alone
proves nothing.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hearth.machine import podman
from hearth.remove import Trace, run
from hearth.render.quadlets import FILES, LABEL, QUADLETS

_CREDENTIALS = Path("/etc/hearth/credentials")
_RECORDS = Path("/var/lib/hearth/converged")


def of_services(names: Collection[str], data: Collection[str] = ()) -> list[Trace]:
    """List what these services have in Podman, and the volumes of those whose names are in `data`.

    The units come first: a container that is removed would be started again.
    """
    quadlets = [path for path in _quadlets() if service_of(path) in names]
    found = [
        Trace(f"unit {_unit(path)}", partial(_drop_unit, path))
        for path in quadlets
        if path.suffix != ".volume"
    ]
    found += [
        Trace(f"quadlet {path.name}", partial(path.unlink, missing_ok=True))
        for path in quadlets
        if path.suffix == ".volume"
    ]
    found += _files(names)
    if not Path(podman.PROGRAM).exists():
        return found
    return [*found, *_of_podman(names, data)]


def of_all() -> list[str]:
    """Return the names of the services that have anything in Podman or among the quadlets."""
    found = {service_of(path) for path in _quadlets()}
    if Path(podman.PROGRAM).exists():
        found |= {
            _service(one) for kind in ("ps", "network", "volume", "secret") for one in _ours(kind)
        }
    return sorted(found - {""})


def stays(data: bool) -> list[str]:
    """Return what stays in Podman, which keeps it installed: kept data, and what is not ours."""
    if not Path(podman.PROGRAM).exists():
        return []
    found = []
    for one in podman.listed("volume"):
        ours = bool(_service(one))
        if ours and not data:
            found.append(f"data  volume {one['Name']} in Podman")
        if not ours:
            found.append(f"Podman: volume {one['Name']}, which Hearth did not make")
    for one in podman.listed("ps", "--all"):
        if not _service(one):
            found.append(f"Podman: container {one['Names'][0]}, which Hearth did not make")
    for one in podman.listed("images"):
        if LABEL not in (one.get("Labels") or {}):
            shown = next(iter(one["Names"] or ()), str(one["Id"])[:12])
            found.append(f"Podman: image {shown}, which Hearth did not make")
    return found


def unused_images(wanted: Collection[str], *, all_unused: bool = False) -> list[Trace]:
    """List images of ours that no service needs; `wanted` are names of others that stay.

    With `all_unused` those of containers that are removed before count as unused.
    """
    if not Path(podman.PROGRAM).exists():
        return []
    found = []
    used = {
        one["ImageID"] for one in podman.listed("ps", "--all") if not (all_unused and _service(one))
    }
    for one in podman.listed("images"):
        names = {*(one["Names"] or ())}
        ours = LABEL in (one.get("Labels") or {})
        if ours and one["Id"] not in used and not names & {*wanted}:
            shown = next(iter(sorted(names)), str(one["Id"])[:12])
            drop = partial(podman.call, "image", "rm", "--ignore", str(one["Id"]))
            found.append(Trace(f"image {shown}", drop))
    return found


def service_of(path: Path) -> str:
    """Return the service that a quadlet of ours belongs to; empty for another file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    marks = (
        line.removeprefix(f"Label={LABEL}=") for line in lines if line.startswith(f"Label={LABEL}=")
    )
    return next(marks, "")


def _quadlets() -> list[Path]:
    return sorted(path for path in Path(QUADLETS).glob("hearth-*") if path.is_file())


def _unit(path: Path) -> str:
    return f"{path.stem}{'-network' if path.suffix == '.network' else ''}.service"


def _drop_unit(path: Path) -> None:
    """Stop the unit of a quadlet, and remove it with its drop-ins and what is recorded of it."""
    unit = _unit(path)
    name = unit.removesuffix(".service")
    run("systemctl", "stop", unit)
    shutil.rmtree(path.with_name(f"{path.name}.d"), ignore_errors=True)
    shutil.rmtree(_CREDENTIALS / name, ignore_errors=True)
    (_RECORDS / f"{name}.json").unlink(missing_ok=True)
    # Last: it leads the next run here.
    path.unlink(missing_ok=True)
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed")


def _files(names: Iterable[str]) -> list[Trace]:
    places = (Path(FILES) / name.replace("_", "-") for name in names)
    return [
        Trace(f"files {path}", partial(shutil.rmtree, path)) for path in places if path.exists()
    ]


def _ours(kind: str) -> Iterator[dict[str, Any]]:
    for one in podman.listed(kind, *(["--all"] if kind == "ps" else [])):
        if _service(one):
            yield one


def _service(one: dict[str, Any]) -> str:
    """Return the service in the label of a container, network, volume or secret."""
    labels = one.get("Labels") or one.get("labels") or one.get("Spec", {}).get("Labels") or {}
    return str(labels.get(LABEL, ""))


def _of_podman(names: Collection[str], data: Collection[str]) -> Iterator[Trace]:
    for one in _ours("ps"):
        if _service(one) in names:
            drop = partial(podman.call, "rm", "--force", "--ignore", one["Names"][0])
            yield Trace(f"container {one['Names'][0]}", drop)
    for one in _ours("network"):
        if _service(one) in names:
            drop = partial(podman.call, "network", "rm", "--force", one["name"])
            yield Trace(f"network {one['name']}", drop)
    for one in _ours("secret"):
        if _service(one) in names:
            drop = partial(podman.call, "secret", "rm", "--ignore", one["Spec"]["Name"])
            yield Trace(f"secret {one['Spec']['Name']}", drop)
    for one in _ours("volume"):
        if _service(one) in data:
            drop = partial(podman.call, "volume", "rm", "--force", one["Name"])
            yield Trace(f"volume {one['Name']} with its data", drop)
