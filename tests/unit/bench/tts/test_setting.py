"""The ways to a speech server of this house."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.bench.tts import setting
from hearth.clients import ClientError

TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def service(**more: Any) -> Any:
    sites = (SimpleNamespace(fqdn="kokoro-stream.lan"),)
    said = {"name": "kokoro_gpu", "instance": "kokoro-gpu", "url": "http://10.0.0.3:8880"}
    return SimpleNamespace(**{**said, "address": "10.0.0.3", "publish": sites, **more})


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    door = SimpleNamespace(address="192.168.1.9", trust=lambda: TRUST)
    monkeypatch.setattr(setting, "house_edge", lambda house: door)
    return door


@pytest.mark.usefixtures("door")
def test_a_service_is_asked_directly_and_through_caddy() -> None:
    house: Any = None
    way = setting.in_house(house, service(), "kokoro", "sesame")
    assert (way.server.name, way.server.url) == ("kokoro-gpu", "http://10.0.0.3:8880")
    assert way.server.headers == {}
    assert way.through is not None
    assert way.through.url == "https://192.168.1.9"
    assert way.through.trust is TRUST
    assert way.through.headers == {
        "Host": "kokoro-stream.lan",
        "Authorization": "Bearer sesame",
    }
    assert way.bare is not None
    assert callable(way.bare({"threads": 2}))


@pytest.mark.usefixtures("door")
def test_what_is_not_published_or_runs_elsewhere_has_less() -> None:
    house: Any = None
    way = setting.in_house(house, service(publish=(), address=None), "kokoro", "sesame")
    assert way.through is None
    assert way.bare is not None
    with pytest.raises(ClientError, match="runs elsewhere"):
        way.bare({})


def test_a_front_door_that_is_shut_is_one_line(
    door: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut() -> None:
        raise ClientError("/etc/hearth/pki/root.crt: run `hearth up`")

    monkeypatch.setattr(door, "trust", shut)
    house: Any = None
    with pytest.raises(ClientError, match="run `hearth up`"):
        setting.in_house(house, service(), "kokoro", "sesame")


def test_upstreams_server_may_stand_beside_and_no_other_program() -> None:
    other = setting.beside(service(role="kokoro_fastapi"), "kokoro", "af_sky")
    assert (other.url, other.voice) == ("http://10.0.0.3:8880", "af_sky")
    with pytest.raises(ClientError, match="does not speak"):
        setting.beside(service(role="ollama"), "kokoro", None)
