"""What Podman needs before a service's quadlets start: its image, and volumes for its data.

Podman's own command is used: it streams an image, and each call takes less than a tenth of a
second.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service
from hearth.machine import images
from hearth.machine.engine import EngineError
from hearth.render import quadlets
from hearth.render.quadlets import LABEL, Given

PROGRAM = "/usr/bin/podman"
_CALL_S, _IMPORT_S = 60, 600


class PodmanError(EngineError):
    """One line for a person: what Podman did not do, and why."""


def call(*words: str, within_s: float = _CALL_S) -> str:
    """Run Podman's command and return its output; PodmanError with its last line if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and no shell
            [PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except FileNotFoundError:
        raise PodmanError(
            "podman is not installed here: run `hearth up` for the whole house"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PodmanError(f"podman {words[0]}: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise PodmanError(f"podman {' '.join(words[:2])}: {lines[-1].removeprefix('Error: ')}")
    return done.stdout


def listed(kind: str, *words: str) -> list[dict[str, Any]]:
    """Return what Podman has of a kind: `ps`, `images`, `volume`, `network` or `secret`."""
    if kind == "secret":
        # Its list knows no labels.
        names = call("secret", "ls", "--quiet").split()
        return list(json.loads(call("secret", "inspect", *names))) if names else []
    verb = [kind] if kind in ("ps", "images") else [kind, "ls"]
    text = call(*verb, *words, "--format=json")
    return list(json.loads(text or "[]") or [])


def image_name(recipe: images.Recipe) -> str:
    """Return the name in Podman of the image of a recipe."""
    return f"localhost/{recipe.alias}:latest"


def image_ids() -> dict[str, str]:
    """Return the id of each image that Podman has by its names; a preview may come before it."""
    if not Path(PROGRAM).exists():
        return {}
    return {name: f"sha256:{one['Id']}" for one in listed("images") for name in one["Names"] or ()}


def into_podman(recipe: images.Recipe, _metadata: Path, root: Path) -> None:
    """Import a built image into Podman under its recipe's name."""
    change = f"--change=LABEL {LABEL}="
    call("import", "--quiet", change, str(root), image_name(recipe), within_s=_IMPORT_S)


def image_of(instance: str) -> str:
    """Return the id of the image that a container of the house runs.

    Raises:
        PodmanError: the machine has no such container.
    """
    drop_in = Path(quadlets.QUADLETS) / f"{quadlets.unit_name(instance)}.container.d/image.conf"
    with contextlib.suppress(OSError):
        for line in drop_in.read_text(encoding="utf-8").splitlines():
            if line.startswith("Image="):
                return line.removeprefix("Image=")
    raise PodmanError(f"{drop_in} names no image: run `hearth up` first")


def has_volume(name: str) -> bool:
    """Return whether Podman has this volume; a machine without Podman has none."""
    return Path(PROGRAM).exists() and any(one["Name"] == name for one in listed("volume"))


def ensure_volumes(service: Service, write: bool) -> list[str]:
    """Create the missing volumes for the service's data; an existing volume is never touched."""
    names = quadlets.own_volumes(service)
    if not names or not Path(PROGRAM).exists():
        return [f"volume {name}" for name in names]
    here = {one["Name"] for one in listed("volume")}
    missing = [name for name in names if name not in here]
    for name in missing if write else ():
        call("volume", "create", f"--label={LABEL}={service.name}", name)
    return [f"volume {name}" for name in missing]


def check_names(services: Iterable[Service]) -> None:
    """Reject containers and networks of our names that Hearth did not make.

    Raises:
        PodmanError: one line with the name, and how it is changed.
    """
    wanted = {quadlets.unit_name(one.instance): one.name for one in services}
    for one in listed("ps", "--all"):
        for name in wanted.keys() & {*one["Names"]}:
            if LABEL not in (one.get("Labels") or {}):
                raise PodmanError(
                    f"Podman already has a container {name} that Hearth did not make; rename it "
                    f"(podman rename {name} NEW) or rename the service {wanted[name]}"
                )
    for one in listed("network"):
        if one["name"] in wanted and LABEL not in (one.get("labels") or {}):
            raise PodmanError(
                f"Podman already has a network {one['name']} that Hearth did not make; remove it "
                f"(podman network rm {one['name']}) or rename the service {wanted[one['name']]}"
            )


def given_for(
    recipe: images.Recipe | None, resolver: str, accelerator: str, render_nodes: Sequence[str]
) -> Given:
    """Return what a container gets: of this machine, or without a recipe of no machine."""
    given = Given(resolver, accelerator=accelerator, render_nodes=render_nodes)
    if recipe is None:
        return given
    return replace(
        given,
        image=image_ids().get(image_name(recipe), ""),
        render_gid=next((os.stat(node).st_gid for node in render_nodes), 0),
    )
