"""A program that is down: people and programs get a readable error, and no login is bypassed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hearth.clients.endpoints import Answer
from tests.lab import breaking
from tests.lab.breaking import Unit
from tests.lab.house import House
from tests.lab.watching import edge_of

pytestmark = pytest.mark.lab

PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
WITHIN_S = 15


@contextmanager
def stopped(house: House, name: str) -> Iterator[None]:
    """Stop one program until the block ends."""
    unit = Unit(name)
    house.shell(unit.systemctl("stop"))
    try:
        yield
    finally:
        house.shell(unit.systemctl("start"))
        breaking.until(house, f"{name} runs", unit.systemctl("is-active"), WITHIN_S)
        house.wait_green()


def error_of(answer: Answer, host: str) -> str:
    """Check what every response of the reverse proxy has, and return its text for programs."""
    assert answer.status == 502, answer.text
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["retry-after"] == "5"
    assert "server" not in answer.headers
    if answer.headers["content-type"] != "application/json":
        assert f"<h1>{host} is unavailable</h1>" in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        return ""
    return str(answer.json()["error"]["message"])


def test_a_person_and_a_program_get_an_error_while_the_chat_is_down(house: House) -> None:
    edge = edge_of(house)
    with stopped(house, "open-webui"):
        page = edge.request("chat.lan", "/c/42", within_s=WITHIN_S, headers=PAGE)
        assert error_of(page, "chat.lan") == ""
        assert page.headers["refresh"] == "5"
        text = error_of(edge.request("chat.lan", "/api/config", within_s=WITHIN_S), "chat.lan")
        assert text.startswith("chat.lan is unavailable: the service is starting")


def test_without_the_login_service_every_request_gets_an_error(house: House) -> None:
    edge, key = edge_of(house), house.key()
    with stopped(house, "login"):
        for host, path in (("llm.lan", "/v1/models"), ("kokoro-stream.lan", "/v1/models")):
            answer = edge.request(host, path, within_s=WITHIN_S, key=key)
            assert error_of(answer, host).startswith(f"{host} is unavailable")
        for host in ("home.lan", "kokoro-web.lan"):
            assert error_of(edge.request(host, "/", within_s=WITHIN_S, headers=PAGE), host) == ""
        # Requests that need no login go on.
        assert edge.request("chat.lan", "/", within_s=WITHIN_S, headers=PAGE).status == 200


def test_an_outage_is_reported_only_with_a_key(house: House) -> None:
    edge = edge_of(house)
    with stopped(house, "kokoro"):
        assert edge.request("kokoro-stream.lan", "/v1/models", within_s=WITHIN_S).status == 401
        page = edge.request("kokoro-web.lan", "/", within_s=WITHIN_S, headers=PAGE)
        assert (page.status, page.headers["location"].startswith("/hearth-login/")) == (302, True)
        answer = edge.request("kokoro-stream.lan", "/v1/models", within_s=WITHIN_S, key=house.key())
        assert error_of(answer, "kokoro-stream.lan").startswith("kokoro-stream.lan is unavailable")


def test_too_many_requests_are_refused_and_not_called_an_outage(house: House) -> None:
    much = {"Content-Type": "application/json"}
    answer = edge_of(house).request(
        *("llm.lan", "/v1/chat/completions"),
        within_s=60,
        key=house.key(),
        send=b" " * 64_000_001,
        headers=much,
    )
    assert (answer.status, answer.json()["error"]["code"]) == (413, "too_large")


def test_the_chat_takes_no_large_request_before_a_sign_in(house: House) -> None:
    for path in ("/api/v1/files/", "/api/v1/auths/signin", "/api/chat/completions"):
        answer = edge_of(house).request(
            *("chat.lan", path), within_s=20, send=b"x" * 20_000, headers={"Content-Type": "a/b"}
        )
        assert answer.status == 401, path
