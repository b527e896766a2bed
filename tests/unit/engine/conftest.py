"""Puts an instance in the place of the machine's Incus."""

from types import SimpleNamespace
from typing import Any

import pytest

from hearth.machine import engine
from tests.unit.engine.instance import Instance


@pytest.fixture
def incus(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(instance: Instance | Exception) -> None:
        def get(name: str) -> Instance:
            if isinstance(instance, Exception):
                raise instance
            return instance

        client = SimpleNamespace(instances=SimpleNamespace(get=get))

        def execute(given: Any, name: str, argv: list[str], **more: Any) -> engine.Output:
            found: Instance = given.instances.get(name)
            return found.execute(argv, more["stdin"])

        monkeypatch.setattr(engine, "_client", lambda: client)
        monkeypatch.setattr(engine, "run_inside", execute)

    return put
