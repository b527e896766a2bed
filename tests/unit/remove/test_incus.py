"""In Incus only Hearth's own things are removed, and data only when requested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, NotFound

from hearth.machine.engine import POOL, data_volumes
from hearth.machine.images import IMAGE_KEY
from hearth.machine.instances import OWNER_KEY
from hearth.remove import RemoveError, incus
from tests.unit.machine.fake_incus import api_error
from tests.unit.machine.samples import service

USED, OLD = "hearth-debian-13-0123456789ab", "hearth-debian-12-0123456789ab"
CHAT_DATA = {"name": "chat-data", "path": "/var/lib/chat", "copy": "files", "from_folder": None}
CHAT = service(name="chat", instance="chat", volumes=[CHAT_DATA])


class Engine:
    """Instances, images and volumes by name, with pylxd's calls around."""

    def __init__(self) -> None:
        self.present = {
            "chat": self._thing("chat", config={OWNER_KEY: "1", IMAGE_KEY: USED}),
            "theirs": self._thing("theirs", config={}),
        }
        self.stored = {
            name: self._thing(name, aliases=[{"name": name}], fingerprint=name, properties={})
            for name in (USED, OLD, "debian/13")
        }
        cut = {"aliases": [], "properties": {"description": "Hearth debian/13"}}
        self.stored["cut"] = self._thing("cut", fingerprint="cut", **cut)
        self.kept = {
            "chat-data": self._thing("chat-data", type="custom"),
            "chat": self._thing("chat", type="container"),
        }
        self.pool_there = True
        self.instances = SimpleNamespace(all=lambda: [*self.present.values()], get=self._get)
        self.images = SimpleNamespace(all=lambda: [*self.stored.values()])
        self.storage_pools = SimpleNamespace(
            get=self._pool, exists=lambda name: self.pool_there, all=lambda: []
        )
        response = SimpleNamespace(json=lambda: {"metadata": [{"name": "br0", "managed": True}]})
        self.api = SimpleNamespace(networks=SimpleNamespace(get=lambda params: response))

    def _thing(self, name: str, **more: Any) -> SimpleNamespace:
        return SimpleNamespace(
            name=name, stop=lambda **_: None, delete=self._delete(name, more), **more
        )

    def _delete(self, name: str, kind: dict[str, Any]) -> Callable[..., None]:
        def delete(wait: bool) -> None:
            place = self.present if "config" in kind else self.kept if "type" in kind else None
            (self.stored if place is None else place).pop(name)

        return delete

    def _get(self, name: str) -> SimpleNamespace:
        if name not in self.present:
            raise api_error("not found", NotFound)
        return self.present[name]

    def _pool(self, name: str) -> SimpleNamespace:
        if not self.pool_there:
            raise api_error("not found", NotFound)
        volumes = SimpleNamespace(all=lambda: [*self.kept.values()])
        return SimpleNamespace(volumes=volumes, delete=lambda: setattr(self, "pool_there", False))


@pytest.fixture
def engine() -> Engine:
    return Engine()


def client(engine: Engine) -> Client:
    return cast(Client, engine)


def test_the_data_of_a_service_stay_until_their_removal_is_requested(engine: Engine) -> None:
    for trace in incus.of_services(client(engine), [CHAT]):
        trace.remove()
    assert "chat" not in engine.present
    assert "chat-data" in engine.kept
    (trace,) = incus.of_services(client(engine), [CHAT], ["chat"])
    trace.remove()
    assert "chat-data" not in engine.kept


def test_an_instance_of_the_same_name_that_hearth_did_not_make_stays(engine: Engine) -> None:
    theirs = service(name="theirs", instance="theirs")
    assert incus.of_services(client(engine), [theirs]) == []


def test_only_unused_images_of_ours_are_removed(engine: Engine) -> None:
    for trace in incus.unused_images(client(engine), set()):
        trace.remove()
    assert sorted(engine.stored) == ["debian/13", USED]
    assert incus.unused_images(client(engine), {USED}) == []


def test_everything_leaves_data_and_foreign_things(engine: Engine) -> None:
    for trace in incus.everything(client(engine), data=False):
        trace.remove()
    assert sorted(engine.present) == ["theirs"]
    assert sorted(engine.stored) == ["debian/13"]
    assert [*data_volumes(client(engine))] == ["chat-data"]
    assert engine.pool_there
    assert incus.foreign(client(engine)) == ["instance theirs", "image debian/13", "network br0"]


def test_a_sandbox_goes_with_its_copies_of_data_although_data_stay(engine: Engine) -> None:
    engine.present["sb-00000001"] = engine._thing("sb-00000001", config={OWNER_KEY: "1"})
    engine.kept["sb-00000001-data0"] = engine._thing("sb-00000001-data0", type="custom")
    for trace in incus.everything(client(engine), data=False):
        trace.remove()
    assert sorted(engine.present) == ["theirs"]
    assert sorted(engine.kept) == ["chat", "chat-data"]


def test_with_the_data_the_pool_is_removed_last(engine: Engine) -> None:
    traces = incus.everything(client(engine), data=True)
    assert traces[-1].what == f"storage pool {POOL}"
    for trace in traces:
        trace.remove()
    assert not engine.pool_there
    assert incus.everything(client(engine), data=True) == []


@pytest.mark.parametrize("left", [True, False], ids=["a socket left", "no socket"])
def test_a_stopped_incus_has_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    def refuse(endpoint: str) -> None:
        raise ClientConnectionFailed(f"{endpoint}: connection refused")

    monkeypatch.setattr(incus, "Client", refuse)
    monkeypatch.setattr(incus, "SOCKET", str(tmp_path / "unix.socket"))
    if left:
        (tmp_path / "unix.socket").touch()
    assert incus.connect() is None


DATA, THEIRS = "storage-pools/hearth/custom/default_chat", "storage-pools/default"
START = "`systemctl start incus`, then run this again"


@pytest.mark.parametrize(
    ("path", "data", "goes", "message"),
    [
        (None, False, False, None),
        (DATA, False, True, f"default_chat: {START}, or add --data to delete it for ever$"),
        (DATA, True, True, None),
        # Its package stays, and the data would stay in it unnoticed.
        (DATA, False, False, f"default_chat: {START}$"),
        (DATA, True, False, f"default_chat: {START}$"),
        (THEIRS, True, True, f"default: {START}$"),
        ("networks/incusbr0", True, True, f"incusbr0: {START}$"),
    ],
)
def test_a_stopped_incus_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str | None,
    data: bool,
    goes: bool,
    message: str | None,
) -> None:
    monkeypatch.setattr(incus, "SOCKET", str(tmp_path / "unix.socket"))
    if path:
        (tmp_path / path).mkdir(parents=True)
    if message is None:
        incus.check_stopped(data, goes)
        return
    with pytest.raises(RemoveError, match=f"^Incus does not answer, and it holds {message}"):
        incus.check_stopped(data, goes)
