"""Look whether what was here before is remembered; write it down where it is not."""

from __future__ import annotations

from hearth.machine.look_first import LookFirst, module_beside


class ActionModule(LookFirst):
    """The module of the same name, started only where it has work to do."""

    module = module_beside(__file__)
