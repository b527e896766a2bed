"""An Incus that copies as the real one does: what a request does not name comes from the source."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pylxd.exceptions import NotFound

from hearth.machine.engine import POOL, Output, OutputLost
from tests.unit.machine.fake_incus import api_error


@dataclass
class Machine:
    """One instance: its row in Incus, and its files."""

    name: str
    config: dict[str, str]
    devices: dict[str, dict[str, str]]
    created_at: str
    status: str = "Stopped"
    files: dict[str, bytes] = field(default_factory=dict)


class Incus:
    """pylxd's Client as far as sandboxes use it."""

    def __init__(self) -> None:
        """A house without anything."""
        self.machines: dict[str, Machine] = {}
        self.volumes: dict[str, SimpleNamespace] = {}
        self.did: list[str] = []
        self.ran: list[list[str]] = []
        self.refuses: set[str] = set()
        self.loses_output = False
        self.on_create: list[Any] = []
        self.instances = SimpleNamespace(create=self._create, get=self._get)
        self.api = SimpleNamespace(instances=_Rows(self))
        self.images = SimpleNamespace(
            all=lambda: [
                SimpleNamespace(size=size, aliases=[{"name": name}])
                for name, size in (
                    ("hearth-debian-13-0123456789ab", 300),
                    ("hearth-debian-13-ba9876543210", 200),
                    ("hearth-debian-12-0123456789ab", 100),
                )
            ]
        )
        pool = SimpleNamespace(
            volumes=SimpleNamespace(
                all=lambda: list(self.volumes.values()), create=self._create_volume
            )
        )
        self.storage_pools = SimpleNamespace(get=lambda name: pool)

    def add(self, name: str, **more: Any) -> Machine:
        """Have an instance that something else made."""
        count = len(self.machines)
        fields: dict[str, Any] = {"config": {}, "devices": {}, "status": "Running", **more}
        made = f"2026-11-23T10:00:00.{count:09d}Z"
        self.machines[name] = Machine(name, created_at=made, **fields)
        return self.machines[name]

    def volume(self, name: str) -> None:
        """Have a volume with data."""

        def delete(wait: bool) -> None:
            assert wait
            if name in self.refuses:
                raise api_error("in use")
            self.did.append(f"delete volume {name}")
            del self.volumes[name]

        self.volumes[name] = SimpleNamespace(name=name, type="custom", delete=delete)

    def execute(self, client: Incus, name: str, argv: Sequence[str]) -> Output:
        """Replaces `engine.run_inside`."""
        assert self.machines[name].status == "Running"
        self.ran.append([name, *argv])
        code = 1 if "run" in self.refuses else 0
        if self.loses_output:
            raise OutputLost(f"{name}: stream 2 of a command broke off", code)
        return Output(code, b"", b"")

    def _create(self, given: Mapping[str, Any], wait: bool) -> None:
        assert wait
        source, name = given["source"], given["name"]
        self.did.append(f"create {name}")
        config, devices = dict(given["config"]), copy.deepcopy(given["devices"])
        files: dict[str, bytes] = {}
        if source["type"] == "copy":
            # Otherwise the service stands still while it is copied.
            assert source["allow_inconsistent"]
            origin = self.machines[source["source"]]
            config = {**origin.config, **config}
            devices = {**origin.devices, **devices}
            files = dict(origin.files)
        assert given["profiles"] == []
        self.add(name, config=config, devices=devices, files=files, status="Stopped")
        for action in self.on_create:
            action()

    def _get(self, name: str) -> Any:
        if name not in self.machines:
            raise api_error("Instance not found", NotFound)
        one = self.machines[name]

        def start(wait: bool) -> None:
            assert wait
            self.did.append(f"start {name}")
            if "start" in self.refuses:
                raise api_error("no space left")
            one.status = "Running"

        def stop(force: bool, wait: bool) -> None:
            assert force
            assert wait
            self.did.append(f"stop {name}")
            one.status = "Stopped"

        def delete(wait: bool) -> None:
            assert wait
            if name in self.refuses:
                raise api_error("busy")
            self.did.append(f"delete {name}")
            del self.machines[name]

        return SimpleNamespace(
            name=name,
            config=one.config,
            devices=one.devices,
            start=start,
            stop=stop,
            delete=delete,
        )

    def _create_volume(self, given: Mapping[str, Any], wait: bool) -> None:
        assert wait
        assert given["source"]["pool"] == POOL
        self.did.append(f"copy {given['source']['name']} to {given['name']}")
        self.volume(given["name"])


class _Rows:
    """`client.api.instances`."""

    def __init__(self, incus: Incus) -> None:
        self._incus = incus

    def get(self, params: Mapping[str, str]) -> Any:
        assert params == {"recursion": "1"}
        rows = [
            {
                "name": one.name,
                "config": one.config,
                "status": one.status,
                "created_at": one.created_at,
            }
            for one in self._incus.machines.values()
        ]
        return SimpleNamespace(json=lambda: {"metadata": rows})

    def __getitem__(self, name: str) -> Any:
        one = self._incus.machines[name]

        def patch(json: Mapping[str, Mapping[str, Any]]) -> None:
            one.config.update(json.get("config", {}))
            one.devices.update(json.get("devices", {}))

        return SimpleNamespace(patch=patch, files=_Files(self._incus, one))


class _Response:
    """An answer with a file or a folder, read as a stream."""

    def __init__(self, kind: str, content: bytes) -> None:
        self.headers = {"X-Incus-type": kind}
        self.content = content

    def __enter__(self) -> _Response:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def iter_content(self, count: int) -> Any:
        return iter([self.content[:count]] if self.content else [])


class _Files:
    """Files of an instance that is not running yet."""

    def __init__(self, incus: Incus, one: Machine) -> None:
        self._incus, self._one = incus, one

    def get(self, params: Mapping[str, str], is_api: bool, stream: bool) -> _Response:
        assert not is_api
        assert stream
        path = params["path"]
        if path in self._one.files:
            return _Response("file", self._one.files[path])
        inside = {
            name.removeprefix(f"{path}/").partition("/")[0]
            for name in self._one.files
            if name.startswith(f"{path}/")
        }
        if not inside:
            raise api_error("not found", NotFound)
        return _Response("directory", json.dumps({"metadata": sorted(inside)}).encode())

    def post(self, params: Mapping[str, str], data: bytes, headers: Mapping[str, str]) -> None:
        assert headers["X-Incus-mode"] == "0400"
        self._incus.did.append(f"write {params['path']}")
        self._one.files[params["path"]] = data

    def delete(self, params: Mapping[str, str]) -> None:
        self._incus.did.append(f"delete {params['path']}")
        del self._one.files[params["path"]]
