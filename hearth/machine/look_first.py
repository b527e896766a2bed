"""Run a module of ours in Ansible's own process first, and start it only if it has work to do.

Most of a task's time is the start of its module: a new Python that imports Hearth's package takes
half a second of CPU time. Ansible's own process has imported it already. A module needs three
names for this: `SPEC`, the arguments of `AnsibleModule`; `work(params, write)`, which changes
nothing without `write` and returns what a run would do; and `TROUBLES`, its exceptions.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


def module_beside(action: str) -> ModuleType:
    """Import the module with the name of an action plugin, which is given by its file."""
    path = Path(action).resolve()
    name = f"hearth_module_{path.stem}"
    if name not in sys.modules:
        where = path.parents[1] / "modules" / path.name
        spec = importlib.util.spec_from_file_location(name, where)
        if spec is None or spec.loader is None:
            raise ImportError(f"{where} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


class LookFirst(ActionBase):  # type: ignore[misc]
    """An action that starts its module only if a comparison in this process finds work."""

    _supports_check_mode = True
    _requires_connection = False
    module: ModuleType

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Compare; in check mode, or without differences, return that result."""
        result = super().run(tmp, task_vars)
        _, params = self.validate_argument_spec(**self.module.SPEC)
        try:
            looked = self.module.work(params, write=False)
        except self.module.TROUBLES as error:
            raise AnsibleActionFail(str(error)) from error
        if self._task.check_mode or not looked["changed"]:
            return result | looked
        return result | self._execute_module(task_vars=task_vars)
