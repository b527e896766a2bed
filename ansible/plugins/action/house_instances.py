"""Converge the images, volumes and instances of one machine in one step, for Incus and Podman.

Arguments: `services` (of this machine), `machine` (what machine_facts returned), `accelerators`
(service to accelerator), `resolver` (address of the house's resolver for instances) and `limited`
(a run of some hosts or tags). Missing images are built; instances are created, rebuilt, updated and
started; unused images of ours are removed. An instance without differences is left alone.
`house_instance` waits for one of them. Podman's containers are made by their units
(service_converge); here they get image and volumes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth import progress
from hearth.catalogue.house import Service, from_vars
from hearth.machine import images, instances, moves, podman, quiet, readiness
from hearth.machine.action import HouseAction
from hearth.machine.engine import SOCKET, EngineError
from hearth.remove import containers, incus
from hearth.remove.service import claim

# One for each Debian release that the shipped services use.
IMAGES_AT_ONCE = 3


class ActionModule(HouseAction):
    """Compare images, volumes and instances with the catalogue; converge what differs."""

    arguments: ClassVar = {
        "services": {"type": "dict", "required": True},
        "machine": {"type": "dict", "required": True},
        "accelerators": {"type": "dict", "required": True},
        "resolver": {"type": "str", "required": True},
        # A run of some services or tags only, which finishes no move.
        "limited": {"type": "bool", "default": False},
    }
    errors = (
        *(images.ImageError, instances.InstanceError, moves.MoveError, EngineError, OSError),
        *(LXDAPIException, ClientConnectionFailed),
    )

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Converge them, and return what was (or would be) done."""
        services = [
            from_vars(Service, service)
            for service in params["services"].values()
            if service["runtime"] != "external"
        ]
        with readiness.all_published([service.instance for service in services]):
            return converge(services, params, write)


def converge(services: list[Service], params: dict[str, Any], write: bool) -> dict[str, Any]:
    """Converge the instances of these services, and what they need."""
    nodes = params["machine"]["graphics"]["render_nodes"]
    recipes = {service.name: images.recipe_of(service, params["resolver"]) for service in services}
    contained = [service for service in services if service.runtime == "podman"]
    wanted = [
        instances.describe(
            service, recipes[service.name], nodes, params["accelerators"][service.name]
        )
        for service in services
        if service.runtime == "incus"
    ]
    if not write and not Path(SOCKET).exists():
        done = [f"create {item.name} from {item.image}" for item in wanted]
        done += [f"create {service.instance} in Podman" for service in contained]
        planned = [service.instance for service in services]
        return {"changed": True, "did": done, "planned": planned}
    client = Client(endpoint=SOCKET)
    if write:
        claim_programs(services)
        with progress.doing("Incus", "finishing what an earlier run started"):
            instances.settle(client)
    done = instances.ensure_pool(client, write)
    if contained and Path(podman.PROGRAM).exists():
        podman.check_names(contained)
    ours = [
        one.name for one in client.instances.all() if one.config.get(instances.OWNER_KEY) == "1"
    ]
    moving = moves.needed(services, ours)
    if moving and params["limited"]:
        raise moves.MoveError(
            f"{moving[0].service} is to move to another engine, which a limited run cannot finish: "
            "run `hearth up` first"
        )
    named = {service.name: service for service in services}
    to_incus = [move for move in moving if named[move.service].runtime == "incus"]
    for item in wanted if to_incus else ():
        if item.name in {named[move.service].instance for move in to_incus}:
            done += instances.ensure_volumes(client, item, write)
    done += move_all(client, named, to_incus, write)
    first = {service.instance for service in services if not service.background}
    for_podman = {recipes[service.name].alias: recipes[service.name] for service in contained}
    if write:
        instances.stop_those_with_new_links(client, wanted)
    with brought_back(client, named, to_incus if write else ()):
        done += converge_images(client, recipes.values(), wanted, write, first, for_podman)
    for service in contained:
        own = podman.ensure_volumes(service, write)
        own += move_all(
            client, named, [one for one in moving if one.service == service.name], write
        )
        done += own
        # In check mode its image may be missing still.
        readiness.publish(service.instance, ready=write or not own)
    # Last: while a service is being rebuilt its old system is still in use.
    unused = incus.unused_images(client, {item.image for item in wanted})
    for trace in [
        *unused,
        *containers.unused_images({*map(podman.image_name, for_podman.values())}),
    ]:
        done.append(f"remove {trace.what}")
        if write:
            trace.remove()
    # In check mode these instances do not exist yet.
    planned = [item.name for item in wanted if not instances.is_running(client, item.name)]
    return {"changed": bool(done), "did": done, "planned": planned}


def move_all(
    client: Client, services: Mapping[str, Service], moving: Iterable[moves.Move], write: bool
) -> list[str]:
    """Stop what another engine has of these services, and copy its data; it stays for now.

    If that fails it is started again.
    """
    done = []
    for move in moving:
        service = services[move.service]
        if move.old == service.runtime:
            done.append(f"start {service.name} in {move.old} again")
            if write:
                moves.start_old(client, service, move)
                moves.forget(service.name)
            continue
        if move.copied:
            continue
        done.append(f"move {service.name} from {move.old} to {service.runtime}")
        if not write:
            continue
        if move.service not in moves.noted():
            moves.refuse_occupied(client, service, move)
        moves.note(move)
        with progress.doing(f"move {service.name}", f"stopping it in {move.old}, copying its data"):
            try:
                moves.stop_old(client, service, move)
                moves.copy_data(client, service, move)
            except Exception:
                moves.start_old(client, service, move)
                moves.forget(service.name)
                raise
        moves.note(replace(move, copied=True))
    return done


@contextlib.contextmanager
def brought_back(
    client: Client, services: Mapping[str, Service], moving: Iterable[moves.Move]
) -> Iterator[None]:
    """Start again what this run has stopped for a move if the block fails.

    Without its image it would stay down. What an earlier run had copied already may have newer data
    in the new engine, so that stays as it is.
    """
    try:
        yield
    except Exception:
        for move in moving:
            if not move.copied and move.old != services[move.service].runtime:
                moves.start_old(client, services[move.service], move)
                moves.forget(move.service)
        raise


def claim_programs(services: Iterable[Service]) -> None:
    """Record who sees which program: a folder that is mounted goes with its last user only."""
    for service in services:
        for program in service.programs:
            claim(program, service.name, write=True)


def converge_images(
    client: Client,
    recipes: Iterable[images.Recipe],
    wanted: list[instances.Instance],
    write: bool,
    first: Collection[str] = (),
    for_podman: Collection[str] = (),
) -> list[str]:
    """Build the images that an engine does not have yet, each followed by the instances from it.

    Images are built side by side, so that instances start while another one is still being built.
    `first` names the instances that others give way to; images in `for_podman` go to Podman.
    """
    wanted = sorted(wanted, key=lambda item: item.name not in first)
    urgent = {item.image for item in wanted if item.name in first}
    present = {alias["name"] for image in client.images.all() for alias in image.aliases}
    in_podman = podman.image_ids() if for_podman else {}
    unique = {recipe.alias: recipe for recipe in recipes}
    in_order = sorted(unique, key=lambda alias: alias not in urgent)
    of_incus = {item.image for item in wanted}
    takers: dict[str, list[images.Taker]] = {
        alias: [
            *([images.into_incus] if alias in of_incus - present else []),
            *(
                [podman.into_podman]
                if alias in for_podman and podman.image_name(recipe) not in in_podman
                else []
            ),
        ]
        for alias, recipe in unique.items()
    }
    building = write and any(takers.values())
    if building:
        images.FOLDER.mkdir(parents=True, exist_ok=True)
        for leftover in images.leftovers():
            images.discard(leftover)

    def one(alias: str) -> list[str]:
        done, recipe = [], unique[alias]
        # Requests of one client share its connections, which only one thread may use.
        own = Client(endpoint=SOCKET)
        if takers[alias]:
            done.append(f"build image {recipe.alias}")
            if write:
                # Such images come last, so this thread builds no other one after it.
                quiet.give_way(recipe.alias not in urgent)
                images.make_image(recipe, images.FOLDER, takers[alias])
        for item in wanted:
            if item.image == recipe.alias:
                doing = "comparing, creating or starting it"
                with progress.doing(f"instance {item.name}", doing):
                    done += instances.ensure(own, item, write)
                readiness.publish(item.name, ready=write or instances.is_running(own, item.name))
        return done

    # A program that measures itself waits for the last image.
    turn = quiet.turn(alone=False) if building else contextlib.nullcontext()
    with turn, ThreadPoolExecutor(IMAGES_AT_ONCE) as pool:
        return [line for lines in pool.map(one, in_order) for line in lines]
