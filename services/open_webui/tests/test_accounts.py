"""The first visitor does not become the administrator."""

from __future__ import annotations

import asyncio
import json

import pytest

from hearth_open_webui.accounts import (
    NO_ACCOUNT,
    App,
    Message,
    Receive,
    Send,
    check_password,
    guarded,
)
from hearth_open_webui.settings import SettingsError


async def upstream(scope: Message, receive: Receive, send: Send) -> None:
    """Answer everything, as Open WebUI does without accounts."""
    await receive()
    if scope["type"] == "lifespan":
        await send({"type": "lifespan.startup.complete"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def with_users() -> bool:
    return True


async def without_users() -> bool:
    return False


def run_app(app: App, scope: Message) -> list[Message]:
    """Return all messages that `app` sends for one scope."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": f"{scope['type']}.starts"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


def status(app: App, path: str, kind: str = "http") -> int:
    return int(run_app(app, {"type": kind, "path": path, "method": "POST"})[0]["status"])


SIGN_UP = "/api/v1/auths/signup"


@pytest.mark.parametrize("path", [SIGN_UP, f"{SIGN_UP}/", f"{SIGN_UP}\n"])
def test_sign_up_never_reaches_open_webui(path: str) -> None:
    closed = guarded(upstream, with_users, sign_up=False)
    start, body = run_app(closed, {"type": "http", "path": path, "method": "POST"})
    assert start["status"] == 403
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert "Ask the administrator" in json.loads(body["body"])["detail"]
    assert status(guarded(upstream, with_users, sign_up=True), path) == 200


@pytest.mark.parametrize("path", ["/", "/api/v1/auths/signin", "/api/v1/auths/signup/enabled"])
def test_everything_else_is_forwarded(path: str) -> None:
    assert status(guarded(upstream, with_users, sign_up=False), path) == 200


@pytest.mark.parametrize("sign_up", [True, False])
def test_without_an_account_it_does_not_start(sign_up: bool) -> None:
    (sent,) = run_app(guarded(upstream, without_users, sign_up), {"type": "lifespan"})
    assert sent == {"type": "lifespan.startup.failed", "message": NO_ACCOUNT}
    (sent,) = run_app(guarded(upstream, with_users, sign_up), {"type": "lifespan"})
    assert sent == {"type": "lifespan.startup.complete"}


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("", "has 0 characters, the minimum is 10"),
        ("123456789", "has 9 characters, the minimum is 10"),
        ("1" * 73, "has 73 bytes, the maximum is 72"),
        # The limit counts bytes, not characters.
        ("ü" * 37, "has 74 bytes, the maximum is 72"),
    ],
)
def test_an_invalid_password_is_reported_in_one_line(password: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_password({"WEBUI_ADMIN_PASSWORD": password})
    assert str(caught.value).startswith(
        f"open_webui_admin_password: {message}: run `hearth secret set"
    )
    assert "\n" not in str(caught.value)
    assert password not in str(caught.value) or not password


@pytest.mark.parametrize("password", ["1234567890", "1" * 72, "ü" * 36])
def test_valid_passwords_are_accepted(password: str) -> None:
    check_password({"WEBUI_ADMIN_PASSWORD": password})
