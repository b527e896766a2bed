"""The endpoints and the baseline of a TTS service of this house."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from hearth.bench.baseline import in_service, kokoro_command
from hearth.cli import bench as command
from hearth.clients import ClientError
from hearth.clients.endpoints import Edge
from tests.documents import shipped_house

TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def service(**more: Any) -> Any:
    sites = (SimpleNamespace(fqdn="kokoro-stream.lan"),)
    fields = {"name": "kokoro_gpu", "instance": "kokoro-gpu", "url": "http://10.0.0.3:8880"}
    return SimpleNamespace(**{**fields, "address": "10.0.0.3", "sites": sites, **more})


@pytest.fixture
def edge(monkeypatch: pytest.MonkeyPatch) -> Edge:
    edge = Edge("192.168.1.9", Path("root.crt"))
    monkeypatch.setattr(Edge, "trust", lambda _: TRUST)
    monkeypatch.setattr(command, "house_edge", lambda house: edge)
    vault = SimpleNamespace(get=lambda name: "sesame")
    project = SimpleNamespace(house=lambda: None, vault=vault)
    monkeypatch.setattr(command, "current", lambda: project)
    return edge


@pytest.mark.usefixtures("edge")
def test_a_service_is_called_directly_and_through_caddy(monkeypatch: pytest.MonkeyPatch) -> None:
    kokoro = replace(
        shipped_house().services["kokoro"],
        name="kokoro_gpu",
        instance="kokoro-gpu",
        url="http://10.0.0.3:8880",
    )
    assert kokoro.sites[0].fqdn == "kokoro-stream.lan"
    monkeypatch.setattr(command, "find", lambda house, name: kokoro)
    direct, found = command._server("tts", "server", "kokoro_gpu", "kokoro", None)
    assert found is not None
    assert (direct.name, direct.url) == ("kokoro-gpu", "http://10.0.0.3:8880")
    assert direct.authorization == {}
    through = command._through_caddy(found, "kokoro")
    assert through is not None
    assert through.url == "https://192.168.1.9"
    assert through.trust is TRUST
    assert (through.host, through.key) == ("kokoro-stream.lan", "sesame")
    assert callable(in_service(found, kokoro_command)({"threads": 2}))


@pytest.mark.usefixtures("edge")
def test_a_service_that_is_not_published_or_is_external_has_less() -> None:
    assert command._through_caddy(service(sites=()), "kokoro") is None
    with pytest.raises(ClientError, match="is external"):
        in_service(service(address=None), kokoro_command)({})


def test_an_unreadable_root_certificate_is_one_line(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Edge) -> None:
        raise ClientError("/etc/hearth/pki/root.crt: run `hearth up`")

    monkeypatch.setattr(Edge, "trust", unreadable)
    with pytest.raises(ClientError, match="run `hearth up`"):
        command._through_caddy(service(), "kokoro")


def test_another_tts_service_is_compared_with_and_no_other_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = shipped_house()
    monkeypatch.setattr(command, "current", lambda: SimpleNamespace(house=lambda: house))
    other, _ = command._server("tts", "other", "kokoro", "kokoro", None, "af_sky")
    assert (other.url, other.voice) == (house.services["kokoro"].url, "af_sky")
    with pytest.raises(typer.BadParameter, match="ollama offers no speech"):
        command._server("tts", "other", "ollama", "kokoro", None)
