"""Lab machines: throw-away Debian 13 machines with real nested Incus, for trying and testing."""

from hearth.lab.command import LabError
from hearth.lab.inside import copy_in, copy_out, interactive, leader_pid, run, trust
from hearth.lab.machine import (
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
from hearth.lab.model import Machine, load, load_all

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
