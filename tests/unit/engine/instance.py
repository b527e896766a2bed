"""An instance as pylxd hands it over."""

from typing import Any

from hearth.machine import engine


class Instance:
    """An instance as pylxd hands it over, with the calls it got."""

    status = "Running"

    def __init__(self, code: int = 0, stdout: bytes = b"") -> None:
        self.code, self.stdout = code, stdout
        self.calls: list[tuple[list[str], Any]] = []

    def execute(self, argv: list[str], stdin: bytes) -> engine.Output:
        self.calls.append((argv, stdin))
        return engine.Output(self.code, self.stdout, b"why\n")
