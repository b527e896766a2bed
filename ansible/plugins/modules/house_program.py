#!/usr/bin/python
"""Fetch, verify and install one program on the machine, whole or not at all."""

from __future__ import annotations

DOCUMENTATION = """
module: house_program
short_description: Install a release archive, plain files, a locked Python environment, or
  another project's program with our patch
description: Builds in a fresh folder under /var/lib/hearth/programs/NAME and switches one link
  last. Instances see the folder read-only; installing needs no egress.
author: Hearth
options:
  name: {description: Name of the program., type: str, required: true}
  source: {description: "A source of sources.lock.yml: name, version, url, sha256.", type: dict}
  files: {description: "Sources that are files instead of archives: the name of each, to its
    source.", type: dict}
  mirrors: {description: Mirrors of the sources' addresses., type: dict}
  folder: {description: A folder of this machine that is installed like an archive.,
    type: path}
  patch_by: {description: Our package that patches the source or the folder before it runs.,
    type: str}
  patch: {description: "Steps of that package; an empty list installs it unchanged.", type: list,
    elements: str}
  links: {description: "Links in a patched program, each with the path in another program that it
    leads to.", type: dict}
  requirements: {description: Hash-locked requirements of a Python program., type: path}
  packages: {description: Our own packages that are installed beside them., type: list,
    elements: path}
  image: {description: Image whose Python runs the program., type: str}
  owner: {description: The service that uses it; it is removed with the last one., type: str}
"""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.catalogue.house import Source
from hearth.machine.images import PYTHONS
from hearth.paths import PROGRAMS
from hearth.project import current
from hearth.remove.service import is_wanted, want
from hearth.sources.installers import (
    Change,
    folder_digest,
    install_folder,
    install_plain,
    install_release,
)
from hearth.sources.programs import Installed
from hearth.sources.python import install_python
from hearth.sources.source import SourceError, Store, secret_parts


def from_archive(params: dict[str, Any], write: bool) -> Installed:
    """Install a release, patched if `patch` is set; an unknown digest is recorded on first use."""
    change = None if params["patch"] is None else the_change(params)
    source = Source(**params["source"])
    return install_release(the_store(params), source, params["name"], change, write=write)


def the_store(params: dict[str, Any]) -> Store:
    """Return where the sources come from and where programs go."""
    return Store(current().inventory, params["mirrors"] or {}, programs=PROGRAMS)


def from_folder(params: dict[str, Any], write: bool) -> Installed:
    """Install another project's program from a folder, with our patch."""
    folder = Path(params["folder"])
    return install_folder(folder, PROGRAMS, params["name"], the_change(params), write=write)


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
        PROGRAMS,
        params["name"],
        PYTHONS[params["image"]],
        uv=current().uv,
        write=write,
    )


METHODS = {
    "source": from_archive,
    "folder": from_folder,
    "files": from_files,
    "requirements": from_requirements,
}
SPEC: dict[str, Any] = {
    "argument_spec": {
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
    },
    "required_one_of": [tuple(METHODS)],
    "mutually_exclusive": [tuple(METHODS)],
    "required_by": {"requirements": "image", "patch": "patch_by"},
}
TROUBLES = (SourceError,)


def work(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Install it, and return what was (or would be) done and the digest that is current."""
    name, owner = params["name"], params["owner"]
    noted = not owner or is_wanted(name, owner)
    if not noted and write:
        want(name, owner)
    install = next(method for option, method in METHODS.items() if params[option])
    installed = install(params, write)
    changed = installed.changed or not noted
    return {"changed": changed, "did": installed.did, "digest": installed.digest}


def main() -> None:
    """Run the module, and return what was done."""
    module = AnsibleModule(
        **SPEC,
        supports_check_mode=True,
        # The journal must not contain the arguments either.
        no_log=True,
    )
    # Ansible shows a module's arguments with -vvv; a mirror's address may hold a password.
    module.no_log_values.update(secret_parts(module.params["mirrors"] or {}))
    try:
        result = work(module.params, write=not module.check_mode)
    except TROUBLES as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
