"""Search for leftovers of removed services, and remove them."""

from __future__ import annotations

from hearth.machine.look_first import LookFirst, module_beside


class ActionModule(LookFirst):
    """Start the module of the same name only if it has work to do."""

    module = module_beside(__file__)
