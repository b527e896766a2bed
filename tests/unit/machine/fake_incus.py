"""A small Incus for tests: instances, volumes and images in dictionaries, pylxd's calls around."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pylxd.exceptions import LXDAPIException, NotFound

from hearth.machine.engine import Output
from hearth.machine.instances import NESTING_KEY, RUNNING_CODE

STOPPED_CODE = 102


def api_error(text: str, kind: type[LXDAPIException] = LXDAPIException) -> LXDAPIException:
    """What pylxd raises when Incus refuses."""
    return kind(SimpleNamespace(status_code=400, json=lambda: {"error": text}))


class FakeInstance:
    """One instance that remembers what was done with it."""

    def __init__(self, incus: FakeIncus, given: dict[str, Any]) -> None:
        """Take what the API is given; Incus adds keys of its own."""
        self._incus = incus
        self.name = given["name"]
        self.config = {"volatile.uuid": "1", "image.os": "debian", **given["config"]}
        self.devices, self.profiles = given["devices"], given["profiles"]
        self.status_code = STOPPED_CODE
        # What a running one has beyond what its caller first read: pylxd never reads it again.
        self._unread: dict[str, str] = {}

    def execute(self, command: Sequence[str]) -> Output:
        """Answer as a system that came up, and whose AppArmor may forbid credentials."""
        if command[0] == "systemctl":
            return Output(0, f"{self._incus.system_state}\n".encode(), b"")
        forbids = self._incus.forbids_credentials
        allowed = forbids == "never" or (forbids == "flat" and NESTING_KEY in self.config)
        return Output(0, b"", b"") if allowed else Output(1, b"", b"no credential\n")

    def restart(self, wait: bool) -> None:
        """Stop and run."""
        assert wait
        self._incus.did.append(f"restart {self.name}")

    def start(self, wait: bool) -> None:
        """Run."""
        assert wait
        self._incus.did.append(f"start {self.name}")
        self.status_code = RUNNING_CODE
        self._unread = {"volatile.idmap.base": "1327680"}

    def read(self) -> None:
        """Be read again, with all that Incus has."""
        self.config = {**self.config, **self._unread}

    def patch(self, json: dict[str, dict[str, str]]) -> None:
        """Take some keys and leave the others."""
        self.config = {**self.config, **json["config"]}
        self._incus.did.append(f"patch {self.name}")

    def stop(self, force: bool, wait: bool) -> None:
        """Stop; one that is stopped is refused, as by Incus."""
        assert force
        assert wait
        if self.status_code != RUNNING_CODE:
            raise api_error("The instance is already stopped")
        self.status_code = STOPPED_CODE

    def delete(self, wait: bool) -> None:
        """Be gone."""
        assert wait
        self._incus.did.append(f"delete {self.name}")
        del self._incus.made[self.name]

    def save(self, wait: bool) -> None:
        """Take the new config and devices."""
        assert wait
        if self._incus.refusal:
            raise api_error(self._incus.refusal)
        if not self._unread.keys() <= self.config.keys():
            raise api_error("Volatile idmap keys can't be deleted by the user")
        self._incus.did.append(f"save {self.name}")


class FakeIncus:
    """pylxd's Client as far as Hearth uses it."""

    def __init__(self) -> None:
        """A server without anything."""
        self.made: dict[str, FakeInstance] = {}
        self.pools: dict[str, dict[str, Any]] = {}
        self.did: list[str] = []
        self.refusal = ""
        self.system_state = "running"
        self.forbids_credentials = "never"
        self.instances = SimpleNamespace(get=self._get, create=self._create)
        self.api = SimpleNamespace(instances=self.made)
        self.storage_pools = SimpleNamespace(
            exists=self.pools.__contains__, create=self._create_pool, get=self._pool
        )

    def _get(self, name: str) -> FakeInstance:
        if name not in self.made:
            raise api_error("Instance not found", NotFound)
        self.made[name].read()
        return self.made[name]

    def _create(self, given: dict[str, Any], wait: bool) -> FakeInstance:
        assert wait
        if self.refusal:
            raise api_error(self.refusal)
        self.did.append(f"create {given['name']}")
        self.made[given["name"]] = FakeInstance(self, given)
        return self.made[given["name"]]

    def _create_pool(self, given: dict[str, Any]) -> None:
        self.did.append(f"create pool {given['name']}")
        self.pools[given["name"]] = {}

    def _pool(self, name: str) -> Any:
        if name not in self.pools:
            raise api_error("Storage pool not found", NotFound)
        volumes = self.pools[name]

        def create(given: dict[str, Any], wait: bool) -> None:
            assert wait
            self.did.append(f"create volume {given['name']}")
            volumes[given["name"]] = SimpleNamespace(name=given["name"], type=given["type"])

        return SimpleNamespace(
            volumes=SimpleNamespace(all=lambda: list(volumes.values()), create=create)
        )


def execute(client: FakeIncus, name: str, argv: Sequence[str]) -> Output:
    """Replaces `engine.run_inside`."""
    return client.made[name].execute(argv)
