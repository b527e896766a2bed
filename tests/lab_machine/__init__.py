"""Lab machines: disposable Debian 13 machines with real nested Incus, for trials and tests."""

from tests.lab_machine.command import LabError
from tests.lab_machine.inside import copy_in, copy_out, interactive, leader_pid, run, trust
from tests.lab_machine.machine import (
    address,
    create,
    cut,
    destroy,
    destroy_all,
    reboot,
    restore,
    save,
    set_names,
    start,
    stop,
)
from tests.lab_machine.model import Machine, load, load_all

__all__ = [
    "LabError",
    "Machine",
    "address",
    "copy_in",
    "copy_out",
    "create",
    "cut",
    "destroy",
    "destroy_all",
    "interactive",
    "leader_pid",
    "load",
    "load_all",
    "reboot",
    "restore",
    "run",
    "save",
    "set_names",
    "start",
    "stop",
    "trust",
]
