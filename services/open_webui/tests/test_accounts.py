"""The first who comes is not the one who keeps the accounts."""

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


async def somebody() -> bool:
    return True


async def nobody() -> bool:
    return False


def told(app: App, scope: Message) -> list[Message]:
    """Return all that `app` says to one scope."""
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": f"{scope['type']}.begins"}

    async def send(message: Message) -> None:
        said.append(message)

    asyncio.run(app(scope, receive, send))
    return said


def status(app: App, path: str, kind: str = "http") -> int:
    return int(told(app, {"type": kind, "path": path, "method": "POST"})[0]["status"])


SIGN_UP = "/api/v1/auths/signup"


@pytest.mark.parametrize("path", [SIGN_UP, f"{SIGN_UP}/", f"{SIGN_UP}\n"])
def test_sign_up_is_answered_here_and_never_asked_of_open_webui(path: str) -> None:
    closed = guarded(upstream, somebody, sign_up=False)
    start, body = told(closed, {"type": "http", "path": path, "method": "POST"})
    assert start["status"] == 403
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert "Ask the administrator" in json.loads(body["body"])["detail"]
    assert status(guarded(upstream, somebody, sign_up=True), path) == 200


@pytest.mark.parametrize("path", ["/", "/api/v1/auths/signin", "/api/v1/auths/signup/enabled"])
def test_everything_else_passes(path: str) -> None:
    assert status(guarded(upstream, somebody, sign_up=False), path) == 200


@pytest.mark.parametrize("sign_up", [True, False])
def test_without_an_account_it_does_not_begin_to_serve(sign_up: bool) -> None:
    (said,) = told(guarded(upstream, nobody, sign_up), {"type": "lifespan"})
    assert said == {"type": "lifespan.startup.failed", "message": NO_ACCOUNT}
    (said,) = told(guarded(upstream, somebody, sign_up), {"type": "lifespan"})
    assert said == {"type": "lifespan.startup.complete"}


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("", "has 0 characters, the minimum is 10"),
        ("123456789", "has 9 characters, the minimum is 10"),
        ("1" * 73, "has 73 bytes, the maximum is 72"),
        # Bytes count, not letters.
        ("ü" * 37, "has 74 bytes, the maximum is 72"),
    ],
)
def test_a_password_that_makes_no_account_is_one_line(password: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_password({"WEBUI_ADMIN_PASSWORD": password})
    assert str(caught.value).startswith(
        f"open_webui_admin_password: {said}: run `hearth secret set"
    )
    assert "\n" not in str(caught.value)
    assert password not in str(caught.value) or not password


@pytest.mark.parametrize("password", ["1234567890", "1" * 72, "ü" * 36])
def test_any_other_password_will_do(password: str) -> None:
    check_password({"WEBUI_ADMIN_PASSWORD": password})
