"""The base of our action plugins: a step of the house runs in Ansible's own process.

Most of a module's time is its start: a new Python that imports Hearth's package takes half a
second of CPU time. Ansible's own process has imported it already, and each task has its own fork.
"""

from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from hearth import progress


class HouseAction(ActionBase):  # type: ignore[misc]
    """Check the task's arguments, call `work`, and report its errors in one line.

    `arguments` and `rules` go to `validate_argument_spec`; `errors` are what `work` raises for a
    person to read.
    """

    _supports_check_mode = True
    _requires_connection = False
    arguments: ClassVar[dict[str, Any]]
    rules: ClassVar[dict[str, Any]] = {}
    errors: ClassVar[tuple[type[Exception], ...]] = ()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Work; in check mode, only return what would be done."""
        result = super().run(tmp, task_vars)
        progress.work_at(str((task_vars or {}).get("inventory_hostname", "")))
        _, params = self.validate_argument_spec(self.arguments, **self.rules)
        try:
            return result | self.work(params, write=not self._task.check_mode)
        except self.errors as error:
            raise AnsibleActionFail(str(error)) from error

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Return the task's result; nothing is changed without `write`."""
        raise NotImplementedError
