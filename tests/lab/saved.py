"""The house's saved disks: empty, as built, and one for the next run of `scripts/test`.

A converged disk is kept until something changes that it was built from: the locks, the
sources, or the lab's base image. The next run then starts from the house of an earlier commit,
so the core tests are a test of upgrades as well.
"""

from __future__ import annotations

from tests import lab_machine as lab
from tests.lab.house import NAME, ROOT
from tests.lab_machine import disk
from tests.lab_machine.inputs import MOCK_UPSTREAMS, digest_of

BARE, HOUSE = "bare", "house"
_BUILT_FROM = (
    "requirements/*.txt",
    "inventory/sources.lock.yml",
    "tests/lab/inventory/*.yml",
    "tests/lab_machine/base.py",
    MOCK_UPSTREAMS,
)


def tag() -> str:
    """Return the name of the converged disk for the inputs that it was built from."""
    return f"{HOUSE}-{digest_of(ROOT, *_BUILT_FROM)[:16]}"


def usable() -> bool:
    """Return whether a converged disk exists for this checkout."""
    machine = next((one for one in lab.load_all() if one.name == NAME), None)
    if machine is None or not machine.ready:
        return False
    disk.attach(machine.disk, machine.mount)
    return tag() in disk.saved(machine.mount)


def keep() -> None:
    """Save the house as it is, for this run's tests and for the next run."""
    lab.save(NAME, HOUSE)
    machine = lab.load(NAME)
    for old in disk.saved(machine.mount):
        if old.startswith(f"{HOUSE}-"):
            disk.remove(machine.mount, f"{disk.SAVED}/{old}")
    disk.snapshot(machine.mount, f"{disk.SAVED}/{HOUSE}", f"{disk.SAVED}/{tag()}")


def restore_or_nothing() -> None:
    """Restore the machine's converged disk, if there is one."""
    if usable():
        lab.restore(NAME, tag())


def stop() -> None:
    """Stop the machine and keep its disk for the next run."""
    lab.stop(NAME)
