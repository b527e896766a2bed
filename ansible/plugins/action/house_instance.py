"""Wait until the machine's `house_instances` has converged some instances.

Argument: `names` of the instances. `ready` in the result is false if one of them is only planned,
or its image or creation failed: then `house_instances` reports the reason.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hearth.machine import readiness
from hearth.machine.action import HouseAction


class ActionModule(HouseAction):
    """Wait for instances."""

    arguments: ClassVar = {"names": {"type": "list", "elements": "str", "required": True}}
    errors = (readiness.ReadinessError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Return whether all of them can be used."""
        ready = [readiness.wait(name) for name in params["names"]]
        return {"changed": False, "ready": all(ready)}
