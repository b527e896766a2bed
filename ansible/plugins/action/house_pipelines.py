"""Compare the installed pipelines with the inventory's; install them where they differ."""

from __future__ import annotations

from hearth.machine.look_first import LookFirst, module_beside


class ActionModule(LookFirst):
    """The module of the same name, started only where it has work to do."""

    module = module_beside(__file__)
