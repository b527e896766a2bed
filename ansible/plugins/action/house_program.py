"""Fetch, verify and install one program on the machine, whole or not at all.

Arguments: `name`, and one of
* `source`: a source of sources.lock.yml (name, version, url, sha256),
* `files`: sources that are files instead of archives, each under its name,
* `folder`: a folder of this machine that is installed like an archive,
* `requirements`: hash-locked requirements of a Python program, for the Python of `image`, with our
  own `packages` beside them.
`mirrors` are those of the sources' addresses. `patch_by` is our package that patches the source or
the folder before it runs, and `patch` the steps of it; an empty list installs it unchanged. `links`
are links in a patched program, each with the path in another program that it leads to. `owner` is
the service that uses the program, and `visible` are the folders that its instance sees; the program
is removed with its last owner. `background` gives way to other steps. `programs` is another folder
to install into, for images of containers; `describe` is a folder where a digest of the arguments
is written, and with `install: false` nothing else is done.

A fresh folder is built under /var/lib/hearth/programs/NAME and one link is switched last. Instances
see the folder read-only; installing needs no egress.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from hearth.catalogue.house import Source
from hearth.machine import quiet
from hearth.machine.action import HouseAction
from hearth.machine.container_images import describe
from hearth.machine.images import PYTHONS
from hearth.paths import PROGRAMS
from hearth.project import current
from hearth.remove.service import claim
from hearth.sources import SourceError, Store
from hearth.sources.installers import (
    Change,
    folder_digest,
    install_folder,
    install_plain,
    install_python,
    install_release,
)
from hearth.sources.programs import Installed, check_visible
from hearth.sources.unpack import sha256_of


def from_archive(params: dict[str, Any], write: bool) -> Installed:
    """Install a release, patched if `patch` is set; an unknown digest is recorded on first use."""
    change = None if params["patch"] is None else the_change(params)
    source = Source(**params["source"])
    return install_release(the_store(params), source, params["name"], change, write=write)


def the_store(params: dict[str, Any]) -> Store:
    """Return where the sources come from and where programs go."""
    return Store(current().inventory, params["mirrors"] or {}, programs=root_of(params))


def root_of(params: dict[str, Any]) -> Path:
    """Return the folder that the program is installed into."""
    return Path(params.get("programs") or PROGRAMS)


def from_folder(params: dict[str, Any], write: bool) -> Installed:
    """Install another project's program from a folder, with our patch."""
    folder = Path(params["folder"])
    return install_folder(folder, root_of(params), params["name"], the_change(params), write=write)


def the_change(params: dict[str, Any]) -> Change:
    """Return the change: the patch's steps and its own code determine it."""
    links = params["links"] or {}
    steps = frozenset(params["patch"] or ())
    # Without steps, a folder that was patched before is restored.
    folder = params["folder"]
    if not steps and not (folder and Path(folder, ".hearth-patch").exists()):
        return Change(links=links)
    # A patch parses Python with a library that nothing else here imports.
    patch = import_module(params["patch_by"])
    if unknown := sorted(steps - patch.ALL):
        known = ", ".join(sorted(patch.ALL))
        raise SourceError(f"{unknown[0]!r} is not a step of the patch: {known}")

    def apply(folder: Path) -> None:
        try:
            patch.plan(folder, steps).apply()
        except patch.PatchError as error:
            # The folder is gone by the time a person reads this.
            words = str(error).replace(f"{folder}/", "").replace(str(folder), "the source")
            raise SourceError(f"{params['name']}: {words}") from None

    # The digest covers the patch's own files, so a new version of it gets a fresh folder.
    code = folder_digest(Path(str(patch.__file__)).parent)
    digest = hashlib.sha256(f"{code} {' '.join(sorted(steps))}".encode()).hexdigest()
    return Change(apply, digest, links)


def from_files(params: dict[str, Any], write: bool) -> Installed:
    """Install files as they are, each under its name, in one folder."""
    files = {name: Source(**source) for name, source in params["files"].items()}
    return install_plain(the_store(params), files, params["name"], write=write)


def from_requirements(params: dict[str, Any], write: bool) -> Installed:
    """Install a Python environment for the Python of an image."""
    return install_python(
        Path(params["requirements"]),
        [Path(package) for package in params["packages"] or ()],
        root_of(params),
        params["name"],
        PYTHONS[params["image"]],
        uv=current().uv,
        write=write,
    )


# What changes nothing in the installed program.
_NOT_CONTENT = ("owner", "visible", "background", "programs", "describe", "install", "mirrors")


def write_description(params: dict[str, Any]) -> None:
    """Write a digest of everything that decides what is installed, on any processor."""
    given = {key: value for key, value in params.items() if key not in _NOT_CONTENT}
    if params["requirements"]:
        lock = Path(params["requirements"])
        packages = [Path(package) for package in params["packages"] or ()]
        given["requirements"] = sha256_of(lock)
        given["packages"] = {package.name: folder_digest(package) for package in packages}
    if params["source"]:
        given["source"] = origin(params["source"])
    if params["files"]:
        given["files"] = {name: origin(source) for name, source in params["files"].items()}
    if params["folder"]:
        given["folder"] = folder_digest(Path(params["folder"]))
    digest = hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
    kind = next(option for option in METHODS if params[option])
    describe(Path(params["describe"]), params["name"], kind, digest)


def origin(source: dict[str, Any]) -> str:
    """Return what a source is: a file of this machine by its contents, a download by its version.

    A house may record a download's digest on first use, and then it is the same download.
    """
    if source["url"].startswith("/"):
        return str(source["sha256"])
    return f"{source['version']} {source['url']}"


METHODS = {
    "source": from_archive,
    "folder": from_folder,
    "files": from_files,
    "requirements": from_requirements,
}


class ActionModule(HouseAction):
    """Install the program if it differs from the installed one."""

    arguments: ClassVar = {
        "name": {"type": "str", "required": True},
        "source": {"type": "dict"},
        "files": {"type": "dict"},
        "mirrors": {"type": "dict"},
        "folder": {"type": "path"},
        "patch_by": {"type": "str"},
        "patch": {"type": "list", "elements": "str"},
        "links": {"type": "dict"},
        "requirements": {"type": "path"},
        "packages": {"type": "list", "elements": "path"},
        "image": {"type": "str", "choices": list(PYTHONS)},
        "owner": {"type": "str"},
        "visible": {"type": "list", "elements": "str"},
        "background": {"type": "bool", "default": False},
        "programs": {"type": "path"},
        "describe": {"type": "path"},
        "install": {"type": "bool", "default": True},
    }
    rules: ClassVar = {
        "required_one_of": [tuple(METHODS)],
        "mutually_exclusive": [tuple(METHODS)],
        "required_by": {"requirements": "image", "patch": "patch_by", "owner": "visible"},
    }
    errors = (SourceError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Install it, and return what was (or would be) done and the digest that is current."""
        name, owner = params["name"], params["owner"]
        if owner:
            check_visible(name, owner, params["visible"])
        if params["describe"]:
            write_description(params)
        if not params["install"]:
            return {"changed": False}
        # Each task has a process of its own.
        quiet.give_way(params["background"])
        ours = root_of(params) == PROGRAMS
        claimed = ours and bool(owner) and claim(name, owner, write=write)
        install = next(method for option, method in METHODS.items() if params[option])
        with quiet.turn(alone=False) if write else contextlib.nullcontext():
            installed = install(params, write)
        changed = installed.changed or claimed
        return {"changed": changed, "did": installed.did, "digest": installed.digest}
