"""An instance as pylxd hands it over."""

import time
from types import SimpleNamespace
from typing import Any

from hearth import instance_exec


class Instance:
    """An instance as pylxd hands it over, with the calls it got."""

    def __init__(self, code: int = 0, stdout: bytes = b"", sleep: float = 0) -> None:
        self.code, self.stdout, self.sleep = code, stdout, sleep
        self.calls: list[tuple[list[str], Any]] = []

    def execute(self, argv: list[str], stdin: bytes) -> instance_exec.Output:
        self.calls.append((argv, stdin))
        time.sleep(self.sleep)
        return instance_exec.Output(self.code, self.stdout, b"why\n")

    def state(self) -> Any:
        return SimpleNamespace(status="Running", memory={"usage": 42})
