"""Wait until the machine's `house_instances` has converged some instances.

Argument: `names` of the instances. `there` in the result is false if one of them is only planned,
or its image or creation failed: then `house_instances` reports the reason.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hearth.machine import handover
from hearth.machine.action import HouseAction


class ActionModule(HouseAction):
    """Wait for instances."""

    arguments: ClassVar = {"names": {"type": "list", "elements": "str", "required": True}}
    errors = (handover.HandoverError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Return whether all of them can be used."""
        told = [handover.wait(name) for name in params["names"]]
        return {"changed": False, "there": all(told)}
